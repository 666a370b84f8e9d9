//! The warden: the small, single-threaded helper process that spawns and buries every harness.
//!
//! Three processes stand between treeward and what a run does. treeward's [watch](watch) holds the socket, a pidfd of each
//! leader and nothing else. The [warden](serve), started first and small, forks a [keeper](keeper) for each run. The keeper
//! starts the leader, adopts what the leader abandons, and ends when nothing is left. Each sees the end of the one before
//! it as the end of a socket, and then ends what it holds.

mod control;
mod grip;
mod group;
mod helper;
mod keeper;
mod namespace;
mod proc;
mod serve;
mod sweep;
mod sys;
mod trial;
mod watch;
mod wire;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::{SockType, getsockopt, sockopt};
use nix::unistd::pipe2;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot, watch as published};

use self::watch::{Order, Unspawned, Watch};
use self::wire::{Ask, Job, MAX_FRAME};
use super::containment::{Containment, Isolation};
use super::identity::TAG_VARIABLE;
use super::process::{Process, Signal, SpawnError, SpawnRequest, SpawnStage};

pub(super) use self::grip::Grip;

/// The argument that makes a program the warden.
const HIDDEN_WORD: &str = "warden-of-treeward";
/// Spawns that wait for their turn.
const WAITING: usize = 64;

/// Where the warden's program is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// This very program, whose `main` calls [`warden_main_if_asked`] first.
    #[default]
    CurrentExe,
    /// Another one that does, such as an installed `treeward`.
    Path(PathBuf),
}

impl Program {
    /// The `treeward` that a program run by it can call, where that is known.
    pub(crate) fn treeward(&self) -> Option<PathBuf> {
        match self {
            Self::CurrentExe => None,
            Self::Path(path) => Some(path.clone()),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::CurrentExe => "this program".to_owned(),
            Self::Path(path) => path.display().to_string(),
        }
    }
}

/// How a warden is started and watched.
#[derive(Clone, Debug)]
pub struct WardenConfig {
    /// Where its program is.
    pub program: Program,
    /// No better isolation than this is tried; for those who cannot have what the machine could give.
    pub at_most: Isolation,
    /// How often it is asked whether it is there.
    pub heartbeat: Duration,
    /// How long it may leave that unanswered before it is killed and replaced.
    pub silence: Duration,
}

impl Default for WardenConfig {
    fn default() -> Self {
        Self {
            program: Program::default(),
            at_most: Isolation::PidNamespace,
            heartbeat: Duration::from_secs(1),
            silence: Duration::from_secs(10),
        }
    }
}

/// Why there is no warden.
#[derive(Debug, thiserror::Error)]
pub enum WardenError {
    /// Its process could not be started.
    #[error("the warden could not be started as {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It did not say that it is ready.
    #[error(
        "{program} was started as the warden and did not become one; its main must call \
         treeward::harness::warden_main_if_asked() before anything else, and /proc must be mounted"
    )]
    NotReady {
        /// The program.
        program: String,
    },
}

/// The helper process. Cheap to clone.
///
/// When it dies or falls silent, everything it held is ended and confirmed, and a new one is started. When the last clone
/// and the last [`Process`] are dropped, or the runtime, it ends with all it held.
#[derive(Clone, Debug)]
pub struct Warden {
    orders: mpsc::Sender<Order>,
    containment: published::Receiver<Containment>,
    swept: u32,
}

impl Warden {
    /// Starts the warden on the caller's tokio, and sweeps what a treeward that was killed together with its warden left
    /// behind. Start it early, while this process is small.
    pub async fn start(config: WardenConfig) -> Result<Self, WardenError> {
        let (orders, received) = mpsc::channel(WAITING);
        let (watch, containment, swept) = Watch::begin(config, received).await?;
        watched(watch);
        Ok(Self { orders, containment, swept })
    }

    /// Spawns a process, in a session and process group of its own. When the caller is dropped meanwhile, whatever was
    /// spawned is buried.
    ///
    /// It returns when the program runs, and not before.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<Process, SpawnError> {
        let program = request.argv.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let directory = request.cwd.display().to_string();
        let failed = |stage, errno| spawn_error(&program, &directory, stage, errno);
        let tag = request.tag.clone();
        let job = job(request).map_err(|reason| SpawnError::Refused { program: program.clone(), reason })?;
        let (ours, theirs) = streams().map_err(|errno| failed(SpawnStage::Pipes, errno))?;
        let (reply, answer) = oneshot::channel();
        let stopped = || SpawnError::WardenStopped { program: program.clone() };
        self.orders.send(Order::Spawn { job, tag, stdio: theirs, reply }).await.map_err(|_| stopped())?;
        let grip = match answer.await.map_err(|_| stopped())? {
            Ok(grip) => grip,
            Err(Unspawned::At(stage, errno)) => return Err(failed(stage, errno)),
            Err(Unspawned::TooLong) => {
                let reason = format!("its arguments and environment are more than {MAX_FRAME} bytes");
                return Err(SpawnError::Refused { program, reason });
            }
            Err(Unspawned::Lost) => return Err(SpawnError::WardenLost { program }),
        };
        let [stdin, stdout, stderr] = ours;
        let pipes = |error: io::Error| {
            let errno = Errno::from_raw(error.raw_os_error().unwrap_or(nix::libc::EIO));
            spawn_error(&program, &directory, SpawnStage::Pipes, errno)
        };
        Ok(Process {
            identity: grip.identity().clone(),
            stdin: Some(pipe::Sender::from_owned_fd(stdin).map_err(pipes)?),
            stdout: Some(pipe::Receiver::from_owned_fd(stdout).map_err(pipes)?),
            stderr: Some(pipe::Receiver::from_owned_fd(stderr).map_err(pipes)?),
            grip,
        })
    }

    /// What holds the processes of a run on this machine.
    pub fn containment(&self) -> Containment {
        self.containment.borrow().clone()
    }

    /// How many processes an earlier treeward had left behind, which were ended when this warden was started.
    pub fn swept(&self) -> u32 {
        self.swept
    }

    /// Sends a signal to the warden's own process: a fault, for those who test what follows.
    pub async fn strike(&self, signal: Signal) {
        // One that was stopped cannot be struck.
        let _stopped = self.orders.send(Order::Strike(signal.raw())).await;
    }

    /// Buries every process and ends the warden. Resolves when that is confirmed. Cancel safe: it goes on.
    pub async fn stop(self) {
        let (done, ended) = oneshot::channel();
        if self.orders.send(Order::Stop(done)).await.is_ok() {
            // Dropped unanswered only by a watch that is over, and everything with it.
            let _over = ended.await;
        }
        // Another clone asked first: it is over when the watch takes no more orders.
        self.orders.closed().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the watch owns itself: it ends when nobody is left who could ask it")]
fn watched(watch: Watch) {
    drop(tokio::spawn(watch.run()));
}

/// What the warden is told, with the tag in the environment; or why it cannot be.
fn job(request: SpawnRequest) -> Result<Job, String> {
    let SpawnRequest { argv, cwd, mut env, tag, limits } = request;
    if argv.first().is_none_or(|program| program.is_empty()) {
        return Err("no program was named".to_owned());
    }
    if !cwd.is_absolute() {
        return Err(format!("its directory {} is not absolute", cwd.display()));
    }
    let has_nul = |text: &std::ffi::OsStr| text.as_bytes().contains(&0);
    if argv.iter().any(|argument| has_nul(argument)) || has_nul(cwd.as_os_str()) {
        return Err("an argument or its directory holds a NUL byte".to_owned());
    }
    env.retain(|(key, _)| key != TAG_VARIABLE);
    env.push((TAG_VARIABLE.into(), tag.as_str().into()));
    let mut keys: Vec<&OsString> = env.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    for (index, key) in keys.iter().enumerate() {
        let shown = key.to_string_lossy();
        if key.is_empty() || has_nul(key) || key.as_bytes().contains(&b'=') {
            return Err(format!("`{shown}` cannot be the name of an environment variable"));
        }
        if index > 0 && keys[index - 1] == *key {
            return Err(format!("the environment variable `{shown}` is given twice"));
        }
    }
    if let Some((key, _)) = env.iter().find(|(_, value)| has_nul(value)) {
        return Err(format!("the environment variable `{}` holds a NUL byte", key.to_string_lossy()));
    }
    let job = Job { run: 0, argv, cwd, env, limits };
    let length = Ask::Spawn(Box::new(job.clone())).encode().len();
    if length > MAX_FRAME {
        return Err(format!("its arguments and environment take {length} bytes, and {MAX_FRAME} is the most"));
    }
    Ok(job)
}

/// The ends of standard input, output and error: treeward's, then the process's.
fn streams() -> nix::Result<([OwnedFd; 3], [OwnedFd; 3])> {
    let (stdin, our_stdin) = pipe2(OFlag::O_CLOEXEC)?;
    let (our_stdout, stdout) = pipe2(OFlag::O_CLOEXEC)?;
    let (our_stderr, stderr) = pipe2(OFlag::O_CLOEXEC)?;
    Ok(([our_stdin, our_stdout, our_stderr], [stdin, stdout, stderr]))
}

/// The error of the system, typed.
pub(super) fn spawn_error(program: &str, directory: &str, stage: SpawnStage, errno: Errno) -> SpawnError {
    let program = program.to_owned();
    match (stage, errno) {
        (SpawnStage::Directory, errno) => {
            SpawnError::Directory { program, directory: directory.to_owned(), reason: errno.desc().to_owned() }
        }
        (SpawnStage::Exec, Errno::ENOENT | Errno::ENOTDIR) => SpawnError::NotFound { program },
        (SpawnStage::Exec, Errno::EACCES | Errno::EPERM) => SpawnError::PermissionDenied { program },
        (SpawnStage::Exec, Errno::ETXTBSY) => SpawnError::TextFileBusy { program },
        (SpawnStage::Exec, Errno::E2BIG) => SpawnError::Refused {
            program,
            reason: "its arguments and environment are longer than the system takes".to_owned(),
        },
        (SpawnStage::Exec, Errno::ENOEXEC) => SpawnError::Refused {
            program,
            reason: "it is no program the system can run; a script needs a first line like #!/bin/sh".to_owned(),
        },
        (stage, Errno::EAGAIN | Errno::ENOMEM) => SpawnError::NoProcess { program, stage },
        (stage, Errno::EMFILE | Errno::ENFILE) => SpawnError::NoDescriptor { program, stage },
        (stage, errno) => SpawnError::Other { program, stage, reason: errno.desc().to_owned(), errno: errno as i32 },
    }
}

/// Runs the warden and does not return, where this process was started as one. The first line of a `main`.
///
/// It must come before anything else: a warden has one thread, and is cheap to fork because it is small.
pub fn warden_main_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|word| word != HIDDEN_WORD) {
        return;
    }
    let stdin = io::stdin();
    let is_socket = getsockopt(&stdin.as_fd(), sockopt::SockType).is_ok_and(|kind| kind == SockType::Stream);
    let at_most = arguments.next().and_then(|word| trial::isolation_from(word.to_str()?));
    let code = match at_most {
        // treeward sees the end of the socket, and says what is wrong.
        Some(at_most) if is_socket => i32::from(serve::serve(at_most).is_err()),
        _ => {
            let _nobody = io::Write::write_all(&mut io::stderr(), b"this word is for treeward itself\n");
            2
        }
    };
    std::process::exit(code)
}
