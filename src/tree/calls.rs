//! What an agent asks of its session, one function a call.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::bounds::too_large;
use super::children::{ChildSeed, Ended, ToLend};
use super::context::{Prepared, ToolKind};
use super::delegation::StopCause;
use super::joins::{Taken, WaitReply};
use super::life::LifeEvent;
use super::message::SessionMessage;
#[cfg(feature = "guest")]
use super::mind;
use super::money::{Asked, Purpose};
use super::owned::{Owned, contained, injected_panic};
use super::places::Place;
use super::report::{bounded, cut};
use super::session::{RunningCall, State};
use crate::agent::{AskError, Call, Completion, Credit, DelegationRequest, Info, Question, Refusal, Status, ToolError};
use crate::capsule::{self, Ask, Exhausted, Usage};
use crate::fault::{Action, Point};
use crate::gate::{self, Request, Verdict};
use crate::ids::{DelegationId, SessionId, Strand, TaskId};
use crate::journal::{CallOutcome, Decision, Ids, Kind, LentDirectory, QuestionOutcome, Text, Ticket};

/// What a session asked money for.
pub(super) enum Wanted {
    /// A child.
    Child(Box<WantedChild>),
    /// A tool call.
    Tool { name: String, input: String, reply: oneshot::Sender<Result<String, ToolError>>, credit: Credit },
    /// An HTTP request.
    Http { method: String, url: String, reply: oneshot::Sender<Result<u32, Refusal>>, credit: Credit },
}

/// A delegation that was checked and is to be paid for.
pub(super) struct WantedChild {
    request: DelegationRequest,
    prepared: Arc<Prepared>,
    lent: Vec<LentDirectory>,
    to_lend: Vec<ToLend>,
    paid: capsule::Child,
    place: Option<Place>,
    reply: oneshot::Sender<Result<u32, Refusal>>,
    credit: Credit,
}

fn point_of(call: &Call) -> Option<Point> {
    Some(match call {
        Call::Emit { .. } => Point::Emit,
        Call::Delegate { .. } => Point::Delegate,
        Call::Wait { .. } => Point::Wait,
        Call::Cancel { .. } => Point::Cancel,
        Call::Checkpoint { .. } => Point::Checkpoint,
        Call::Ask { .. } => Point::Ask,
        Call::Http { .. } => Point::Http,
        Call::Tool { .. } => Point::Gate,
        _ => return None,
    })
}

fn refusal(key: &str, reason: impl Into<String>) -> Refusal {
    Refusal { key: key.to_owned(), reason: reason.into() }
}

/// Answers an agent, unless it no longer waits.
fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    let _nobody = reply.send(value);
}

impl State {
    /// Takes one call. `delayed`: a fault has struck it already.
    pub(super) async fn call(&mut self, call: Call, credit: Credit, delayed: bool) {
        // The replies of what comes too late are dropped: the agent learns that the session is gone.
        if !self.life.is_working() {
            return;
        }
        self.progress.moved(Instant::now());
        let Some(call) = (if delayed { Some(call) } else { self.pass(call) }) else { return };
        if let Some(why) = too_large(&call, &self.seed.shared.limits) {
            return self.refuse(call, &why.to_string());
        }
        match call {
            Call::Info { reply } => answer(reply, self.info()),
            Call::Emit { text, reply, .. } => {
                self.scribe.say_on(Strand::Main, Kind::Text { text: Text::Inline(text) }, credit);
                self.answer(reply, ());
            }
            Call::Tool { name, input, reply } => {
                let wanted = Wanted::Tool { name, input, reply, credit };
                self.want(Usage { tool_calls: 1, ..Usage::default() }, wanted).await;
            }
            Call::Http { method, url, reply } => {
                let wanted = Wanted::Http { method, url, reply, credit };
                self.want(Usage { tool_calls: 1, ..Usage::default() }, wanted).await;
            }
            Call::HttpEnded { call, outcome } => self.http_ended(call, outcome),
            Call::Delegate { request, reply } => self.delegate(request, reply, credit).await,
            Call::Wait { among, at_most, reply } => self.wait(among, at_most, reply),
            Call::Status { index, reply } => answer(reply, self.status(index)),
            Call::Cancel { index, reason } => self.cancel(index, reason).await,
            Call::Dropped { index } => self.dropped(index).await,
            Call::Checkpoint { label, state, reply } => self.checkpoint(label, state, reply, credit),
            Call::Ask { question, reply } => self.ask(question, reply),
            Call::Usage { usage } => {
                self.scribe.say_on(Strand::Main, Kind::UsageReported { usage }, credit);
                self.money.charge(usage);
            }
            Call::Progress => {}
        }
    }

    /// Does not carry a call out, and says why: to the agent where its call has an answer for that, and in any case in a
    /// record.
    fn refuse(&mut self, call: Call, why: &str) {
        let text = Text::Inline(why.to_owned());
        self.scribe.say(Strand::Main, Kind::Note { key: "call_refused".into(), text });
        match call {
            Call::Emit { reply, .. } | Call::Checkpoint { reply, .. } => self.answer(reply, ()),
            Call::Tool { reply, .. } => self.answer(reply, Err(ToolError::Denied(why.to_owned()))),
            Call::Ask { reply, .. } => self.answer(reply, Err(AskError::Denied)),
            Call::Http { reply, .. } => self.answer(reply, Err(refusal("limits", why))),
            // Their replies are dropped with them; none of them can be too large.
            _ => {}
        }
    }

    /// Lets a fault strike the call. `None`: it did, and the call is dealt with.
    fn pass(&mut self, call: Call) -> Option<Call> {
        let Some(point) = point_of(&call) else { return Some(call) };
        let tool = match &call {
            Call::Tool { name, .. } => Some(name.clone()),
            _ => None,
        };
        let Some(strike) = self.cursor.strike(point, tool.as_deref()) else { return Some(call) };
        self.scribe.struck(Strand::Main, &strike);
        let text = strike.action.message().to_owned();
        match (strike.action, call) {
            (Action::Delay(after), call) => {
                let me = self.me.clone();
                self.delayed.push(Owned::spawn(async move {
                    tokio::time::sleep(after).await;
                    let _gone = me.cast(SessionMessage::Call { call, credit: None, delayed: true });
                }));
            }
            (Action::Error(_), Call::Delegate { reply, .. }) => answer(reply, Err(refusal("fault.delegate", text))),
            (Action::Error(_), Call::Wait { reply, .. }) => answer(reply, Err(refusal("fault.wait", text))),
            (Action::Error(_), Call::Http { reply, .. }) => answer(reply, Err(refusal("fault.http", text))),
            (Action::Error(_), Call::Ask { reply, .. }) => answer(reply, Err(AskError::Denied)),
            (Action::Error(_), Call::Tool { reply, .. }) => answer(reply, Err(ToolError::Denied(text))),
            // Lost or hanging: whoever asked waits until it is stopped.
            (_, call) => self.swallowed.push(call),
        }
        None
    }

    /// Answers the agent: at once, or, where the agent can change the world by itself, when all before is durable.
    fn answer<T: Send + 'static>(&mut self, reply: oneshot::Sender<T>, value: T) {
        if !self.careful {
            return answer(reply, value);
        }
        let barrier = self.seed.shared.journal.barrier_of(self.seed.tree.id);
        self.delayed.retain(|task| !task.is_finished());
        self.delayed.push(Owned::spawn(async move {
            // Without durability the agent hears nothing more, and is stopped with the rest.
            if barrier.await.is_ok() {
                answer(reply, value);
            }
        }));
    }

    fn info(&self) -> Info {
        Info {
            path: self.seed.path.clone(),
            depth_left: self.depth_left(),
            left: self.money.account().left(),
            deadline: self.seed.deadline.saturating_duration_since(Instant::now()),
            attempt: self.seed.attempt,
        }
    }

    fn depth_left(&self) -> u32 {
        self.money.account().depth_left().map_or(self.seed.depth_left, |left| left.min(self.seed.depth_left))
    }

    // ---- money

    async fn want(&mut self, usage: Usage, wanted: Wanted) {
        let asked = self.money.ask(Ask { spend: usage, hold: Usage::default() }, Purpose::Own(wanted));
        self.asked_for(asked).await;
    }

    /// The delegator answered an ask.
    pub(super) async fn asked(&mut self, token: u64, granted: Result<(), Exhausted>) {
        if let Some(asked) = self.money.answered(token, granted) {
            self.asked_for(asked).await;
        }
        if !self.life.is_working() {
            self.live(LifeEvent::Quieter).await;
        }
    }

    /// A child asks for what this session has left.
    pub(super) async fn child_asks(&mut self, key: u32, token: u64, ask: Ask) {
        let asked = self.money.ask(ask, Purpose::Child { key, token, ask });
        self.asked_for(asked).await;
    }

    async fn asked_for(&mut self, asked: Asked<Wanted>) {
        match asked {
            Asked::Later => {}
            Asked::Granted(Purpose::Child { key, token, .. }) => self.tell_child(key, token, Ok(())),
            Asked::Refused(Purpose::Child { key, token, .. }, why) => self.tell_child(key, token, Err(why)),
            Asked::Granted(Purpose::Own(wanted)) if self.life.is_working() => match wanted {
                // Boxed: every session would keep the room for it twice, and most never delegate.
                Wanted::Child(wanted) => Box::pin(self.make(*wanted)).await,
                Wanted::Tool { name, input, reply, credit } => self.tool(name, input, reply, credit),
                Wanted::Http { method, url, reply, credit } => self.http(&method, &url, reply, credit),
            },
            Asked::Refused(Purpose::Own(wanted), why) => self.exhausted(wanted, why),
            // Paid for, and nobody is left who wants it.
            Asked::Granted(Purpose::Own(Wanted::Child(wanted))) => self.money.refund(wanted.paid.reserved),
            Asked::Granted(_) | Asked::Refused(..) => {}
        }
    }

    fn tell_child(&self, key: u32, token: u64, granted: Result<(), Exhausted>) {
        if let Some(child) = self.children.actor(key) {
            let _gone = child.cast(SessionMessage::Asked { token, granted });
        }
    }

    fn exhausted(&mut self, wanted: Wanted, why: Exhausted) {
        let kind = Kind::BudgetExhausted { key: why.key.clone(), asked: why.asked, left: why.left };
        self.scribe.say(Strand::Main, kind);
        let why = Refusal::from(why);
        match wanted {
            Wanted::Child(wanted) => answer(wanted.reply, Err(why)),
            Wanted::Tool { reply, .. } => answer(reply, Err(ToolError::Denied(why.to_string()))),
            Wanted::Http { reply, .. } => answer(reply, Err(why)),
        }
    }

    // ---- delegations

    async fn delegate(
        &mut self,
        request: DelegationRequest,
        reply: oneshot::Sender<Result<u32, Refusal>>,
        credit: Credit,
    ) {
        match self.check(request, reply, credit) {
            Ok(wanted) => {
                let ask = wanted.paid.ask;
                let asked = self.money.ask(ask, Purpose::Own(Wanted::Child(Box::new(wanted))));
                self.asked_for(asked).await;
            }
            Err((reply, why)) => {
                let text = Text::Inline(why.to_string());
                self.scribe.say(Strand::Main, Kind::Note { key: "delegation_refused".into(), text });
                answer(reply, Err(why));
            }
        }
    }

    /// Everything about a request that needs nobody else's word. The order is that of the questions a user asks: may I
    /// at all, is there room, with what.
    fn check(
        &mut self,
        request: DelegationRequest,
        reply: oneshot::Sender<Result<u32, Refusal>>,
        credit: Credit,
    ) -> Result<WantedChild, (oneshot::Sender<Result<u32, Refusal>>, Refusal)> {
        match self.checked(&request) {
            Ok((prepared, lent, to_lend, paid, place)) => {
                Ok(WantedChild { request, prepared, lent, to_lend, paid, place, reply, credit })
            }
            Err(why) => Err((reply, why)),
        }
    }

    #[expect(clippy::type_complexity, reason = "the parts of one value that is made right after")]
    fn checked(
        &mut self,
        request: &DelegationRequest,
    ) -> Result<(Arc<Prepared>, Vec<LentDirectory>, Vec<ToLend>, capsule::Child, Option<Place>), Refusal> {
        let limits = &self.seed.shared.limits;
        let name = &request.capsule;
        let grants = self.seed.prepared.capsule.grants();
        if !grants.delegate.contains(name) {
            return Err(refusal("grants.delegate", format!("`{}` is not listed", bounded(name, 64))));
        }
        let prepared = self.seed.tree.members.get(name).cloned();
        let prepared =
            prepared.ok_or_else(|| refusal("grants.delegate", format!("no capsule `{name}` in this team")))?;
        if request.task.len() > limits.task {
            return Err(refusal(
                "limits.task",
                format!("the task is {} bytes, at most {}", request.task.len(), limits.task),
            ));
        }
        if self.depth_left() == 0 {
            return Err(refusal("budget.depth", "no level may stand below this one"));
        }
        let queued = self.children.queued();
        let place = if self.children.is_full() {
            if queued >= limits.queued_children as usize {
                return Err(refusal("limits.queued_children", format!("{queued} wait already")));
            }
            None
        } else {
            let place = self.seed.shared.places.take(&self.seed.tree.share);
            Some(place.map_err(|busy| refusal("limits.live_sessions", busy.to_string()))?)
        };
        let held: Vec<LentDirectory> = self.seed.lent.clone();
        let lent = capsule::check_lends(&held, &request.lend, prepared.capsule.grants())?;
        let to_lend = request.lend.iter().map(|lend| self.to_lend(lend)).collect::<Result<_, _>>()?;
        let paid = self.money.account().child(request.slice.as_ref(), prepared.capsule.budget())?;
        Ok((prepared, lent, to_lend, paid, place))
    }

    fn to_lend(&self, lend: &crate::agent::Lend) -> Result<ToLend, Refusal> {
        let from = self.seed.directories.iter().find(|directory| directory.name() == lend.directory);
        let from = from.ok_or_else(|| refusal("lend", format!("`{}` is not lent to this session", lend.directory)))?;
        Ok(ToLend { from: from.clone(), path: lend.path.clone(), name: lend.name.clone(), write: lend.write })
    }

    async fn make(&mut self, wanted: WantedChild) {
        let WantedChild { request, prepared, lent, to_lend, paid, place, reply, credit } = wanted;
        let key = self.numbers.delegations;
        self.numbers.delegations += 1;
        let path = self.seed.path.child(key);
        let now = Instant::now();
        let limits = &self.seed.shared.limits;
        let own = request.deadline.or(prepared.capsule.limits().deadline).unwrap_or(limits.deadline);
        let own = paid.account.wall().map_or(own, |wall| own.min(wall));
        // A child's deadline comes before its parent's, by enough to be heard of.
        let left = self.seed.deadline.saturating_duration_since(now);
        let left = left - (left / 16).min(std::time::Duration::from_secs(1));
        let deadline = own.min(left);
        let mut chance = self.seed.shared.env.ids_of(self.seed.tree.number, &path);
        let ids = Ids {
            session: Some(SessionId::new(chance.uuid())),
            delegation: Some(DelegationId::new(chance.uuid())),
            task: Some(TaskId::new(chance.uuid())),
            run: None,
        };
        let strand = Strand::Delegation(key);
        let mut scribe = self.scribe.clone();
        scribe.ids.delegation = ids.delegation;
        let delegated = Kind::Delegated {
            child: path.clone(),
            capsule: request.capsule.clone(),
            task: Text::Inline(request.task.clone()),
            lent: lent.clone(),
            // As asked, not as left: how much of its own time the delegator has used is no part of a body.
            deadline_ms: u64::try_from(own.as_millis()).unwrap_or(u64::MAX),
        };
        scribe.say_on(strand, delegated, credit);
        if !paid.slice.is_unlimited() {
            self.slices.insert(key);
            scribe.say(strand, Kind::BudgetReserved { slice: paid.slice });
        }
        if let Some(cap) = paid.cap {
            scribe.say(strand, Kind::BudgetCapped { cap });
        }
        if place.is_none() {
            scribe.say(strand, Kind::Queued { limit: "live_children".into() });
        }
        self.money.keep(key, paid.reserved);
        self.joins.made(key);
        let seed = ChildSeed {
            tree: self.seed.tree.clone(),
            path,
            prepared,
            task: Arc::from(request.task),
            to_lend,
            directories: None,
            lent,
            deadline: now + deadline,
            account: paid.account,
            depth_left: self.seed.depth_left.saturating_sub(1),
            ids,
        };
        let ended = self.children.add(key, seed, place).await;
        // An agent that no longer waits for the answer holds no handle: nobody would ever drop it.
        let unheard = reply.is_closed();
        self.answer(reply, Ok(key));
        self.children_ended(ended);
        if unheard {
            self.dropped(key).await;
        }
    }

    /// Delegations ended: hands over their completions.
    pub(super) fn children_ended(&mut self, ended: impl IntoIterator<Item = Ended>) {
        for Ended { key, status, outcome, .. } in ended {
            let limit = self.seed.shared.limits.answer;
            let whole = match &outcome.result {
                Some(Ok(text)) => text,
                _ => "",
            };
            let completion = Completion {
                index: key,
                status,
                answer: cut(whole, limit).to_owned(),
                answer_len: whole.len() as u64,
                detail: outcome.why(),
                spent: outcome.spent.unwrap_or_default(),
            };
            self.spent.insert(key, outcome.spent);
            if !self.life.is_working() {
                self.joins.dropped(key);
            }
            if let Some(taken) = self.joins.ended(completion) {
                self.taken(taken);
            }
        }
    }

    /// A completion was taken, or nobody will take it: what is unspent comes back.
    fn taken(&mut self, Taken { reply, completion, among }: Taken) {
        let key = completion.index;
        let strand = Strand::Delegation(key);
        if among.len() > 1 {
            self.scribe.say(Strand::Main, Kind::Chosen { among, chosen: Some(key) });
        }
        if reply.is_some() {
            self.scribe.say(strand, Kind::DelegationTaken {});
        }
        let spent = self.spent.remove(&key).flatten();
        let reserved = self.slices.remove(&key);
        if let Some(settled) = self.money.settle(key, spent)
            && reserved
        {
            self.scribe.say(strand, Kind::BudgetSettled { spent: settled.spent, estimated: settled.estimated });
        }
        self.children.forget(key);
        if let Some(reply) = reply {
            self.answer(reply, Ok(Some(completion)));
        }
    }

    /// Nobody takes anything any more.
    pub(super) fn settle_all(&mut self) {
        for taken in self.joins.withdraw() {
            self.taken(taken);
        }
    }

    fn wait(&mut self, among: Vec<u32>, at_most: Option<std::time::Duration>, reply: WaitReply) {
        let me = self.me.clone();
        let timer = |waiter| {
            at_most.map(|at_most| {
                Owned::spawn(async move {
                    tokio::time::sleep(at_most).await;
                    let _gone = me.cast(SessionMessage::WaitExpired { waiter });
                })
            })
        };
        if let Some(taken) = self.joins.wait(among, reply, timer) {
            self.taken(taken);
        }
    }

    /// A waiter's time is over: nothing was chosen, which is recorded like any choice the clock made.
    pub(super) fn wait_expired(&mut self, waiter: u64) {
        if let Some((reply, among)) = self.joins.expired(waiter) {
            self.scribe.say(Strand::Main, Kind::Chosen { among, chosen: None });
            self.answer(reply, Ok(None));
        }
    }

    fn status(&self, index: u32) -> Result<Status, Refusal> {
        let known = self.children.status(index);
        known.ok_or_else(|| refusal("delegation", format!("delegation {index} is not known, or was taken")))
    }

    async fn cancel(&mut self, index: u32, reason: String) {
        // One that has ended needs no cancelling: its completion waits to be taken.
        if !self.joins.holds(index) || !self.children.is_open(index) {
            return;
        }
        let reason = bounded(&reason, self.seed.shared.limits.detail);
        self.scribe.say(Strand::Delegation(index), Kind::StopRequested { reason });
        self.stop_child(index, StopCause::Canceled).await;
    }

    async fn dropped(&mut self, index: u32) {
        if !self.joins.holds(index) {
            return;
        }
        match self.joins.dropped(index) {
            Some(taken) => self.taken(taken),
            None => self.stop_child(index, StopCause::Dropped).await,
        }
    }

    async fn stop_child(&mut self, index: u32, cause: StopCause) {
        let times = self.usual_grace();
        let ended = self.children.stop(index, cause, times).await;
        self.children_ended(ended);
    }

    // ---- calls through the gate

    fn next_call(&mut self) -> u32 {
        let call = self.numbers.calls;
        self.numbers.calls += 1;
        call
    }

    /// Asks the gate about one call and records what it says.
    fn gate(
        &mut self,
        call: u32,
        request: &Request<'_>,
        changes_world: bool,
        credit: Credit,
    ) -> Result<Ticket, String> {
        let strand = Strand::Call(call);
        let asked = Instant::now();
        let verdict = gate::decide(call, request, self.seed.prepared.capsule.grants());
        self.seed.shared.gate_took.observe(asked.elapsed());
        match verdict {
            Verdict::Allow(permit) => {
                let asked = Kind::GateAsked { tool: request.tool().to_owned() };
                let decided = Kind::GateDecided { decision: Decision::Allow, by: "rules".into(), reason: None };
                permit.spend(call, request).map_err(|mismatch| mismatch.to_string())?;
                self.changed_world |= changes_world;
                let input = Text::Inline(request.input());
                let called = Kind::ToolCalled { tool: request.tool().to_owned(), input, changes_world };
                Ok(self.scribe.promise(strand, [asked, decided], called, credit))
            }
            Verdict::Deny { reason } => {
                let asked = Kind::GateAsked { tool: request.tool().to_owned() };
                let reason_said = Some(reason.clone());
                let decided = Kind::GateDecided { decision: Decision::Deny, by: "rules".into(), reason: reason_said };
                // A call ends once, also one that never ran: else the tree could not end.
                let ended = Kind::ToolReturned { outcome: CallOutcome::Denied, output: Text::default() };
                self.scribe.say_all(strand, [asked, decided, ended], credit);
                Err(reason)
            }
        }
    }

    fn tool(&mut self, name: String, input: String, reply: oneshot::Sender<Result<String, ToolError>>, credit: Credit) {
        let running = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        if running >= self.seed.shared.limits.calls {
            let why = format!("limits.calls: {running} calls are running");
            let text = Text::Inline(why.clone());
            self.scribe.say_on(Strand::Main, Kind::Note { key: "call_refused".into(), text }, credit);
            return answer(reply, Err(ToolError::Denied(why)));
        }
        let call = self.next_call();
        let prepared = self.seed.prepared.clone();
        let tool = prepared.tools.get(&name);
        let changes_world = tool.is_some_and(|tool| tool.changes_world);
        let request = Request::Tool { name: &name, input: &input, known: tool.is_some() };
        let intent = match (self.gate(call, &request, changes_world, credit), tool) {
            (Ok(intent), Some(_)) => intent,
            (Ok(_), None) => return answer(reply, Err(ToolError::Denied(format!("no tool `{name}`")))),
            (Err(reason), _) => return self.answer(reply, Err(ToolError::Denied(reason))),
        };
        let strike = self.cursor.strike(Point::Tool, Some(&name));
        if let Some(strike) = &strike {
            self.scribe.struck(Strand::Call(call), strike);
        }
        let fault = strike.map(|strike| strike.action);
        let task = tool.map(|tool| {
            self.run_tool(call, tool.kind.clone(), name.clone(), input.clone(), changes_world.then_some(intent), fault)
        });
        self.calls.insert(call, RunningCall { reply: Some(reply), task });
    }

    fn run_tool(
        &self,
        call: u32,
        tool: ToolKind,
        name: String,
        input: String,
        intent: Option<Ticket>,
        fault: Option<Action>,
    ) -> Owned {
        let me = self.me.clone();
        let pulse = self.seed.pulse.clone();
        #[cfg(feature = "guest")]
        let (confinement, session) =
            (super::guests::tool_confinement(&self.seed, call), mind::handle(&self.seed, self.me.clone()));
        let run = async move {
            // Law 2: a tool that changes the world runs only when its intent is durable.
            if let Some(intent) = intent {
                intent.await.map_err(|error| error.to_string())?;
            }
            match fault {
                Some(Action::Delay(after)) => tokio::time::sleep(after).await,
                Some(Action::Hang | Action::Drop) => std::future::pending().await,
                Some(action @ Action::Panic) => injected_panic(&action),
                Some(action @ Action::Error(_)) => return Err(action.message().to_owned()),
                _ => {}
            }
            match tool {
                ToolKind::Native(tool) => {
                    let _name = name;
                    tool(input).await
                }
                #[cfg(feature = "guest")]
                ToolKind::Guest(component) => {
                    super::guests::call(&component, session, &name, &input, confinement).await
                }
            }
        };
        // Made here, not in the task: one that is aborted before it first runs says farewell too.
        let farewell = ToolFarewell { session: me, call, result: None };
        Owned::spawn(async move {
            let mut farewell = farewell;
            let _pulse = pulse;
            farewell.result =
                Some(contained(run).await.unwrap_or_else(|panic| Err(format!("the tool panicked: {panic}"))));
        })
    }

    /// A tool answered, or its task is gone.
    pub(super) async fn tool_ended(&mut self, call: u32, result: Option<Result<String, String>>) {
        let Some(running) = self.calls.remove(&call) else { return };
        self.progress.moved(Instant::now());
        let limit = self.seed.shared.limits.answer_whole;
        let result = result.map(|result| match result {
            Ok(output) if output.len() > limit => {
                Err(format!("the tool answered {} bytes, limits.answer_whole is {limit}", output.len()))
            }
            other => other,
        });
        let (outcome, output) = match &result {
            Some(Ok(output)) => (CallOutcome::Ok, Text::Inline(output.clone())),
            Some(Err(error)) => (CallOutcome::Error, Text::Inline(error.clone())),
            None => (CallOutcome::Ended, Text::default()),
        };
        self.scribe.say(Strand::Call(call), Kind::ToolReturned { outcome, output });
        if let (Some(reply), Some(result)) = (running.reply, result) {
            self.answer(reply, result.map_err(ToolError::Failed));
        }
        if !self.life.is_working() {
            self.live(LifeEvent::Quieter).await;
        }
    }

    fn http(&mut self, method: &str, url: &str, reply: oneshot::Sender<Result<u32, Refusal>>, credit: Credit) {
        let call = self.next_call();
        match self.gate(call, &Request::Http { method, url }, true, credit) {
            Ok(_) => {
                self.calls.insert(call, RunningCall { reply: None, task: None });
                // Its session is a careful one: the answer waits until the intent is durable.
                self.answer(reply, Ok(call));
            }
            Err(reason) => self.answer(reply, Err(refusal("grants.network", reason))),
        }
    }

    fn http_ended(&mut self, call: u32, outcome: Result<u16, String>) {
        if self.calls.remove(&call).is_none() {
            return;
        }
        let (outcome, output) = match outcome {
            Ok(status) => (CallOutcome::Ok, status.to_string()),
            Err(error) => (CallOutcome::Error, bounded(&error, self.seed.shared.limits.detail)),
        };
        self.scribe.say(Strand::Call(call), Kind::ToolReturned { outcome, output: Text::Inline(output) });
    }

    // ---- the rest

    fn checkpoint(&mut self, label: String, state: Bytes, reply: oneshot::Sender<()>, credit: Credit) {
        self.scribe.checkpoint(label, state, credit);
        self.answer(reply, ());
    }

    /// There is nobody here who could answer: a question is denied at once, and both are recorded.
    fn ask(&mut self, question: Question, reply: oneshot::Sender<Result<String, AskError>>) {
        let strand = Strand::Call(self.next_call());
        self.scribe.say(strand, Kind::QuestionAsked { question: Text::Inline(question.text) });
        self.scribe.say(strand, Kind::QuestionAnswered { outcome: QuestionOutcome::Denied, answer: None });
        self.answer(reply, Err(AskError::Denied));
    }
}

/// Says how a tool call ended when its task is gone, also when it was aborted.
struct ToolFarewell {
    session: ractor::ActorRef<SessionMessage>,
    call: u32,
    result: Option<Result<String, String>>,
}

impl Drop for ToolFarewell {
    fn drop(&mut self) {
        let message = SessionMessage::ToolEnded { call: self.call, result: self.result.take() };
        let _gone = self.session.cast(message);
    }
}
