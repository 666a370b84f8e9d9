//! `treeward soak`: very many sessions under faults, and nothing left of them.

mod gauge;
mod report;
mod teams;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use treeward::capsule::Team;
use treeward::journal::verify::verify;
use treeward::journal::{CompletionStatus, Counter, Durability, Filter, Journal};
use treeward::limits::Limits;
use treeward::{Place, Runtime};

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::out::Out;
use gauge::Held;
use report::Report;

/// Runs 100 000 short sessions beside 1 000 long ones, with faults striking at random, and checks that nothing is left.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Trees of 50 sessions come and go, 24 at a time, while trees of 100 live through all of it. Every tree's records are
verified, and every session must have ended once. When all have ended, memory, descriptors, threads, tasks, places and
files must be what they were after a first small round. Exit code 1: something is left, or a tree is not as it should be.

Examples:
  treeward soak --short              4 000 short sessions and 100 long ones: under a minute
  treeward soak --seed 7 --json      all of it, with these faults")]
pub struct Args {
    /// Only so many short sessions, and one long one for every forty
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "4000")]
    short: Option<u32>,
    /// The seed the faults are drawn from; otherwise from the system, and told
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The report as one JSON object
    #[arg(long)]
    json: bool,
}

const SHORT_SESSIONS: usize = 100_000;
const LONG_SESSIONS: usize = 1_000;
/// Short trees at once.
const AT_ONCE: usize = 24;
/// Short trees of the round before the base is taken: it fills caches and starts threads.
const FIRST_ROUND: usize = 48;
/// How long a tree of limits measured in seconds may take before it is said never to end.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long what has ended may take to be gone.
const SETTLE: Duration = Duration::from_secs(15);

/// What is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    short_trees: usize,
    long_trees: usize,
}

impl Size {
    fn of(short: Option<u32>) -> Self {
        let (short, long) = match short {
            Some(short) => (short as usize, short as usize / 40),
            None => (SHORT_SESSIONS, LONG_SESSIONS),
        };
        Self { short_trees: short.div_ceil(teams::SHORT).max(1), long_trees: long.div_ceil(teams::LONG).max(1) }
    }
}

/// Runs the soak and says what came of it.
pub fn run(args: &Args) -> Outcome {
    let directory = Directory::make()?;
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Threads that block now and then are to be gone when it is looked for what is left.
        .thread_keep_alive(Duration::from_secs(1))
        .build()
        .map_err(|error| Failure::new(Exit::Crashed, format!("no threads to run on: {error}")))?;
    let size = Size::of(args.short);
    let interrupted = async {
        let _no_signals = tokio::signal::ctrl_c().await;
    };
    let report = threads.block_on(async {
        tokio::select! {
            biased;
            report = soak(size, args.seed, &directory.0) => Some(report),
            () = interrupted => None,
        }
    });
    threads.shutdown_timeout(Duration::from_secs(1));
    let Some(report) = report else { return Ok(Exit::Interrupted) };
    let report = report?;
    let mut out = Out::stdout();
    if args.json {
        out.json(&report.json().to_string())?;
    } else {
        report.lines().iter().try_for_each(|line| out.line(line))?;
    }
    out.finish()?;
    Ok(if report.is_good() { Exit::Ok } else { Exit::Failed })
}

/// Where the journal and the guest lie while the soak runs; removed with this.
struct Directory(PathBuf);

impl Directory {
    fn make() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("treeward-soak-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path).and_then(|()| teams::write_guest(&path));
        let made = made.map(|()| Self(path.clone()));
        made.map_err(|error| Failure::new(Exit::Crashed, format!("{}: {error}", path.display())))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _already_gone = std::fs::remove_dir_all(&self.0);
    }
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Crashed, error)
}

async fn soak(size: Size, seed: Option<u64>, directory: &Path) -> Result<Report, Failure> {
    let builder = Runtime::builder()
        .journal(Place::File(directory.join("journal.db"), Durability::Os))
        .limits(Limits { stall: Duration::from_secs(5), ..Limits::default() })
        .cache(None)
        .faults(teams::faults());
    let builder = match seed {
        Some(seed) => builder.seed(seed),
        None => builder,
    };
    let runtime = builder.start().await.map_err(broken)?;
    let places = runtime.free_places();
    let held = || Held::now(&runtime, places, directory);
    let from = Instant::now();
    let mut soak = Soak { runtime: &runtime, directory, next: 0, report: Report::new(runtime.seed()) };

    let first = Size { short_trees: FIRST_ROUND.min(size.short_trees), long_trees: 1 };
    soak.round(first, || ()).await?;
    quiet(&held).await;
    let base = held();
    let mut peak = base;
    soak.round(size, || peak = peak.most(held())).await?;
    settle(base, &held, SETTLE).await;

    let mut report = soak.report;
    report.compared = base.compare(peak, held()).into();
    let count = |counter| runtime.journal().count(counter);
    report.started = count(Counter::SessionsStarted);
    report.ended = count(Counter::SessionsEnded);
    report.restarts = count(Counter::Restarts);
    report.took = from.elapsed();
    if let Err(error) = runtime.stop(Limits::default().grace).await {
        report.wrong(format!("the journal failed: {error}"));
    }
    Ok(report)
}

/// Waits until what is held stays the same, for a while: what a round leaves behind for good is the base.
async fn quiet(held: &impl Fn() -> Held) {
    let still = |held: Held| Held { memory: 0, ..held };
    let (mut last, mut same) = (held(), 0);
    for _ in 0..SETTLE.as_millis() / 100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = held();
        // Longer than an idle thread is kept.
        same = if still(now) == still(last) { same + 1 } else { 0 };
        if same == 15 {
            return;
        }
        last = now;
    }
}

/// Waits until what is held is back at `base`, for a while.
async fn settle(base: Held, held: &impl Fn() -> Held, patience: Duration) {
    let until = Instant::now() + patience;
    while !held().is_back(base) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

struct Soak<'a> {
    runtime: &'a Runtime,
    directory: &'a Path,
    /// The number of the next tree.
    next: usize,
    report: Report,
}

impl Soak<'_> {
    /// Lets the short trees come and go while the long ones live; `each` is called with every short tree that ended.
    async fn round(&mut self, size: Size, mut each: impl FnMut()) -> Result<(), Failure> {
        let (beat, beats) = watch::channel(0);
        let mut long = JoinSet::new();
        for _ in 0..size.long_trees {
            let team = teams::long(&beats);
            self.start(team, Duration::MAX, &mut long).await?;
        }
        let team = teams::short(&self.directory.join("guest.toml")).map_err(broken)?;
        let mut short = JoinSet::new();
        for number in 0..size.short_trees {
            if number >= AT_ONCE {
                self.take(&mut short).await;
                each();
                // A sign of life from every long session, now and then.
                if number % 50 == 0 {
                    beat.send_modify(|beat| *beat += 1);
                }
            }
            self.start(team.clone(), PATIENCE, &mut short).await?;
        }
        each();
        while self.take(&mut short).await {}
        // The long ones answer when there is no beat any more.
        drop((beat, beats));
        while self.take(&mut long).await {}
        Ok(())
    }

    async fn start(&mut self, team: Team, patience: Duration, running: &mut JoinSet<Judged>) -> Result<(), Failure> {
        let number = self.next;
        self.next += 1;
        let tree = self.runtime.submit(teams::submission(team, number)).await.map_err(broken)?;
        let journal = self.runtime.journal().clone();
        running.spawn(async move {
            let id = tree.id();
            let ended = match tokio::time::timeout(patience, tree.completion()).await {
                Ok(Ok(completion)) => completion,
                Ok(Err(error)) => return Err(format!("{id}: {error}")),
                Err(_) => return Err(format!("{id} did not end within {}s", patience.as_secs())),
            };
            judge(&journal, number).await?;
            Ok(ended.status)
        });
        Ok(())
    }

    /// Takes the next tree that ended; whether there was one.
    async fn take(&mut self, running: &mut JoinSet<Judged>) -> bool {
        match running.join_next().await {
            None => return false,
            Some(Ok(Ok(status))) => self.report.tree(status),
            Some(Ok(Err(why))) => self.report.wrong(why),
            Some(Err(panicked)) => self.report.wrong(panicked.to_string()),
        }
        true
    }
}

type Judged = Result<CompletionStatus, String>;

/// Verifies the tree with this number, and forgets it where it is as it should be.
async fn judge(journal: &Journal, number: usize) -> Result<(), String> {
    let filter = Filter { labels: [("soak".to_owned(), number.to_string())].into(), ..Filter::default() };
    let wanted = filter.clone();
    let found = journal.query(move |source| {
        let trees = source.trees(&wanted)?;
        trees.iter().map(|info| verify(source, info)).collect::<Result<Vec<_>, _>>()
    });
    let found = found.await.map_err(|error| error.to_string())?;
    let [found] = &found[..] else { return Err(format!("tree {number}: {} trees have its label", found.len())) };
    if !found.is_whole() {
        let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        return Err(format!("{}: {}", found.tree, problems.join("; ")));
    }
    if !found.ended || !found.open.is_empty() {
        return Err(format!("{}: not everything has ended: {:?}", found.tree, found.open));
    }
    journal.prune(filter).await.map_err(|error| error.to_string()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_soak_is_a_small_one() {
        assert_eq!(Size::of(None), Size { short_trees: 2000, long_trees: 10 });
        assert_eq!(Size::of(Some(4000)), Size { short_trees: 80, long_trees: 1 });
        assert_eq!(Size::of(Some(0)), Size { short_trees: 1, long_trees: 1 });
    }
}
