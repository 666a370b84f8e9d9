//! The supervision policy, as a pure value.

mod backoff;
mod exit;
mod intensity;
mod policy;
mod progress;
mod rerun;
mod restart;
mod spec;
mod stop;

pub use backoff::{Backoff, BackoffError, Failures};
pub use exit::ExitClass;
pub use intensity::{Intensity, IntensityError, Restarts};
pub use policy::{ChildStatus, Effect, EscalateWhy, Event, Incarnation, Policy, ShutdownWhy};
pub use progress::{Progress, Stall};
pub use rerun::{Decision, EndedAttempt, Rerun};
pub use restart::{RestartSpec, RestartSpecError, RestartType};
pub use spec::{AutoShutdown, ChildSpec, Shutdown, Spec, SpecError, StopOrder, Strategy};
pub use stop::{StopTimes, StopTimesError};
