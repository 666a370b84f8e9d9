//! Durable child sessions per second: sixty-four parents, each handing over one task after the other.

use std::time::{Duration, Instant};

use treeward::ids::TreeId;
use treeward::journal::{
    Batch, Durability, Filter, Limit, Reader, Source as _, SqliteOptions, SqliteStore, Started, Store as _,
};
use treeward::{Place, Runtime, Submission};

use crate::report::{Figure, Goal, Report, Samples};
use crate::{Effort, agents, machine};

const PARENTS: usize = 64;

pub fn measure(report: &mut Report, effort: Effort) {
    let (rounds, each) = effort.pick((2, 150), (7, 400));
    let (mut rate, mut floor) = (Samples::default(), Samples::default());
    for round in 0..=rounds {
        let place = machine::disk();
        let file = place.path().join("journal.db");
        let took = machine::tokio().block_on(run(Place::File(file.clone(), Durability::Sync), each));
        let children = (PARENTS * each) as f64;
        let store = store_again(&file, &place.path().join("again.db"));
        if round > 0 {
            rate.extend([children / took.as_secs_f64()]);
            floor.extend([children / store.as_secs_f64()]);
        }
    }
    report.figure(Figure {
        name: "durable-children",
        value: rate.median(),
        unit: "sessions/s",
        floor: Some((
            floor.median(),
            "the store alone writing the same records, ready made, as large as its batches are",
        )),
        goal: Goal::AtLeastOrRatio(10_000.0, 0.8),
    });
}

/// From the first submission until the last tree's ending is durable, which is behind everything in it.
async fn run(journal: Place, each: usize) -> Duration {
    let runtime = Runtime::builder().journal(journal).start().await.expect("it starts");
    let team = agents::lead(&agents::echo());
    let begin = Instant::now();
    let mut trees = Vec::new();
    for _ in 0..PARENTS {
        trees.push(runtime.submit(Submission::new(team.clone(), each.to_string())).await.expect("it is taken"));
    }
    for tree in trees {
        assert_eq!(tree.completion().await.expect("the journal is good").detail, None);
    }
    let took = begin.elapsed();
    runtime.stop(Duration::from_secs(5)).await.expect("it stops");
    took
}

/// Stores what was just written once more, without anything before the store.
fn store_again(from: &std::path::Path, to: &std::path::Path) -> Duration {
    let mut reader = Reader::open(from).expect("it was written");
    let (mut trees, mut records) = (Vec::<Started>::new(), Vec::new());
    for info in reader.trees(&Filter::default()).expect("it is read") {
        let tree: TreeId = info.tree;
        trees.push(Started { tree, at: info.started_at, labels: info.labels });
        let mut next = 1;
        loop {
            let page = reader.read(tree, next, Limit::default()).expect("it is read");
            next += page.records.len() as u64;
            records.extend(page.records);
            if !page.more {
                break;
            }
        }
    }
    let mut store = SqliteStore::open(to, SqliteOptions::default()).expect("a second journal");
    store.append(&Batch { started: trees, ..Batch::default() }).expect("it is stored");
    let mut batches = Vec::new();
    while !records.is_empty() {
        let rest = records.split_off(records.len().min(4096));
        batches.push(Batch { records: std::mem::replace(&mut records, rest), ..Batch::default() });
    }
    let begin = Instant::now();
    for batch in &batches {
        store.append(batch).expect("it is stored");
    }
    begin.elapsed()
}
