//! The supervision policy, as a pure value.

mod backoff;
mod exit;
mod intensity;
mod rerun;
mod restart;

pub use backoff::{Backoff, BackoffError, Failures};
pub use exit::ExitClass;
pub use intensity::{Intensity, IntensityError, Restarts};
pub use rerun::Rerun;
pub use restart::{RestartSpec, RestartSpecError, RestartType};
