//! Every delegation ends once, whatever ends it.

use std::time::Duration;

use treeward::Submission;
use treeward::agent::{Session, Task};
use treeward::journal::CompletionStatus;

use crate::support::{lead, plan, run, simulated, team};

#[tokio::test(start_paused = true)]
async fn an_answer_comes_back_once_and_everything_is_closed() {
    let ran = run(simulated(), Submission::new(lead(&["echo"]), "hello")).await;
    ran.check();
    assert_eq!(ran.completion.as_ref().expect("a completion").answer, "hello");
    assert_eq!(ran.kinds("0.0"), ["session_started", "task_started", "attempt_ended", "task_ended", "session_ended"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_a_panic_and_an_answer_side_by_side_each_reach_the_parent() {
    let ran = run(simulated(), Submission::new(lead(&["echo", "fail", "panics"]), "x")).await;
    ran.check();
    let answer = ran.completion.as_ref().expect("a completion").answer.clone();
    assert_eq!(answer, "x, Error: I cannot, Crashed: out of cheese");
}

#[tokio::test(start_paused = true)]
async fn what_hangs_ends_at_its_deadline_and_the_parent_hears_why() {
    let ran = run(simulated(), Submission::new(lead(&["hangs", "echo"]), "x")).await;
    ran.check();
    let answer = ran.completion.as_ref().expect("a completion").answer.clone();
    assert_eq!(answer, "Crashed: no progress within limits.stall, x");
}

#[tokio::test(start_paused = true)]
async fn the_actor_itself_panics_and_its_subtree_ends_with_it() {
    let faults = simulated().faults(plan(&["session path=0.1 panic"]));
    let ran = run(faults, Submission::new(lead(&["echo", "echo", "echo"]), "x")).await;
    ran.check();
    let answer = ran.completion.as_ref().expect("a completion").answer.clone();
    assert_eq!(answer, "x, Crashed: a fault was injected here, x");
    assert_eq!(ran.count("fault_injected"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_a_late_and_a_doubled_report_still_end_it_once() {
    for rule in ["report path=0.0 nth=1 drop", "report path=0.0 delay=30s", "report path=0.0 duplicate"] {
        let ran = run(simulated().faults(plan(&[rule])), Submission::new(lead(&["echo"]), "x")).await;
        ran.check();
        assert_eq!(ran.completion.as_ref().expect("a completion").answer, "x", "{rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_exit_is_found_by_looking() {
    let rules = plan(&["session path=0.0 panic", "exit path=0.0 drop"]);
    let ran = run(simulated().faults(rules), Submission::new(lead(&["echo"]), "x")).await;
    ran.check();
    assert_eq!(ran.completion.as_ref().expect("a completion").answer, "Crashed: its exit event was lost");
}

#[tokio::test(start_paused = true)]
async fn a_delegation_nobody_waits_for_is_cancelled_with_its_delegator() {
    let careless = team(&[], |session: Session, _: Task, _| async move {
        let held = session.delegate_to("hangs", "x").await.map_err(|e| e.to_string())?;
        drop(held);
        let kept = session.delegate_to("hangs", "y").await.map_err(|e| e.to_string())?;
        std::mem::forget(kept);
        Ok("done".to_owned())
    });
    let ran = run(simulated(), Submission::new(careless, "x")).await;
    ran.check();
    assert_eq!(ran.completion.expect("a completion").status, CompletionStatus::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_stop_reaches_every_leaf_of_a_wide_and_deep_tree() {
    // Depth four, three children each: 121 sessions.
    let nest = treeward::Capsule::native("nest", |session: Session, task: Task| async move {
        let depth: u32 = task.text.parse().map_err(|_| "no number")?;
        if depth == 0 {
            std::future::pending::<()>().await;
        }
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(session.delegate_to("nest", (depth - 1).to_string()).await.map_err(|e| e.to_string())?);
        }
        for delegation in held {
            delegation.wait().await.map_err(|e| e.to_string())?;
        }
        Ok(String::new())
    });
    let nest = nest.delegates(["nest"]).build().expect("a capsule");
    let team = treeward::Team::new(nest, []).expect("a team");
    let runtime = simulated().start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(team, "4")).await.expect("a tree");
    let id = tree.id();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();
    tree.stop(Duration::from_secs(5));
    let completion = tree.completion().await.expect("a completion");
    assert_eq!(completion.status, CompletionStatus::Terminated);
    assert!(before.elapsed() <= Duration::from_secs(5));
    let stored = crate::support::records(runtime.journal(), id).await;
    let bodies: Vec<treeward::journal::Body> =
        stored.iter().map(|stored| serde_json::from_str(&stored.body).expect("a body")).collect();
    let ran = crate::support::Ran { completion: Ok(completion), bodies };
    ran.check();
    assert_eq!(ran.count("session_ended"), 121);
    runtime.stop(Duration::from_secs(5)).await.expect("a sound journal");
}
