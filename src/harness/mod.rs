//! Subprocesses: the warden that spawns and buries them, what holds them, and who they are.
//!
//! treeward never forks itself. A [`Warden`] is a small helper process, the same binary under a hidden word, started
//! first; it spawns every [`Process`], reports its exit and confirms that nothing of it is left. When its socket to
//! treeward closes, for whatever reason, it ends everything it spawned and itself.
//!
//! A program that embeds treeward calls [`warden_main_if_asked`] as the first line of its `main`, or names a program
//! that does in [`Program::Path`].

pub mod call;
mod containment;
pub mod fake;
mod faults;
mod identity;
mod process;
pub mod run;
mod warden;

pub use containment::{Containment, Isolation};
pub use faults::{Faulty, FaultyProc, RunFaults};
pub use identity::{Identity, RunTag};
pub use process::{
    Buried, ExitStatus, Process, ProcessLimits, Signal, SignalError, SpawnError, SpawnRequest, SpawnStage, Whom,
};
pub use warden::{Program, Warden, WardenConfig, WardenError, warden_main_if_asked};
