//! Asking the gate, against a bare call of an actor.

use std::time::{Duration, Instant};

use treeward::agent::{Session, Task};
use treeward::journal::Durability;
use treeward::{Capsule, Place, Runtime, Submission, Team};

use crate::report::{Figure, Goal, Report, Samples};
use crate::{Effort, floors, machine};

pub fn measure(report: &mut Report, effort: Effort) {
    let (rounds, times) = effort.pick((5, 1_000), (15, 4_000));
    machine::tokio().block_on(async {
        let place = machine::disk();
        let journal = Place::File(place.path().join("journal.db"), Durability::Sync);
        let runtime = Runtime::builder().journal(journal).start().await.expect("it starts");
        let (mut denied, mut called, mut floor) = Default::default();
        for round in 0..=rounds {
            let mut into = [&mut denied, &mut called];
            for (samples, tool) in into.iter_mut().zip(["absent", "echo"]) {
                let task = format!("{times} {tool}");
                let tree = runtime.submit(Submission::new(asker(), task)).await.expect("it is taken");
                let completion = tree.completion().await.expect("the journal is good");
                assert_eq!(completion.detail, None);
                let took = completion.answer.split(' ').map(|nanos| nanos.parse::<f64>().expect("a number") / 1e3);
                if round > 0 {
                    Samples::extend(samples, took);
                }
            }
            let bare = floors::actor_calls(times).await;
            if round > 0 {
                Samples::extend(&mut floor, [bare.median()]);
            }
        }
        runtime.stop(Duration::from_secs(5)).await.expect("it stops");
        let floor = (floor.median(), "a call to a bare actor and its answer");
        report.figure(Figure {
            name: "gate",
            value: denied.median(),
            unit: "us",
            floor: Some(floor),
            goal: Goal::RatioAtMost(2.0),
        });
        report.figure(Figure {
            name: "tool-call",
            value: called.median(),
            unit: "us",
            floor: Some(floor),
            goal: Goal::Shown,
        });
    });
}

/// Calls the named tool as often as its task says: one that the gate denies takes the gate's time alone.
fn asker() -> Team {
    let agent = |session: Session, task: Task| async move {
        let (times, tool) = task.text.split_once(' ').ok_or("the task is a number and a name")?;
        let times: u32 = times.parse().map_err(|_| "the task begins with a number")?;
        let mut took = Vec::with_capacity(times as usize);
        for _ in 0..times {
            let begin = Instant::now();
            let answer = session.call_tool(tool, "x").await.map_err(|why| why.to_string())?;
            took.push(begin.elapsed().as_nanos().to_string());
            if answer.is_ok() != (tool == "echo") {
                return Err(format!("{answer:?}"));
            }
        }
        Ok(took.join(" "))
    };
    let asker = Capsule::native("asker", agent).tool("echo", false, |input| async move { Ok(input) });
    Team::new(asker.build().expect("a capsule"), []).expect("a team")
}
