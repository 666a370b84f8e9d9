//! The keeper of one run: a fork of the warden that starts the run's leader, adopts what the leader abandons, and ends
//! only when nothing of the run is left.
//!
//! Where the kernel allows it, it is the init of a PID namespace, and its death is the death of all in it. Elsewhere it is
//! a subreaper. It does not outlive the warden: its control socket closes with it.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{
    Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, execve, getpid, getppid, pipe2, read, setsid, write,
};

use super::control::{Control, Note};
use super::group::Leaf;
use super::namespace::{Outside, Refused, enter};
use super::proc;
use super::sys::{Ended, Forked, SingleThreaded, close_all_but, default_signals, exit_now, fork, pidfd_open, wait};
use super::wire::{Job, stage_from, stage_number};
use crate::harness::containment::Isolation;
use crate::harness::process::{ExitStatus, ProcessLimits, SpawnStage};

/// Where a program without a slash is looked for when the run has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a keeper is given.
pub(super) struct Charge {
    pub(super) job: Job,
    /// Standard input, output and error of the leader; the keeper lets go of them when it has forked it.
    pub(super) stdio: Option<[OwnedFd; 3]>,
    pub(super) control: Control,
    pub(super) isolation: Isolation,
    pub(super) outside: Outside,
    pub(super) leaf: Option<Leaf>,
    /// How many descriptors treeward itself may have open: the warden raised its own limit.
    pub(super) open_files: (u64, u64),
}

/// A step of a spawn that failed.
struct Failed(SpawnStage, Errno);

/// The life of a keeper. Called in the freshly forked child; never returns to the warden's code.
pub(super) fn run(proof: &SingleThreaded, mut charge: Charge) -> ! {
    let mut keep: Vec<RawFd> = charge.stdio.iter().flatten().map(|fd| fd.as_raw_fd()).collect();
    // Those of the warden, which lead nowhere: nothing that is opened later takes their place.
    keep.extend([0, 1, 2]);
    keep.push(charge.control.as_raw_fd());
    close_all_but(proof, &keep);
    let _named = prctl::set_name(c"treeward-run");
    let isolation = charge.isolation;
    match begin(proof, &mut charge) {
        Ok(leader) => Keeper { control: charge.control, isolation, leader, exit: None }.keep(),
        Err(Failed(stage, errno)) => {
            charge.control.send(Note::Failed { stage: stage_number(stage), errno: errno as i32 }, None);
            exit_now(1)
        }
    }
}

fn begin(proof: &SingleThreaded, charge: &mut Charge) -> Result<i32, Failed> {
    let isolate = |errno| Failed(SpawnStage::Isolate, errno);
    setsid().map_err(isolate)?;
    if let Some(leaf) = &charge.leaf {
        leaf.join().map_err(|error| isolate(errno_of(&error)))?;
    }
    enter(charge.isolation, charge.outside).map_err(|Refused { errno, .. }| isolate(errno))?;
    let leader = start(proof, charge)?;
    let pidfd = pidfd_open(leader).map_err(|errno| Failed(SpawnStage::Fork, errno))?;
    charge.control.send(Note::Started, Some(&pidfd));
    Ok(leader)
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(nix::libc::EIO))
}

/// Forks the leader and waits until it runs its program, or says why it cannot.
fn start(proof: &SingleThreaded, charge: &mut Charge) -> Result<i32, Failed> {
    let (hears, says) = pipe2(OFlag::O_CLOEXEC).map_err(|errno| Failed(SpawnStage::Fork, errno))?;
    let keeper = getpid();
    match fork(proof, 0).map_err(|errno| Failed(SpawnStage::Fork, errno))? {
        Forked::Child => {
            drop(hears);
            let Failed(stage, errno) = become_leader(charge, keeper);
            let mut message = vec![stage_number(stage)];
            message.extend((errno as i32).to_le_bytes());
            let _unheard = write(&says, &message);
            exit_now(127)
        }
        Forked::Parent(leader) => {
            drop(says);
            charge.stdio = None;
            let mut message = [0; 5];
            let length = loop {
                match read(&hears, &mut message) {
                    Err(Errno::EINTR) => {}
                    length => break length.map_err(|errno| Failed(SpawnStage::Fork, errno))?,
                }
            };
            match length {
                // Closed by a successful exec. A leader killed before it looks the same: its exit says so.
                0 => Ok(leader),
                5 => {
                    let [stage, errno @ ..] = message;
                    let stage = stage_from(stage).unwrap_or(SpawnStage::Exec);
                    Err(Failed(stage, Errno::from_raw(i32::from_le_bytes(errno))))
                }
                _ => Err(Failed(SpawnStage::Exec, Errno::EIO)),
            }
        }
    }
}

/// The leader's side: returns only when it could not become the program.
fn become_leader(charge: &Charge, keeper: Pid) -> Failed {
    let job = &charge.job;
    let prepared = (|| {
        let isolate = |errno| Failed(SpawnStage::Isolate, errno);
        setsid().map_err(isolate)?;
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(isolate)?;
        if getppid() != keeper {
            exit_now(127);
        }
        default_signals();
        limit(job.limits, charge.isolation, charge.open_files).map_err(|errno| Failed(SpawnStage::Limits, errno))?;
        chdir(job.cwd.as_path()).map_err(|errno| Failed(SpawnStage::Directory, errno))?;
        let pipes = |errno| Failed(SpawnStage::Pipes, errno);
        let Some([stdin, stdout, stderr]) = &charge.stdio else { return Err(pipes(Errno::EBADF)) };
        dup2_stdin(stdin).and_then(|()| dup2_stdout(stdout)).and_then(|()| dup2_stderr(stderr)).map_err(pipes)?;
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None).map_err(isolate)
    })();
    match prepared {
        Ok(()) => Failed(SpawnStage::Exec, execute(job)),
        Err(failed) => failed,
    }
}

fn limit(limits: ProcessLimits, isolation: Isolation, (soft, hard): (u64, u64)) -> nix::Result<()> {
    let at_most = |resource, value: u64| {
        let (_, hard) = getrlimit(resource)?;
        let value = value.min(hard);
        setrlimit(resource, value, value)
    };
    at_most(Resource::RLIMIT_CORE, 0)?;
    match limits.open_files {
        Some(files) => setrlimit(Resource::RLIMIT_NOFILE, files.min(hard), files.min(hard))?,
        None => setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?,
    }
    if let Some(memory) = limits.memory {
        // Not the address space: runtimes reserve far more of that than they use.
        at_most(Resource::RLIMIT_DATA, memory)?;
    }
    if let Some(seconds) = limits.cpu_seconds {
        at_most(Resource::RLIMIT_CPU, seconds)?;
    }
    // Counted per user, and inside a user namespace for it alone: only there is it this run's own (the keeper is one).
    if let (Some(processes), Isolation::UserPidNamespace) = (limits.processes, isolation) {
        at_most(Resource::RLIMIT_NPROC, processes.saturating_add(1))?;
    }
    Ok(())
}

/// Becomes the program; returns why not. A name without a slash is looked up in the run's own `PATH`.
fn execute(job: &Job) -> Errno {
    let c = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| Errno::EINVAL);
    let prepared = (|| {
        let argv = job.argv.iter().map(|argument| c(argument)).collect::<Result<Vec<_>, _>>()?;
        let env = job.env.iter().map(|(key, value)| {
            let mut entry = key.as_bytes().to_vec();
            entry.push(b'=');
            entry.extend(value.as_bytes());
            CString::new(entry).map_err(|_| Errno::EINVAL)
        });
        Ok((argv, env.collect::<Result<Vec<_>, _>>()?))
    })();
    let (argv, env) = match prepared {
        Ok(prepared) => prepared,
        Err(errno) => return errno,
    };
    let Some(name) = job.argv.first().filter(|name| !name.is_empty()) else { return Errno::ENOENT };
    let attempt = |path: &OsStr| match c(path) {
        Ok(path) => match execve(&path, &argv, &env) {
            Ok(never) => match never {},
            Err(errno) => errno,
        },
        Err(errno) => errno,
    };
    if name.as_bytes().contains(&b'/') {
        return attempt(name);
    }
    let path = job.env.iter().find(|(key, _)| key == "PATH").map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value);
    let mut outcome = Errno::ENOENT;
    for directory in path.as_bytes().split(|byte| *byte == b':').filter(|directory| !directory.is_empty()) {
        let mut candidate = directory.to_vec();
        candidate.push(b'/');
        candidate.extend(name.as_bytes());
        match attempt(OsStr::from_bytes(&candidate)) {
            Errno::ENOENT | Errno::ENOTDIR => {}
            Errno::EACCES => outcome = Errno::EACCES,
            other => return other,
        }
    }
    outcome
}

struct Keeper {
    control: Control,
    isolation: Isolation,
    /// Stays a zombie when it has ended, so that its pid, which is its group's too, means nobody else.
    leader: i32,
    exit: Option<ExitStatus>,
}

impl Keeper {
    fn keep(mut self) -> ! {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        let Ok(signals) = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC) else {
            // Without it the leader's end would not be seen. Dying here ends the run, which the warden reports.
            exit_now(1)
        };
        // What ended before the descriptor was there.
        self.reap();
        loop {
            let mut fds =
                [PollFd::new(self.control.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            let _ready_or_interrupted = poll(&mut fds, PollTimeout::NONE);
            let asked = fds[0].revents().is_some_and(|events| !events.is_empty());
            while let Ok(Some(_)) = signals.read_signal() {}
            self.reap();
            // Asked to bury, or the warden is gone.
            if asked {
                self.bury(&signals)
            }
        }
    }

    /// Takes away everything that ended, except the leader.
    fn reap(&mut self) {
        if self.exit.is_none()
            && let Ok(Some(Ended { status, .. })) = wait(Some(self.leader), false)
        {
            self.exit = Some(status);
            self.control.send(Note::Exited(status), None);
        }
        if self.exit.is_none() {
            while let Ok(Some(Ended { pid, .. })) = wait(None, false) {
                if pid == self.leader {
                    // It ended since it was looked at.
                    return self.reap();
                }
                let _taken = wait(Some(pid), true);
            }
            return;
        }
        // The leader's zombie hides the others from a wait for anybody.
        for pid in self.others() {
            let _taken_or_alive = wait(Some(pid), true);
        }
    }

    fn others(&self) -> Vec<i32> {
        let mut children = proc::own_children();
        children.retain(|pid| *pid != self.leader);
        children
    }

    /// Kills until nothing is left, then ends.
    fn bury(&mut self, signals: &SignalFd) -> ! {
        let survivors = self.count();
        loop {
            self.kill_all();
            self.reap();
            if self.exit.is_some() && self.others().is_empty() {
                break;
            }
            // A death wakes; so does time, since what was adopted meanwhile gives no signal.
            let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            let _ready_or_not = poll(&mut fds, PollTimeout::from(20_u8));
            while let Ok(Some(_)) = signals.read_signal() {}
        }
        self.control.send(Note::Buried { survivors }, None);
        let _reaped = wait(Some(self.leader), true);
        exit_now(0)
    }

    /// The descendants other than the leader. Beyond the children only a namespace of its own shows them all.
    fn count(&self) -> u32 {
        let others = match self.isolation {
            Isolation::Subreaper => self.others().len(),
            Isolation::PidNamespace | Isolation::UserPidNamespace => {
                let own = getpid().as_raw();
                proc::all_pids().into_iter().filter(|pid| *pid != own && *pid != self.leader).count()
            }
        };
        u32::try_from(others).unwrap_or(u32::MAX)
    }

    fn kill_all(&self) {
        if self.isolation != Isolation::Subreaper {
            // As the init of the namespace: everything in it but this process, at once.
            let _none_left = kill(Pid::from_raw(-1), Signal::SIGKILL);
            return;
        }
        let _none_left = kill(Pid::from_raw(-self.leader), Signal::SIGKILL);
        kill_with_groups(self.others());
    }
}

/// Kills children of this process and their groups. A child that was not reaped keeps both its pid and its group's.
pub(super) fn kill_with_groups(children: Vec<i32>) {
    let own = nix::unistd::getpgrp();
    for child in children.into_iter().map(Pid::from_raw) {
        if let Ok(group) = nix::unistd::getpgid(Some(child))
            && group != own
            && group.as_raw() > 1
        {
            let _gone = kill(Pid::from_raw(-group.as_raw()), Signal::SIGKILL);
        }
        let _gone = kill(child, Signal::SIGKILL);
    }
}
