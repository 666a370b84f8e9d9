//! What the harness's promises are tested with: runs of the fake harness, in memory or for real.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use treeward::driver::{Driver, Event, Request};
use treeward::harness::fake::{FakeDriver, FakeLauncher, Fate, Script};
use treeward::harness::run::{
    Graces, Launch, Launcher, Parts, Recorder, Recording, Report, Sink, Sinking, StopOrder, run,
};
use treeward::harness::{ProcessLimits, RunTag, Warden};
use treeward::ids::RunId;
use treeward::journal::Kind;
use treeward::supervision::StopTimes;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// What happened, in the order it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Record(Kind),
    Event(Event),
    Progress,
}

/// Keeps what a run records and says.
#[derive(Clone)]
pub struct Witness {
    to: mpsc::UnboundedSender<(Instant, Seen)>,
    /// How long each event takes to be taken.
    pub slow: Duration,
}

impl Recorder for Witness {
    fn record(&self, _run: RunId, kind: Kind) {
        let _gone = self.to.send((Instant::now(), Seen::Record(kind)));
    }

    fn commit(&self, run: RunId, kind: Kind) -> Recording {
        self.record(run, kind);
        Box::pin(async { Ok(()) })
    }
}

impl Sink for Witness {
    fn event(&self, event: Event) -> Sinking {
        let this = self.clone();
        Box::pin(async move {
            tokio::time::sleep(this.slow).await;
            let _gone = this.to.send((Instant::now(), Seen::Event(event)));
        })
    }

    fn progress(&self) {
        let _gone = self.to.send((Instant::now(), Seen::Progress));
    }
}

/// A run that has ended.
pub struct Ended {
    pub report: Report,
    pub seen: Vec<(Instant, Seen)>,
    /// How long it took.
    pub took: Duration,
}

impl Ended {
    /// The names of its records of its process, in order.
    pub fn records(&self) -> Vec<&'static str> {
        let kinds = self.kinds();
        kinds.iter().map(|kind| kind.name()).filter(|name| name.starts_with("harness_")).collect()
    }

    fn kinds(&self) -> Vec<Kind> {
        let kind = |(_, seen): &'_ (Instant, Seen)| match seen {
            Seen::Record(kind) => Some(kind.clone()),
            Seen::Event(_) | Seen::Progress => None,
        };
        self.seen.iter().filter_map(kind).collect()
    }

    /// The keys of its notes.
    pub fn notes(&self) -> Vec<String> {
        let kinds = self.kinds();
        let key = |kind: &Kind| match kind {
            Kind::Note { key, .. } => Some(key.trim_start_matches("harness.").to_owned()),
            _ => None,
        };
        kinds.iter().filter_map(key).collect()
    }

    /// The signals it was sent, and how long after its start.
    pub fn signals(&self) -> Vec<(String, Duration)> {
        let start = self.seen[0].0;
        let signal = |(at, seen): &(Instant, Seen)| match seen {
            Seen::Record(Kind::HarnessKilled { signal }) => Some((signal.clone(), *at - start)),
            _ => None,
        };
        self.seen.iter().filter_map(signal).collect()
    }

    /// The texts it said.
    pub fn texts(&self) -> Vec<String> {
        let text = |(_, seen): &(Instant, Seen)| match seen {
            Seen::Event(Event::Text { text, .. }) => Some(text.clone()),
            _ => None,
        };
        self.seen.iter().filter_map(text).collect()
    }

    /// How long from its exit to its end.
    pub fn after_exit(&self) -> Duration {
        let at = |wanted: &str| {
            let is = |(_, seen): &&(Instant, Seen)| matches!(seen, Seen::Record(kind) if kind.name() == wanted);
            self.seen.iter().find(is).unwrap_or_else(|| panic!("no {wanted}")).0
        };
        at("harness_gone") - at("harness_exited")
    }

    pub fn answer(&self) -> &str {
        match &self.report.result {
            Some(Ok(answer)) => answer,
            other => panic!("no answer but {other:?}: {:?}", self.report),
        }
    }
}

/// A run to be made.
pub struct Run {
    pub task: String,
    pub graces: Graces,
    pub slow: Duration,
    /// Stops, by how long after the start: kill after, done after.
    pub stops: Vec<(Duration, Duration, Duration)>,
    pub driver: Box<dyn Driver>,
    pub limits: ProcessLimits,
    pub id: RunId,
}

impl Run {
    pub fn new(driver: impl Driver + 'static) -> Self {
        let graces = Graces::default();
        let limits = ProcessLimits::default();
        let id = RunId::new(uuid::Builder::from_random_bytes(unique()).into_uuid());
        Self {
            task: "go".into(),
            graces,
            slow: Duration::ZERO,
            stops: Vec::new(),
            driver: Box::new(driver),
            limits,
            id,
        }
    }

    /// One that speaks the fake harness's protocol.
    pub fn fake() -> Self {
        Self::new(FakeDriver::new(vec!["fake".into()]).closing_input())
    }

    /// One of a `command`.
    pub fn command() -> Self {
        Self::new(treeward::driver::Command::new(vec!["fake".into()]))
    }

    #[must_use]
    pub fn task(mut self, task: impl Into<String>) -> Self {
        self.task = task.into();
        self
    }

    #[must_use]
    pub fn stop(mut self, at: Duration, kill: Duration, done: Duration) -> Self {
        self.stops.push((at, kill, done));
        self
    }

    /// Runs the fake harness in memory.
    pub async fn of(self, options: &[&str]) -> Ended {
        self.with(options, Fate::default()).await
    }

    /// The same, and this goes wrong.
    pub async fn with(self, options: &[&str], fate: Fate) -> Ended {
        let launcher = FakeLauncher::new(Script::parse(options).expect("a script")).with(fate);
        let ended = self.on(&launcher).await;
        assert_eq!(launcher.alive(), 0, "something is left");
        ended
    }

    /// Runs the fake harness as a process, in its own protocol or as a command; nothing of it may be left.
    pub async fn real(warden: &Warden, options: &[&str], change: impl FnOnce(Self) -> Self) -> Ended {
        let argv = [env!("CARGO_BIN_EXE_treeward"), "fake", "harness"].iter().chain(options).map(ToString::to_string);
        let argv: Vec<String> = argv.collect();
        let run = match options.contains(&"--plain") {
            true => Self::new(treeward::driver::Command::new(argv)),
            false if options.contains(&"--hang") => Self::new(FakeDriver::new(argv)),
            false => Self::new(FakeDriver::new(argv).closing_input()),
        };
        let run = change(run);
        let tag = RunTag::new(run.id.bytes());
        let ended = tokio::time::timeout(60 * SECOND, run.on(warden)).await.expect("an ending");
        assert_eq!(crate::warden_kit::tagged(&tag), Vec::<i32>::new(), "left behind by {options:?}");
        ended
    }

    pub async fn on(mut self, launcher: &impl Launcher) -> Ended {
        let (to, mut seen) = mpsc::unbounded_channel();
        let witness = Arc::new(Witness { to, slow: self.slow });
        let start = Instant::now();
        let (order, stop) = watch::channel(None);
        let say = move |kill, done| {
            let times = StopTimes::new(start + kill, start + done, 0).expect("times in order");
            order.send_modify(|order: &mut Option<StopOrder>| {
                let times = order.map_or(times, |earlier| earlier.times.tighten(times));
                *order = Some(StopOrder { times });
            });
        };
        let (before, during): (Vec<_>, Vec<_>) = self.stops.into_iter().partition(|(at, ..)| at.is_zero());
        before.into_iter().for_each(|(_, kill, done)| say(kill, done));
        let mut stopping: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            for (at, kill, done) in during {
                tokio::time::sleep_until(start + at).await;
                say(kill, done);
            }
            // Kept, so that nobody takes it for the end of whoever could stop.
            std::future::pending::<()>().await;
        });
        let request = Request { task: self.task, answer_limit: 16 << 20, ..Request::default() };
        let plan = self.driver.launch(&request).expect("a plan");
        let env = vec![("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())];
        let launch = Launch { plan, env, cwd: std::env::temp_dir(), limits: self.limits };
        let parts = Parts {
            launcher,
            driver: self.driver,
            launch,
            run: self.id,
            graces: self.graces,
            stop,
            recorder: witness.clone(),
            sink: witness,
            detail: 2_000,
        };
        let report = {
            let mut running = std::pin::pin!(run(parts));
            tokio::select! {
                biased;
                report = &mut running => report,
                () = &mut stopping => unreachable!("it never ends"),
            }
        };
        let took = start.elapsed();
        let mut all = Vec::new();
        while let Ok(one) = seen.try_recv() {
            all.push(one);
        }
        Ended { report, seen: all, took }
    }
}

/// 16 bytes that no other run of this process has.
fn unique() -> [u8; 16] {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    bytes
}
