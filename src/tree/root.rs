//! The root of a runtime: it holds the trees as a session holds its delegations, and ends when the journal fails.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::children::{ChildSeed, Children, Ended, exit_of};
use super::context::Shared;
use super::delegation::StopCause;
use super::message::{ChildMessage, Delegator, RootMessage, SessionMessage};
use super::owned::Owned;
use super::parts::{Part, Parts};
use super::places::Place;
use super::remote::Stopped;
use super::scribe::Scribe;
use crate::agent::Completion;
use crate::capsule::Exhausted;
use crate::ids::{SessionPath, TreeId};
use crate::journal::{AppendError, Ids};
use crate::supervision::StopTimes;

/// A tree to be started. Its `tree_started` and `task_submitted` are appended already.
pub(crate) struct Submit {
    pub(crate) seed: ChildSeed,
    pub(crate) place: Place,
    /// The number the tree has in this runtime.
    pub(crate) key: u32,
    pub(crate) done: oneshot::Sender<Result<Completion, AppendError>>,
}

impl std::fmt::Debug for Submit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Submit({})", self.seed.tree.id)
    }
}

pub(crate) struct Root;

pub(crate) struct State {
    shared: Arc<Shared>,
    children: Children,
    /// Who waits for each tree.
    waiting: BTreeMap<u32, oneshot::Sender<Result<Completion, AppendError>>>,
    /// Endings on their way to the disk, before anybody outside hears of them.
    telling: BTreeMap<u32, Owned>,
    stopping: Vec<oneshot::Sender<()>>,
    closed: bool,
    _health: Owned,
    looking: Option<Owned>,
    parts: Parts,
}

impl Actor for Root {
    type Msg = RootMessage;
    type State = State;
    type Arguments = Arc<Shared>;

    async fn pre_start(&self, me: ActorRef<Self::Msg>, shared: Arc<Shared>) -> Result<State, ActorProcessingErr> {
        let scribe = Scribe {
            journal: shared.journal.clone(),
            tree: TreeId::nobody(),
            path: SessionPath::root(),
            attempt: 0,
            ids: Ids::default(),
        };
        let parts = Parts::new(&shared.limits)?;
        let children = Children::new(shared.clone(), Delegator::Root(me.clone()), scribe, None, u32::MAX);
        let mut health = shared.journal.health();
        let to_root = me.clone();
        let watch = Owned::spawn(async move {
            if health.wait_for(|health| health.is_poisoned()).await.is_ok() {
                let _gone = to_root.cast(RootMessage::JournalFailed);
            }
        });
        let mut state = State {
            shared,
            children,
            waiting: BTreeMap::new(),
            telling: BTreeMap::new(),
            stopping: Vec::new(),
            closed: false,
            _health: watch,
            looking: None,
            parts,
        };
        state.look_later(&me);
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<Self::Msg>,
        message: RootMessage,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let ended = match message {
            RootMessage::Submit(submit) => state.submit(*submit).await,
            RootMessage::StopTree { key, cause, times } => state.children.stop(key, cause, times).await,
            RootMessage::StopAll { times, done } => {
                state.closed = true;
                state.stopping.push(done);
                state.children.stop_all(StopCause::ParentEnding, times).await
            }
            RootMessage::JournalFailed => {
                state.closed = true;
                let times = state.grace();
                state.children.stop_all(StopCause::Journal, times).await
            }
            RootMessage::LookForLostExits => {
                state.look_later(&me);
                let lost = state.children.lost_exits();
                state.children.all_happened(lost).await
            }
            RootMessage::Told { key } => {
                state.telling.remove(&key);
                VecDeque::new()
            }
            RootMessage::Child(message) => state.child(message).await,
            RootMessage::Look(look) => {
                state.children.look(&look);
                VecDeque::new()
            }
            RootMessage::StopAt(stop) => match state.children.tree(stop.tree) {
                Some(key) => state.children.stop_at(key, stop).await,
                None => {
                    stop.answer(Stopped::Unknown);
                    VecDeque::new()
                }
            },
        };
        state.ended(ended, &me);
        if state.closed && state.children.open() == 0 && state.telling.is_empty() {
            state.stopping.drain(..).for_each(|done| {
                let _nobody = done.send(());
            });
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some((cell, class, detail)) = exit_of(event) {
            if cell.get_id() == state.shared.journal.cell().get_id() {
                if state.parts.lost(Part::Journal, class) {
                    me.cast(RootMessage::JournalFailed)?;
                }
                return Ok(());
            }
            state.children.forward_exit(cell.get_id(), class, detail, |message| {
                let _gone = me.cast(RootMessage::Child(message));
            });
        }
        Ok(())
    }
}

impl State {
    fn grace(&self) -> StopTimes {
        let limits = &self.shared.limits;
        StopTimes::within(Instant::now(), limits.grace, limits.depth)
    }

    /// Looks for exits that were lost, as often as a session looks for progress.
    fn look_later(&mut self, me: &ActorRef<RootMessage>) {
        let (me, after) = (me.clone(), self.shared.limits.stall);
        self.looking = Some(Owned::spawn(async move {
            tokio::time::sleep(after).await;
            let _gone = me.cast(RootMessage::LookForLostExits);
        }));
    }

    async fn submit(&mut self, submit: Submit) -> VecDeque<Ended> {
        let Submit { seed, place, key, done } = submit;
        self.waiting.insert(key, done);
        let ended = self.children.add(key, seed, Some(place)).await;
        if !self.closed {
            return ended;
        }
        // It came while everything was being stopped: it is stopped like the rest.
        let times = self.grace();
        let mut all = ended;
        all.extend(self.children.stop(key, StopCause::ParentEnding, times).await);
        all
    }

    async fn child(&mut self, message: ChildMessage) -> VecDeque<Ended> {
        match message {
            ChildMessage::DeadlinePassed { key } => {
                let times = self.grace();
                self.children.stop(key, StopCause::Deadline, times).await
            }
            ChildMessage::Ask { key, token, ask } => {
                // A root session's ceilings are its own: nothing above it can be asked.
                let why = Exhausted { key: "budget".into(), asked: ask.spend.tokens, left: 0 };
                if let Some(child) = self.children.actor(key) {
                    let _gone = child.cast(SessionMessage::Asked { token, granted: Err(why) });
                }
                VecDeque::new()
            }
            // Debt ends here: there is nobody above to charge.
            ChildMessage::Notice { .. } => VecDeque::new(),
            other => self.children.heard(other).await.1,
        }
    }

    /// Trees ended: whoever waits is told once the ending is durable.
    fn ended(&mut self, ended: VecDeque<Ended>, me: &ActorRef<RootMessage>) {
        for Ended { key, status, outcome, ticket } in ended {
            self.children.forget(key);
            let Some(done) = self.waiting.remove(&key) else { continue };
            let me = me.clone();
            self.telling.insert(
                key,
                Owned::spawn(async move {
                    let detail = outcome.why();
                    let answer = match outcome.result {
                        Some(Ok(answer)) => answer.to_string(),
                        _ => String::new(),
                    };
                    let committed = match ticket {
                        Some(ticket) => ticket.await.map(drop),
                        None => Ok(()),
                    };
                    let answer_len = answer.len() as u64;
                    let spent = outcome.spent.unwrap_or_default();
                    let completion = Completion { index: 0, status, answer, answer_len, detail, spent };
                    let _nobody = done.send(committed.map(|()| completion));
                    let _gone = me.cast(RootMessage::Told { key });
                }),
            );
        }
    }
}
