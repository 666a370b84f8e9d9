//! The actor of one incarnation of a session. A handler does bookkeeping only; whatever can wait runs in a task the
//! actor owns and comes back as a message, so it can always be told to stop.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::bounds::within;
use super::calls::Wanted;
use super::children::{Children, Ended, exit_of};
use super::context::{Prepared, Shared, TreeContext};
use super::delegation::StopCause;
use super::joins::Joins;
use super::life::{Life, LifeEffect, LifeEvent};
use super::look::{Doing, Look, Seen};
use super::message::{ChildMessage, CompletionReport, Delegator, Numbers, SessionMessage, TaskText};
use super::mind::{self, Mind};
use super::money::Money;
use super::owned::{Owned, injected_panic};
use super::remote::{StopAt, Stopped};
use super::report::{Outcome, bounded};
use super::scribe::Scribe;
use super::vigil::Pulse;
use crate::agent::{Call, ToolError};
use crate::capsule::{Account, Usage};
use crate::fault::{Action, Cursor, Point};
use crate::ids::{SessionPath, Strand};
use crate::journal::{CallOutcome, Ids, Kind, LentDirectory, Text};
use crate::lending::Directory;
use crate::supervision::{Progress, Stall, StopTimes};

/// Everything one attempt of a session is made from.
pub(crate) struct SessionSeed {
    pub(crate) shared: Arc<Shared>,
    pub(crate) delegator: Delegator,
    pub(crate) key: u32,
    pub(crate) attempt: u32,
    pub(crate) tree: Arc<TreeContext>,
    pub(crate) path: SessionPath,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) task: TaskText,
    pub(crate) directories: Arc<[Directory]>,
    pub(crate) lent: Vec<LentDirectory>,
    pub(crate) deadline: Instant,
    pub(crate) account: Account,
    pub(crate) depth_left: u32,
    pub(crate) numbers: Numbers,
    pub(crate) ids: Ids,
    pub(crate) pulse: Pulse,
}

impl SessionSeed {
    /// What appends this attempt's records.
    pub(crate) fn scribe(&self) -> Scribe {
        Scribe {
            journal: self.shared.journal.clone(),
            tree: self.tree.id,
            path: self.path.clone(),
            attempt: self.attempt,
            ids: self.ids,
        }
    }
}

/// Starts the actor of a session, linked to its supervisor. It does nothing before [`SessionMessage::Begin`].
pub(crate) async fn spawn(seed: SessionSeed, supervisor: ActorCell) -> Result<ActorRef<SessionMessage>, SpawnErr> {
    // Boxed: a session's handler starts sessions.
    let spawned: std::pin::Pin<Box<dyn Future<Output = _> + Send>> =
        Box::pin(Actor::spawn_linked(None, SessionActor, seed, supervisor));
    spawned.await.map(|(actor, _joined)| actor)
}

pub(crate) struct SessionActor;

/// A tool call or an HTTP request that is running.
pub(super) struct RunningCall {
    pub(super) reply: Option<oneshot::Sender<Result<String, ToolError>>>,
    pub(super) task: Option<Owned>,
}

pub(crate) struct State {
    pub(super) me: ActorRef<SessionMessage>,
    pub(super) seed: SessionSeed,
    pub(super) scribe: Scribe,
    pub(super) life: Life,
    pub(super) agent: Option<Mind>,
    pub(super) children: Children,
    pub(super) joins: Joins,
    pub(super) money: Money<Wanted>,
    /// What each ended delegation spent, where that is known, until its completion is taken.
    pub(super) spent: BTreeMap<u32, Option<Usage>>,
    /// The delegations something was set aside for.
    pub(super) slices: BTreeSet<u32>,
    pub(super) calls: BTreeMap<u32, RunningCall>,
    pub(super) numbers: Numbers,
    pub(super) cursor: Cursor,
    pub(super) progress: Progress<u32>,
    pub(super) changed_world: bool,
    /// Whether the agent itself can change the world between two calls: then every answer to it waits for the disk.
    pub(super) careful: bool,
    /// Calls a fault swallowed: they are never answered, and never refused either.
    pub(super) swallowed: Vec<Call>,
    pub(super) delayed: Vec<Owned>,
    checking: Option<Owned>,
    reporting: Option<Owned>,
    reports: u32,
}

impl Actor for SessionActor {
    type Msg = SessionMessage;
    type State = State;
    type Arguments = SessionSeed;

    async fn pre_start(&self, me: ActorRef<Self::Msg>, seed: SessionSeed) -> Result<State, ActorProcessingErr> {
        Ok(State::new(me, seed))
    }

    async fn handle(
        &self,
        _me: ActorRef<Self::Msg>,
        message: SessionMessage,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        // A look changes nothing, so nothing strikes it: what is struck must not depend on who looks.
        if let SessionMessage::Look(look) = &message {
            state.look(look);
            return Ok(());
        }
        if let Some(strike) = state.cursor.strike(Point::Session, None) {
            state.scribe.struck(Strand::Main, &strike);
            match strike.action {
                Action::Kill => state.me.kill(),
                action => injected_panic(&action),
            }
            return Ok(());
        }
        state.take(message).await;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        // An exit is judged behind any report already queued.
        if let Some((cell, class, detail)) = exit_of(event) {
            state.children.forward_exit(cell.get_id(), class, detail, |message| {
                let _gone = me.cast(SessionMessage::Child(message));
            });
        }
        Ok(())
    }
}

impl State {
    fn new(me: ActorRef<SessionMessage>, seed: SessionSeed) -> Self {
        let shared = &seed.shared;
        let scribe = seed.scribe();
        let capsule = &seed.prepared.capsule;
        let width = capsule.limits().live_children.unwrap_or(shared.limits.live_children);
        let children = Children::new(
            shared.clone(),
            Delegator::Session(me.clone()),
            scribe.clone(),
            Some(seed.pulse.clone()),
            width,
        );
        let chance = shared.env.chance(&seed.path, seed.attempt, Strand::Main);
        let cursor = Cursor::for_session(shared.env.plan(), &seed.path, capsule.name(), seed.attempt, chance);
        let careful = seed.prepared.is_free();
        Self {
            money: Money::new(seed.account.clone(), seed.delegator.clone(), seed.key),
            numbers: seed.numbers,
            progress: Progress::new(Instant::now()),
            changed_world: seed.prepared.changes_world(),
            careful,
            me,
            seed,
            scribe,
            life: Life::default(),
            agent: None,
            children,
            joins: Joins::default(),
            spent: BTreeMap::new(),
            slices: BTreeSet::new(),
            calls: BTreeMap::new(),
            cursor,
            swallowed: Vec::new(),
            delayed: Vec::new(),
            checking: None,
            reporting: None,
            reports: 0,
        }
    }

    async fn take(&mut self, message: SessionMessage) {
        match message {
            SessionMessage::Begin => self.begin(),
            SessionMessage::Call { call, credit, delayed } => self.call(call, credit, delayed).await,
            SessionMessage::Life(event) => self.live(event).await,
            SessionMessage::Stop { cause, times } => self.live(LifeEvent::Stop { cause, times }).await,
            SessionMessage::Asked { token, granted } => self.asked(token, granted).await,
            SessionMessage::ToolEnded { call, result } => self.tool_ended(call, result).await,
            SessionMessage::WaitExpired { waiter } => self.wait_expired(waiter),
            SessionMessage::CheckProgress => self.check_progress().await,
            SessionMessage::Child(message) => self.child(message).await,
            SessionMessage::Look(look) => self.look(&look),
            SessionMessage::StopAt(stop) => self.stop_at(stop).await,
        }
    }

    fn begin(&mut self) {
        let faults = self.struck();
        // Law 2: an agent that can change the world by itself goes on only when all before it is durable.
        let barrier = self.careful.then(|| self.seed.shared.journal.barrier_of(self.seed.tree.id));
        self.agent = Some(mind::start(&self.seed, self.me.clone(), barrier, faults));
        self.check_again(self.stall());
    }

    /// What is to strike the agent of this attempt: each of its points is passed once.
    fn struck(&mut self) -> mind::Struck {
        let mut strike = |point| {
            let strike = self.cursor.strike(point, None)?;
            self.scribe.struck(Strand::Main, &strike);
            Some(strike.action)
        };
        let begins = strike(Point::Agent);
        #[cfg(feature = "harness")]
        let run = match &self.seed.prepared.agent {
            super::context::Thinker::Command(..) => crate::harness::RunFaults {
                spawn: strike(Point::Spawn),
                exit_status: strike(Point::ExitStatus),
                harness: strike(Point::Harness),
                warden: strike(Point::Warden),
            },
            _ => crate::harness::RunFaults::default(),
        };
        mind::Struck {
            begins,
            #[cfg(feature = "harness")]
            run,
        }
    }

    fn stall(&self) -> Duration {
        self.seed.prepared.capsule.limits().stall(&self.seed.shared.limits)
    }

    /// Something happened to the session's own life.
    pub(super) async fn live(&mut self, event: LifeEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let event = match event {
                LifeEvent::AgentEnded { outcome } => {
                    self.agent = None;
                    self.progress.moved(Instant::now());
                    LifeEvent::AgentEnded { outcome: self.bounded_outcome(outcome) }
                }
                other => other,
            };
            let busy = self.children.open() + self.calls.len() + self.money.outstanding();
            for effect in self.life.on(event, busy) {
                match effect {
                    // It says so itself when it is gone: see `mind`.
                    LifeEffect::EndAgent { times } => {
                        let times = times.unwrap_or_else(|| self.usual_grace());
                        self.agent = self.agent.take().and_then(|agent| agent.stop(times));
                    }
                    LifeEffect::EndCalls => self.end_calls(),
                    LifeEffect::StopChildren { times } => {
                        let ended = self.stop_children(times).await;
                        self.children_ended(ended);
                        events.push_back(LifeEvent::Quieter);
                    }
                    LifeEffect::Report { outcome } => self.report(outcome),
                }
            }
        }
    }

    async fn stop_children(&mut self, times: Option<StopTimes>) -> VecDeque<Ended> {
        let times = times.unwrap_or_else(|| self.usual_grace());
        self.children.stop_all(StopCause::ParentEnding, times).await
    }

    pub(super) fn usual_grace(&self) -> StopTimes {
        StopTimes::within(Instant::now(), self.seed.shared.limits.grace, self.seed.depth_left)
    }

    /// Ends what runs on the session's behalf. A call whose task is being ended closes when the task is gone.
    fn end_calls(&mut self) {
        let (running, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.calls).into_iter().partition(|(_, call)| call.task.is_some());
        for call in rest.into_keys() {
            let ended = Kind::ToolReturned { outcome: CallOutcome::Ended, output: Text::default() };
            self.scribe.say(Strand::Call(call), ended);
        }
        self.calls = running.into_keys().map(|call| (call, RunningCall { reply: None, task: None })).collect();
        self.swallowed.clear();
        self.delayed.clear();
        self.money.withdraw();
    }

    /// An answer within the limits, or the error that says which one it is over.
    fn bounded_outcome(&self, outcome: Outcome) -> Outcome {
        let limits = &self.seed.shared.limits;
        let result = match outcome.result {
            Some(Ok(answer)) => Some(within(answer, limits)),
            Some(Err(error)) => Some(Err(bounded(&error, limits.detail))),
            other => other,
        };
        let detail = outcome.detail.map(|detail| bounded(&detail, limits.detail));
        Outcome { result, detail, ..outcome }
    }

    fn report(&mut self, mut outcome: Outcome) {
        self.settle_all();
        outcome.changed_world |= self.changed_world;
        outcome.spent = Some(self.money.spent());
        let report = Box::new(CompletionReport {
            key: self.seed.key,
            child: self.seed.path.clone(),
            attempt: self.seed.attempt,
            outcome,
            numbers: self.numbers,
            account: self.money.account().clone(),
        });
        self.reports += 1;
        // A report can be lost; whoever has reported and is still here says it again.
        let pause = Duration::from_secs(1 << self.reports.min(5));
        let me = self.me.clone();
        self.reporting = Some(Owned::spawn(async move {
            tokio::time::sleep(pause).await;
            let _gone = me.cast(SessionMessage::Life(LifeEvent::ReportAgain));
        }));
        let strike = self.cursor.strike(Point::Report, None);
        if let Some(strike) = &strike {
            self.scribe.struck(Strand::Main, strike);
        }
        match strike.map(|strike| strike.action) {
            Some(Action::Drop) => {}
            Some(Action::Delay(after)) => {
                let delegator = self.seed.delegator.clone();
                self.delayed.push(Owned::spawn(async move {
                    tokio::time::sleep(after).await;
                    delegator.tell(ChildMessage::Report(report));
                }));
            }
            Some(Action::Duplicate) => {
                self.seed.delegator.tell(ChildMessage::Report(report.clone()));
                self.seed.delegator.tell(ChildMessage::Report(report));
            }
            _ => self.seed.delegator.tell(ChildMessage::Report(report)),
        }
    }

    fn look(&self, look: &Look) {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let doing = Doing {
            live_children: self.children.live(),
            queued_children: count(self.children.queued()),
            calls: count(self.calls.len()),
            behind_ms: look.behind_ms(),
        };
        look.saw(Seen::Itself(self.seed.tree.id, self.seed.path.clone(), doing));
        self.children.look(look);
    }

    /// Somebody outside stops a session below this one.
    async fn stop_at(&mut self, stop: StopAt) {
        // The next on the way down: the child whose subtree holds it.
        let mut next = stop.path.clone();
        while let Some(parent) = next.parent().filter(|parent| *parent != self.seed.path) {
            next = parent;
        }
        if next.parent().is_none() {
            return stop.answer(Stopped::Unknown);
        }
        let ended = self.children.stop_at(next.index(), stop).await;
        self.take_ended(ended).await;
    }

    async fn child(&mut self, message: ChildMessage) {
        let ended = match message {
            ChildMessage::DeadlinePassed { key } => {
                let times = self.usual_grace();
                self.children.stop(key, StopCause::Deadline, times).await
            }
            ChildMessage::Ask { key, token, ask } => return self.child_asks(key, token, ask).await,
            ChildMessage::Notice { key, notice } => return self.money.notice(key, notice),
            other => {
                let (changed, ended) = self.children.heard(other).await;
                self.changed_world |= changed;
                ended
            }
        };
        self.take_ended(ended).await;
    }

    async fn take_ended(&mut self, ended: VecDeque<Ended>) {
        if ended.is_empty() {
            return;
        }
        self.progress.moved(Instant::now());
        self.children_ended(ended);
        if !self.life.is_working() {
            self.live(LifeEvent::Quieter).await;
        }
    }

    /// Looks for exits that were lost, and for progress.
    async fn check_progress(&mut self) {
        let lost = self.children.lost_exits();
        let ended = self.children.all_happened(lost).await;
        self.children_ended(ended);
        if !self.life.is_working() {
            self.check_again(self.stall());
            return;
        }
        let now = Instant::now();
        // A session with live children waits for them, whether its agent has said so yet or not.
        if self.children.open() > 0 {
            self.progress.moved(now);
        }
        match self.progress.judge(now, self.stall()) {
            Stall::Stalled { .. } => self.live(LifeEvent::Stalled).await,
            Stall::CheckAt(at) => self.check_again(at - now),
            Stall::Waiting => self.check_again(self.stall()),
        }
    }

    fn check_again(&mut self, after: Duration) {
        let me = self.me.clone();
        self.checking = Some(Owned::spawn(async move {
            tokio::time::sleep(after).await;
            let _gone = me.cast(SessionMessage::CheckProgress);
        }));
    }
}
