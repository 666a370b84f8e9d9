//! The actors, one file each, and the messages between them.
//!
//! A task goes in at `runtime`, which hands it to the `root`; the root holds trees as a `session` holds delegations:
//! both keep `children`, which obey `delegation`'s effects. What an agent asks for comes in at `calls`.

#[cfg(test)]
mod against_model;
mod bounds;
mod calls;
mod children;
#[cfg(feature = "harness")]
mod commands;
mod context;
mod delegation;
mod endings;
#[cfg(feature = "guest")]
mod guests;
mod joins;
mod life;
mod look;
mod message;
mod mind;
#[cfg(test)]
mod model;
mod money;
pub(crate) mod owned;
mod parts;
mod places;
mod prepare;
pub(crate) mod remote;
mod report;
mod root;
mod runtime;
mod scribe;
mod session;
mod store_faults;
mod vigil;

#[cfg(feature = "harness")]
pub(crate) use report::bounded;

pub use look::{Doing, SessionView, Sessions, Standing};
pub use prepare::PrepareError;
pub use remote::Stopped;
pub use runtime::{Builder, Place, Runtime, StartError, Stopper, Submission, SubmitError, Tree};
