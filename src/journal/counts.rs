//! What the writer has seen so far, in numbers: a view of the journal that costs a store each. One writer, any number
//! of readers, no lock.

use std::sync::atomic::{AtomicU64, Ordering};

use super::record::{CompletionStatus, Decision, Kind, Text};

/// One number. All but [`Credit`](Self::Credit) only grow, from the start of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Records taken.
    Appended,
    /// Records committed. What is missing to [`Appended`](Self::Appended) waits for the disk.
    Committed,
    /// Records refused, because what they were about had ended.
    Refused,
    /// Bytes of the sessions' credit that uncommitted records hold now.
    Credit,
    /// Trees started.
    TreesStarted,
    /// Trees ended.
    TreesEnded,
    /// Sessions started.
    SessionsStarted,
    /// Sessions ended.
    SessionsEnded,
    /// Sessions started again.
    Restarts,
    /// Delegations that had to wait for a place.
    Queued,
    /// Delegations that answered.
    EndedOk,
    /// Delegations that answered that they could not.
    EndedError,
    /// Delegations that crashed.
    EndedCrashed,
    /// Delegations that were stopped.
    EndedTerminated,
    /// Delegations of which nobody knows how they ended.
    EndedUnknown,
    /// Faults that struck.
    Faults,
    /// Calls the gate let through.
    GateAllowed,
    /// Calls the gate denied.
    GateDenied,
    /// Refused because the process holds as many sessions as it may.
    RefusedLiveSessions,
    /// Refused because as many children wait as may.
    RefusedQueuedChildren,
    /// Refused because no level may stand below.
    RefusedDepth,
    /// Refused because the task is too long.
    RefusedTask,
    /// Refused because as many calls run as may.
    RefusedCalls,
    /// Refused because the budget is used up.
    RefusedBudget,
    /// Refused because it is not granted.
    RefusedGrants,
    /// Refused for another reason.
    RefusedOther,
}

impl Counter {
    /// All of them, in the order they are shown.
    pub const ALL: [Self; 26] = [
        Self::Appended,
        Self::Committed,
        Self::Refused,
        Self::Credit,
        Self::TreesStarted,
        Self::TreesEnded,
        Self::SessionsStarted,
        Self::SessionsEnded,
        Self::Restarts,
        Self::Queued,
        Self::EndedOk,
        Self::EndedError,
        Self::EndedCrashed,
        Self::EndedTerminated,
        Self::EndedUnknown,
        Self::Faults,
        Self::GateAllowed,
        Self::GateDenied,
        Self::RefusedLiveSessions,
        Self::RefusedQueuedChildren,
        Self::RefusedDepth,
        Self::RefusedTask,
        Self::RefusedCalls,
        Self::RefusedBudget,
        Self::RefusedGrants,
        Self::RefusedOther,
    ];

    /// What a record of this kind counts as, beside being one.
    pub(super) fn of(kind: &Kind) -> Option<Self> {
        Some(match kind {
            Kind::TreeStarted { .. } => Self::TreesStarted,
            Kind::TreeEnded { .. } => Self::TreesEnded,
            Kind::SessionStarted { .. } => Self::SessionsStarted,
            Kind::SessionEnded { .. } => Self::SessionsEnded,
            Kind::Restarted { .. } => Self::Restarts,
            Kind::Queued { .. } => Self::Queued,
            Kind::DelegationEnded { status, .. } => match status {
                CompletionStatus::Ok => Self::EndedOk,
                CompletionStatus::Error => Self::EndedError,
                CompletionStatus::Crashed => Self::EndedCrashed,
                CompletionStatus::Terminated => Self::EndedTerminated,
                CompletionStatus::Unknown => Self::EndedUnknown,
            },
            Kind::FaultInjected { .. } => Self::Faults,
            Kind::GateDecided { decision: Decision::Allow, .. } => Self::GateAllowed,
            Kind::GateDecided { decision: Decision::Deny, .. } => Self::GateDenied,
            Kind::BudgetExhausted { .. } => Self::RefusedBudget,
            Kind::Note { key, text: Text::Inline(text) } if key.ends_with("_refused") => Self::of_refusal(text),
            _ => return None,
        })
    }

    /// A refusal begins with the key that forbids it.
    fn of_refusal(text: &str) -> Self {
        match text.split(':').next().unwrap_or_default() {
            "limits.live_sessions" => Self::RefusedLiveSessions,
            "limits.queued_children" => Self::RefusedQueuedChildren,
            "budget.depth" | "limits.depth" => Self::RefusedDepth,
            "limits.task" => Self::RefusedTask,
            "limits.calls" => Self::RefusedCalls,
            key if key.starts_with("budget.") => Self::RefusedBudget,
            key if key.starts_with("grants.") => Self::RefusedGrants,
            _ => Self::RefusedOther,
        }
    }
}

/// The numbers themselves. Only the writer changes them, so a change is a load and a store.
#[derive(Debug, Default)]
pub(super) struct Counts([AtomicU64; Counter::ALL.len()]);

impl Counts {
    pub(super) fn add(&self, counter: Counter, n: u64) {
        let cell = &self.0[counter as usize];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, counter: Counter, n: u64) {
        let cell = &self.0[counter as usize];
        cell.store(cell.load(Ordering::Relaxed).saturating_sub(n), Ordering::Relaxed);
    }

    pub(super) fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_own_place() {
        for (place, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, place);
        }
    }

    #[test]
    fn a_refusal_is_counted_by_the_key_that_forbids_it() {
        let note = |key: &str, text: &str| Kind::Note { key: key.into(), text: text.into() };
        let refused = |text: &str| Counter::of(&note("delegation_refused", text));
        assert_eq!(refused("limits.live_sessions: busy"), Some(Counter::RefusedLiveSessions));
        assert_eq!(refused("budget.depth: no level"), Some(Counter::RefusedDepth));
        assert_eq!(refused("budget.tokens: none left"), Some(Counter::RefusedBudget));
        assert_eq!(refused("grants.delegate: `x` is not listed"), Some(Counter::RefusedGrants));
        assert_eq!(refused("no key at all"), Some(Counter::RefusedOther));
        assert_eq!(Counter::of(&note("heard", "limits.task: x")), None);
    }
}
