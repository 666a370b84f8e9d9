//! A delegation to a fresh child, there and back, against the sum of its floors and against a process per child.

use std::sync::Arc;

use treeward::journal::Durability;
use treeward::{Capsule, Place, Runtime, Submission};

use crate::report::{Figure, Goal, Report, Samples};
use crate::{Effort, agents, floors, machine};

pub fn measure(report: &mut Report, effort: Effort) {
    let (rounds, times) = effort.pick((5, 400), (15, 1_000));
    let native = report.wants("delegation-native");
    let guest = ["delegation-guest", "delegation-vs-process"].iter().any(|name| report.wants(name));
    machine::tokio().block_on(async {
        let place = machine::disk();
        if native {
            let (took, floor) = rounds_of(place.path(), &agents::echo(), None, rounds, times).await;
            report.figure(Figure {
                name: "delegation-native",
                value: took.median(),
                unit: "us",
                floor: Some((floor.median(), "an actor spawned linked, a task, four messages, stopped and joined")),
                goal: Goal::RatioAtMost(3.0),
            });
        }
        if guest {
            let text = agents::echo_text();
            let capsule = agents::guest(place.path(), "echo", text.as_bytes());
            let bare = floors::BareGuest::new(&text);
            let (took, floor) = rounds_of(place.path(), &capsule, Some(bare), rounds, times).await;
            report.figure(Figure {
                name: "delegation-guest",
                value: took.median(),
                unit: "us",
                floor: Some((floor.median(), "the same and a pooled instance made, called once and dropped")),
                goal: Goal::RatioAtMost(3.0),
            });
            floors::processes(20);
            let process = floors::processes(effort.pick(200, 1_000)).median();
            report.figure(Figure {
                name: "delegation-vs-process",
                value: took.median(),
                unit: "us",
                floor: Some((process, "/bin/true through posix_spawn, waited for")),
                goal: Goal::RatioAtMost(0.2),
            });
        }
    });
}

/// Delegations and their floor, in turn. The journal is durable: nobody in the process waits for it.
async fn rounds_of(
    place: &std::path::Path,
    child: &Arc<Capsule>,
    bare: Option<floors::BareGuest>,
    rounds: usize,
    times: usize,
) -> (Samples, Samples) {
    let journal = Place::File(place.join(format!("{}.db", child.kind() as u8)), Durability::Sync);
    let runtime = Runtime::builder().journal(journal).cache(None).start().await.expect("it starts");
    let team = agents::lead(child);
    let (mut took, mut floor) = (Samples::default(), Samples::default());
    for round in 0..=rounds {
        let tree = runtime.submit(Submission::new(team.clone(), times.to_string())).await.expect("it is taken");
        let completion = tree.completion().await.expect("the journal is good");
        assert_eq!(completion.detail, None);
        let bare = floors::delegations(times, bare.clone()).await;
        // The first is for caches, pools and pages.
        if round > 0 {
            took.extend(completion.answer.split(' ').map(|nanos| nanos.parse::<f64>().expect("a number") / 1e3));
            floor.extend([bare.median()]);
        }
    }
    runtime.stop(std::time::Duration::from_secs(5)).await.expect("it stops");
    (took, floor)
}
