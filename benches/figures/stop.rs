//! Stopping a tree of ten thousand sessions, until nothing of it is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use treeward::agent::{Session, Task};
use treeward::journal::Durability;
use treeward::{Capsule, Limits, Place, Runtime, Submission, Team};

use crate::report::{Figure, Goal, Report, Samples};
use crate::{Effort, agents, machine};

const SESSIONS: usize = 10_000;
const LEVELS: usize = 1_000;
/// Each level's deadline is a little before the one above it.
const HOUR: Duration = Duration::from_secs(3600);

pub fn measure(report: &mut Report, effort: Effort) {
    for (name, deep) in [("stop-wide", false), ("stop-deep", true)] {
        if !report.wants(name) {
            continue;
        }
        let mut samples = Samples::default();
        for _ in 0..effort.pick(1, 5) {
            samples.add(machine::tokio().block_on(stop(deep)));
        }
        let (value, goal) = (samples.median() / 1e6, Goal::AtMost(1.0));
        report.figure(Figure { name, value, unit: "s", floor: None, goal });
    }
}

/// From the word until the tree's ending is durable and every place is free again.
async fn stop(deep: bool) -> Duration {
    let place = machine::disk();
    let journal = Place::File(place.path().join("journal.db"), Durability::Sync);
    let limits = Limits { live_sessions: SESSIONS as u32 + 1, depth: LEVELS as u32 + 1, ..Limits::default() };
    let runtime = Runtime::builder().journal(journal).limits(limits).start().await.expect("it starts");
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let free = runtime.free_places();
    let (started, mut all) = mpsc::channel(1);
    let team = if deep { chain(started) } else { agents::crowd(&agents::waiter(), "", started) };
    let task = Submission::new(team, (SESSIONS - 1).to_string()).deadline(HOUR);
    let tree = runtime.submit(task).await.expect("it is taken");
    all.recv().await.expect("all have started");
    machine::settled().await;
    assert_eq!(free - runtime.free_places(), SESSIONS, "all of them live");
    let begin = Instant::now();
    tree.stop(Duration::from_secs(20));
    let completion = tree.completion().await.expect("the journal is good");
    while runtime.free_places() != free {
        tokio::task::yield_now().await;
    }
    let took = begin.elapsed();
    assert!(completion.detail.is_some(), "{completion:?}");
    machine::settled().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), tasks, "nothing is left");
    runtime.stop(Duration::from_secs(20)).await.expect("it stops");
    took
}

/// A thousand levels: each session has nine children that wait and one that goes on downwards.
fn chain(started: mpsc::Sender<()>) -> Team {
    let count = Arc::new(AtomicUsize::new(0));
    let link = move |session: Session, _: Task| {
        let (count, started) = (count.clone(), started.clone());
        async move {
            let mut held = Vec::new();
            for child in 0..10 {
                let made = count.fetch_add(1, Ordering::Relaxed);
                if made >= SESSIONS - 1 {
                    if made == SESSIONS - 1 {
                        let _nobody = started.send(()).await;
                    }
                    break;
                }
                let name = if child == 9 { "link" } else { "waiter" };
                held.push(session.delegate_to(name, "").await.map_err(|why| why.to_string())?);
            }
            std::future::pending().await
        }
    };
    let link = Capsule::native("link", link).delegates(["link", "waiter"]).deadline(HOUR).build().expect("a capsule");
    Team::new(link, [agents::waiter()]).expect("a team")
}
