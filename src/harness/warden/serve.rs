//! The warden itself: one thread, one loop, one socket to treeward and one to the keeper of each run.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;
use nix::unistd::{Pid as RawPid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, getppid, setsid};

use super::control::{Control, Heard, Note};
use super::group::{Groups, Leaf};
use super::keeper::{self, Charge, kill_with_groups};
use super::namespace::{Outside, flags};
use super::sys::{self, Ended, Forked, SingleThreaded, default_signals, fork, ignore_signals};
use super::wire::{Ask, Filled, Job, Link, Pid, RunId, Say, stage_from};
use super::{proc, trial};
use crate::harness::containment::Isolation;
use crate::harness::identity::start_ticks;
use crate::harness::process::{ExitStatus, SpawnStage};

/// How long a keeper may take to bury its run before the warden does it.
const BURIAL: Duration = Duration::from_secs(3);
/// Between two looks at what gives no signal, in milliseconds.
const LOOK: u16 = 20;
/// Descriptors kept free for what a spawn takes meanwhile.
const SPARE: usize = 32;

/// Becomes the warden, with standard input as the socket to treeward. Returns when everything has ended, or when it
/// could not begin.
pub(super) fn serve(at_most: Isolation) -> std::io::Result<()> {
    let proof = SingleThreaded::check()?;
    let owner = sys::pidfd_open(getppid().as_raw()).ok();
    let link = Link::new(take_standard_input()?);
    setsid()?;
    chdir("/")?;
    prctl::set_name(c"treeward-warden")?;
    prctl::set_child_subreaper(true)?;
    let ignored =
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGPIPE];
    default_signals();
    ignore_signals(&ignored);
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let open_files = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, open_files.1, open_files.1)?;
    let (groups, no_unified) = Groups::look();
    let containment = trial::best(&proof, at_most, &groups, no_unified);
    let isolation = containment.isolation;
    let mut warden = Serving {
        proof,
        link,
        owner,
        signals,
        groups,
        isolation,
        open_files,
        runs: BTreeMap::new(),
        orphaned: Vec::new(),
        strays: false,
        leaves: Vec::new(),
        ending: false,
    };
    warden.say(&Say::Ready(containment));
    warden.run();
    Ok(())
}

/// Moves the socket away from the descriptors that every child replaces.
fn take_standard_input() -> nix::Result<OwnedFd> {
    let socket = sys::received(fcntl(std::io::stdin(), FcntlArg::F_DUPFD_CLOEXEC(3))?);
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    dup2_stdin(&null).and_then(|()| dup2_stdout(&null)).and_then(|()| dup2_stderr(&null))?;
    Ok(socket)
}

struct Serving {
    proof: SingleThreaded,
    link: Link,
    /// treeward: beside the socket, whose other end a forked copy of treeward could hold open.
    owner: Option<OwnedFd>,
    signals: SignalFd,
    groups: Groups,
    isolation: Isolation,
    open_files: (u64, u64),
    runs: BTreeMap<RunId, Run>,
    /// Runs whose keeper died before it had buried them. What they left was adopted by the warden.
    orphaned: Vec<(RunId, Run)>,
    /// Whether there may be processes that the warden adopted. Each lost its keeper: none is spared.
    strays: bool,
    /// Control groups that were not empty yet when their run was gone.
    leaves: Vec<Leaf>,
    ending: bool,
}

struct Run {
    keeper: i32,
    control: Control,
    /// Nothing more is heard from it.
    silent: bool,
    state: State,
    exit: Option<ExitStatus>,
    /// When the keeper was asked to bury, and by when it must have.
    burial: Option<Instant>,
    leaf: Option<Leaf>,
}

enum State {
    Starting,
    Started { leader: i32 },
    Failed,
    Buried { survivors: u32 },
}

#[expect(clippy::disallowed_methods, reason = "the warden has no runtime: its deadlines are the kernel's time")]
fn now() -> Instant {
    Instant::now()
}

impl Serving {
    fn run(&mut self) {
        loop {
            let (readable, heard) = self.wait();
            while let Ok(Some(_)) = self.signals.read_signal() {}
            if readable {
                self.read();
            }
            for run in heard {
                self.hear(run);
            }
            self.reap();
            self.end_strays();
            self.hurry();
            self.leaves.retain(|leaf| !leaf.remove());
            if self.ending && self.runs.is_empty() && self.orphaned.is_empty() && !self.strays {
                // What is still to be said finds nobody, or somebody who is told by this end too.
                let _last_words = self.link.flush();
                return;
            }
            if self.link.flush().is_err() {
                self.end();
            }
        }
    }

    /// Waits for something to do: whether treeward said something, and which keepers did.
    fn wait(&self) -> (bool, Vec<RunId>) {
        // What is closed would be ready for ever: something that is asked for nothing stands in its place.
        let nothing = || PollFd::new(self.signals.as_fd(), PollFlags::empty());
        let mut wanted = PollFlags::POLLIN;
        wanted.set(PollFlags::POLLOUT, self.link.has_output());
        let link = if self.ending { nothing() } else { PollFd::new(self.link.as_fd(), wanted) };
        let owner = match &self.owner {
            Some(owner) if !self.ending => PollFd::new(owner.as_fd(), PollFlags::POLLIN),
            _ => nothing(),
        };
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN), link, owner];
        fds.extend(self.runs.values().map(|run| match run.silent {
            true => nothing(),
            false => PollFd::new(run.control.as_fd(), PollFlags::POLLIN),
        }));
        let impatient = self.strays
            || !self.orphaned.is_empty()
            || !self.leaves.is_empty()
            || self.runs.values().any(|run| run.burial.is_some());
        let timeout = if impatient { PollTimeout::from(LOOK) } else { PollTimeout::NONE };
        let _ready_or_interrupted = poll(&mut fds, timeout);
        let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        let treeward = !self.ending && (ready(&fds[1]) || ready(&fds[2]));
        let heard = self.runs.keys().zip(&fds[3..]).filter(|(_, fd)| ready(fd)).map(|(run, _)| *run).collect();
        (treeward, heard)
    }

    fn say(&mut self, say: &Say) {
        if self.link.send(&say.encode(), Vec::new()).is_err() {
            self.end();
        }
    }

    /// treeward wants the end, or is gone.
    fn end(&mut self) {
        if self.ending {
            return;
        }
        self.ending = true;
        self.strays = true;
        for run in self.runs.values_mut() {
            run.bury();
        }
    }

    fn read(&mut self) {
        if self.owner.as_ref().is_some_and(|owner| sys::pidfd_ended(owner, PollTimeout::ZERO)) {
            return self.end();
        }
        loop {
            let filled = self.link.fill();
            loop {
                match self.link.next().and_then(|frame| frame.map(|frame| Ask::decode(&frame)).transpose()) {
                    Ok(Some(ask)) => self.obey(ask),
                    Ok(None) => break,
                    Err(_) => return self.end(),
                }
            }
            match filled {
                Ok(Filled::Some) => {}
                Ok(Filled::Nothing) => return,
                Ok(Filled::Closed) | Err(_) => return self.end(),
            }
        }
    }

    fn obey(&mut self, ask: Ask) {
        match ask {
            Ask::Spawn(job) => self.spawn(*job),
            Ask::Bury(run) => {
                // One that is not there was buried, and that was said.
                if let Some(run) = self.runs.get_mut(&run) {
                    run.bury();
                }
            }
            Ask::Ping(number) => self.say(&Say::Pong(number)),
            Ask::End => self.end(),
        }
    }

    fn spawn(&mut self, job: Job) {
        let run = job.run;
        let stdio = self.link.take_descriptors::<3>();
        if self.ending {
            return;
        }
        let outcome = match stdio {
            Some(stdio) => self.try_spawn(job, stdio),
            None => Err((SpawnStage::Pipes, Errno::EMFILE)),
        };
        match outcome {
            Ok(started) => drop(self.runs.insert(run, started)),
            Err((stage, errno)) => self.say(&Say::NotSpawned { run, stage, errno: errno as i32 }),
        }
    }

    fn try_spawn(&mut self, job: Job, stdio: [OwnedFd; 3]) -> Result<Run, (SpawnStage, Errno)> {
        let room = usize::try_from(self.open_files.1).unwrap_or(usize::MAX);
        if self.runs.len() + SPARE > room {
            return Err((SpawnStage::Pipes, Errno::EMFILE));
        }
        let (control, theirs) = Control::pair().map_err(|errno| (SpawnStage::Pipes, errno))?;
        let leaf = self
            .groups
            .leaf(job.run, job.limits)
            .map_err(|error| (SpawnStage::Isolate, Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))))?;
        let outside = Outside::ask();
        match fork(&self.proof, flags(self.isolation)) {
            Ok(Forked::Child) => {
                let (isolation, open_files) = (self.isolation, self.open_files);
                let stdio = Some(stdio);
                keeper::run(&self.proof, Charge { job, stdio, control: theirs, isolation, outside, leaf, open_files })
            }
            Ok(Forked::Parent(keeper)) => {
                Ok(Run { keeper, control, silent: false, state: State::Starting, exit: None, burial: None, leaf })
            }
            Err(errno) => {
                self.leaves.extend(leaf);
                Err((SpawnStage::Fork, errno))
            }
        }
    }

    fn hear(&mut self, id: RunId) {
        loop {
            let Some(run) = self.runs.get_mut(&id) else { return };
            let (note, pidfd) = match run.control.hear() {
                Heard::Note(note, pidfd) => (note, pidfd),
                Heard::Nothing => return,
                // The keeper is dying, which is seen when it is dead.
                Heard::Closed => {
                    run.silent = true;
                    return;
                }
            };
            if let Some(say) = run.note(id, note, pidfd) {
                self.say(&say);
            }
        }
    }

    fn reap(&mut self) {
        while let Ok(Some(Ended { pid, status })) = sys::wait(None, true) {
            let keeper_of = self.runs.iter().find(|(_, run)| run.keeper == pid).map(|(id, _)| *id);
            if let Some(id) = keeper_of {
                // Its last words first.
                self.hear(id);
                let Some(run) = self.runs.remove(&id) else { continue };
                self.strays = true;
                self.orphaned.push((id, run));
                continue;
            }
            // A leader whose keeper was killed ends as the warden's child.
            let orphan = self.orphaned.iter_mut().find(|(_, run)| run.is_led_by(pid) && run.exit.is_none());
            if let Some((_, run)) = orphan {
                run.exit = Some(status);
            }
        }
    }

    /// Kills what was adopted, until nothing is left; then the runs it may have belonged to are gone.
    fn end_strays(&mut self) {
        if !self.strays {
            return;
        }
        let keepers: BTreeSet<i32> = self.runs.values().map(|run| run.keeper).collect();
        let mut strays = proc::own_children();
        strays.retain(|pid| !keepers.contains(pid));
        if !strays.is_empty() {
            kill_with_groups(strays);
            self.reap();
            return;
        }
        self.strays = false;
        for (id, run) in std::mem::take(&mut self.orphaned) {
            for say in run.last_words(id) {
                self.say(&say);
            }
            self.leaves.extend(run.leaf.filter(|leaf| !leaf.remove()));
        }
    }

    /// Kills the keepers that take too long: what they leave the warden ends itself.
    fn hurry(&mut self) {
        if self.runs.values().all(|run| run.burial.is_none()) {
            return;
        }
        let now = now();
        for run in self.runs.values() {
            if run.burial.is_some_and(|by| by <= now) {
                let _gone = kill(RawPid::from_raw(run.keeper), Signal::SIGKILL);
                if let Some(leaf) = &run.leaf {
                    leaf.kill();
                }
            }
        }
    }
}

impl Run {
    fn bury(&mut self) {
        if self.burial.is_none() {
            self.control.ask_to_bury();
            self.burial = Some(now() + BURIAL);
        }
    }

    fn is_led_by(&self, pid: i32) -> bool {
        matches!(self.state, State::Started { leader } if leader == pid)
    }

    /// Takes down what the keeper says; what treeward is to know of it.
    fn note(&mut self, id: RunId, note: Note, pidfd: Option<OwnedFd>) -> Option<Say> {
        match note {
            Note::Started => {
                let known = pidfd.and_then(|fd| identify(proc::pid_behind(fd.as_raw_fd())?)).zip(identify(self.keeper));
                let Some((leader, keeper)) = known else {
                    self.bury();
                    return None;
                };
                self.state = State::Started { leader: leader.pid };
                Some(Say::Spawned { run: id, leader, keeper })
            }
            Note::Failed { stage, errno } => {
                self.state = State::Failed;
                let stage = stage_from(stage).unwrap_or(SpawnStage::Exec);
                Some(Say::NotSpawned { run: id, stage, errno })
            }
            Note::Exited(status) => {
                self.exit = Some(status);
                Some(Say::Exited { run: id, status })
            }
            Note::Buried { survivors } => {
                if let State::Started { .. } = self.state {
                    self.state = State::Buried { survivors };
                }
                None
            }
            Note::Works | Note::Refused { .. } => None,
        }
    }

    /// What treeward is told when nothing of the run is left.
    fn last_words(&self, run: RunId) -> Vec<Say> {
        let survivors = match self.state {
            State::Failed => return Vec::new(),
            State::Starting => {
                return vec![Say::NotSpawned { run, stage: SpawnStage::Fork, errno: Errno::EAGAIN as i32 }];
            }
            State::Started { .. } => 0,
            State::Buried { survivors } => survivors,
        };
        // Unseen only where the keeper was killed, and the kernel killed the leader with it.
        let status = self.exit.unwrap_or(ExitStatus::Signal(libc::SIGKILL));
        vec![Say::Exited { run, status }, Say::Buried { run, survivors }]
    }
}

fn identify(pid: i32) -> Option<Pid> {
    Some(Pid { pid, start_ticks: start_ticks(pid)? })
}
