//! Runs trees of agent capsules in one process, under supervision.

#![deny(unsafe_code)]

#[cfg(panic = "abort")]
compile_error!("treeward contains panics: it cannot be built with panic = \"abort\"");

pub mod agent;
pub mod capsule;
pub mod env;
pub mod fault;
pub mod gate;
#[cfg(feature = "guest")]
pub mod guest;
pub mod ids;
pub mod journal;
pub mod lending;
pub mod limits;
pub mod supervision;
pub mod tree;

pub use tree::{Builder, Place, Runtime, StartError, Stopper, Submission, SubmitError, Tree};
