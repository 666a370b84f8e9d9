//! One spawned process as treeward sees it: its streams, its exit, its burial.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use tokio::net::unix::pipe;

use super::identity::{Identity, RunTag};
use super::warden::Grip;

/// What to spawn. The environment is `env` and the run's tag, nothing else; standard input, output and error are pipes;
/// nothing else that treeward has open is inherited.
#[derive(Clone, Debug)]
pub struct SpawnRequest {
    /// The program and its arguments. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The directory it starts in; absolute.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Marks it and all its descendants; stands in the environment as `TREEWARD_RUN`.
    pub tag: RunTag,
    /// What it may take.
    pub limits: ProcessLimits,
}

/// What a run may take; `None` leaves what treeward itself has. What is enforced for the run as a whole and what for each
/// process alone is said by [`Containment`](super::Containment).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads, its own included.
    pub processes: Option<u64>,
    /// Seconds of CPU time of each process.
    pub cpu_seconds: Option<u64>,
    /// Descriptors a process may have open.
    pub open_files: Option<u64>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is gone, and how is not known: the warden, who would have seen it, was lost.
    Lost,
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match nix::sys::signal::Signal::try_from(*number) {
                Ok(signal) => write!(f, "{signal}"),
                Err(_) => write!(f, "signal {number}"),
            },
            Self::Lost => f.write_str("lost with the warden"),
        }
    }
}

/// A signal that treeward sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGINT
    Interrupt,
    /// SIGQUIT
    Quit,
    /// SIGTERM
    Terminate,
    /// SIGKILL
    Kill,
    /// SIGSTOP
    Stop,
    /// SIGCONT
    Continue,
}

impl Signal {
    pub(super) fn raw(self) -> nix::sys::signal::Signal {
        use nix::sys::signal::Signal as Raw;
        match self {
            Self::Interrupt => Raw::SIGINT,
            Self::Quit => Raw::SIGQUIT,
            Self::Terminate => Raw::SIGTERM,
            Self::Kill => Raw::SIGKILL,
            Self::Stop => Raw::SIGSTOP,
            Self::Continue => Raw::SIGCONT,
        }
    }
}

/// Who is signalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whom {
    /// The spawned process alone.
    Leader,
    /// Its process group. Descendants that left the group are not reached; [`Process::bury`] reaches them.
    Group,
}

/// How far a spawn came before it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpawnStage {
    /// Making the pipes.
    Pipes,
    /// Making a process.
    Fork,
    /// Isolating it: namespaces and control group.
    Isolate,
    /// Setting its limits.
    Limits,
    /// Going to its directory.
    Directory,
    /// Starting the program.
    Exec,
}

impl fmt::Display for SpawnStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pipes => "making its pipes",
            Self::Fork => "making a process",
            Self::Isolate => "isolating it",
            Self::Limits => "setting its limits",
            Self::Directory => "going to its directory",
            Self::Exec => "starting the program",
        })
    }
}

/// Why nothing was spawned. Every variant names the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// ENOENT
    #[error("`{program}` was not found; is it installed, and on the PATH the run was given?")]
    NotFound {
        /// The program.
        program: String,
    },
    /// The directory is not there or may not be entered.
    #[error("`{program}` cannot start in {directory}: {reason}")]
    Directory {
        /// The program.
        program: String,
        /// The directory.
        directory: String,
        /// The system's words.
        reason: String,
    },
    /// EACCES
    #[error("`{program}` may not be executed: permission denied; is it executable, and are its directories open?")]
    PermissionDenied {
        /// The program.
        program: String,
    },
    /// ETXTBSY
    #[error("`{program}` is open for writing (text file busy); start it when it is fully written")]
    TextFileBusy {
        /// The program.
        program: String,
    },
    /// EAGAIN or ENOMEM
    #[error("`{program}` could not be started: no process or memory to be had while {stage}; try again later")]
    NoProcess {
        /// The program.
        program: String,
        /// How far it came.
        stage: SpawnStage,
    },
    /// EMFILE or ENFILE
    #[error("`{program}` could not be started: no descriptor to be had while {stage}; raise `ulimit -n`")]
    NoDescriptor {
        /// The program.
        program: String,
        /// How far it came.
        stage: SpawnStage,
    },
    /// What was asked for cannot be.
    #[error("`{program}` was not started: {reason}")]
    Refused {
        /// The program.
        program: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Any other error of the system.
    #[error("`{program}` could not be started: {reason} while {stage}")]
    Other {
        /// The program.
        program: String,
        /// How far it came.
        stage: SpawnStage,
        /// The system's words.
        reason: String,
        /// The error's number.
        errno: i32,
    },
    /// The warden was lost before it answered. Nothing of the run is left.
    #[error("`{program}` was not started: the warden was lost meanwhile; try again")]
    WardenLost {
        /// The program.
        program: String,
    },
    /// The warden was stopped.
    #[error("`{program}` was not started: the warden was stopped")]
    WardenStopped {
        /// The program.
        program: String,
    },
}

/// Why no signal was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// The process is buried, or somebody else has its pid now.
    #[error("it is gone")]
    Gone,
    /// The system's refusal.
    #[error("the signal could not be sent: errno {0}")]
    Refused(i32),
}

/// That nothing of a run is left: neither its leader nor any descendant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buried {
    /// How its leader ended.
    pub exit: ExitStatus,
    /// Descendants of the leader that were still there, and were killed.
    pub survivors: u32,
}

/// A spawned process. Dropping it buries it in the background.
#[derive(Debug)]
pub struct Process {
    /// Who it is.
    pub identity: Identity,
    /// What it reads. Closed when dropped.
    pub stdin: Option<pipe::Sender>,
    /// What it writes.
    pub stdout: Option<pipe::Receiver>,
    /// What it writes as errors.
    pub stderr: Option<pipe::Receiver>,
    pub(super) grip: Grip,
}

impl Process {
    /// How it ended; resolves as soon as it has, whoever still holds its output open. Cancel safe; any number of times.
    pub async fn exited(&self) -> ExitStatus {
        self.grip.exited().await
    }

    /// Sends a signal. A pid that was given to somebody else is never signalled.
    pub fn signal(&self, signal: Signal, whom: Whom) -> Result<(), SignalError> {
        self.grip.signal(signal, whom)
    }

    /// Kills the leader and all its descendants, again and again until none is left; resolves when that is confirmed.
    /// Cancel safe: once asked for it goes on. Any number of times.
    pub async fn bury(&self) -> Buried {
        self.grip.bury().await
    }
}
