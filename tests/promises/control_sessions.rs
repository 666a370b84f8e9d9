//! What lives can be seen from outside, and any one session of it stopped: its delegator hears `terminated` and goes on.

use std::time::Duration;

use treeward::agent::{Session, Task};
use treeward::control::protocol::{Answer, Ask};
use treeward::control::{Client, Followed};
use treeward::ids::TreeId;
use treeward::{Capsule, Sessions, Standing, Stopped, Submission, Team};

use crate::control_support::{PATIENCE, Place, blocking, started, until};
use crate::support::{GRACE, lead, leaf, plan, records, run, simulated};

async fn seen(place: &Place, tree: Option<TreeId>) -> Sessions {
    match place.ask(Ask::Sessions { tree }).await.expect("an answer") {
        Answer::Sessions { pid, seen } => {
            assert_eq!(pid, std::process::id());
            seen
        }
        other => panic!("{other:?}"),
    }
}

async fn stop(place: &Place, tree: TreeId, path: &str) -> Stopped {
    let ask = Ask::Stop { tree, path: path.parse().expect("a path"), grace_ms: Some(20_000) };
    match place.ask(ask).await.expect("an answer") {
        Answer::Stop { stopped, grace_ms: 20_000, .. } => stopped,
        other => panic!("{other:?}"),
    }
}

fn states(seen: &Sessions) -> Vec<(String, Standing)> {
    seen.sessions.iter().map(|session| (session.path.to_string(), session.state)).collect()
}

/// `mid` delegates to `hangs` and says how that ended.
fn three_levels() -> Team {
    let hear = |to: &'static str| {
        move |session: Session, task: Task| async move {
            let child = session.delegate_to(to, task.text).await.map_err(|e| e.to_string())?;
            let completion = child.wait().await.map_err(|e| e.to_string())?;
            Ok(format!("{:?} {}", completion.status, completion.detail.unwrap_or(completion.answer)))
        }
    };
    let top = Capsule::native("top", hear("mid")).delegates(["mid", "hangs"]).build().expect("top");
    let mid = Capsule::native("mid", hear("hangs")).delegates(["hangs"]).build().expect("mid");
    Team::new(top, [mid, leaf("hangs", |_, _| std::future::pending())]).expect("a team")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_session_is_seen_and_one_is_stopped_without_the_others() {
    let place = Place::new();
    let runtime = place.builder().start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(lead(&["hangs", "hangs"]), "x")).await.expect("a tree");
    let other = runtime.submit(Submission::new(lead(&["hangs"]), "x")).await.expect("a tree");
    let (id, other_id) = (tree.id(), other.id());
    started(&runtime, id, "0.1").await;
    started(&runtime, other_id, "0.0").await;

    let both = seen(&place, None).await;
    assert!(!both.partial && both.left_out == 0 && both.sessions.len() == 5, "{both:?}");
    let one = seen(&place, Some(id)).await;
    let running = |path: &str| (path.to_owned(), Standing::Running);
    assert_eq!(states(&one), [running("0"), running("0.0"), running("0.1")]);
    let root = &one.sessions[0];
    assert_eq!((root.capsule.as_str(), root.attempt, root.doing.expect("it answered").live_children), ("lead", 1, 2));
    assert!(root.left_ms > 0 && root.left_ms <= 600_000);

    assert_eq!(stop(&place, id, "0.0").await, Stopped::Told);
    until(&runtime, id, |body| body.kind.name() == "delegation_taken").await;
    assert_eq!(stop(&place, id, "0.1").await, Stopped::Told);
    let completion = tree.completion().await.expect("a completion");
    assert_eq!(completion.answer, "Terminated: stopped from outside, Terminated: stopped from outside");
    // The other tree heard nothing of it.
    assert_eq!(states(&seen(&place, Some(other_id)).await), [running("0"), running("0.0")]);
    assert_eq!(stop(&place, other_id, "0").await, Stopped::Told);
    assert_eq!(format!("{:?}", other.completion().await.expect("a completion").status), "Terminated");
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_far_down_is_stopped_by_its_path_and_those_above_go_on() {
    let place = Place::new();
    let runtime = place.builder().start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(three_levels(), "x")).await.expect("a tree");
    let id = tree.id();
    started(&runtime, id, "0.0.0").await;
    for path in ["0.1", "0.0.7", "0.0.0.0", "0.9.9.9"] {
        assert_eq!(stop(&place, id, path).await, Stopped::Unknown, "{path}");
    }
    let nobody: TreeId = "tree_00000000000000000000000000000001".parse().expect("an id");
    assert_eq!(stop(&place, nobody, "0").await, Stopped::Unknown);
    assert_eq!(stop(&place, id, "0.0.0").await, Stopped::Told);
    let completion = tree.completion().await.expect("a completion");
    assert_eq!(completion.answer, "Ok Terminated stopped from outside");
    let bodies = records(runtime.journal(), id).await;
    let requested: Vec<_> = bodies.iter().filter(|record| record.body.contains("stop_requested")).collect();
    assert_eq!(requested.len(), 1);
    assert!(requested[0].body.contains("\"path\":\"0.0\"") && requested[0].body.contains("stopped from outside"));
    assert_eq!(stop(&place, id, "0").await, Stopped::Unknown, "it is over");
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_waits_for_a_place_is_seen_and_stopped_before_it_ever_ran() {
    let place = Place::new();
    let names = ["hangs", "hangs"];
    let think = move |session: Session, _: Task| async move {
        let first = session.delegate_to(names[0], "a").await.map_err(|e| e.to_string())?;
        let second = session.delegate_to(names[1], "b").await.map_err(|e| e.to_string())?;
        let second = second.wait().await.map_err(|e| e.to_string())?;
        drop(first);
        Ok(format!("{:?}", second.status))
    };
    let lead = Capsule::native("lead", think).delegates(["hangs"]).live_children(1).build().expect("a lead");
    let team = Team::new(lead, [leaf("hangs", |_, _| std::future::pending())]).expect("a team");
    let runtime = place.builder().start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(team, "x")).await.expect("a tree");
    let id = tree.id();
    until(&runtime, id, |body| body.kind.name() == "queued").await;
    let waiting = seen(&place, Some(id)).await;
    assert_eq!(states(&waiting)[2], ("0.1".to_owned(), Standing::Queued));
    assert_eq!(waiting.sessions[0].doing.expect("it answered").queued_children, 1);
    assert_eq!(stop(&place, id, "0.1").await, Stopped::Told);
    assert_eq!(tree.completion().await.expect("a completion").answer, "Terminated");
    let kinds = records(runtime.journal(), id).await;
    assert!(!kinds.iter().any(|record| record.body.contains("\"0.1\"") && record.body.contains("session_started")));
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_is_followed_record_by_record_to_its_end() {
    let place = Place::new();
    let runtime = place.builder().start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(lead(&["hangs", "echo"]), "x")).await.expect("a tree");
    let id = tree.id();
    started(&runtime, id, "0.0").await;
    let process = place.process();
    let following = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(&process, PATIENCE).expect("a connection");
        client.follow(id, 1).expect("to follow");
        let mut heard = Vec::new();
        loop {
            match client.next(id, Some(PATIENCE)).expect("what comes next") {
                Followed::Record(stored) => heard.push(stored),
                Followed::Over(ended) => return (heard, ended),
            }
        }
    });
    assert_eq!(stop(&place, id, "0.0").await, Stopped::Told);
    tree.completion().await.expect("a completion");
    // The runtime's end does not cut off those who follow.
    let all = records(runtime.journal(), id).await;
    runtime.stop(GRACE).await.expect("the end");
    let (heard, ended) = following.await.expect("the follower");
    assert!(ended);
    assert_eq!(heard, all, "the very bytes that are stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_say_what_happened() {
    let place = Place::new();
    let runtime = place.builder().start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(lead(&["echo", "fail", "panics", "hangs"]), "x")).await.expect("a tree");
    let id = tree.id();
    let mut ended = 0;
    until(&runtime, id, |body| {
        ended += usize::from(body.kind.name() == "delegation_ended");
        ended == 3
    })
    .await;
    let Ok(Answer::Metrics { text }) = place.ask(Ask::Metrics {}).await else { panic!("no metrics") };
    for line in [
        "treeward_sessions{state=\"running\"} 2",
        "treeward_trees_started_total 1",
        "treeward_trees_ended_total 0",
        "treeward_delegations_ended_total{status=\"error\"} 1",
        "treeward_delegations_ended_total{status=\"crashed\"} 1",
        "treeward_live_sessions 2",
        "treeward_refused_total{limit=\"live_sessions\"} 0",
        "# TYPE treeward_gate_seconds histogram",
        "treeward_sessions_partial 0",
        "treeward_journal_failed 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
    // Every line is a comment, or a name and a number.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("treeward_") && value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(text.contains("treeward_process_resident_bytes ") && text.contains("treeward_process_open_fds "));
    runtime.stop(GRACE).await.expect("the end");
}

/// Who looks changes nothing of what happens, down to the byte.
#[tokio::test(start_paused = true)]
async fn a_look_leaves_no_trace() {
    let faults = || simulated().faults(plan(&["session path=0.1 nth=3 panic"]));
    let submission = || Submission::new(lead(&["echo", "hangs", "echo"]), "x");
    let unseen = run(faults(), submission()).await;
    let runtime = faults().start().await.expect("a runtime");
    let tree = runtime.submit(submission()).await.expect("a tree");
    let id = tree.id();
    let looking = async {
        for _ in 0..50 {
            runtime.sessions(None, Duration::from_secs(1)).await;
        }
    };
    let (completion, ()) = tokio::join!(tree.completion(), looking);
    completion.expect("a completion");
    let seen: Vec<treeward::journal::Body> = records(runtime.journal(), id)
        .await
        .iter()
        .map(|stored| serde_json::from_str(&stored.body).expect("a body"))
        .collect();
    assert_eq!(seen, unseen.bodies);
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_a_runtime_directly_sees_the_same() {
    let place = Place::new();
    let runtime = place.builder().start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(lead(&["hangs"]), "x")).await.expect("a tree");
    let id = tree.id();
    started(&runtime, id, "0.0").await;
    let inside = runtime.sessions(Some(id), PATIENCE).await;
    assert_eq!(states(&inside), states(&seen(&place, Some(id)).await));
    let path = "0.0".parse().expect("a path");
    assert_eq!(runtime.stop_session(id, path, GRACE, PATIENCE).await, Stopped::Told);
    assert_eq!(tree.completion().await.expect("a completion").answer, "Terminated: stopped from outside");
    runtime.stop(GRACE).await.expect("the end");
    blocking(|| ()).await;
}
