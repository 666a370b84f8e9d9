//! The state of one tree, folded from its records: what is still open, and what may therefore still be said.
//!
//! Pure. The writer, recovery, verification and the model of the rules of ending all use this one fold. Its memory is
//! what is open now: an ended session leaves nothing behind once its parent has taken its completion.

mod close;
mod state;

use crate::capsule::Usage;
use crate::ids::{SessionPath, Strand};

use super::record::{CallOutcome, CompletionStatus, Decision, Kind};
use state::{Child, Delegation, Phase, Session, TaskState};

pub use close::{Closing, Scope, Verdict};
pub use state::{Fold, Summary};

/// One event as the fold sees it: where it happened, and what.
pub type Event = (SessionPath, u32, Strand, Kind);

/// Why a record was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{path} {strand} `{kind}`: {why}")]
pub struct Refused {
    /// Where it claimed to have happened.
    pub path: SessionPath,
    /// On which strand.
    pub strand: Strand,
    /// The kind's name.
    pub kind: &'static str,
    /// The rule it broke.
    pub why: Why,
}

/// The rules a record can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Why {
    /// No `tree_started` came before it.
    #[error("the tree has not started")]
    TreeNotStarted,
    /// The tree has its ending.
    #[error("the tree has ended")]
    TreeEnded,
    /// The writer holds no such tree: it never started here, or its ending is committed.
    #[error("no such tree is open")]
    UnknownTree,
    /// A second start.
    #[error("it has already started")]
    AlreadyStarted,
    /// The session, task, call or delegation has not started.
    #[error("it has not started")]
    NotStarted,
    /// It has its ending; there is exactly one.
    #[error("it has already ended")]
    AlreadyEnded,
    /// The attempt it names is not the one that is live.
    #[error("another attempt is live")]
    WrongAttempt,
    /// Something below or within it has no ending yet.
    #[error("something within it is still open")]
    StillOpen,
    /// The attempt changed the world and the record says that it did not.
    #[error("it changed the world and the record does not say so")]
    Understated,
    /// Nothing is reserved for it, or something already is.
    #[error("its reservation is not open")]
    Reservation,
    /// The kind does not belong on that strand, or names another session than its strand does.
    #[error("it does not belong on this strand")]
    WrongStrand,
    /// The body would be larger than `limits.body`.
    #[error("its body is larger than a body may be")]
    TooLarge,
}

impl Fold {
    /// Whether the record may be taken, and if so its number within its strand.
    pub fn check(&self, path: &SessionPath, attempt: u32, strand: Strand, kind: &Kind) -> Result<u32, Refused> {
        self.judge(path, attempt, strand, kind).map_err(|why| Refused {
            path: path.clone(),
            strand,
            kind: kind.name(),
            why,
        })
    }

    /// Takes the record: [`check`](Self::check), then the change. Refused records change nothing.
    pub fn apply(&mut self, path: &SessionPath, attempt: u32, strand: Strand, kind: &Kind) -> Result<u32, Refused> {
        let n = self.check(path, attempt, strand, kind)?;
        self.accept(path, strand, kind);
        Ok(n)
    }

    /// Fills in what only the fold knows: whether an ending attempt changed the world.
    pub fn complete(&self, path: &SessionPath, kind: &mut Kind) {
        if let (Kind::AttemptEnded { changed_world, .. }, Some(session)) = (kind, self.sessions.get(path)) {
            *changed_world |= session.attempt_changed;
        }
    }

    fn judge(&self, path: &SessionPath, attempt: u32, strand: Strand, kind: &Kind) -> Result<u32, Why> {
        match (self.phase, kind) {
            (Phase::New, Kind::TreeStarted { .. }) => {}
            (Phase::New, _) => return Err(Why::TreeNotStarted),
            (Phase::Ended, _) => return Err(Why::TreeEnded),
            (Phase::Open, Kind::TreeStarted { .. }) => return Err(Why::AlreadyStarted),
            (Phase::Open, _) => {}
        }
        match strand {
            Strand::Tree => self.judge_tree(path, attempt, kind),
            Strand::Main => self.judge_main(path, attempt, kind),
            Strand::Call(call) => self.judge_call(path, attempt, call, kind),
            Strand::Delegation(index) => self.judge_delegation(path, attempt, index, kind),
        }
    }

    fn judge_tree(&self, path: &SessionPath, attempt: u32, kind: &Kind) -> Result<u32, Why> {
        if path.depth() > 0 {
            return Err(Why::WrongStrand);
        }
        if attempt != 0 {
            return Err(Why::WrongAttempt);
        }
        match kind {
            Kind::TreeStarted { .. } => {}
            Kind::TreeEnded { .. } if !self.sessions.is_empty() || self.task != TaskState::None => {
                return Err(Why::StillOpen);
            }
            Kind::TreeEnded { .. } => {}
            Kind::TaskSubmitted { .. } => self.judge_submission()?,
            Kind::TaskEnded { .. } => self.judge_unstarted_task()?,
            kind if is_remark(kind) => {}
            _ => return Err(Why::WrongStrand),
        }
        Ok(self.said + 1)
    }

    /// A task given to the root before its session has started; afterwards it stands on the session's main line.
    fn judge_submission(&self) -> Result<(), Why> {
        match (self.root, self.task) {
            (Child::Pending, TaskState::None) => Ok(()),
            (Child::Pending, _) => Err(Why::AlreadyStarted),
            (Child::Live, _) => Err(Why::WrongStrand),
            (Child::Ended { .. }, _) => Err(Why::AlreadyEnded),
        }
    }

    /// The ending of a task whose root session never came to be.
    fn judge_unstarted_task(&self) -> Result<(), Why> {
        match (self.root, self.task) {
            (Child::Pending, TaskState::Submitted) => Ok(()),
            (Child::Live, _) => Err(Why::WrongStrand),
            (Child::Pending, _) => Err(Why::NotStarted),
            (Child::Ended { .. }, _) => Err(Why::AlreadyEnded),
        }
    }

    fn judge_main(&self, path: &SessionPath, attempt: u32, kind: &Kind) -> Result<u32, Why> {
        if let Kind::SessionStarted { .. } = kind {
            return self.judge_session_start(path, attempt);
        }
        if let Some(session) = self.sessions.get(path) {
            return session.judge_main(attempt, kind);
        }
        // The root's task may be submitted on its main line before its session has started.
        match kind {
            Kind::TaskSubmitted { .. } if path.depth() == 0 && self.root == Child::Pending => {
                self.judge_submission()?;
                Ok(self.root_main + 1)
            }
            _ => Err(self.absent(path)),
        }
    }

    fn judge_session_start(&self, path: &SessionPath, attempt: u32) -> Result<u32, Why> {
        let (child, said) = match path.parent() {
            None => (self.root, self.root_main),
            Some(parent) => {
                let session = self.sessions.get(&parent).ok_or_else(|| self.absent(&parent))?;
                match session.delegations.get(&path.index()) {
                    Some(delegation) if !delegation.ended => (delegation.child, 0),
                    _ if path.index() < session.next_delegation => return Err(Why::AlreadyEnded),
                    _ => return Err(Why::NotStarted),
                }
            }
        };
        match child {
            Child::Pending if attempt == 1 => Ok(said + 1),
            Child::Pending => Err(Why::WrongAttempt),
            Child::Live => Err(Why::AlreadyStarted),
            Child::Ended { .. } => Err(Why::AlreadyEnded),
        }
    }

    fn judge_call(&self, path: &SessionPath, attempt: u32, call: u32, kind: &Kind) -> Result<u32, Why> {
        let session = self.sessions.get(path).ok_or_else(|| self.absent(path))?;
        session.live(attempt)?;
        let Some(open) = session.calls.get(&call) else {
            return match kind {
                _ if call < session.next_call => Err(Why::AlreadyEnded),
                Kind::GateAsked { .. } | Kind::ToolCalled { .. } | Kind::QuestionAsked { .. } => Ok(1),
                kind if belongs_to_call(kind) || is_remark(kind) => Err(Why::NotStarted),
                _ => Err(Why::WrongStrand),
            };
        };
        match kind {
            Kind::GateAsked { .. } if open.asked => return Err(Why::AlreadyStarted),
            Kind::ToolCalled { .. } if open.called => return Err(Why::AlreadyStarted),
            Kind::QuestionAsked { .. } if open.question => return Err(Why::AlreadyStarted),
            Kind::GateDecided { .. } if open.decided.is_some() => return Err(Why::AlreadyEnded),
            Kind::GateDecided { .. } if !open.asked => return Err(Why::NotStarted),
            Kind::QuestionAnswered { .. } if !open.question => return Err(Why::NotStarted),
            Kind::ToolReturned { .. } if open.question => return Err(Why::StillOpen),
            Kind::ToolReturned { .. } if !open.asked && !open.called => return Err(Why::NotStarted),
            kind if belongs_to_call(kind) || is_remark(kind) => {}
            _ => return Err(Why::WrongStrand),
        }
        Ok(open.said + 1)
    }

    fn judge_delegation(&self, path: &SessionPath, attempt: u32, index: u32, kind: &Kind) -> Result<u32, Why> {
        let session = self.sessions.get(path).ok_or_else(|| self.absent(path))?;
        session.live(attempt)?;
        if let Kind::Delegated { child, .. } = kind {
            if index < session.next_delegation {
                return Err(Why::AlreadyStarted);
            }
            if child.index() != index || child.parent().as_ref() != Some(path) {
                return Err(Why::WrongStrand);
            }
            return Ok(1);
        }
        let Some(delegation) = session.delegations.get(&index) else {
            return Err(if index < session.next_delegation { Why::AlreadyEnded } else { Why::NotStarted });
        };
        match kind {
            Kind::DelegationTaken {} if !delegation.ended => return Err(Why::StillOpen),
            Kind::DelegationTaken {} if delegation.taken => return Err(Why::AlreadyEnded),
            Kind::DelegationTaken {} => {}
            Kind::BudgetSettled { .. } if !delegation.reserved => return Err(Why::Reservation),
            Kind::BudgetSettled { .. } if !delegation.ended => return Err(Why::StillOpen),
            Kind::BudgetSettled { .. } => {}
            _ if delegation.ended => return Err(Why::AlreadyEnded),
            Kind::DelegationEnded { .. } if delegation.child == Child::Live => return Err(Why::StillOpen),
            Kind::DelegationEnded { .. } => {}
            Kind::BudgetReserved { .. } if delegation.reserved => return Err(Why::Reservation),
            Kind::Queued { .. } | Kind::BudgetReserved { .. } | Kind::BudgetCapped { .. } => {}
            Kind::UsageReported { .. } | Kind::BudgetExhausted { .. } => {}
            kind if is_remark(kind) => {}
            _ => return Err(Why::WrongStrand),
        }
        Ok(delegation.said + 1)
    }

    /// Why there is nothing at `path`: not yet, or no more.
    fn absent(&self, path: &SessionPath) -> Why {
        let Some(parent) = path.parent() else {
            return if self.root == Child::Pending { Why::NotStarted } else { Why::AlreadyEnded };
        };
        match self.sessions.get(&parent) {
            None => self.absent(&parent),
            Some(session) => match session.delegations.get(&path.index()) {
                Some(Delegation { child: Child::Pending, ended: false, .. }) => Why::NotStarted,
                None if path.index() >= session.next_delegation => Why::NotStarted,
                _ => Why::AlreadyEnded,
            },
        }
    }

    /// The change a record makes that [`check`](Self::check) has just allowed.
    pub(super) fn accept(&mut self, path: &SessionPath, strand: Strand, kind: &Kind) {
        match strand {
            Strand::Tree => self.take_tree(kind),
            Strand::Main => self.take_main(path, kind),
            Strand::Call(call) => {
                if let Some(session) = self.sessions.get_mut(path) {
                    session.take_call(call, kind);
                }
            }
            Strand::Delegation(index) => {
                if let Some(session) = self.sessions.get_mut(path) {
                    session.take_delegation(index, kind);
                }
            }
        }
    }

    fn take_tree(&mut self, kind: &Kind) {
        self.said += 1;
        match kind {
            Kind::TreeStarted { .. } => self.phase = Phase::Open,
            Kind::TreeEnded { .. } => self.phase = Phase::Ended,
            Kind::TaskSubmitted { .. } => self.task = TaskState::Submitted,
            Kind::TaskEnded { .. } => self.task = TaskState::None,
            _ => {}
        }
    }

    fn take_main(&mut self, path: &SessionPath, kind: &Kind) {
        match kind {
            Kind::SessionStarted { changes_world, .. } => {
                let mut session = Session::started(*changes_world);
                match path.parent().and_then(|parent| self.sessions.get_mut(&parent)) {
                    Some(parent) => parent.child_became(path.index(), Child::Live),
                    None => {
                        session.said = self.root_main + 1;
                        session.task = std::mem::take(&mut self.task);
                        self.root = Child::Live;
                    }
                }
                self.sessions.insert(path.clone(), session);
            }
            Kind::SessionEnded { status, .. } => {
                let Some(session) = self.sessions.remove(path) else { return };
                let ended = Child::Ended { status: *status, attempts: session.attempt, spent: session.spent };
                match path.parent().and_then(|parent| self.sessions.get_mut(&parent)) {
                    Some(parent) => {
                        parent.attempt_changed |= session.changed;
                        parent.changed |= session.changed;
                        parent.child_became(path.index(), ended);
                    }
                    None => self.root = ended,
                }
            }
            kind => match self.sessions.get_mut(path) {
                Some(session) => session.take_main(kind),
                None => {
                    self.root_main += 1;
                    self.task = TaskState::Submitted;
                }
            },
        }
    }
}

impl Session {
    fn live(&self, attempt: u32) -> Result<(), Why> {
        if attempt != self.attempt {
            Err(Why::WrongAttempt)
        } else if self.attempt_over {
            Err(Why::AlreadyEnded)
        } else {
            Ok(())
        }
    }

    fn judge_main(&self, attempt: u32, kind: &Kind) -> Result<u32, Why> {
        match kind {
            Kind::Restarted { .. } => {
                if attempt != self.attempt + 1 {
                    return Err(Why::WrongAttempt);
                }
                if !self.attempt_over {
                    return Err(Why::StillOpen);
                }
            }
            Kind::AttemptEnded { changed_world, .. } => {
                self.live(attempt)?;
                if self.is_busy() {
                    return Err(Why::StillOpen);
                }
                if self.attempt_changed && !changed_world {
                    return Err(Why::Understated);
                }
            }
            Kind::SessionEnded { .. } | Kind::TaskEnded { .. } | Kind::TaskSubmitted { .. }
                if attempt != self.attempt =>
            {
                return Err(Why::WrongAttempt);
            }
            Kind::SessionEnded { .. } if !self.attempt_over || self.task != TaskState::None => {
                return Err(Why::StillOpen);
            }
            Kind::SessionEnded { .. } => {}
            Kind::TaskEnded { .. } if self.task == TaskState::None => {
                return Err(if self.tasks_ended { Why::AlreadyEnded } else { Why::NotStarted });
            }
            Kind::TaskEnded { .. } => {}
            Kind::TaskSubmitted { .. } if self.task != TaskState::None => return Err(Why::AlreadyStarted),
            Kind::TaskSubmitted { .. } => {}
            Kind::TaskStarted {} => {
                self.live(attempt)?;
                match self.task {
                    TaskState::Started { attempt: started } if started == attempt => return Err(Why::AlreadyStarted),
                    TaskState::None if self.tasks_ended => return Err(Why::AlreadyEnded),
                    _ => {}
                }
            }
            Kind::QuestionAsked { .. } => {
                self.live(attempt)?;
                if self.question {
                    return Err(Why::AlreadyStarted);
                }
            }
            Kind::QuestionAnswered { .. } => {
                self.live(attempt)?;
                if !self.question {
                    return Err(Why::NotStarted);
                }
            }
            Kind::Text { .. }
            | Kind::UsageReported { .. }
            | Kind::BudgetExhausted { .. }
            | Kind::Checkpoint { .. }
            | Kind::Chosen { .. } => self.live(attempt)?,
            // A stop, a fault or a remark may also fall between two attempts.
            kind if is_remark(kind) => {
                if attempt != self.attempt {
                    return Err(Why::WrongAttempt);
                }
            }
            _ => return Err(Why::WrongStrand),
        }
        Ok(self.said + 1)
    }

    /// Whether anything of the live attempt has no ending yet.
    fn is_busy(&self) -> bool {
        self.question || !self.calls.is_empty() || self.delegations.values().any(|d| !d.ended || d.reserved)
    }

    fn take_main(&mut self, kind: &Kind) {
        self.said += 1;
        match kind {
            Kind::AttemptEnded { changed_world, .. } => {
                self.attempt_over = true;
                self.changed |= changed_world;
                // What this attempt did not take nobody will.
                self.delegations.clear();
            }
            Kind::Restarted { .. } => {
                self.attempt += 1;
                self.attempt_over = false;
                self.attempt_changed = self.grants_change;
            }
            Kind::TaskSubmitted { .. } => self.task = TaskState::Submitted,
            Kind::TaskStarted {} => self.task = TaskState::Started { attempt: self.attempt },
            Kind::TaskEnded { .. } => {
                self.task = TaskState::None;
                self.tasks_ended = true;
            }
            Kind::QuestionAsked { .. } => self.question = true,
            Kind::QuestionAnswered { .. } => self.question = false,
            Kind::UsageReported { usage } => add(&mut self.spent, usage),
            // What a program does is not seen: from here on it may have done anything.
            Kind::HarnessStarting { .. } => {
                self.attempt_changed = true;
                self.changed = true;
            }
            _ => {}
        }
    }

    fn take_call(&mut self, number: u32, kind: &Kind) {
        self.next_call = self.next_call.max(number.saturating_add(1));
        let call = self.calls.entry(number).or_default();
        call.said += 1;
        match kind {
            Kind::GateAsked { .. } => call.asked = true,
            Kind::ToolCalled { changes_world, .. } => {
                call.called = true;
                call.changes_world = *changes_world;
            }
            Kind::GateDecided { decision, .. } => {
                call.decided = Some(*decision);
                if *decision == Decision::Allow {
                    self.spent.tool_calls = self.spent.tool_calls.saturating_add(1);
                }
            }
            Kind::QuestionAsked { .. } => call.question = true,
            Kind::QuestionAnswered { .. } => call.question = false,
            _ => {}
        }
        // The verdict may come before or behind the call it is about.
        if call.changes_world && call.decided == Some(Decision::Allow) {
            self.attempt_changed = true;
            self.changed = true;
        }
        let over = match kind {
            Kind::ToolReturned { .. } => true,
            Kind::QuestionAnswered { .. } => !call.asked && !call.called,
            _ => false,
        };
        if over {
            self.calls.remove(&number);
        }
    }

    fn take_delegation(&mut self, index: u32, kind: &Kind) {
        if let Kind::Delegated { .. } = kind {
            self.next_delegation = index.saturating_add(1);
            self.spent.delegations = self.spent.delegations.saturating_add(1);
            self.delegations.insert(index, Delegation::default());
        }
        let Some(delegation) = self.delegations.get_mut(&index) else { return };
        delegation.said += 1;
        match kind {
            Kind::BudgetReserved { .. } => delegation.reserved = true,
            Kind::BudgetSettled { .. } => delegation.reserved = false,
            Kind::DelegationEnded { spent, .. } => {
                delegation.ended = true;
                delegation.spent = *spent;
                add(&mut self.spent, spent);
            }
            Kind::DelegationTaken {} => delegation.taken = true,
            _ => {}
        }
        if delegation.taken && !delegation.reserved {
            self.delegations.remove(&index);
        }
    }

    fn child_became(&mut self, index: u32, child: Child) {
        if let Some(delegation) = self.delegations.get_mut(&index) {
            delegation.child = child;
        }
    }
}

/// Kinds that may stand on any strand that is open.
fn is_remark(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Note { .. }
            | Kind::FaultInjected { .. }
            | Kind::StopRequested { .. }
            | Kind::Escalated { .. }
            | Kind::HarnessStarting { .. }
            | Kind::HarnessStarted { .. }
            | Kind::HarnessReady { .. }
            | Kind::HarnessInterrupted { .. }
            | Kind::HarnessKilled { .. }
            | Kind::HarnessExited { .. }
            | Kind::HarnessGone { .. }
    )
}

fn belongs_to_call(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::GateAsked { .. }
            | Kind::GateDecided { .. }
            | Kind::ToolCalled { .. }
            | Kind::ToolReturned { .. }
            | Kind::QuestionAsked { .. }
            | Kind::QuestionAnswered { .. }
            | Kind::BudgetExhausted { .. }
    )
}

fn add(total: &mut Usage, more: &Usage) {
    total.tokens = total.tokens.saturating_add(more.tokens);
    total.micro_usd = total.micro_usd.saturating_add(more.micro_usd);
    total.tool_calls = total.tool_calls.saturating_add(more.tool_calls);
    total.delegations = total.delegations.saturating_add(more.delegations);
}

/// The outcome of a call that is ended from outside.
const ENDED: CallOutcome = CallOutcome::Ended;

/// How a session ended that nobody judged.
fn judged(changed: bool) -> CompletionStatus {
    if changed { CompletionStatus::Unknown } else { CompletionStatus::Crashed }
}

#[cfg(test)]
mod tests;
