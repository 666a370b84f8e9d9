//! The records of a run, as whoever runs it passes them in.

use std::pin::Pin;

use crate::ids::RunId;
use crate::journal::Kind;

/// Waits until a record is committed; the error says why it cannot be.
pub type Recording = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Appends the records of a run to the session's main strand, with the run's id in the envelope.
pub trait Recorder: Send + Sync {
    /// Appends a record. Never waits.
    fn record(&self, run: RunId, kind: Kind);
    /// Appends a record that something outside is to wait for: commit before the outside learns.
    fn commit(&self, run: RunId, kind: Kind) -> Recording;
}
