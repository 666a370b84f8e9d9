//! Which records a delegation's effects make. One place says it, for the actors and for the model of the rules of ending.

use super::delegation::Effect;
use super::report::bounded;
use crate::ids::{SessionPath, Strand};
use crate::journal::{Event, Kind, Text};

/// Whose delegation it is, and where its records go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// A tree's root session: its ending is the tree's.
    Tree,
    /// A session's delegation: its own records go to that session, in that attempt, on that strand.
    Delegated { by: SessionPath, attempt: u32, strand: Strand },
}

impl Origin {
    /// Where the delegator itself speaks of this delegation.
    pub(crate) fn place(&self) -> (SessionPath, u32, Strand) {
        match self {
            Self::Tree => (SessionPath::root(), 0, Strand::Tree),
            Self::Delegated { by, attempt, strand } => (by.clone(), *attempt, *strand),
        }
    }
}

/// The records that `effect` makes for the session at `child`, live or last in `attempt`, in their order.
pub(crate) fn records(
    origin: &Origin,
    child: &SessionPath,
    attempt: u32,
    effect: &Effect,
    detail_limit: usize,
) -> Vec<Event> {
    let of_child = |attempt, kind| (child.clone(), attempt, Strand::Main, kind);
    match effect {
        Effect::AttemptEnded { attempt, class, detail, changed_world } => {
            let detail = detail.as_ref().map(|text| bounded(text, detail_limit));
            let kind = Kind::AttemptEnded { class: *class, detail, changed_world: *changed_world };
            vec![of_child(*attempt, kind)]
        }
        Effect::Restarted { attempt, class, after } => {
            let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            vec![of_child(*attempt, Kind::Restarted { class: *class, after_ms })]
        }
        Effect::End { begun, status, by, attempts, outcome } => {
            let (status, by, attempts) = (*status, *by, *attempts);
            let detail = outcome.why().map(|text| bounded(&text, detail_limit));
            let answer = match &outcome.result {
                Some(Ok(answer)) => Some(Text::Inline(answer.to_string())),
                _ => None,
            };
            let task_ended = Kind::TaskEnded { status, answer, detail: detail.clone() };
            let (path, own_attempt, strand) = origin.place();
            let mut records = Vec::with_capacity(3);
            if *begun {
                records.push(of_child(attempt, task_ended));
                records.push(of_child(attempt, Kind::SessionEnded { status, by }));
            } else if *origin == Origin::Tree {
                records.push((path.clone(), own_attempt, strand, task_ended));
            }
            let ended = match origin {
                Origin::Tree => Kind::TreeEnded { status, refused: 0 },
                Origin::Delegated { .. } => {
                    let spent = outcome.spent.unwrap_or_default();
                    Kind::DelegationEnded { status, by, attempts, answer: None, detail, spent }
                }
            };
            records.push((path, own_attempt, strand, ended));
            records
        }
        _ => Vec::new(),
    }
}
