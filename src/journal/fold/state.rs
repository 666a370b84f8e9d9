//! What the fold keeps, and how it looks from outside.

use std::collections::BTreeMap;

use crate::capsule::Usage;
use crate::ids::SessionPath;
use crate::journal::record::{CompletionStatus, Decision};

/// The open part of one tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fold {
    pub(super) phase: Phase,
    /// Sessions that have started and not ended.
    pub(super) sessions: BTreeMap<SessionPath, Session>,
    pub(super) root: Child,
    /// The root's task until its session starts.
    pub(super) task: TaskState,
    /// Records on the tree's own strand.
    pub(super) said: u32,
    /// Records on the root's main line before its session started.
    pub(super) root_main: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    New,
    Open,
    Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum TaskState {
    #[default]
    None,
    Submitted,
    Started {
        attempt: u32,
    },
}

/// One session that has started and not ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Session {
    pub attempt: u32,
    pub attempt_over: bool,
    /// Its grants alone count as a change of the world.
    pub grants_change: bool,
    pub attempt_changed: bool,
    /// Any attempt, any child.
    pub changed: bool,
    pub task: TaskState,
    pub tasks_ended: bool,
    pub question: bool,
    pub calls: BTreeMap<u32, Call>,
    pub next_call: u32,
    pub delegations: BTreeMap<u32, Delegation>,
    pub next_delegation: u32,
    /// As far as it was reported, with everything below that has ended.
    pub spent: Usage,
    /// Records on the main line.
    pub said: u32,
}

impl Session {
    pub fn started(changes_world: bool) -> Self {
        Self {
            attempt: 1,
            attempt_over: false,
            grants_change: changes_world,
            attempt_changed: changes_world,
            changed: changes_world,
            task: TaskState::None,
            tasks_ended: false,
            question: false,
            calls: BTreeMap::new(),
            next_call: 0,
            delegations: BTreeMap::new(),
            next_delegation: 0,
            spent: Usage::default(),
            said: 1,
        }
    }
}

/// One call strand: a gated call, a question, or a call parked on one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Call {
    pub asked: bool,
    pub called: bool,
    pub changes_world: bool,
    pub decided: Option<Decision>,
    pub question: bool,
    pub said: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Delegation {
    pub child: Child,
    pub ended: bool,
    pub taken: bool,
    pub reserved: bool,
    pub spent: Usage,
    pub said: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Child {
    #[default]
    Pending,
    Live,
    Ended {
        status: CompletionStatus,
        attempts: u32,
        spent: Usage,
    },
}

/// What of a tree has no ending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Sessions, in path order.
    pub sessions: Vec<SessionPath>,
    /// Delegations, by the path of the child they made or would have made, in path order.
    pub delegations: Vec<SessionPath>,
    /// Tasks.
    pub tasks: usize,
    /// Calls and questions.
    pub calls: usize,
    /// Reservations not settled.
    pub reservations: usize,
}

impl Summary {
    /// Whether everything has its ending.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Fold {
    /// Whether `tree_started` was seen.
    pub fn has_started(&self) -> bool {
        self.phase != Phase::New
    }

    /// Whether `tree_ended` was seen.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// The sessions that have started and not ended, in path order.
    pub fn open_sessions(&self) -> impl Iterator<Item = &SessionPath> {
        self.sessions.keys()
    }

    /// The live or last attempt of an open session.
    pub fn attempt(&self, path: &SessionPath) -> Option<u32> {
        self.sessions.get(path).map(|session| session.attempt)
    }

    /// Whether the live attempt at `path`, or anything open below it, may have changed the world.
    pub fn attempt_changed_world(&self, path: &SessionPath) -> bool {
        self.sessions.get(path).is_some_and(|session| session.attempt_changed)
            || self.below(path).any(|(other, session)| other != path && session.changed)
    }

    /// Whether any attempt at `path`, or anything below it, may have changed the world.
    pub fn changed_world(&self, path: &SessionPath) -> bool {
        self.below(path).any(|(_, session)| session.changed)
    }

    /// What the open subtree at `path` is known to have spent.
    pub fn spent(&self, path: &SessionPath) -> Usage {
        let mut total = Usage::default();
        self.below(path).for_each(|(_, session)| super::add(&mut total, &session.spent));
        total
    }

    /// The numbers the next delegation and the next call of the open session at `path` have: those of a later attempt go
    /// on from the earlier ones.
    pub fn next_numbers(&self, path: &SessionPath) -> (u32, u32) {
        self.sessions.get(path).map_or((0, 0), |session| (session.next_delegation, session.next_call))
    }

    /// How the root session ended, once it has.
    pub fn root_status(&self) -> Option<CompletionStatus> {
        match self.root {
            Child::Ended { status, .. } => Some(status),
            _ => None,
        }
    }

    /// The open sessions at and below `path`. Path order keeps a subtree together.
    pub(super) fn below(&self, path: &SessionPath) -> impl Iterator<Item = (&SessionPath, &Session)> {
        self.sessions.range(path.clone()..).take_while(move |(other, _)| path.contains(other))
    }

    /// What has no ending yet.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary { tasks: usize::from(self.task != TaskState::None), ..Summary::default() };
        for (path, session) in &self.sessions {
            summary.sessions.push(path.clone());
            summary.tasks += usize::from(session.task != TaskState::None);
            summary.calls += session.calls.len() + usize::from(session.question);
            for (index, delegation) in &session.delegations {
                if !delegation.ended {
                    summary.delegations.push(path.child(*index));
                }
                summary.reservations += usize::from(delegation.reserved);
            }
        }
        summary.delegations.sort();
        summary
    }
}
