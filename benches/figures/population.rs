//! How many sessions live at once, and what each keeps in memory. Each measured in a process of its own.

use std::time::Duration;

use tokio::sync::mpsc;
use treeward::journal::Durability;
use treeward::{Limits, Place, Runtime, Submission, Team};

use crate::report::{Figure, Goal, Report};
use crate::{Effort, agents, machine};

const KIB: f64 = 1024.0;
/// A guest that waits in the host for an hour.
const WAIT: &str = r#"[{"do":"sleep","ms":3600000}]"#;

pub fn measure(report: &mut Report, _: Effort) {
    let goal = Goal::AtMost(64.0);
    if report.wants("resident-guest-1000") {
        let value = machine::run_part(&["guests", "1000"])[1] / KIB;
        report.figure(Figure { name: "resident-guest-1000", value, unit: "KiB-each", floor: None, goal });
    }
    if report.wants("resident-guest-10000") || report.wants("live-guests") {
        let numbers = machine::run_part(&["guests", "10000"]);
        let value = numbers[1] / KIB;
        report.figure(Figure { name: "resident-guest-10000", value, unit: "KiB-each", floor: None, goal });
        let (value, goal) = (numbers[0], Goal::AtLeast(10_000.0));
        report.figure(Figure { name: "live-guests", value, unit: "sessions", floor: None, goal });
    }
    if report.wants("live-native") || report.wants("resident-native") {
        let numbers = machine::run_part(&["natives", "100000"]);
        let (value, goal) = (numbers[0], Goal::AtLeast(100_000.0));
        report.figure(Figure { name: "live-native", value, unit: "sessions", floor: None, goal });
        let (value, goal) = (numbers[1] / KIB, Goal::Shown);
        report.figure(Figure { name: "resident-native", value, unit: "KiB-each", floor: None, goal });
    }
}

/// So many trees of one waiting guest each, on the machine's defaults: how many live, and bytes resident for each.
pub fn guests(number: usize) -> Vec<f64> {
    machine::tokio().block_on(async {
        let place = machine::disk();
        let journal = Place::File(place.path().join("journal.db"), Durability::Sync);
        let runtime = Runtime::builder().journal(journal).start().await.expect("it starts");
        let team = Team::new(agents::script(place.path()), []).expect("a team");
        let first = runtime.submit(Submission::new(team.clone(), "[]")).await.expect("it is taken");
        assert_eq!(first.completion().await.expect("the journal is good").detail, None);
        machine::settled().await;
        let (free, before) = (runtime.free_places(), machine::resident());
        let mut trees = Vec::with_capacity(number);
        for _ in 0..number {
            trees.push(runtime.submit(Submission::new(team.clone(), WAIT)).await.expect("it is taken"));
        }
        machine::settled().await;
        let live = (free - runtime.free_places()) as f64;
        let each = (machine::resident() - before) / live;
        trees.iter().for_each(|tree| tree.stop(Duration::from_secs(20)));
        runtime.stop(Duration::from_secs(20)).await.expect("it stops");
        vec![live, each]
    })
}

/// Two native sessions with half of so many waiting children each: how many sessions live, and bytes resident for each.
pub fn natives(number: usize) -> Vec<f64> {
    machine::tokio().block_on(async {
        let place = machine::disk();
        let journal = Place::File(place.path().join("journal.db"), Durability::Sync);
        let limits = Limits { live_sessions: number as u32 + 2, ..Limits::default() };
        let runtime = Runtime::builder().journal(journal).limits(limits).start().await.expect("it starts");
        let (started, mut all) = mpsc::channel(1);
        let team = agents::crowd(&agents::waiter(), "", started);
        machine::settled().await;
        let (free, before) = (runtime.free_places(), machine::resident());
        let mut trees = Vec::new();
        for _ in 0..2 {
            let half = Submission::new(team.clone(), (number / 2).to_string());
            trees.push(runtime.submit(half).await.expect("it is taken"));
        }
        for _ in &trees {
            all.recv().await.expect("all have started");
        }
        machine::settled().await;
        let live = (free - runtime.free_places()) as f64;
        let each = (machine::resident() - before) / live;
        trees.iter().for_each(|tree| tree.stop(Duration::from_secs(60)));
        runtime.stop(Duration::from_secs(60)).await.expect("it stops");
        vec![live, each]
    })
}
