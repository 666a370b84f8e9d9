//! Who is restarted, when, how often, and how everything stops: pure values and functions, told what happened and when.
//!
//! [`Policy`] is the whole of a supervisor. Its parts stand on their own for those that hold no children of fixed
//! names, such as a delegation: [`Restarts`], [`Failures`], [`EndedAttempt`], [`StopTimes`], [`Progress`]. Nothing here
//! reads a clock, draws chance or does I/O. docs/supervision.md is the contract.

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
