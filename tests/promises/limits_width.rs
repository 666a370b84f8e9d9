//! No deadlock at any limit of width: whoever holds what others need goes on, and hears what was refused.

use std::time::Duration;

use treeward::agent::{Session, Task};
use treeward::journal::Kind;
use treeward::{Capsule, Limits, Submission, Team};

use crate::support::{leaf, run, simulated};

/// Delegates twice at once on every level, down to the deepest; answers how many sessions there were.
fn twice() -> Team {
    let twice = Capsule::native("twice", |session: Session, _: Task| async move {
        let (mut held, mut sessions) = (Vec::new(), 1);
        for name in ["leaf", "twice", "leaf"] {
            match session.delegate_to(name, "x").await {
                Ok(child) => held.push(child),
                Err(refused) => return Ok(format!("{sessions} {refused}").replace(' ', "_")),
            }
        }
        for child in held {
            let completion = child.wait().await.map_err(|e| e.to_string())?;
            let answer = completion.answer.split('_').next().unwrap_or_default().to_owned();
            sessions += answer.parse::<u32>().map_err(|_| completion.detail.unwrap_or(completion.answer))?;
        }
        Ok(sessions.to_string())
    });
    let leaf = leaf("leaf", |_, _| async { Ok("1".to_owned()) });
    Team::new(twice.delegates(["twice", "leaf"]).build().expect("a capsule"), [leaf]).expect("a team")
}

#[tokio::test(start_paused = true)]
async fn one_live_child_on_each_of_sixteen_levels() {
    let limits = Limits { live_children: 1, ..Limits::default() };
    let ran = run(simulated().limits(limits), Submission::new(twice(), "x")).await;
    ran.check();
    // Each level but the last has a leaf, itself and a leaf.
    assert_eq!(ran.completion.as_ref().expect("a completion").answer, (1 + 16 * 3).to_string());
    assert_eq!(ran.count("queued"), 2 * 16);
    // All were live at some time, and nothing stalled or ran into its deadline.
    assert_eq!(ran.count("session_started"), 1 + 16 * 3);
    assert_eq!(ran.count("stop_requested"), 0);
}

#[tokio::test(start_paused = true)]
async fn no_child_may_wait_and_one_may_live() {
    let limits = Limits { live_children: 1, queued_children: 0, ..Limits::default() };
    let ran = run(simulated().limits(limits), Submission::new(twice(), "x")).await;
    ran.check();
    let answer = &ran.completion.as_ref().expect("a completion").answer;
    assert_eq!(answer, "1_limits.queued_children:_0_wait_already");
}

/// Every place is held by a parent whose child needs one: the children are refused, the parents go on.
#[tokio::test(start_paused = true)]
async fn every_place_of_the_process_is_held_by_a_parent() {
    let mid = Capsule::native("mid", |session: Session, _: Task| async move {
        // All of them are there before the first asks.
        tokio::time::sleep(Duration::from_secs(1)).await;
        match session.delegate_to("leaf", "x").await {
            Ok(_) => Err("there was a place".to_owned()),
            Err(refused) => Ok(refused.to_string()),
        }
    });
    let lead = Capsule::native("lead", |session: Session, _: Task| async move {
        let mut held = Vec::new();
        for _ in 0..7 {
            held.push(session.delegate_to("mid", "x").await.map_err(|e| e.to_string())?);
        }
        let mut refused = 0;
        for child in held {
            let completion = child.wait().await.map_err(|e| e.to_string())?;
            refused += u32::from(completion.answer.starts_with("limits.live_sessions: busy"));
        }
        // With the places free again it goes on as if nothing had been.
        let child = session.delegate_to("leaf", "x").await.map_err(|e| e.to_string())?;
        Ok(format!("{refused} refused, then {}", child.wait().await.map_err(|e| e.to_string())?.answer))
    });
    let leaf = leaf("leaf", |_, _| async { Ok("served".to_owned()) });
    let mid = mid.delegates(["leaf"]).build().expect("mid");
    let lead = lead.delegates(["mid", "leaf"]).build().expect("a lead");
    let team = Team::new(lead, [mid, leaf]).expect("a team");
    let limits = Limits { live_sessions: 8, ..Limits::default() };
    let ran = run(simulated().limits(limits), Submission::new(team, "x")).await;
    ran.check();
    assert_eq!(ran.completion.as_ref().expect("a completion").answer, "7 refused, then served");
}

/// One that waited for its turn among its siblings finds the process full: it ends, says so, and its parent goes on.
#[tokio::test(start_paused = true)]
async fn a_child_that_waited_finds_no_place_in_the_process() {
    let lead = Capsule::native("lead", |session: Session, _: Task| async move {
        let first = session.delegate_to("slow", "1").await.map_err(|e| e.to_string())?;
        let second = session.delegate_to("leaf", "x").await.map_err(|e| e.to_string())?;
        let first = first.wait().await.map_err(|e| e.to_string())?;
        let second = second.wait().await.map_err(|e| e.to_string())?;
        Ok(format!("{} then {:?}: {}", first.answer, second.status, second.detail.unwrap_or(second.answer)))
    });
    let lead = lead.delegates(["slow", "leaf"]).live_children(1).build().expect("a lead");
    let slow = leaf("slow", |_, _| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok("slow".to_owned())
    });
    let leaf = leaf("leaf", |_, _| async { Ok("leaf".to_owned()) });
    let team = Team::new(lead, [slow, leaf]).expect("a team");
    let limits = Limits { live_sessions: 2, ..Limits::default() };
    let ran = run(simulated().limits(limits), Submission::new(team, "x")).await;
    ran.check();
    // Its sibling's place is its own now: there is one.
    assert_eq!(ran.completion.as_ref().expect("a completion").answer, "slow then Ok: leaf");
    assert_eq!(ran.bodies.iter().filter(|body| matches!(body.kind, Kind::Queued { .. })).count(), 1);
}

/// The least credit there is: every record waits for the disk, and a tree of parents and children ends all the same.
#[tokio::test(start_paused = true)]
async fn the_least_credit_and_a_slow_disk() {
    let limits = Limits { credit: 1, live_children: 1, ..Limits::default() };
    let builder = simulated().limits(limits).faults(crate::support::plan(&["sync delay=50ms"]));
    let ran = run(builder, Submission::new(twice(), "x")).await;
    assert_eq!(ran.completion.as_ref().expect("a completion").answer, (1 + 16 * 3).to_string());
}

/// A call that needs the place it holds is refused, not waited for.
#[tokio::test(start_paused = true)]
async fn one_call_at_a_time_and_a_second_one_from_within() {
    let agent = Capsule::native("agent", |session: Session, _: Task| async move {
        let second = session.clone();
        let both = async move { tokio::join!(session.call_tool("slow", "x"), second.call_tool("slow", "y")) };
        let (first, second) = both.await;
        let first = first.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        Ok(format!("{first}, {}", second.map_err(|e| e.to_string())?.err().map(|e| e.to_string()).unwrap_or_default()))
    });
    let slow = |input: String| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(input)
    };
    let team = Team::new(agent.tool("slow", false, slow).build().expect("a capsule"), []).expect("a team");
    let ran = run(simulated().limits(Limits { calls: 1, ..Limits::default() }), Submission::new(team, "x")).await;
    ran.check();
    let answer = &ran.completion.as_ref().expect("a completion").answer;
    assert_eq!(answer, "x, denied: limits.calls: 1 calls are running");
}
