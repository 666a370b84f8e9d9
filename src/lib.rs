//! treeward runs trees of agent capsules in one process, under supervision.
//!
//! A [`Runtime`] takes tasks for a [`Team`] of capsules. Each task becomes a [`Tree`]: a session that can hand parts of
//! its task to child sessions, which can do the same. Every session is an actor with limits, a budget and grants; every
//! delegation ends exactly once; everything that happened is a record in the [`journal`].
//!
//! ```
//! use std::time::Duration;
//! use treeward::agent::{Session, Task};
//! use treeward::{Capsule, Runtime, Submission, Team};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let leaf = Capsule::native("leaf", |_: Session, task: Task| async move { Ok(task.text.to_uppercase()) }).build()?;
//! let lead = Capsule::native("lead", |session: Session, task: Task| async move {
//!     let child = session.delegate_to("leaf", task.text).await.map_err(|e| e.to_string())?;
//!     Ok(child.wait().await.map_err(|e| e.to_string())?.answer)
//! });
//! let team = Team::new(lead.delegates(["leaf"]).build()?, [leaf])?;
//!
//! let runtime = Runtime::builder().start().await?;
//! let tree = runtime.submit(Submission::new(team, "hello").label("tenant", "example")).await?;
//! let completion = tree.completion().await?;
//! println!("{}", completion.answer);
//! runtime.stop(Duration::from_secs(5)).await?;
//! # assert_eq!(completion.answer, "HELLO");
//! # Ok(())
//! # }
//! ```
//!
//! It runs on the caller's tokio and sets nothing process-wide.

#![deny(unsafe_code)]
#![warn(missing_docs)]

#[cfg(panic = "abort")]
compile_error!("treeward contains panics: it cannot be built with panic = \"abort\"");

pub mod agent;
pub mod capsule;
pub mod control;
#[cfg(feature = "harness")]
pub mod driver;
pub mod env;
pub mod fault;
pub mod gate;
#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "harness")]
pub mod harness;
pub mod ids;
pub mod journal;
pub mod lending;
pub mod limits;
pub mod supervision;
mod tree;

pub use agent::Completion;
pub use capsule::{Capsule, Team};
pub use limits::Limits;
pub use tree::{
    Builder, Doing, Place, PrepareError, Runtime, SessionView, Sessions, Standing, StartError, Stopped, Stopper,
    Submission, SubmitError, Tree,
};
