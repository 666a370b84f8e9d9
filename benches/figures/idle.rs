//! A process that has nothing to do.

use std::time::{Duration, Instant};

use treeward::journal::Durability;
use treeward::{Place, Runtime};

use crate::report::{Figure, Goal, Report};
use crate::{Effort, machine};

pub fn measure(report: &mut Report, effort: Effort) {
    let numbers = machine::run_part(&["idle", effort.pick("3", "20")]);
    report.figure(Figure {
        name: "idle-memory",
        value: numbers[0] / f64::from(1 << 20),
        unit: "MiB",
        floor: None,
        goal: Goal::AtMost(25.0),
    });
    report.figure(Figure {
        name: "idle-cpu",
        value: numbers[1] * 100.0,
        unit: "%-of-a-core",
        floor: None,
        goal: Goal::AtMost(0.1),
    });
}

/// A runtime with its journal on disk and no session, for so many seconds: bytes resident, and the part of a core used.
pub fn part(seconds: u64) -> Vec<f64> {
    machine::tokio().block_on(async {
        let place = machine::disk();
        let journal = Place::File(place.path().join("journal.db"), Durability::Sync);
        let runtime = Runtime::builder().journal(journal).start().await.expect("it starts");
        machine::settled().await;
        let (begin, before) = (Instant::now(), machine::running());
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let used = (machine::running() - before).as_secs_f64() / begin.elapsed().as_secs_f64();
        let resident = machine::resident();
        runtime.stop(Duration::from_secs(5)).await.expect("it stops");
        vec![resident, used]
    })
}
