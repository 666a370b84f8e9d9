//! How long until a guest that spins is gone.

use std::time::{Duration, Instant};

use treeward::agent::{Session, Task};
use treeward::journal::CompletionStatus;
use treeward::{Capsule, Runtime, Submission, Team};

use crate::report::{Figure, Goal, Report, Samples};
use crate::{Effort, agents, machine};

pub fn measure(report: &mut Report, effort: Effort) {
    let times = effort.pick(100, 1_000);
    machine::tokio().block_on(async {
        let place = machine::disk();
        let runtime = Runtime::builder().cache(None).start().await.expect("it starts");
        let script = agents::script(place.path());
        let killer = Capsule::native("killer", kill).delegates(["script"]).build().expect("a capsule");
        let team = Team::new(killer, [script]).expect("a team");
        let tree = runtime.submit(Submission::new(team, times.to_string())).await.expect("it is taken");
        let completion = tree.completion().await.expect("the journal is good");
        assert_eq!(completion.detail, None);
        runtime.stop(Duration::from_secs(5)).await.expect("it stops");
        let mut samples = Samples::default();
        samples.extend(completion.answer.split(' ').map(|nanos| nanos.parse::<f64>().expect("a number") / 1e6));
        report.figure(Figure {
            name: "kill-guest",
            value: samples.quantile(0.99),
            unit: "ms-p99",
            floor: None,
            goal: Goal::AtMost(15.0),
        });
    });
}

/// Cancels spinning guests as often as its task says; answers with the nanoseconds until each had ended.
async fn kill(session: Session, task: Task) -> Result<String, String> {
    let times: u32 = task.text.parse().map_err(|_| "the task is a number")?;
    let mut took = Vec::new();
    for time in 0..times {
        let spinning = session.delegate_to("script", r#"[{"do":"spin"}]"#).await.map_err(|why| why.to_string())?;
        // Long enough to be spinning, and at every phase of the tick.
        tokio::time::sleep(Duration::from_micros(8_000 + u64::from(time % 37) * 270)).await;
        let begin = Instant::now();
        spinning.cancel("enough").await.map_err(|why| why.to_string())?;
        let completion = spinning.wait().await.map_err(|why| why.to_string())?;
        took.push(begin.elapsed().as_nanos().to_string());
        if completion.status != CompletionStatus::Terminated {
            return Err(format!("{completion:?}"));
        }
    }
    Ok(took.join(" "))
}
