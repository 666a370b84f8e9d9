//! What every delegator does for its children: starts them in order, obeys their delegations' effects, and confirms
//! that what has ended is gone. Sessions and the root hold one each.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorCell, ActorId, ActorRef, ActorStatus};
use tokio::time::Instant;

use super::context::{Prepared, Shared, TreeContext};
use super::delegation::{Delegation, Effect, Event, StopCause};
use super::endings::{self, Origin};
use super::look::{Look, Seen, SessionView, millis};
use super::message::{ChildMessage, CompletionReport, Delegator, Numbers, SessionMessage, TaskText};
use super::owned::Owned;
use super::places::Place;
use super::remote::{StopAt, Stopped};
use super::report::Outcome;
use super::scribe::Scribe;
use super::session::{self, SessionSeed};
use super::vigil::{Pulse, Vigil};
use crate::agent::Status;
use crate::capsule::Account;
use crate::env::Chance;
use crate::fault::{Action, Cursor, Point};
use crate::ids::{SessionPath, Strand, TreeId};
use crate::journal::{
    Closed, Closing, CompletionStatus, Entry, Ids, Kind, LentDirectory, Reporter, Scope, Ticket, Verdict,
};
use crate::lending::Directory;
use crate::supervision::{ExitClass, StopTimes};

/// A directory to be opened for a child before it starts: from which one, below which path.
#[derive(Clone, Debug)]
pub(crate) struct ToLend {
    pub(crate) from: Directory,
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) write: bool,
}

/// Everything a child's session is made from, over all its attempts.
pub(crate) struct ChildSeed {
    pub(crate) tree: Arc<TreeContext>,
    pub(crate) path: SessionPath,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) task: TaskText,
    pub(crate) to_lend: Vec<ToLend>,
    /// What it is lent, where that is open already.
    pub(crate) directories: Option<Arc<[Directory]>>,
    pub(crate) lent: Vec<LentDirectory>,
    pub(crate) deadline: Instant,
    pub(crate) account: Account,
    /// Levels that may stand below it.
    pub(crate) depth_left: u32,
    pub(crate) ids: Ids,
}

/// A delegation that has ended.
pub(crate) struct Ended {
    pub(crate) key: u32,
    pub(crate) status: CompletionStatus,
    pub(crate) outcome: Outcome,
    /// Commit of the last of its endings.
    pub(crate) ticket: Option<Ticket>,
}

struct Child {
    seed: ChildSeed,
    delegation: Delegation,
    directories: Option<Arc<[Directory]>>,
    numbers: Numbers,
    actor: Option<ActorRef<SessionMessage>>,
    vigil: Option<Vigil>,
    cursor: Cursor,
    chance: Chance,
    /// Its place in the process.
    place: Option<Place>,
    deadline: Option<Owned>,
    since: Instant,
    /// What its next start waits for: directories, a pause.
    waiting: Option<Owned>,
    /// Its burial: the last of it is confirmed gone, or the writer closes what it left.
    burial: Option<Owned>,
    giving_up: Option<Owned>,
    delayed: Vec<Owned>,
}

/// See the module.
pub(crate) struct Children {
    shared: Arc<Shared>,
    delegator: Delegator,
    /// Where the delegator's own records go.
    scribe: Scribe,
    pulse: Option<Pulse>,
    list: BTreeMap<u32, Child>,
    /// Looked up, never iterated: its order reaches nothing.
    actors: HashMap<ActorId, (u32, u32)>,
    queue: VecDeque<u32>,
    open: usize,
    live: u32,
    width: u32,
}

impl Children {
    pub(crate) fn new(
        shared: Arc<Shared>,
        delegator: Delegator,
        scribe: Scribe,
        pulse: Option<Pulse>,
        width: u32,
    ) -> Self {
        Self {
            shared,
            delegator,
            scribe,
            pulse,
            list: BTreeMap::new(),
            actors: HashMap::new(),
            queue: VecDeque::new(),
            open: 0,
            live: 0,
            width,
        }
    }

    /// How many delegations have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// How many wait for their place.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// How many have a place.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Says where the children stand, and asks the live ones.
    pub(crate) fn look(&self, look: &Look) {
        let now = Instant::now();
        for child in self.list.values().filter(|child| look.means(child.seed.tree.id)) {
            if look.is_over() {
                return;
            }
            look.saw(Seen::Child(Box::new(SessionView {
                tree: child.seed.tree.id,
                path: child.seed.path.clone(),
                capsule: child.seed.prepared.capsule.name().to_owned(),
                state: child.delegation.standing(),
                attempt: child.delegation.attempt(),
                age_ms: millis(now - child.since),
                left_ms: millis(child.seed.deadline.saturating_duration_since(now)),
                doing: None,
            })));
            if let Some(actor) = &child.actor {
                let _gone = actor.cast(SessionMessage::Look(look.clone()));
            }
        }
    }

    /// The root session of a tree, by its number.
    pub(crate) fn tree(&self, tree: TreeId) -> Option<u32> {
        self.list.iter().find(|(_, child)| child.seed.tree.id == tree).map(|(&key, _)| key)
    }

    /// Stops the session of this delegation, or passes the stop on to it where one below is meant.
    pub(crate) async fn stop_at(&mut self, key: u32, stop: StopAt) -> VecDeque<Ended> {
        let Some(child) = self.list.get(&key) else {
            stop.answer(Stopped::Unknown);
            return VecDeque::new();
        };
        if child.seed.path != stop.path {
            match &child.actor {
                // Where it is gone the message is dropped, and the reply with it.
                Some(actor) => drop(actor.cast(SessionMessage::StopAt(stop))),
                None => stop.answer(Stopped::Unknown),
            }
            return VecDeque::new();
        }
        if let Some(status) = child.delegation.ending() {
            stop.answer(Stopped::Ended(status));
            return VecDeque::new();
        }
        let times = StopTimes::within(Instant::now(), stop.grace, child.seed.depth_left.saturating_add(1));
        let (scribe, strand) = self.own_scribe(key);
        scribe.say(strand, Kind::StopRequested { reason: StopCause::Asked.text().to_owned() });
        stop.answer(Stopped::Told);
        self.stop(key, StopCause::Asked, times).await
    }

    /// Whether another child would have to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.live >= self.width
    }

    /// Where a delegation stands, unless it was forgotten.
    pub(crate) fn status(&self, key: u32) -> Option<Status> {
        let child = self.list.get(&key)?;
        Some(match child.delegation.ending() {
            Some(status) => Status::Ended(status),
            None if child.delegation.is_queued() => Status::Queued,
            None => Status::Running,
        })
    }

    /// Whether a delegation has no ending yet.
    pub(crate) fn is_open(&self, key: u32) -> bool {
        self.list.get(&key).is_some_and(|child| child.delegation.ending().is_none())
    }

    /// The live session of a delegation.
    pub(crate) fn actor(&self, key: u32) -> Option<&ActorRef<SessionMessage>> {
        self.list.get(&key)?.actor.as_ref()
    }

    /// Takes a delegation in; it starts at once where there is a place, with `place` in the process.
    pub(crate) async fn add(&mut self, key: u32, seed: ChildSeed, place: Option<Place>) -> VecDeque<Ended> {
        let plan = self.shared.env.plan();
        let strand = Strand::Delegation(key);
        let name = seed.prepared.capsule.name();
        let chance = self.shared.env.chance(&seed.path, 0, strand);
        let cursor = Cursor::for_session(plan, &seed.path, name, 1, chance.clone());
        let delegator = self.delegator.clone();
        let at = seed.deadline;
        let deadline = Owned::spawn(async move {
            tokio::time::sleep_until(at).await;
            delegator.tell(ChildMessage::DeadlinePassed { key });
        });
        let child = Child {
            delegation: Delegation::new(*seed.prepared.capsule.restart()),
            directories: seed.directories.clone(),
            seed,
            numbers: Numbers::default(),
            actor: None,
            vigil: None,
            cursor,
            chance,
            place,
            deadline: Some(deadline),
            since: Instant::now(),
            waiting: None,
            burial: None,
            giving_up: None,
            delayed: Vec::new(),
        };
        self.list.insert(key, child);
        self.open += 1;
        self.queue.push_back(key);
        self.settle(VecDeque::new()).await
    }

    /// Forgets a delegation that has ended and whose completion nobody needs any more.
    pub(crate) fn forget(&mut self, key: u32) {
        if self.list.get(&key).is_some_and(|child| child.delegation.ending().is_some()) {
            self.list.remove(&key);
        }
    }

    /// Stops one delegation.
    pub(crate) async fn stop(&mut self, key: u32, cause: StopCause, times: StopTimes) -> VecDeque<Ended> {
        self.happened(key, Event::Stop { cause, times }).await
    }

    /// Stops all of them: the queued at once, the live all at the same time.
    pub(crate) async fn stop_all(&mut self, cause: StopCause, times: StopTimes) -> VecDeque<Ended> {
        let open = self.list.iter().rev().filter(|(_, child)| child.delegation.ending().is_none());
        let events = open.map(|(&key, _)| (key, Event::Stop { cause, times })).collect();
        self.settle(events).await
    }

    /// Takes one event of one delegation.
    pub(crate) async fn happened(&mut self, key: u32, event: Event) -> VecDeque<Ended> {
        self.settle(VecDeque::from([(key, event)])).await
    }

    /// Takes several events, each of one delegation.
    pub(crate) async fn all_happened(&mut self, events: Vec<(u32, Event)>) -> VecDeque<Ended> {
        self.settle(events.into()).await
    }

    /// An actor ended: the event of its delegation, if it was one of these.
    pub(crate) fn exited(&mut self, actor: ActorId, class: ExitClass, detail: Option<String>) -> Option<(u32, Event)> {
        let (key, attempt) = self.actors.remove(&actor)?;
        Some((key, Event::Exited { attempt, class, detail }))
    }

    /// The exit events that never came: children that should be live and whose actors are not.
    pub(crate) fn lost_exits(&mut self) -> Vec<(u32, Event)> {
        let gone: Vec<ActorId> = self
            .list
            .values()
            .filter_map(|child| child.actor.as_ref())
            .filter(|actor| actor.get_status() == ActorStatus::Stopped)
            .map(|actor| actor.get_id())
            .collect();
        let why = || Some("its exit event was lost".to_owned());
        gone.into_iter().filter_map(|id| self.exited(id, ExitClass::Panic, why())).collect()
    }

    /// Whether a fault strikes a message to or from this child; it is recorded.
    fn strike(&mut self, key: u32, point: Point) -> Option<Action> {
        // Nothing of one that has ended can be struck, nor recorded.
        let child = self.list.get_mut(&key).filter(|child| child.delegation.ending().is_none())?;
        let strike = child.cursor.strike(point, None)?;
        let (scribe, strand) = self.own_scribe(key);
        scribe.struck(strand, &strike);
        Some(strike.action)
    }

    /// Sends oneself something about a child later.
    fn tell_later(&mut self, key: u32, after: Duration, message: ChildMessage) {
        let delegator = self.delegator.clone();
        if let Some(child) = self.list.get_mut(&key) {
            child.delayed.push(Owned::spawn(async move {
                tokio::time::sleep(after).await;
                delegator.tell(message);
            }));
        }
    }

    /// Where the delegator itself speaks of this delegation.
    fn own_scribe(&self, key: u32) -> (Scribe, Strand) {
        let (path, attempt, strand) = self.origin(key).place();
        (Scribe { path, attempt, ..self.child_scribe(key, attempt) }, strand)
    }

    /// Takes what only concerns the children themselves: whether it says that something may have changed the world,
    /// and the delegations that ended.
    pub(crate) async fn heard(&mut self, message: ChildMessage) -> (bool, VecDeque<Ended>) {
        match message {
            ChildMessage::Report(report) => {
                let CompletionReport { key, attempt, outcome, numbers, account, .. } = *report;
                let changed = outcome.changed_world;
                if let Some(child) = self.list.get_mut(&key).filter(|child| child.delegation.attempt() == attempt) {
                    child.numbers = numbers;
                    child.seed.account = account;
                }
                (changed, self.happened(key, Event::Reported { attempt, outcome }).await)
            }
            ChildMessage::Closed { key, attempt, changed_world, numbers } => {
                self.set_numbers(key, numbers);
                (changed_world, self.happened(key, Event::Closed { attempt, changed_world }).await)
            }
            ChildMessage::Happened { key, event } => (false, self.happened(key, event).await),
            ChildMessage::Exited { actor, class, detail } => {
                let event = self.exited(actor, class, detail);
                (false, self.settle(event.into_iter().collect()).await)
            }
            ChildMessage::Lent { key, result: Ok(directories) } => (false, self.lent(key, directories).await),
            ChildMessage::Lent { key, result: Err(error) } => {
                let Some(attempt) = self.list.get(&key).map(|child| child.delegation.attempt()) else {
                    return (false, VecDeque::new());
                };
                let event = Event::StartFailed { attempt, class: ExitClass::Refused, detail: error.to_string() };
                (false, self.happened(key, event).await)
            }
            ChildMessage::DeadlinePassed { .. } | ChildMessage::Ask { .. } | ChildMessage::Notice { .. } => {
                (false, VecDeque::new())
            }
        }
    }

    /// Passes an exit event on, behind whatever is queued, unless a fault strikes it.
    pub(crate) fn forward_exit(
        &mut self,
        actor: ActorId,
        class: ExitClass,
        detail: Option<String>,
        forward: impl FnOnce(ChildMessage),
    ) {
        let Some(&(key, _)) = self.actors.get(&actor) else { return };
        let message = ChildMessage::Exited { actor, class, detail };
        match self.strike(key, Point::Exit) {
            Some(Action::Drop) => {}
            Some(Action::Delay(after)) => self.tell_later(key, after, message),
            _ => forward(message),
        }
    }

    /// What a child's numbers were when its last attempt ended.
    fn set_numbers(&mut self, key: u32, numbers: Numbers) {
        if let Some(child) = self.list.get_mut(&key) {
            child.numbers = numbers;
        }
    }

    /// The directories of a child are open.
    pub(crate) async fn lent(&mut self, key: u32, directories: Vec<Directory>) -> VecDeque<Ended> {
        match self.list.get_mut(&key) {
            Some(child) => {
                child.directories = Some(directories.into());
                let attempt = child.delegation.attempt();
                let started = self.spawn(key, attempt).await;
                self.settle(started.into_iter().map(|event| (key, event)).collect()).await
            }
            None => VecDeque::new(),
        }
    }

    /// Boxed: starting a session is deep down in here, and every handler would keep the room for it.
    fn settle(&mut self, events: VecDeque<(u32, Event)>) -> Pin<Box<dyn Future<Output = VecDeque<Ended>> + Send + '_>> {
        Box::pin(self.settled(events))
    }

    async fn settled(&mut self, mut events: VecDeque<(u32, Event)>) -> VecDeque<Ended> {
        let mut ended = VecDeque::new();
        loop {
            while let Some((key, event)) = events.pop_front() {
                let Some(child) = self.list.get_mut(&key) else { continue };
                let chance = if matches!(event, Event::Reported { .. } | Event::Closed { .. }) {
                    child.chance.unit()
                } else {
                    0.0
                };
                let before = child.delegation.takes_place();
                let effects = child.delegation.on(event, Instant::now(), chance);
                match (before, child.delegation.takes_place()) {
                    (false, true) => self.live += 1,
                    (true, false) => self.live -= 1,
                    _ => {}
                }
                for effect in effects {
                    self.obey(key, effect, &mut events, &mut ended).await;
                }
            }
            match self.next_admitted() {
                Some(key) => events.push_back((key, Event::Admitted)),
                None => return ended,
            }
        }
    }

    fn next_admitted(&mut self) -> Option<u32> {
        while self.live < self.width {
            let key = self.queue.pop_front()?;
            if self.list.get(&key).is_some_and(|child| child.delegation.is_queued()) {
                return Some(key);
            }
        }
        None
    }

    async fn obey(
        &mut self,
        key: u32,
        effect: Effect,
        events: &mut VecDeque<(u32, Event)>,
        ended: &mut VecDeque<Ended>,
    ) {
        match effect {
            Effect::Start { attempt } => events.extend(self.start(key, attempt).await.map(|event| (key, event))),
            Effect::Tell { cause, times } => self.tell_stop(key, cause, times),
            Effect::GiveUpAt { attempt, at } => {
                self.child(key).giving_up = Some(self.at(key, at, Event::GiveUp { attempt }))
            }
            Effect::Rest { attempt, after } => {
                let at = Instant::now() + after;
                self.child(key).waiting = Some(self.at(key, at, Event::Rested { attempt }));
            }
            Effect::Dismiss => {
                let child = self.child(key);
                if let Some(actor) = &child.actor {
                    actor.stop(None);
                }
            }
            Effect::Kill => {
                let child = self.child(key);
                child.waiting = None;
                if let Some(actor) = &child.actor {
                    actor.kill();
                }
            }
            Effect::ConfirmGone { attempt } => events.extend(self.confirm_gone(key, attempt).map(|event| (key, event))),
            Effect::CloseBelow { attempt, class } => self.close_below(key, attempt, class),
            Effect::AttemptEnded { .. } | Effect::Restarted { .. } => drop(self.record(key, &effect)),
            Effect::End { .. } => {
                let ticket = self.record(key, &effect);
                if let Effect::End { status, outcome, .. } = effect {
                    ended.push_back(self.end(key, status, outcome, ticket));
                }
            }
        }
    }

    /// Appends what an effect records. The commit of the last of it.
    fn record(&self, key: u32, effect: &Effect) -> Option<Ticket> {
        let child = &self.list[&key];
        let (seed, attempt) = (&child.seed, child.delegation.attempt());
        let mut events = endings::records(&self.origin(key), &seed.path, attempt, effect, self.shared.limits.detail);
        let entry = |(path, attempt, strand, kind)| Entry {
            ids: seed.ids,
            ..Entry::new(seed.tree.id, path, attempt, strand, kind)
        };
        let last = events.pop().map(entry)?;
        Some(self.shared.journal.append_behind(events.into_iter().map(entry).collect(), last))
    }

    fn origin(&self, key: u32) -> Origin {
        match self.delegator {
            Delegator::Root(_) => Origin::Tree,
            Delegator::Session(_) => Origin::Delegated {
                by: self.scribe.path.clone(),
                attempt: self.scribe.attempt,
                strand: Strand::Delegation(key),
            },
        }
    }

    fn child(&mut self, key: u32) -> &mut Child {
        self.list.get_mut(&key).expect("an effect is obeyed while its delegation is listed")
    }

    fn child_scribe(&self, key: u32, attempt: u32) -> Scribe {
        let seed = &self.list[&key].seed;
        Scribe {
            journal: self.shared.journal.clone(),
            tree: seed.tree.id,
            path: seed.path.clone(),
            attempt,
            ids: seed.ids,
        }
    }

    fn at(&self, key: u32, at: Instant, event: Event) -> Owned {
        let delegator = self.delegator.clone();
        Owned::spawn(async move {
            tokio::time::sleep_until(at).await;
            delegator.tell(ChildMessage::Happened { key, event });
        })
    }

    fn tell_stop(&mut self, key: u32, cause: StopCause, times: StopTimes) {
        let times = times.one_level_down();
        match self.strike(key, Point::Stop) {
            Some(Action::Drop) => return,
            Some(Action::Delay(after)) => {
                let Some(actor) = self.child(key).actor.clone() else { return };
                self.child(key).delayed.push(Owned::spawn(async move {
                    tokio::time::sleep(after).await;
                    let _gone = actor.cast(SessionMessage::Stop { cause, times });
                }));
                return;
            }
            _ => {}
        }
        if let Some(actor) = &self.child(key).actor {
            let _gone = actor.cast(SessionMessage::Stop { cause, times });
        }
    }

    /// Starts an attempt: at once, or once what it is lent is open. The event that follows, where it is at once.
    async fn start(&mut self, key: u32, attempt: u32) -> Option<Event> {
        let plan = self.shared.env.plan().cloned();
        let env = self.shared.env.clone();
        let shared = self.shared.clone();
        let simulated = env.is_simulated();
        let child = self.child(key);
        if attempt > 1 {
            let chance = env.chance(&child.seed.path, attempt, Strand::Delegation(key));
            child.cursor = Cursor::for_session(
                plan.as_ref(),
                &child.seed.path,
                child.seed.prepared.capsule.name(),
                attempt,
                chance,
            );
        }
        if child.place.is_none() {
            match shared.places.take(&child.seed.tree.share) {
                Ok(place) => child.place = Some(place),
                Err(busy) => {
                    let detail = format!("{busy} (limits.live_sessions)");
                    return Some(Event::StartFailed { attempt, class: ExitClass::Refused, detail });
                }
            }
        }
        match self.strike(key, Point::Start) {
            Some(action @ Action::Error(_)) => {
                let detail = action.message().to_owned();
                return Some(Event::StartFailed { attempt, class: ExitClass::Retryable, detail });
            }
            Some(Action::Delay(after)) => {
                let delegator = self.delegator.clone();
                let child = self.child(key);
                let known = child.directories.clone();
                let to_lend = child.seed.to_lend.clone();
                child.waiting = Some(Owned::spawn(async move {
                    tokio::time::sleep(after).await;
                    let result = match known {
                        Some(known) => Ok(known.to_vec()),
                        None => open(to_lend, simulated).await,
                    };
                    delegator.tell(ChildMessage::Lent { key, result });
                }));
                return None;
            }
            _ => {}
        }
        let delegator = self.delegator.clone();
        let child = self.child(key);
        if child.directories.is_none() && !child.seed.to_lend.is_empty() {
            let to_lend = child.seed.to_lend.clone();
            child.waiting = Some(Owned::spawn(async move {
                let result = open(to_lend, simulated).await;
                delegator.tell(ChildMessage::Lent { key, result });
            }));
            return None;
        }
        child.directories.get_or_insert_with(|| Arc::from([]));
        self.spawn(key, attempt).await
    }

    async fn spawn(&mut self, key: u32, attempt: u32) -> Option<Event> {
        let (vigil, pulse) = Vigil::new(self.pulse.clone());
        let (shared, delegator) = (self.shared.clone(), self.delegator.clone());
        let child = self.child(key);
        let seed = &child.seed;
        let args = SessionSeed {
            shared,
            delegator: delegator.clone(),
            key,
            attempt,
            tree: seed.tree.clone(),
            path: seed.path.clone(),
            prepared: seed.prepared.clone(),
            task: seed.task.clone(),
            directories: child.directories.clone().unwrap_or_else(|| Arc::from([])),
            lent: seed.lent.clone(),
            deadline: seed.deadline,
            account: seed.account.clone(),
            depth_left: seed.depth_left,
            numbers: child.numbers,
            ids: seed.ids,
            pulse,
        };
        match session::spawn(args, delegator.cell()).await {
            Ok(actor) => {
                let started = (attempt == 1).then(|| Kind::SessionStarted {
                    capsule: seed.prepared.capsule.name().to_owned(),
                    digest: seed.prepared.capsule.digest(),
                    agent: seed.prepared.agent.kind(),
                    lent: seed.lent.clone(),
                    changes_world: seed.prepared.changes_world(),
                });
                child.vigil = Some(vigil);
                let id = actor.get_id();
                child.actor = Some(actor.clone());
                self.actors.insert(id, (key, attempt));
                if let Some(started) = started {
                    let scribe = self.child_scribe(key, attempt);
                    scribe.say_all(Strand::Main, [started, Kind::TaskStarted {}], None);
                }
                // Only now, so that nothing it says comes before its own start.
                let _gone = actor.cast(SessionMessage::Begin);
                Some(Event::Started { attempt })
            }
            Err(error) => Some(Event::StartFailed {
                attempt,
                class: ExitClass::Retryable,
                detail: format!("its actor did not start: {error}"),
            }),
        }
    }

    /// Waits for the last task of the attempt, but not for ever: a native agent that blocks its thread cannot be ended.
    /// Mostly there is nothing to wait for: the event that follows, where it is at once.
    fn confirm_gone(&mut self, key: u32, attempt: u32) -> Option<Event> {
        let delegator = self.delegator.clone();
        let patience = self.shared.limits.grace;
        let child = self.child(key);
        child.actor = None;
        let Some(vigil) = child.vigil.clone().filter(|vigil| !vigil.is_gone()) else {
            return Some(Event::Gone { attempt });
        };
        child.burial = Some(Owned::spawn(async move {
            let _confirmed = tokio::time::timeout(patience, vigil.gone()).await;
            delegator.tell(ChildMessage::Happened { key, event: Event::Gone { attempt } });
        }));
        None
    }

    fn close_below(&mut self, key: u32, attempt: u32, class: ExitClass) {
        let delegator = self.delegator.clone();
        let child = self.child(key);
        let closing = Closing {
            scope: Scope::Inside,
            verdict: Verdict::Judged,
            class,
            by: Reporter::Supervisor,
            detail: Some("its delegator's session ended".to_owned()),
        };
        let (tree, path) = (child.seed.tree.id, child.seed.path.clone());
        let closed = self.shared.journal.close_subtree(tree, path, closing);
        self.child(key).burial = Some(Owned::spawn(async move {
            // A writer that is gone takes the whole runtime with it; meanwhile nothing is claimed to be unchanged.
            let closed = closed.folded.await.unwrap_or(Closed { changed_world: true, ..Closed::default() });
            let numbers = Numbers { delegations: closed.next_delegation, calls: closed.next_call };
            let changed_world = closed.attempt_changed_world;
            delegator.tell(ChildMessage::Closed { key, attempt, changed_world, numbers });
        }));
    }

    fn end(&mut self, key: u32, status: CompletionStatus, outcome: Outcome, ticket: Option<Ticket>) -> Ended {
        self.open -= 1;
        let child = self.child(key);
        (child.deadline, child.waiting, child.giving_up) = (None, None, None);
        (child.burial, child.vigil) = (None, None);
        child.delayed.clear();
        child.place = None;
        Ended { key, status, outcome, ticket }
    }
}

/// Opens what a child is lent, on a thread that may block; in a simulation inline, so that the order is fixed.
async fn open(to_lend: Vec<ToLend>, simulated: bool) -> Result<Vec<Directory>, crate::lending::LendError> {
    let work = move || to_lend.iter().map(|lend| lend.from.lend(&lend.path, &lend.name, lend.write)).collect();
    if simulated {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// The class and detail a supervision event stands for.
pub(crate) fn exit_of(event: ractor::SupervisionEvent) -> Option<(ActorCell, ExitClass, Option<String>)> {
    match event {
        ractor::SupervisionEvent::ActorTerminated(cell, state, reason) => {
            // The state can hold a pool slot: it goes at once, not when the message is judged.
            drop(state);
            Some((cell, ExitClass::Panic, Some(reason.unwrap_or_else(|| "its actor ended".to_owned()))))
        }
        ractor::SupervisionEvent::ActorFailed(cell, error) => Some((cell, ExitClass::Panic, Some(error.to_string()))),
        _ => None,
    }
}
