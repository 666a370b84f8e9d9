//! The messages that cross actors.

use std::sync::Arc;

use ractor::{ActorCell, ActorId, ActorRef};

use super::delegation::{Event, StopCause};
use super::life::LifeEvent;
use super::look::Look;
use super::remote::StopAt;
use super::report::Outcome;
use crate::agent::{Call, Credit};
use crate::capsule::{Account, Ask, Exhausted, Notice};
use crate::ids::SessionPath;
use crate::lending::{Directory, LendError};
use crate::supervision::{ExitClass, StopTimes};

/// How an attempt of a delegation's session ended. Sent by the child's session to the actor that made it, which
/// appends the endings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionReport {
    /// Which of the delegator's delegations.
    pub key: u32,
    /// The session that reports.
    pub child: SessionPath,
    /// Which incarnation of it.
    pub attempt: u32,
    /// How it went.
    pub outcome: Outcome,
    /// The numbers its next attempt goes on from.
    pub numbers: Numbers,
    /// The account its next attempt goes on with.
    pub account: Account,
}

/// How many delegations and calls a session has made, over all its attempts: a later attempt goes on counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// Delegations made.
    pub delegations: u32,
    /// Calls made.
    pub calls: u32,
}

/// What a delegator (a session, or the root) hears about its children.
#[derive(Debug)]
pub(crate) enum ChildMessage {
    /// A child's session reports.
    Report(Box<CompletionReport>),
    /// Something else happened to a delegation.
    Happened { key: u32, event: Event },
    /// The writer closed what an attempt left open.
    Closed { key: u32, attempt: u32, changed_world: bool, numbers: Numbers },
    /// A child's actor ended; sent to oneself, so that it is judged behind any report already queued.
    Exited { actor: ActorId, class: ExitClass, detail: Option<String> },
    /// The directories a child is to be lent were opened, or could not be.
    Lent { key: u32, result: Result<Vec<Directory>, LendError> },
    /// The delegation's own time is over.
    DeadlinePassed { key: u32 },
    /// A child asks for what its delegator has left.
    Ask { key: u32, token: u64, ask: Ask },
    /// A child gives notice of what it spent or gives back.
    Notice { key: u32, notice: Notice },
}

/// What a session hears.
#[derive(Debug)]
pub(crate) enum SessionMessage {
    /// It may begin.
    Begin,
    /// Its agent asks for something.
    Call { call: Call, credit: Credit, delayed: bool },
    /// Something happened to its own life.
    Life(LifeEvent),
    /// Its delegator stops it.
    Stop { cause: StopCause, times: StopTimes },
    /// Its delegator's answer to an ask.
    Asked { token: u64, granted: Result<(), Exhausted> },
    /// A tool answered, or its task is gone.
    ToolEnded { call: u32, result: Option<Result<String, String>> },
    /// A waiter's time is over.
    WaitExpired { waiter: u64 },
    /// Look whether there was progress.
    CheckProgress,
    /// Something happened to one of its children.
    Child(ChildMessage),
    /// Say what you do, and ask your children.
    Look(Look),
    /// Stop the session that is meant, or pass it on.
    StopAt(StopAt),
}

/// What the root hears.
#[derive(Debug)]
pub(crate) enum RootMessage {
    /// Starts a tree.
    Submit(Box<super::root::Submit>),
    /// Stops a tree.
    StopTree { key: u32, cause: StopCause, times: StopTimes },
    /// Stops everything; answered when nothing is left.
    StopAll { times: StopTimes, done: tokio::sync::oneshot::Sender<()> },
    /// The journal failed: nothing can be made durable any more.
    JournalFailed,
    /// Look whether an exit event was lost.
    LookForLostExits,
    /// Whoever waited for a tree was told.
    Told { key: u32 },
    /// Something happened to a tree's root session.
    Child(ChildMessage),
    /// Say what lives, and ask it.
    Look(Look),
    /// Stop the session that is meant, or pass it on.
    StopAt(StopAt),
}

/// Whoever made a delegation.
#[derive(Clone, Debug)]
pub(crate) enum Delegator {
    /// The root of the runtime.
    Root(ActorRef<RootMessage>),
    /// A session.
    Session(ActorRef<SessionMessage>),
}

impl Delegator {
    /// Tells it something about a child. A delegator that is gone needs no telling.
    pub(crate) fn tell(&self, message: ChildMessage) {
        let _gone = match self {
            Self::Root(root) => root.cast(RootMessage::Child(message)).is_err(),
            Self::Session(session) => session.cast(SessionMessage::Child(message)).is_err(),
        };
    }

    pub(crate) fn cell(&self) -> ActorCell {
        match self {
            Self::Root(root) => root.get_cell(),
            Self::Session(session) => session.get_cell(),
        }
    }
}

/// A task's text, shared by all attempts of a session.
pub(crate) type TaskText = Arc<str>;
