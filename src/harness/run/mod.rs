//! Runs one harness: a driver, a process, and what becomes of both.
//!
//! [`run`] owns the process from before its spawn until it is confirmed gone. Its pumps are tasks of its own; what is
//! decided when is decided by pure parts: `stopping` (the process's life), `lines` (its output), `table` (what result and
//! exit say together). [`agent`] is the same for a session of a capsule.

mod agent;
mod lines;
mod place;
mod proc;
mod pumps;
mod record;
mod running;
mod stopping;
mod table;
mod tail;

pub use agent::{AgentParts, CommandSpec, agent};
pub use lines::{LONGEST_LINE, Lines, Piece};
pub use proc::{Launcher, Proc, Streams};
pub use record::{Recorder, Recording};
pub use running::{Launch, Parts, Report, Sink, Sinking, StopOrder, run};
pub use stopping::{Effect, Graces, Happening, Life, Phase};
pub use table::{Judgement, judge};
pub use tail::Tail;
