//! The watch over the warden: the one task that talks to it, replaces it, and knows how every process ended.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::grip::{Fate, Grip, Undertaker};
use super::helper::Helper;
use super::wire::{Ask, Filled, Job, Link, Pid, RunId, Say};
use super::{WardenConfig, WardenError, sweep, sys};
use crate::harness::containment::Containment;
use crate::harness::identity::{Identity, RunTag, boot_id};
use crate::harness::process::{Buried, ExitStatus, SpawnStage};

/// How long a warden may take until it is ready: it tries out what the machine allows.
const READY: Duration = Duration::from_secs(30);
/// How long it may take to end everything before it is killed.
const END: Duration = Duration::from_secs(20);

/// What the watch is asked for.
#[derive(Debug)]
pub(super) enum Order {
    Spawn {
        job: Job,
        tag: RunTag,
        stdio: [OwnedFd; 3],
        reply: oneshot::Sender<Result<Grip, Unspawned>>,
    },
    /// A fault on the warden itself.
    Strike(Signal),
    Stop(oneshot::Sender<()>),
}

/// Why nothing was spawned.
#[derive(Debug)]
pub(super) enum Unspawned {
    At(SpawnStage, Errno),
    TooLong,
    Lost,
}

/// What the watch knows of one run.
#[derive(Debug)]
struct Run {
    tag: RunTag,
    fate: watch::Sender<Fate>,
    keeper: Option<Identity>,
    reply: Option<oneshot::Sender<Result<Grip, Unspawned>>>,
}

impl Run {
    fn exit(&self, status: ExitStatus) {
        self.fate.send_if_modified(|fate| {
            let first = fate.exit.is_none();
            fate.exit.get_or_insert(status);
            first
        });
    }

    fn buried(&self, survivors: u32) {
        self.exit(ExitStatus::Lost);
        self.fate.send_modify(|fate| {
            let exit = fate.exit.unwrap_or(ExitStatus::Lost);
            fate.buried.get_or_insert(Buried { exit, survivors });
        });
    }
}

/// A warden that answers.
#[derive(Debug)]
struct Hold {
    helper: Helper,
    link: AsyncFd<Link>,
    /// Heartbeats sent, and the last one answered.
    asked: u64,
    answered: u64,
}

pub(super) struct Watch {
    config: WardenConfig,
    orders: mpsc::Receiver<Order>,
    burials: mpsc::UnboundedReceiver<RunId>,
    undertaker: Undertaker,
    containment: watch::Sender<Containment>,
    /// Named over the life of all wardens, so that a late word of a dead one means nobody.
    next: RunId,
    runs: BTreeMap<RunId, Run>,
    hold: Option<Hold>,
}

enum Happened {
    Order(Option<Order>),
    Bury(RunId),
    Ready,
    Lost,
    Tick,
}

impl Watch {
    /// Sweeps, then starts the first warden.
    pub(super) async fn begin(
        config: WardenConfig,
        orders: mpsc::Receiver<Order>,
    ) -> Result<(Self, watch::Receiver<Containment>, u32), WardenError> {
        let swept = blocking(sweep::end_abandoned).await;
        let (hold, found) = start(&config).await?;
        let (containment, seen) = watch::channel(found);
        let (undertaker, burials) = mpsc::unbounded_channel();
        let (next, runs, hold) = (0, BTreeMap::new(), Some(hold));
        Ok((Self { config, orders, burials, undertaker, containment, next, runs, hold }, seen, swept))
    }

    /// Until it is stopped, or nobody is left who could ask for anything.
    pub(super) async fn run(mut self) {
        let mut ticks = interval(self.config.heartbeat.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut abandoned = false;
        loop {
            if abandoned && self.runs.is_empty() {
                return self.stop().await;
            }
            let happened = {
                let (hold, orders, burials) = (&mut self.hold, &mut self.orders, &mut self.burials);
                let warden = async move {
                    let Some(Hold { helper, link, .. }) = hold else { return std::future::pending().await };
                    let interest = interest(link.get_ref());
                    tokio::select! {
                        biased;
                        ready = link.ready(interest) => ready.map_or(Happened::Lost, |_| Happened::Ready),
                        () = helper.died() => Happened::Lost,
                    }
                };
                tokio::select! {
                    biased;
                    Some(run) = burials.recv() => Happened::Bury(run),
                    order = orders.recv(), if !abandoned => Happened::Order(order),
                    happened = warden => happened,
                    _ = ticks.tick() => Happened::Tick,
                }
            };
            match happened {
                Happened::Order(None) => abandoned = true,
                Happened::Order(Some(Order::Stop(done))) => {
                    self.stop().await;
                    // Whoever asked may have gone.
                    let _unheard = done.send(());
                    return;
                }
                Happened::Order(Some(Order::Strike(signal))) => {
                    if let Some(hold) = &self.hold {
                        hold.helper.signal(signal);
                    }
                }
                Happened::Order(Some(Order::Spawn { job, tag, stdio, reply })) => {
                    self.spawn(job, tag, stdio, reply).await;
                }
                Happened::Bury(run) => {
                    if self.runs.contains_key(&run) {
                        self.ask(&Ask::Bury(run), Vec::new());
                    }
                }
                Happened::Ready => {
                    if !self.exchange().await {
                        self.lost().await;
                    }
                }
                Happened::Lost => {
                    self.last_words();
                    self.lost().await;
                }
                Happened::Tick => self.heartbeat().await,
            }
        }
    }

    /// Queues a request and sends what there is room for. A failure is seen when the socket is next read.
    fn ask(&mut self, ask: &Ask, stdio: Vec<OwnedFd>) -> bool {
        let Some(hold) = &mut self.hold else { return false };
        let link = hold.link.get_mut();
        if link.send(&ask.encode(), stdio).is_err() {
            return false;
        }
        let _seen_when_read = link.flush();
        true
    }

    async fn spawn(
        &mut self,
        mut job: Job,
        tag: RunTag,
        stdio: [OwnedFd; 3],
        reply: oneshot::Sender<Result<Grip, Unspawned>>,
    ) {
        if self.hold.is_none() {
            self.replace().await;
        }
        if self.hold.is_none() {
            let _unheard = reply.send(Err(Unspawned::Lost));
            return;
        }
        self.next += 1;
        job.run = self.next;
        if !self.ask(&Ask::Spawn(Box::new(job)), stdio.into()) {
            let _unheard = reply.send(Err(Unspawned::TooLong));
            return;
        }
        let (fate, _) = watch::channel(Fate::default());
        self.runs.insert(self.next, Run { tag, fate, keeper: None, reply: Some(reply) });
    }

    /// Waits until something can be read or written, and does; whether the warden still talks. Cancel safe.
    async fn exchange(&mut self) -> bool {
        let Some(Hold { link, .. }) = &mut self.hold else { return false };
        let interest = interest(link.get_ref());
        let Ok(mut guard) = link.ready_mut(interest).await else { return false };
        let step = step(guard.get_inner_mut());
        if step.drained {
            guard.clear_ready_matching(Ready::READABLE);
        }
        if step.blocked {
            guard.clear_ready_matching(Ready::WRITABLE);
        }
        drop(guard);
        step.said.into_iter().for_each(|say| self.hear(say));
        step.talks
    }

    /// Hears what a warden said before it died. Waits for nothing: a fork of it may hold the socket open.
    fn last_words(&mut self) {
        while let Some(Hold { link, .. }) = &mut self.hold {
            let step = step(link.get_mut());
            let over = step.drained || !step.talks;
            step.said.into_iter().for_each(|say| self.hear(say));
            if over {
                return;
            }
        }
    }

    fn hear(&mut self, say: Say) {
        match say {
            // Said once, at the start.
            Say::Ready(_) => {}
            Say::Pong(number) => {
                if let Some(hold) = &mut self.hold {
                    hold.answered = number;
                }
            }
            Say::Spawned { run, leader, keeper } => self.spawned(run, leader, keeper),
            Say::NotSpawned { run, stage, errno } => {
                if let Some(mut run) = self.runs.remove(&run) {
                    run.buried(0);
                    if let Some(reply) = run.reply.take() {
                        let _unheard = reply.send(Err(Unspawned::At(stage, Errno::from_raw(errno))));
                    }
                }
            }
            Say::Exited { run, status } => {
                if let Some(run) = self.runs.get(&run) {
                    run.exit(status);
                }
            }
            Say::Buried { run, survivors } => {
                if let Some(run) = self.runs.remove(&run) {
                    run.buried(survivors);
                }
            }
        }
    }

    fn spawned(&mut self, id: RunId, leader: Pid, keeper: Pid) {
        let identify = |Pid { pid, start_ticks }| Identity { pid, start_ticks, boot_id: boot_id().clone() };
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.keeper = Some(identify(keeper));
        let Some(reply) = run.reply.take() else { return };
        let identity = identify(leader);
        // The warden does not let the leader be reaped before its burial: it still has its pid.
        let pidfd = match sys::pidfd_open(leader.pid) {
            Ok(pidfd) if identity.holds() => Ok(pidfd),
            Ok(_) => Err(Errno::ESRCH),
            Err(errno) => Err(errno),
        };
        let answer = match pidfd {
            Ok(pidfd) => Ok(Grip::new(id, identity, pidfd, run.fate.subscribe(), self.undertaker.clone())),
            Err(errno) => {
                self.ask(&Ask::Bury(id), Vec::new());
                Err(Unspawned::At(SpawnStage::Pipes, errno))
            }
        };
        // Where nobody waits for it any more the grip is dropped, which buries the run.
        drop(reply.send(answer));
    }

    async fn heartbeat(&mut self) {
        let Some(hold) = &self.hold else { return };
        // Counted in beats, not in time: after this process itself was stopped the answer is in the socket already.
        let unanswered = u32::try_from(hold.asked - hold.answered).unwrap_or(u32::MAX);
        if self.config.heartbeat.saturating_mul(unanswered) > self.config.silence {
            return self.lost().await;
        }
        let number = hold.asked + 1;
        if self.ask(&Ask::Ping(number), Vec::new())
            && let Some(hold) = &mut self.hold
        {
            hold.asked = number;
        }
    }

    /// The warden died, fell silent or talks nonsense: everything it held is ended and confirmed, and a new one started.
    async fn lost(&mut self) {
        self.bury_all().await;
        self.replace().await;
    }

    async fn bury_all(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.helper.end().await;
        }
        let mut runs = std::mem::take(&mut self.runs);
        let keepers: Vec<Identity> = runs.values().filter_map(|run| run.keeper.clone()).collect();
        let tags = runs.values().map(|run| run.tag.clone()).collect();
        if !runs.is_empty() {
            blocking(move || sweep::end_runs(&keepers, &tags)).await;
        }
        for run in runs.values_mut() {
            run.buried(0);
            if let Some(reply) = run.reply.take() {
                let _unheard = reply.send(Err(Unspawned::Lost));
            }
        }
    }

    /// Where it fails, the next spawn tries again, and says so when it fails too.
    async fn replace(&mut self) {
        if let Ok((hold, containment)) = start(&self.config).await {
            self.containment.send_replace(containment);
            self.hold = Some(hold);
        }
    }

    async fn stop(&mut self) {
        if self.ask(&Ask::End, Vec::new()) {
            let ended = async {
                // Its last words say how each process ended.
                while self.exchange().await {}
            };
            let _ended_or_late = tokio::time::timeout(END, ended).await;
        }
        self.bury_all().await;
    }
}

fn interest(link: &Link) -> Interest {
    if link.has_output() { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE }
}

/// What one look at the socket gave.
struct Step {
    said: Vec<Say>,
    /// There is no more to be read for now.
    drained: bool,
    /// What is to be said has no room for now.
    blocked: bool,
    talks: bool,
}

/// Writes and reads once what can be.
fn step(link: &mut Link) -> Step {
    let mut talks = link.flush().is_ok();
    let blocked = link.has_output();
    let filled = link.fill();
    talks &= !matches!(filled, Ok(Filled::Closed) | Err(_));
    let mut said = Vec::new();
    loop {
        match link.next().and_then(|frame| frame.map(|frame| Say::decode(&frame)).transpose()) {
            Ok(Some(say)) => said.push(say),
            Ok(None) => break,
            Err(_) => {
                talks = false;
                break;
            }
        }
    }
    Step { said, drained: matches!(filled, Ok(Filled::Nothing)), blocked, talks }
}

async fn start(config: &WardenConfig) -> Result<(Hold, Containment), WardenError> {
    let (helper, mut link) = Helper::start(&config.program, config.at_most)?;
    let ready = async {
        loop {
            let mut guard = link.readable_mut().await.ok()?;
            let filled = guard.get_inner_mut().fill();
            match guard.get_inner_mut().next() {
                Ok(None) => {}
                Ok(Some(frame)) => {
                    return match Say::decode(&frame) {
                        Ok(Say::Ready(containment)) => Some(containment),
                        Ok(_) | Err(_) => None,
                    };
                }
                Err(_) => return None,
            }
            match filled {
                Ok(Filled::Some) => {}
                Ok(Filled::Nothing) => guard.clear_ready(),
                Ok(Filled::Closed) | Err(_) => return None,
            }
        }
    };
    match tokio::time::timeout(READY, ready).await {
        Ok(Some(containment)) => Ok((Hold { helper, link, asked: 0, answered: 0 }, containment)),
        Ok(None) | Err(_) => {
            helper.end().await;
            Err(WardenError::NotReady { program: config.program.name() })
        }
    }
}

/// Runs what waits where waiting is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that is shut down cancels it, and drops this task too.
            Err(_) => std::future::pending().await,
        },
    }
}
