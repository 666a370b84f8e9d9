//! What a policy is told, and what it wants done.

use std::fmt;
use std::time::Duration;

use super::super::{ExitClass, Shutdown};

/// One life of one child: no two of a policy have the same number, also not of a child that was removed and added
/// again. An event that names another than the present one is late, and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub(super) u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<Id> {
    /// It came up.
    Started {
        /// The child.
        child: Id,
        /// Of its lives, which.
        incarnation: Incarnation,
    },
    /// It could not be started, and nothing of the try is left.
    StartFailed {
        /// The child.
        child: Id,
        /// Of its lives, which.
        incarnation: Incarnation,
        /// Why.
        class: ExitClass,
    },
    /// It ended by itself, and is confirmed gone with everything it had.
    Exited {
        /// The child.
        child: Id,
        /// Of its lives, which.
        incarnation: Incarnation,
        /// How.
        class: ExitClass,
    },
    /// It was stopped, and is confirmed gone with everything it had.
    Stopped {
        /// The child.
        child: Id,
        /// Of its lives, which.
        incarnation: Incarnation,
    },
    /// The timer asked for with [`Effect::StartTimer`] has run out.
    BackoffElapsed {
        /// The child.
        child: Id,
        /// The life the timer was for.
        incarnation: Incarnation,
    },
    /// Someone wants this child stopped. It does not come back unless asked for.
    StopAsked(Id),
    /// Someone wants a child that is down, or on its way down, up again.
    StartAsked(Id),
    /// Someone wants this child stopped and forgotten.
    RemoveAsked(Id),
    /// Someone wants all children, and then the supervisor, stopped.
    StopAll,
}

/// What is to be done, in this order. Whoever holds the policy does it; none of it may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<Id> {
    /// Start it. Answered by `Started`, `StartFailed` or `Exited`.
    Start {
        /// The child.
        child: Id,
        /// The number of this life.
        incarnation: Incarnation,
    },
    /// Stop it, also where it has not come up yet, and kill it when the grace is over. Answered by `Stopped` once it is
    /// confirmed gone, or by `Exited` or `StartFailed` where that came first.
    Stop {
        /// The child.
        child: Id,
        /// Of its lives, which.
        incarnation: Incarnation,
        /// How.
        shutdown: Shutdown,
    },
    /// Answer with `BackoffElapsed` after this long.
    StartTimer {
        /// The child.
        child: Id,
        /// The life that begins then.
        incarnation: Incarnation,
        /// How long.
        after: Duration,
    },
    /// That timer is no longer needed.
    CancelTimer {
        /// The child.
        child: Id,
        /// The life that would have begun.
        incarnation: Incarnation,
    },
    /// It is down and stays down, unless asked for.
    Ended {
        /// The child.
        child: Id,
    },
    /// It is down and forgotten: it was temporary, or its removal was asked for.
    Removed {
        /// The child.
        child: Id,
    },
    /// This supervisor cannot help any more; whoever is above decides. Stops of all children follow, then
    /// [`ShutdownSelf`](Self::ShutdownSelf).
    Escalate {
        /// The child whose failure was the last straw.
        child: Id,
        /// How it failed.
        class: ExitClass,
        /// What could not be helped.
        why: EscalateWhy,
    },
    /// All children are gone: end. Nothing follows this, whatever the policy is told.
    ShutdownSelf {
        /// What began it.
        why: ShutdownWhy<Id>,
    },
}

/// Why a failure could not be answered by a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EscalateWhy {
    /// It would have been one restart more than the intensity allows.
    TooManyRestarts,
    /// A permanent child was refused: trying again cannot help, and it cannot stay down.
    Refused,
}

/// Why a supervisor stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShutdownWhy<Id> {
    /// It was asked to.
    Asked,
    /// Auto-shutdown: this significant child has ended.
    Significant(Id),
    /// It escalated.
    Escalated,
}

/// Where a child stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildStatus {
    /// Its turn to start has not come.
    Waiting,
    /// It waits out its backoff, or a quota.
    Backoff,
    /// It is coming up.
    Starting,
    /// It is up.
    Running,
    /// It was told to stop and is not confirmed gone.
    Stopping,
    /// It is down and stays down.
    Ended,
}
