//! All missing endings of a subtree, deepest first.

use std::collections::BTreeMap;

use crate::capsule::Usage;
use crate::ids::{SessionPath, Strand};
use crate::journal::record::{CompletionStatus, Kind, QuestionOutcome, Reporter, Text};
use crate::supervision::ExitClass;

use super::state::{Call, Child, Session, TaskState};
use super::{ENDED, Event, Fold, add, judged};

/// How a subtree is closed by somebody who is not the session itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// Whether the session at the path ends too.
    pub scope: Scope,
    /// How the sessions are said to have ended.
    pub verdict: Verdict,
    /// The class written into the ending of each live attempt.
    pub class: ExitClass,
    /// Who says so.
    pub by: Reporter,
    /// Why, for whoever reads the endings.
    pub detail: Option<String>,
}

/// How much of the subtree is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The session at the path and everything below it.
    Session,
    /// Everything below, and the session's own calls, questions, delegations and reservations; its attempt, task and
    /// ending stay with its supervisor, which may restart it.
    Inside,
}

/// How the sessions of a closed subtree are said to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Each by what it did: `unknown` where it may have changed the world, `crashed` where not.
    Judged,
    /// All the same: `terminated`.
    Forced(CompletionStatus),
}

impl Verdict {
    fn of(self, changed: bool) -> CompletionStatus {
        match self {
            Self::Judged => judged(changed),
            Self::Forced(status) => status,
        }
    }
}

/// How a session closed here ended, for the delegation that made it.
struct Closed {
    status: CompletionStatus,
    attempts: u32,
    spent: Usage,
    changed: bool,
}

impl Fold {
    /// Every ending that is missing at and below `path`: deepest first, in path order within a depth. Applied in this
    /// order all of them are taken, and closing again yields nothing. Changes nothing itself.
    pub fn close(&self, path: &SessionPath, closing: &Closing) -> Vec<Event> {
        let mut open: Vec<(&SessionPath, &Session)> = self.below(path).collect();
        open.sort_by_key(|(path, _)| (std::cmp::Reverse(path.depth()), *path));
        let mut closed: BTreeMap<SessionPath, Closed> = BTreeMap::new();
        let mut events = Vec::new();
        for (at, session) in open {
            let (spent, changed) = inside(at, session, closing, &mut closed, &mut events);
            if at != path || closing.scope == Scope::Session {
                let changed = end(at, session, closing, changed, &mut events);
                let status = closing.verdict.of(changed);
                closed.insert(at.clone(), Closed { status, attempts: session.attempt, spent, changed });
            }
        }
        if path.depth() == 0 && closing.scope == Scope::Session && self.task != TaskState::None {
            let status = closing.verdict.of(false);
            events.push((path.clone(), 0, Strand::Tree, task_ended(status, closing)));
        }
        events
    }
}

/// Ends what is open within one session. Returns what it spent and whether the attempt changed the world.
fn inside(
    at: &SessionPath,
    session: &Session,
    closing: &Closing,
    closed: &mut BTreeMap<SessionPath, Closed>,
    events: &mut Vec<Event>,
) -> (Usage, bool) {
    let mut say = |strand, kind| events.push((at.clone(), session.attempt, strand, kind));
    for (number, call) in &session.calls {
        let Call { asked, called, question, .. } = *call;
        if question {
            say(Strand::Call(*number), withdrawn());
        }
        if asked || called {
            say(Strand::Call(*number), Kind::ToolReturned { outcome: ENDED, output: Text::default() });
        }
    }
    if session.question {
        say(Strand::Main, withdrawn());
    }
    let (mut total, mut changed) = (session.spent, session.attempt_changed);
    for (index, delegation) in &session.delegations {
        let strand = Strand::Delegation(*index);
        let mut spent = delegation.spent;
        if !delegation.ended {
            let child = match (delegation.child, closed.remove(&at.child(*index))) {
                (_, Some(child)) => child,
                (Child::Ended { status, attempts, spent }, None) => Closed { status, attempts, spent, changed: false },
                (Child::Pending | Child::Live, None) => {
                    Closed { status: closing.verdict.of(false), attempts: 0, spent, changed: false }
                }
            };
            spent = child.spent;
            changed |= child.changed;
            add(&mut total, &spent);
            say(
                strand,
                Kind::DelegationEnded {
                    status: child.status,
                    by: closing.by,
                    attempts: child.attempts,
                    answer: None,
                    detail: closing.detail.clone(),
                    spent,
                },
            );
        }
        if delegation.reserved {
            // What was reported is known; what was underway at a forced ending is not.
            say(strand, Kind::BudgetSettled { spent, estimated: !delegation.ended });
        }
    }
    (total, changed)
}

/// Ends the session itself. Returns whether it, in any attempt, changed the world.
fn end(at: &SessionPath, session: &Session, closing: &Closing, changed: bool, events: &mut Vec<Event>) -> bool {
    let mut say = |kind| events.push((at.clone(), session.attempt, Strand::Main, kind));
    let ever = session.changed || changed;
    let status = closing.verdict.of(ever);
    if !session.attempt_over {
        say(Kind::AttemptEnded { class: closing.class, detail: closing.detail.clone(), changed_world: changed });
    }
    if session.task != TaskState::None {
        say(task_ended(status, closing));
    }
    say(Kind::SessionEnded { status, by: closing.by });
    ever
}

fn withdrawn() -> Kind {
    Kind::QuestionAnswered { outcome: QuestionOutcome::Withdrawn, answer: None }
}

fn task_ended(status: CompletionStatus, closing: &Closing) -> Kind {
    Kind::TaskEnded { status, answer: None, detail: closing.detail.clone() }
}
