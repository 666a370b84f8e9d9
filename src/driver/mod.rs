//! Drivers: what translates between one harness and treeward.
//!
//! A driver is a sans-I/O state machine. It is given what the harness wrote and answers with [`Step`]s: an event, bytes
//! to write, or that its input is to be closed. It has no clock, does no I/O, holds no grant and knows nothing of the
//! process; whoever runs it ([`harness::run`](crate::harness::run)) does. So a driver is tested on transcripts, and a
//! harness that lies can make a driver say nonsense, but never wait, allocate without bound or panic.

mod command;
mod event;
#[cfg(test)]
mod sketches;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use command::{CANNOT, Command};
pub use event::{Event, Failure, UsageReport};

/// What a driver drives, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name in manifests, records and messages.
    pub name: String,
    /// The arguments that make the harness print its version; empty where there are none.
    pub version_probe: Vec<String>,
    /// How its output is cut before it is fed.
    pub framing: Framing,
    /// How a turn is interrupted.
    pub interrupt: Interrupt,
    /// What it says of itself.
    pub reports: Reports,
}

/// How a harness's output is cut before it is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Not at all: [`Output::Bytes`], however they came.
    Bytes,
    /// Into lines: [`Output::Line`].
    Lines,
}

/// How a turn is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// It cannot be: the process is ended instead.
    None,
    /// By what [`Driver::interrupt`] writes.
    Protocol,
    /// By SIGINT to the process.
    Signal,
}

/// What a harness says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// That a turn is over: where it does not, the exit says so.
    pub turns: bool,
    /// A session id that can be resumed.
    pub session: bool,
    /// Usage.
    pub usage: bool,
    /// Something at once when it starts: where it does, silence at the start is a failed start.
    pub greets: bool,
}

/// What is to be launched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The task's text.
    pub task: String,
    /// The directory the harness starts in.
    pub directory: PathBuf,
    /// The session to resume, by the harness's id.
    pub resume: Option<String>,
    /// The variables it was granted, and those treeward sets.
    pub env: BTreeMap<String, String>,
    /// How many bytes of an answer are kept.
    pub answer_limit: usize,
}

/// How a harness is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables the driver sets beside the granted ones, which they do not replace.
    pub env: BTreeMap<String, String>,
    /// Files written before it starts, mode 0600, in a directory of the run that is removed with it.
    pub files: Vec<PrivateFile>,
    /// What is written to it first.
    pub input: Vec<u8>,
    /// Whether its input is closed after that.
    pub close_input: bool,
}

/// A file only the harness of one run can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateFile {
    /// Its name; no slash. In `argv` and `env`, `{files}` stands for the directory it lies in.
    pub name: String,
    /// What it holds.
    pub contents: Vec<u8>,
}

/// Why a request cannot be launched. Trying again cannot help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LaunchError(pub String);

/// Something a harness wrote to its standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Some bytes. Where one piece ends and the next begins means nothing.
    Bytes(&'a [u8]),
    /// A line without its line end; what was not UTF-8 is replaced. `ended`: whether there was a line end.
    Line {
        /// The text.
        text: &'a str,
        /// False for what stood behind the last line end when the output closed.
        ended: bool,
    },
    /// A line longer than a line may be. It was skipped; the next one is whole.
    Skipped {
        /// How many bytes it had.
        len: u64,
    },
    /// It closed its output. That says nothing about whether it still runs.
    End,
}

/// What a driver wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The harness said this.
    Event(Event),
    /// Write this to the harness.
    Write(Vec<u8>),
    /// Close its input, after what is to be written.
    CloseInput,
}

/// An answer to [`Event::PermissionAsked`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The harness's id of the question.
    pub id: String,
    /// Whether it may; where not, why.
    pub verdict: Result<(), String>,
}

/// How a harness's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// A signal nobody here sent ended it.
    Signal(i32),
    /// It was ended from here.
    ByUs,
    /// It had said its result and still ran a while after.
    StillRunning,
    /// It is gone and nobody saw how.
    Lost,
}

/// What a driver makes of an exit: what the harness said of its turn, all in all. Together with the exit this is what
/// [`judge`](crate::harness::run::judge) looks up in its table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Every result it said, in order; a driver keeps the first success and the first failure at least.
    pub turns: Vec<Turn>,
    /// What else there is to say of it.
    pub notes: Vec<(String, String)>,
}

/// One result of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It ended with this answer.
    Ended(String),
    /// It failed.
    Failed(Failure, String),
}

/// What is seen by somebody who classifies an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// The exit.
    pub exit: Exit,
    /// The last lines of its standard error.
    pub stderr: &'a str,
}

/// Translates between one harness and treeward, for one run of it. See the module.
pub trait Driver: Send {
    /// What it drives, and how. Always the same.
    fn describe(&self) -> Description;
    /// How this request is launched. Called once, first.
    fn launch(&mut self, request: &Request) -> Result<Plan, LaunchError>;
    /// Takes something the harness wrote. What it answers depends on the bytes alone, not on how they were cut.
    fn feed(&mut self, output: Output<'_>) -> Vec<Step>;
    /// What to write so that the running turn ends. Empty where [`Interrupt`] says otherwise.
    fn interrupt(&mut self) -> Vec<Step> {
        Vec::new()
    }
    /// Passes on an answer to a permission it asked for.
    fn answer(&mut self, permission: Permission) -> Vec<Step> {
        let _unasked = permission;
        Vec::new()
    }
    /// What the harness said of its turn, now that its process has ended. Called once, last.
    fn classify_exit(&mut self, seen: Seen<'_>) -> Ending;
}
