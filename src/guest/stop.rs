//! Why the host stops a guest in the middle of what it does.

use std::time::Duration;

use crate::agent::Refusal;

/// Ends a guest as a trap would, with a reason of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stop {
    /// It has run for as long as it may.
    #[error("the guest has used its running time of {} (limits.running)", humantime::format_duration(*.0))]
    Running(Duration),
    /// Nobody will answer it any more.
    #[error("the session has ended")]
    SessionEnded,
    /// A text beyond its limit, where the interface has no refusal.
    #[error("{what} has {bytes} bytes, at most {most} are taken (limits.{limit})")]
    TooLarge { what: &'static str, bytes: usize, limit: &'static str, most: usize },
    /// A refusal where the interface has none.
    #[error("refused: {0}")]
    Refused(Refusal),
}
