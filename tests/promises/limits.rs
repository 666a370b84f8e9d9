//! Every limit is reached here: what is beyond it is refused, waits, or is cut, and says which limit it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use treeward::agent::{Session, Task};
use treeward::journal::{Body, CompletionStatus, Counter, Kind, Text};
use treeward::{Builder, Capsule, Limits, Submission, Team};

use crate::support::{GRACE, Ran, lead, leaf, plan, records, run, simulated, team};

fn limited(limits: Limits) -> Builder {
    simulated().limits(limits)
}

/// A lead that does this with a child `echo` at hand.
fn alone<F, R>(think: F) -> Team
where
    F: Fn(Session, Task) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, String>> + Send + 'static,
{
    team(&[], move |session, task, _| think(session, task))
}

fn answer(ran: &Ran) -> &str {
    &ran.completion.as_ref().expect("a completion").answer
}

fn detail(ran: &Ran) -> &str {
    ran.completion.as_ref().expect("a completion").detail.as_deref().expect("a reason")
}

fn noted<'a>(ran: &'a Ran, key: &str) -> Vec<&'a str> {
    let note = |body: &'a Body| match &body.kind {
        Kind::Note { key: found, text: Text::Inline(text) } if found == key => Some(text.as_str()),
        _ => None,
    };
    ran.bodies.iter().filter_map(note).collect()
}

#[tokio::test(start_paused = true)]
async fn depth() {
    // Delegates to itself for ever.
    let down = Capsule::native("down", |session: Session, task: Task| async move {
        match session.delegate_to("down", task.text).await {
            Ok(child) => Ok(child.wait().await.map_err(|e| e.to_string())?.answer),
            Err(refused) => Ok(format!("{}: {refused}", session.path())),
        }
    });
    let team = Team::new(down.delegates(["down"]).build().expect("a capsule"), []).expect("a team");
    let ran = run(limited(Limits { depth: 3, ..Limits::default() }), Submission::new(team.clone(), "x")).await;
    ran.check();
    assert_eq!(answer(&ran), "0.0.0.0: budget.depth: no level may stand below this one");
    assert_eq!(noted(&ran, "delegation_refused").len(), 1);
    // A budget may ask for more, up to `deepest`.
    let deep = treeward::capsule::Budget { depth: Some(500), ..Default::default() };
    let limits = Limits { depth: 3, deepest: 5, ..Limits::default() };
    let ran = run(limited(limits), Submission::new(team, "x").budget(deep)).await;
    assert!(answer(&ran).starts_with("0.0.0.0.0.0: budget.depth"), "{}", answer(&ran));
}

#[tokio::test(start_paused = true)]
async fn live_children_wait_for_a_place_and_all_have_their_turn() {
    let (live, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let seen = most.clone();
    let child = leaf("child", move |_, _| {
        let (live, most) = (live.clone(), most.clone());
        async move {
            most.fetch_max(live.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            live.fetch_sub(1, Ordering::SeqCst);
            Ok(String::new())
        }
    });
    let lead = Capsule::native("lead", |session: Session, _: Task| async move {
        let mut held = Vec::new();
        for _ in 0..20 {
            held.push(session.delegate_to("child", "x").await.map_err(|e| e.to_string())?);
        }
        for child in held {
            child.wait().await.map_err(|e| e.to_string())?;
        }
        Ok("all".to_owned())
    });
    let team = Team::new(lead.delegates(["child"]).build().expect("a lead"), [child]).expect("a team");
    let ran = run(limited(Limits { live_children: 3, ..Limits::default() }), Submission::new(team, "x")).await;
    ran.check();
    assert_eq!((answer(&ran), seen.load(Ordering::SeqCst)), ("all", 3));
    let queued = ran.bodies.iter().filter(|body| body.kind == Kind::Queued { limit: "live_children".into() });
    assert_eq!(queued.count(), 17);
}

#[tokio::test(start_paused = true)]
async fn queued_children() {
    let team = alone(|session, _| async move {
        let mut held = Vec::new();
        loop {
            match session.delegate_to("hangs", "x").await {
                Ok(child) => held.push(child),
                Err(refused) => return Ok(format!("{} {refused}", held.len())),
            }
        }
    });
    let limits = Limits { live_children: 2, queued_children: 5, ..Limits::default() };
    let ran = run(limited(limits), Submission::new(team, "x")).await;
    ran.check();
    assert_eq!(answer(&ran), "7 limits.queued_children: 5 wait already");
    assert_eq!(noted(&ran, "delegation_refused"), ["limits.queued_children: 5 wait already"]);
}

#[tokio::test(start_paused = true)]
async fn live_sessions() {
    let runtime = limited(Limits { live_sessions: 2, ..Limits::default() }).start().await.expect("a runtime");
    let think = |session: Session, _: Task| async move {
        let held = session.delegate_to("hangs", "x").await.map_err(|e| e.to_string())?;
        let refused = session.delegate_to("echo", "x").await.err().map(|e| e.to_string());
        drop(held);
        Ok(refused.unwrap_or_default())
    };
    let tree = runtime.submit(Submission::new(alone(think), "x")).await.expect("a tree");
    let hangs = Team::new(leaf("hangs", |_, _| std::future::pending()), []).expect("a team");
    let other = runtime.submit(Submission::new(hangs, "x")).await.expect("a second tree");
    let refused = runtime.submit(Submission::new(lead(&["echo"]), "x")).await.expect_err("both places are taken");
    assert_eq!(refused.to_string(), "limits.live_sessions: busy: the process holds as many as it may, 2");
    other.stop(GRACE);
    let completion = other.completion().await.expect("a completion");
    assert_eq!(completion.status, CompletionStatus::Terminated);
    let completion = tree.completion().await.expect("a completion");
    let detail = completion.detail.expect("a reason");
    assert!(detail.starts_with("limits.live_sessions: busy: the process holds as many as it may"), "{detail}");
    assert!(runtime.journal().count(Counter::RefusedLiveSessions) > 0);
    assert_eq!(runtime.free_places(), 2);
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(start_paused = true)]
async fn deadline_and_stall() {
    // A child that shows progress for ever never stalls: its deadline ends it.
    let busy = leaf("busy", |session: Session, _| async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            session.progress();
        }
    });
    let lead = Capsule::native("lead", |session: Session, task: Task| async move {
        let child = session.delegate_to(task.text, "x").await.map_err(|e| e.to_string())?;
        let completion = child.wait().await.map_err(|e| e.to_string())?;
        Ok(format!("{:?}: {}", completion.status, completion.detail.unwrap_or_default()))
    });
    let lead = lead.delegates(["busy", "hangs"]).deadline(Duration::from_secs(3600)).build().expect("a lead");
    let hangs = leaf("hangs", |_, _| std::future::pending());
    let team = Team::new(lead, [busy, hangs]).expect("a team");
    let limits = Limits { deadline: Duration::from_secs(90), stall: Duration::from_secs(30), ..Limits::default() };
    let started = Instant::now();
    let ran = run(limited(limits.clone()), Submission::new(team.clone(), "busy")).await;
    ran.check();
    assert_eq!(answer(&ran), "Terminated: its deadline passed");
    assert_eq!(started.elapsed().as_secs(), 90);
    let ran = run(limited(limits), Submission::new(team, "hangs")).await;
    ran.check();
    assert_eq!(answer(&ran), "Crashed: no progress within limits.stall");
}

#[tokio::test(start_paused = true)]
async fn grace() {
    let limits = Limits { grace: Duration::from_secs(8), ..Limits::default() };
    // The children never hear that they are to stop.
    let builder = limited(limits).faults(plan(&["stop drop"]));
    let runtime = builder.start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(lead(&["hangs", "hangs"]), "x")).await.expect("a tree");
    tokio::task::yield_now().await;
    let started = Instant::now();
    tree.stop(tree.grace());
    let completion = tree.completion().await.expect("a completion");
    assert_eq!(completion.status, CompletionStatus::Terminated);
    let took = started.elapsed();
    assert!(took > Duration::from_secs(3) && took <= Duration::from_secs(8), "{took:?}");
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_handed_over_cut_and_kept_whole() {
    let long = "ä".repeat(60_000);
    let whole = long.clone();
    let team = alone(move |session, _| {
        let long = long.clone();
        async move {
            let child = session.delegate_to("echo", long).await.map_err(|e| e.to_string())?;
            let completion = child.wait().await.map_err(|e| e.to_string())?;
            Ok(format!("{} of {}", completion.answer.len(), completion.answer_len))
        }
    });
    let runtime = limited(Limits { answer: 1_001, ..Limits::default() }).start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(team, "x")).await.expect("a tree");
    let id = tree.id();
    // Cut where a character ends.
    assert_eq!(tree.completion().await.expect("a completion").answer, "1000 of 120000");
    let mut kept = Vec::new();
    for stored in records(runtime.journal(), id).await {
        let body: Body = serde_json::from_str(&stored.body).expect("a body");
        if let Kind::TaskEnded { answer: Some(Text::Blob(blob)), .. } = body.kind {
            kept.push(runtime.journal().blob(blob.blob).await.expect("to read").expect("the blob"));
        }
    }
    assert!(kept == [Bytes::from(whole)], "{} kept", kept.len());
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(start_paused = true)]
async fn answer_whole_of_an_agent_and_of_a_tool() {
    let big = |size: usize| move |_: Session, _: Task| async move { Ok("a".repeat(size)) };
    let limits = Limits { answer: 500, answer_whole: 1_000, ..Limits::default() };
    let ran = run(limited(limits.clone()), Submission::new(alone(big(1_000)), "x")).await;
    assert_eq!(answer(&ran).len(), 1_000);
    let ran = run(limited(limits.clone()), Submission::new(alone(big(1_001)), "x")).await;
    ran.check();
    assert_eq!(ran.completion.as_ref().expect("a completion").status, CompletionStatus::Error);
    assert!(detail(&ran).contains("1001 bytes and limits.answer_whole is 1000"), "{}", detail(&ran));

    let agent = Capsule::native("agent", |session: Session, _: Task| async move {
        let result = session.call_tool("big", "x").await.map_err(|e| e.to_string())?;
        Ok(result.err().map(|error| error.to_string()).unwrap_or_default())
    });
    let agent = agent.tool("big", false, |_| async { Ok("a".repeat(1_001)) }).build().expect("a capsule");
    let ran = run(limited(limits), Submission::new(Team::new(agent, []).expect("a team"), "x")).await;
    ran.check();
    assert_eq!(answer(&ran), "the tool answered 1001 bytes, limits.answer_whole is 1000");
}

#[tokio::test(start_paused = true)]
async fn task() {
    let limits = Limits { task: 100, ..Limits::default() };
    let team = alone(|session, task| async move {
        let just = session.delegate_to("echo", "a".repeat(100)).await.map_err(|e| e.to_string())?;
        just.wait().await.map_err(|e| e.to_string())?;
        Ok(session.delegate_to("echo", task.text + "a").await.err().map(|e| e.to_string()).unwrap_or_default())
    });
    let ran = run(limited(limits.clone()), Submission::new(team.clone(), "a".repeat(100))).await;
    ran.check();
    assert_eq!(answer(&ran), "limits.task: the task is 101 bytes, at most 100");
    let runtime = limited(limits).start().await.expect("a runtime");
    let refused = runtime.submit(Submission::new(team, "a".repeat(101))).await.expect_err("too long");
    assert_eq!(refused.to_string(), "limits.task: the task is 101 bytes, at most 100");
    assert!(runtime.sessions(None, GRACE).await.sessions.is_empty());
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(start_paused = true)]
async fn detail_of_an_error_and_of_a_panic() {
    let limits = Limits { detail: 200, ..Limits::default() };
    let fails = alone(|_, _| async { Err("why ".repeat(1_000)) });
    let ran = run(limited(limits.clone()), Submission::new(fails, "x")).await;
    ran.check();
    assert!(detail(&ran).len() <= 200 && detail(&ran).starts_with("why why"), "{}", detail(&ran));
    let panics = alone(|_, _| async { std::panic::resume_unwind(Box::new("why ".repeat(1_000))) });
    let ran = run(limited(limits), Submission::new(panics, "x")).await;
    ran.check();
    assert!(detail(&ran).len() <= 200 && detail(&ran).contains("why why"), "{}", detail(&ran));
}

/// An agent that floods waits for the disk, and nothing of what it said is lost.
#[tokio::test(start_paused = true)]
async fn credit() {
    const CREDIT: u32 = 100_000;
    let floods = alone(|session, _| async move {
        let started = Instant::now();
        let mut saying = tokio::task::JoinSet::new();
        for n in 0..100 {
            let session = session.clone();
            saying.spawn(async move { session.emit(format!("{n:010}").repeat(1_000)).await });
        }
        while let Some(said) = saying.join_next().await {
            said.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        }
        Ok(started.elapsed().as_millis().to_string())
    });
    let limits = Limits { credit: CREDIT, ..Limits::default() };
    // Every commit takes a second: what is not committed is what the credit allows.
    let runtime = limited(limits).faults(plan(&["sync delay=1s"])).start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(floods, "x")).await.expect("a tree");
    let id = tree.id();
    let most = Arc::new(AtomicU32::new(0));
    let watching = async {
        loop {
            let credit = u32::try_from(runtime.journal().count(Counter::Credit)).expect("a small number");
            most.fetch_max(credit, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let completion = tokio::select! { biased;
        completion = tree.completion() => completion.expect("a completion"),
        () = watching => unreachable!("it goes on for ever"),
    };
    // A megabyte through a tenth of one, a second each time.
    let took: u64 = completion.answer.parse().expect("a time");
    assert!(took >= 9_000, "it did not wait: {took} ms");
    let most = most.load(Ordering::SeqCst);
    assert!(most > CREDIT / 2 && most <= CREDIT, "{most} bytes were not committed");
    assert_eq!(runtime.journal().count(Counter::Credit), 0);
    let texts = records(runtime.journal(), id).await;
    assert_eq!(texts.iter().filter(|record| record.body.contains("\"kind\":\"text\"")).count(), 100);
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(start_paused = true)]
async fn field() {
    let says = alone(|session, _| async move {
        session.emit("a".repeat(1_000)).await.map_err(|e| e.to_string())?;
        session.emit("b".repeat(1_001)).await.map_err(|e| e.to_string())?;
        Ok(String::new())
    });
    let ran = run(limited(Limits { field: 1_000, ..Limits::default() }), Submission::new(says, "x")).await;
    ran.check();
    let text = |body: &Body| match &body.kind {
        Kind::Text { text } => Some(text.clone()),
        _ => None,
    };
    let texts: Vec<Text> = ran.bodies.iter().filter_map(text).collect();
    assert_eq!(texts[0], Text::Inline("a".repeat(1_000)));
    assert!(matches!(texts[1], Text::Blob(blob) if blob.len == 1_001), "{:?}", texts[1]);
}

#[tokio::test(start_paused = true)]
async fn body() {
    let marks = alone(|session, _| async move {
        session.checkpoint("a".repeat(2_000), Bytes::new()).await.map_err(|e| e.to_string())?;
        session.checkpoint("b".repeat(200), Bytes::new()).await.map_err(|e| e.to_string())?;
        Ok("on it went".to_owned())
    });
    let limits = Limits { field: 1_000, body: 2_000, ..Limits::default() };
    let ran = run(limited(limits), Submission::new(marks, "x")).await;
    assert_eq!(answer(&ran), "on it went");
    let labels = ran.bodies.iter().filter(|body| body.kind.name() == "checkpoint");
    assert_eq!(labels.count(), 1);
    // What was refused is counted in the tree's ending.
    let last = &ran.bodies.last().expect("records").kind;
    assert!(matches!(last, Kind::TreeEnded { refused: 1, .. }), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn calls() {
    let gate = Arc::new(Semaphore::new(0));
    let open = gate.clone();
    let agent = Capsule::native("agent", move |session: Session, _: Task| {
        let open = open.clone();
        async move {
            let mut running = tokio::task::JoinSet::new();
            for _ in 0..4 {
                let session = session.clone();
                running.spawn(async move { session.call_tool("waits", "x").await });
            }
            // The first answer is that of the one too many: the others wait.
            let first = running.join_next().await.expect("an answer").map_err(|e| e.to_string())?;
            open.add_permits(3);
            let mut done = 0;
            while let Some(result) = running.join_next().await {
                done += usize::from(matches!(result, Ok(Ok(Ok(_)))));
            }
            let refused = first.map_err(|e| e.to_string())?.err().map(|error| error.to_string()).unwrap_or_default();
            Ok(format!("{done} ran; {refused}"))
        }
    });
    let waits = move |input| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.map_err(|e| e.to_string())?.forget();
            Ok(input)
        }
    };
    let agent = agent.tool("waits", false, waits).build().expect("a capsule");
    let limits = Limits { calls: 3, ..Limits::default() };
    let ran = run(limited(limits), Submission::new(Team::new(agent, []).expect("a team"), "x")).await;
    ran.check();
    assert_eq!(answer(&ran), "3 ran; denied: limits.calls: 3 calls are running");
    assert_eq!(noted(&ran, "call_refused"), ["limits.calls: 3 calls are running"]);
}

#[tokio::test(start_paused = true)]
async fn limits_that_make_no_sense_start_nothing() {
    let limits = Limits { live_sessions: 0, ..Limits::default() };
    let refused = limited(limits).start().await.expect_err("no places").to_string();
    assert_eq!(refused, "limits.live_sessions: must be at least 1, or nothing could run");
    let limits = Limits { guest_memory: 8 << 30, ..Limits::default() };
    let refused = limited(limits).start().await.expect_err("more than 32 bits address").to_string();
    assert!(refused.contains("limits.guest.memory") && refused.contains("4GiB"), "{refused}");
}
