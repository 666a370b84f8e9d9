//! The fake harness in memory: the same script behind the same trait, under the clock of the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::driver::Line;
use super::options::{Act, Child, Script};
use super::pipe::{Reader, Writer, pipe};
use super::program::{ERRORS, MANY_BYTES, NOISE, cut_in_half, line_text};
use crate::harness::run::{Launcher, Proc, Streams};
use crate::harness::{Buried, ExitStatus, Signal, SpawnError, SpawnRequest, Whom};
use crate::tree::owned::Owned;

/// What goes wrong around the process, rather than in it.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// The spawn fails with this.
    pub spawn_fails: Option<SpawnError>,
    /// The spawn takes this long.
    pub slow_spawn: Duration,
    /// Its exit is never told.
    pub lost_exit: bool,
    /// Its exit is told this much later.
    pub late_exit: Duration,
    /// Burying it takes this long.
    pub slow_burial: Duration,
}

/// Spawns fake harnesses in memory.
#[derive(Clone, Debug, Default)]
pub struct FakeLauncher {
    script: Script,
    fate: Fate,
    alive: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
}

impl FakeLauncher {
    /// Every process it spawns obeys `script`.
    pub fn new(script: Script) -> Self {
        Self { script, ..Self::default() }
    }

    /// The same, and this goes wrong.
    #[must_use]
    pub fn with(self, fate: Fate) -> Self {
        Self { fate, ..self }
    }

    /// How many processes are there, descendants included.
    pub fn alive(&self) -> u32 {
        self.alive.load(Ordering::SeqCst)
    }

    /// The most that ever were there at once.
    pub fn most(&self) -> u32 {
        self.most.load(Ordering::SeqCst)
    }
}

/// Counts one process while it lives.
#[derive(Debug)]
struct Living(Arc<AtomicU32>);

impl Living {
    fn new(alive: &Arc<AtomicU32>, most: &Arc<AtomicU32>) -> Self {
        let now = alive.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        Self(alive.clone())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A descendant that was left behind.
#[derive(Debug)]
struct Descendant {
    _living: Living,
    _holds: Option<Writer>,
}

/// A fake harness in memory. Dropping it ends it and all it started.
#[derive(Debug)]
pub struct FakeProcess {
    streams: Option<(DuplexStream, Reader, Reader)>,
    signals: mpsc::UnboundedSender<Signal>,
    exit: watch::Receiver<Option<ExitStatus>>,
    descendants: watch::Receiver<u32>,
    bury: watch::Sender<bool>,
    fate: Fate,
    _task: Owned,
}

impl Launcher for FakeLauncher {
    type Proc = FakeProcess;

    async fn spawn(&self, _request: SpawnRequest) -> Result<FakeProcess, SpawnError> {
        sleep(self.fate.slow_spawn).await;
        if let Some(error) = &self.fate.spawn_fails {
            return Err(error.clone());
        }
        let (stdin, from) = tokio::io::duplex(64 << 10);
        let (out, stdout) = pipe();
        let (err, stderr) = pipe();
        let (signals, told) = mpsc::unbounded_channel();
        let (exit_to, exit) = watch::channel(None);
        let (count, descendants) = watch::channel(0);
        let (bury, buried) = watch::channel(false);
        let living = Living::new(&self.alive, &self.most);
        let (orphans, left) = mpsc::unbounded_channel();
        let world = World { alive: self.alive.clone(), most: self.most.clone(), count, buried, orphans };
        let actor =
            Actor { script: self.script.clone(), from: Some(from), out: Some(out), err, read: String::new(), world };
        let late = self.fate.late_exit;
        let task = Owned::spawn(async move {
            let _left = left;
            let status = actor.live(told).await;
            drop(living);
            sleep(late).await;
            exit_to.send_replace(Some(status));
            // The exit is told for as long as somebody may ask.
            std::future::pending::<()>().await;
        });
        Ok(FakeProcess {
            streams: Some((stdin, stdout, stderr)),
            signals,
            exit,
            descendants,
            bury,
            fate: self.fate.clone(),
            _task: task,
        })
    }
}

impl Proc for FakeProcess {
    type Input = DuplexStream;
    type Output = Reader;

    fn streams(&mut self) -> Streams<DuplexStream, Reader> {
        match self.streams.take() {
            Some((stdin, stdout, stderr)) => (Some(stdin), Some(stdout), Some(stderr)),
            None => (None, None, None),
        }
    }

    async fn exited(&self) -> ExitStatus {
        if self.fate.lost_exit {
            std::future::pending::<()>().await;
        }
        let mut exit = self.exit.clone();
        exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit).unwrap_or(ExitStatus::Lost)
    }

    fn signal(&self, signal: Signal, _whom: Whom) {
        let _gone = self.signals.send(signal);
    }

    async fn bury(&self) -> Buried {
        let _gone = self.signals.send(Signal::Kill);
        sleep(self.fate.slow_burial).await;
        let mut exit = self.exit.clone();
        let status = exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
        let survivors = *self.descendants.borrow();
        self.bury.send_replace(true);
        let mut left = self.descendants.clone();
        let _over = left.wait_for(|count| *count == 0).await;
        Buried { exit: status.unwrap_or(ExitStatus::Lost), survivors }
    }
}

/// What a process shares with those it starts.
struct World {
    alive: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
    count: watch::Sender<u32>,
    buried: watch::Receiver<bool>,
    /// Whom it left behind: they live as long as anybody holds the process.
    orphans: mpsc::UnboundedSender<Owned>,
}

struct Actor {
    script: Script,
    from: Option<DuplexStream>,
    out: Option<Writer>,
    err: Writer,
    read: String,
    world: World,
}

impl Actor {
    /// Lives until it ends itself or a signal ends it, then closes everything it has open.
    async fn live(self, mut signals: mpsc::UnboundedReceiver<Signal>) -> ExitStatus {
        let Script { ignore_int, slow_death, .. } = self.script;
        // What is stopped does not die of SIGTERM either.
        let ignore_term = self.script.ignore_term || self.script.acts.contains(&Act::Sigstop);
        let mut acting = std::pin::pin!(self.act());
        let mut dying = None;
        loop {
            tokio::select! {
                biased;
                signal = signals.recv() => match signal {
                    Some(Signal::Kill) | None => return ExitStatus::Signal(9),
                    Some(Signal::Terminate) => match slow_death {
                        Some(after) => drop(dying.get_or_insert_with(|| Box::pin(sleep(after)))),
                        None if ignore_term => {}
                        None => return ExitStatus::Signal(15),
                    },
                    Some(Signal::Interrupt) if !ignore_int => return ExitStatus::Signal(2),
                    Some(_) => {}
                },
                () = async { match &mut dying { Some(dying) => dying.await, None => std::future::pending().await } } => {
                    return ExitStatus::Signal(15);
                }
                status = &mut acting => return status,
            }
        }
    }

    async fn act(mut self) -> ExitStatus {
        for act in std::mem::take(&mut self.script.acts) {
            if let Some(status) = self.one(act).await {
                return status;
            }
        }
        ExitStatus::Code(0)
    }

    async fn write(&self, bytes: &[u8]) {
        if let Some(out) = &self.out {
            out.write(bytes).await;
        }
    }

    async fn say(&self, line: Line) {
        self.write(line_text(&line, self.script.plain).as_bytes()).await;
    }

    async fn flood(writer: Option<&Writer>, mut size: u64, pattern: &[u8]) {
        let piece = pattern.repeat(4096 / pattern.len());
        let Some(writer) = writer else { return };
        while size > 0 {
            let len = usize::try_from(size).unwrap_or(usize::MAX).min(piece.len());
            if !writer.write(&piece[..len]).await {
                return;
            }
            size -= len as u64;
        }
    }

    /// Waits for the end of its input, or for the protocol's interrupt.
    async fn hang(&mut self) -> ExitStatus {
        let interrupted = self.script.ignore_int || self.script.plain;
        let Some(from) = self.from.as_mut().filter(|_| !interrupted) else { return std::future::pending().await };
        let mut text = String::new();
        let mut buffer = [0; 4096];
        loop {
            match from.read(&mut buffer).await {
                Ok(0) | Err(_) => return std::future::pending().await,
                Ok(len) => text.push_str(&String::from_utf8_lossy(&buffer[..len])),
            }
            if text.contains(super::driver::INTERRUPT) {
                self.say(Line::Failed { why: "canceled".to_owned(), text: "interrupted".to_owned() }).await;
                return ExitStatus::Code(0);
            }
        }
    }

    async fn one(&mut self, act: Act) -> Option<ExitStatus> {
        match act {
            Act::Read => {
                let mut bytes = Vec::new();
                if let Some(from) = &mut self.from {
                    let _error = from.read_to_end(&mut bytes).await;
                }
                self.read = String::from_utf8_lossy(&bytes).into_owned();
            }
            Act::Emit(size) => Self::flood(self.out.as_ref(), size, b"x").await,
            Act::Stderr(size) => Self::flood(Some(&self.err), size, &ERRORS).await,
            Act::Complain(text) => drop(self.err.write(format!("{text}\n").as_bytes()).await),
            Act::Lines(sizes) => {
                for size in sizes {
                    Self::flood(self.out.as_ref(), size, b"x").await;
                    self.write(b"\n").await;
                }
            }
            Act::Bytes(bytes) => {
                self.write(&bytes).await;
                self.write(b"\n").await;
            }
            Act::SplitUtf8 => {
                for byte in line_text(&Line::Text { text: MANY_BYTES.to_owned() }, self.script.plain).bytes() {
                    self.write(&[byte]).await;
                }
            }
            Act::Noise => self.write(NOISE.as_bytes()).await,
            Act::Session(id) => self.say(Line::Session { id }).await,
            Act::Text(text) => self.say(Line::Text { text }).await,
            Act::Result(text) => self.say(Line::Result { text }).await,
            Act::Echo => self.say(Line::Result { text: self.read.clone() }).await,
            Act::ResultUnended(text) => {
                let line = line_text(&Line::Result { text }, self.script.plain);
                self.write(line.trim_end_matches('\n').as_bytes()).await;
            }
            Act::Failed(why) => self.say(Line::Failed { text: format!("failed: {why}"), why }).await,
            Act::KillMidResult => {
                self.write(cut_in_half(self.script.plain).as_bytes()).await;
                return Some(ExitStatus::Signal(9));
            }
            Act::CloseOutput => self.out = None,
            Act::Sleep(time) => sleep(time).await,
            Act::Hang => return Some(self.hang().await),
            Act::Spin | Act::Sigstop => return std::future::pending().await,
            Act::Heartbeat(period) => loop {
                self.say(Line::Heartbeat {}).await;
                sleep(period).await;
            },
            Act::Child(child, time) => self.leave(child, time),
            // Sessions and zombies are the kernel's: in memory there are none.
            Act::NewSession | Act::ForkAndExit(_) => {}
            Act::ForkBomb(most) => (0..most).for_each(|_| self.leave(Child::Plain, Duration::from_secs(3600))),
            Act::Abort => return Some(ExitStatus::Signal(6)),
            Act::Segv => return Some(ExitStatus::Signal(11)),
            Act::Exit(code) => return Some(ExitStatus::Code(code)),
        }
        None
    }

    /// Leaves a descendant that ends after `time`, or when it is buried.
    fn leave(&self, child: Child, time: Duration) {
        let holds = self.out.clone().filter(|_| child == Child::Holder);
        let living = Living::new(&self.world.alive, &self.world.most);
        let descendant = Descendant { _living: living, _holds: holds };
        let (count, mut buried) = (self.world.count.clone(), self.world.buried.clone());
        count.send_modify(|count| *count += 1);
        let orphan = Owned::spawn(async move {
            tokio::select! {
                biased;
                _ = buried.wait_for(|buried| *buried) => {}
                () = sleep(time) => {}
            }
            drop(descendant);
            count.send_modify(|count| *count -= 1);
        });
        let _gone = self.world.orphans.send(orphan);
    }
}
