//! The fake harness: every hostile behaviour of real ones, on request, as a program and in memory.
//!
//! `treeward fake harness OPTIONS` and [`FakeLauncher`] obey the same [`Script`], so what fails under paused time can be
//! tried for real. It speaks the protocol of [`FakeDriver`] (one JSON object a line), or with `--plain` writes its results
//! as they are, as a `command` does.

mod driver;
mod memory;
mod options;
mod pipe;
mod program;

pub use driver::FakeDriver;
pub use memory::{FakeLauncher, FakeProcess, Fate};
pub use options::{Act, BadOption, Child, OPTIONS, Script, help};
pub use program::perform;
