//! How an incarnation of something supervised ended, as far as restarting is concerned.

use serde::{Deserialize, Serialize};

/// The class of an exit. With the restart type it decides what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitClass {
    /// It finished what it was asked, or said that it cannot.
    Done,
    /// It was cancelled from above.
    Canceled,
    /// Credentials, bad configuration: trying again cannot help. Never retried.
    Refused,
    /// A quota; it lifts after this many milliseconds. Parked, no restart spent.
    Throttled {
        /// How long until the quota lifts, in milliseconds.
        lifts_ms: u64,
    },
    /// A failure that another try may not meet.
    Retryable,
    /// No progress, of itself or anything below it, for the stall limit.
    Stalled,
    /// It reached its memory limit.
    OutOfMemory,
    /// Ended by a signal nobody here sent.
    Signal {
        /// The signal's number.
        number: i32,
    },
    /// A guest trapped.
    Trap,
    /// Rust code panicked.
    Panic,
    /// Ended by us, by force.
    KilledByUs,
}
