//! The actors against the model: random trees under random faults and stops, in simulation. What they recorded must be
//! what the pure machine says of the same events, the fold must take it, and the same seed must give the same bytes.

use std::time::Duration;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::delegation::{Delegation, Event, StopCause};
use super::endings::{Origin, records};
use super::report::Outcome;
use crate::agent::{Delegation as Held, Session, Task};
use crate::fault::{Plan, Rule};
use crate::ids::{SessionPath, Strand};
use crate::journal::{Body, CompletionStatus, Fold, Kind, Limit, Reporter, Stored, Text};
use crate::supervision::{ExitClass, Rerun, RestartSpec, RestartType, StopTimes};
use crate::{Capsule, Runtime, Submission, Team};

/// What one session does, in order; its task's text.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Program {
    steps: Vec<Step>,
    end: End,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Step {
    Delegate(Program),
    WaitAny(Option<u16>),
    Cancel(u8),
    Drop(u8),
    Sleep(u16),
    Emit,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum End {
    Answer,
    Error,
    Panic,
    Hang,
}

fn programs() -> impl Strategy<Value = Program> {
    let end = prop_oneof![6 => Just(End::Answer), 1 => Just(End::Error), 1 => Just(End::Panic), 1 => Just(End::Hang)];
    let leaf = (prop::collection::vec(plain_step(), 0..3), end.clone()).prop_map(|(steps, end)| Program { steps, end });
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let step = prop_oneof![2 => inner.prop_map(Step::Delegate), 3 => plain_step()];
        (prop::collection::vec(step, 0..7), end.clone()).prop_map(|(steps, end)| Program { steps, end })
    })
}

fn plain_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::option::of(0_u16..3_000).prop_map(Step::WaitAny),
        1 => (0_u8..4).prop_map(Step::Cancel),
        1 => (0_u8..4).prop_map(Step::Drop),
        1 => (0_u16..3_000).prop_map(Step::Sleep),
        1 => Just(Step::Emit),
    ]
}

fn rules() -> impl Strategy<Value = Vec<String>> {
    let what = prop::sample::select(vec![
        "session nth=2 panic",
        "session nth=4 kill",
        "session nth=7 panic",
        "start nth=1 error",
        "start nth=1 delay=2s",
        "agent nth=1 trap",
        "agent attempt=1 panic",
        "agent attempt=1 error",
        "agent nth=1 hang",
        "report nth=1 drop",
        "report nth=1 delay=3s",
        "report duplicate",
        "exit drop",
        "exit delay=2s",
        "stop drop",
        "stop delay=1s",
        "delegate nth=2 error",
        "delegate nth=1 drop",
        "wait nth=1 delay=1s",
        "wait nth=2 drop",
        "cancel nth=1 drop",
    ]);
    let path = prop::sample::select(vec!["0", "0.0", "0.1", "0.0.0", "0.0.1", "0.1.0", "0.*"]);
    prop::collection::vec((what, path), 0..4).prop_map(|picked| {
        let rule = |(what, path): (&str, &str)| {
            let (point, rest) = what.split_once(' ').expect("a point and more");
            format!("{point} path={path} {rest}")
        };
        picked.into_iter().map(rule).collect()
    })
}

async fn act(session: Session, task: Task) -> Result<String, String> {
    let program: Program = serde_json::from_str(&task.text).map_err(|error| error.to_string())?;
    let mut held: Vec<Held> = Vec::new();
    for step in program.steps {
        match step {
            Step::Delegate(program) => {
                let text = serde_json::to_string(&program).map_err(|error| error.to_string())?;
                held.extend(session.delegate_to("node", text).await.ok());
            }
            Step::WaitAny(at_most) => {
                let at_most = at_most.map(|ms| Duration::from_millis(ms.into()));
                let mut among: Vec<&mut Held> = held.iter_mut().collect();
                if among.is_empty() {
                    continue;
                }
                if let Ok(Some(taken)) = session.wait_any(&mut among, at_most).await {
                    held.retain(|delegation| delegation.index() != taken.index);
                }
            }
            Step::Cancel(at) => {
                if let Some(delegation) = held.get(usize::from(at)) {
                    delegation.cancel("no longer wanted").await.map_err(|gone| gone.to_string())?;
                }
            }
            Step::Drop(at) if usize::from(at) < held.len() => drop(held.remove(at.into())),
            Step::Drop(_) => {}
            Step::Sleep(ms) => tokio::time::sleep(Duration::from_millis(ms.into())).await,
            Step::Emit => session.emit("text").await.map_err(|gone| gone.to_string())?,
        }
    }
    match program.end {
        End::Answer => Ok("done".into()),
        End::Error => Err("it cannot".into()),
        // Without the hook: these are wanted.
        End::Panic => std::panic::resume_unwind(Box::new("as the program says")),
        End::Hang => std::future::pending().await,
    }
}

fn spec() -> RestartSpec {
    let (window, pause) = (Duration::from_secs(60), Duration::from_millis(100));
    RestartSpec::new(RestartType::Transient, 1, window, (pause, pause), Rerun::Yes).expect("a spec")
}

async fn perform(program: &Program, rules: &[String], stop_after: Option<u16>) -> Vec<Stored> {
    let node = Capsule::native("node", act).delegates(["node"]).restart(spec()).deadline(Duration::from_secs(60));
    let node = node.stall(Duration::from_secs(40)).live_children(2).build().expect("a capsule");
    let team = Team::new(node, []).expect("a team");
    let plan = Plan::new(rules.iter().map(|rule| rule.parse::<Rule>().expect("a rule")).collect());
    let runtime = Runtime::builder().simulated().seed(11).faults(plan).start().await.expect("a runtime");
    let places = runtime.free_places();
    let text = serde_json::to_string(program).expect("a program");
    let tree = runtime.submit(Submission::new(team, text)).await.expect("a tree");
    let id = tree.id();
    if let Some(after) = stop_after {
        tokio::time::sleep(Duration::from_millis(after.into())).await;
        tree.stop(Duration::from_secs(2));
    }
    let before = Instant::now();
    // Virtual: a tree that cannot end is found at once.
    let ended = tokio::time::timeout(Duration::from_secs(3_600), tree.completion()).await;
    ended.expect("the tree ends").expect("a sound journal");
    assert!(before.elapsed() < Duration::from_secs(600), "ended after {:?}", before.elapsed());
    assert_eq!(runtime.free_places(), places, "a place was not given back");
    let mut stored: Vec<Stored> = Vec::new();
    loop {
        let from = stored.last().map_or(1, |last| last.seq + 1);
        let page = runtime.journal().read(id, from, Limit::default()).await.expect("a page");
        if page.records.is_empty() {
            break;
        }
        stored.extend(page.records);
    }
    runtime.stop(Duration::from_secs(2)).await.expect("a sound journal");
    stored
}

/// The records one delegation left: of its session's main line, and of its own strand.
fn story<'a>(bodies: &'a [Body], child: &SessionPath) -> Vec<&'a Body> {
    let own = |body: &&Body| {
        let of_child = body.path == *child && body.strand == Strand::Main;
        let of_parent = Some(&body.path) == child.parent().as_ref() && body.strand == Strand::Delegation(child.index());
        let interesting = matches!(
            body.kind,
            Kind::AttemptEnded { .. }
                | Kind::Restarted { .. }
                | Kind::TaskEnded { .. }
                | Kind::SessionEnded { .. }
                | Kind::DelegationEnded { .. }
        );
        (of_child || of_parent) && interesting
    };
    bodies.iter().filter(own).collect()
}

/// What the machine says when its attempts go as the records say they went, with and without a stop.
fn judged(story: &[&Body], bodies: &[Body], child: &SessionPath, stopped: bool) -> Option<Vec<Kind>> {
    let now = Instant::now();
    let begun = bodies.iter().any(|b| b.path == *child && matches!(b.kind, Kind::SessionStarted { .. }));
    let origin = Origin::Delegated { by: child.parent()?, attempt: 1, strand: Strand::Delegation(child.index()) };
    let mut machine = Delegation::new(spec());
    let mut said = Vec::new();
    let mut tell = |machine: &mut Delegation, event: Event| {
        for effect in machine.on(event, now, 0.5) {
            let attempt = machine.attempt();
            said.extend(records(&origin, child, attempt, &effect, 2_000).into_iter().map(|(.., kind)| kind));
        }
    };
    let stop = Event::Stop { cause: StopCause::Canceled, times: StopTimes::within(now, Duration::from_secs(1), 1) };
    tell(&mut machine, Event::Admitted);
    if !begun {
        // It was stopped, or its start failed, before a session of it existed.
        return None;
    }
    // A start that failed before there was a session leaves no ending of its own, and spends a restart.
    let start_failed = |body: &&Body| {
        let here = Some(&body.path) == child.parent().as_ref() && body.strand == Strand::Delegation(child.index());
        here && matches!(&body.kind, Kind::FaultInjected { point, action, .. } if point == "start" && action == "error")
    };
    let started = bodies.iter().position(|b| b.path == *child && matches!(b.kind, Kind::SessionStarted { .. }))?;
    for _ in bodies[..started].iter().filter(start_failed) {
        let detail = "a fault was injected here".to_owned();
        tell(&mut machine, Event::StartFailed { attempt: 1, class: ExitClass::Retryable, detail });
        tell(&mut machine, Event::Rested { attempt: 1 });
    }
    tell(&mut machine, Event::Started { attempt: 1 });
    let by_supervisor = story.iter().any(|b| matches!(b.kind, Kind::SessionEnded { by: Reporter::Supervisor, .. }));
    let attempts: Vec<(ExitClass, Option<String>, bool)> = story
        .iter()
        .filter_map(|body| match &body.kind {
            Kind::AttemptEnded { class, detail, changed_world } => Some((*class, detail.clone(), *changed_world)),
            _ => None,
        })
        .collect();
    let answer = story.iter().find_map(|body| match &body.kind {
        Kind::TaskEnded { answer: Some(Text::Inline(answer)), .. } => Some(Ok(answer.as_str().into())),
        Kind::TaskEnded { status: CompletionStatus::Error, detail: Some(detail), .. } => Some(Err(detail.clone())),
        _ => None,
    });
    for (index, (class, detail, changed)) in attempts.iter().enumerate() {
        let attempt = machine.attempt();
        let last = index + 1 == attempts.len();
        if last && stopped {
            tell(&mut machine, stop.clone());
        }
        if last && by_supervisor {
            tell(&mut machine, Event::Exited { attempt, class: *class, detail: detail.clone() });
            tell(&mut machine, Event::Gone { attempt });
            tell(&mut machine, Event::Closed { attempt, changed_world: *changed });
            continue;
        }
        let result = if *class == ExitClass::Done { answer.clone() } else { None };
        let outcome = Outcome { class: *class, result, detail: detail.clone(), changed_world: *changed, spent: None };
        tell(&mut machine, Event::Reported { attempt, outcome });
        if !last {
            tell(&mut machine, Event::Gone { attempt });
            let next = attempt + 1;
            tell(&mut machine, Event::Rested { attempt: next });
            tell(&mut machine, Event::Started { attempt: next });
        }
    }
    Some(said)
}

/// A record as far as the machine decides it: pauses and what was spent come from elsewhere.
fn decided(kind: &Kind) -> String {
    match kind {
        Kind::AttemptEnded { class, .. } => format!("attempt ended {class:?}"),
        Kind::Restarted { class, .. } => format!("restarted {class:?}"),
        Kind::TaskEnded { status, .. } => format!("task ended {status:?}"),
        Kind::SessionEnded { status, .. } => format!("session ended {status:?}"),
        Kind::DelegationEnded { status, attempts, .. } => format!("delegation ended {status:?} {attempts}"),
        other => other.name().to_owned(),
    }
}

fn check(stored: &[Stored]) {
    let bodies: Vec<Body> = stored.iter().map(|s| serde_json::from_str(&s.body).expect("a body")).collect();
    let mut fold = Fold::default();
    for body in &bodies {
        let taken = fold.apply(&body.path, body.attempt, body.strand, &body.kind);
        assert_eq!(taken.map_err(|refused| refused.to_string()), Ok(body.n));
    }
    assert!(fold.has_ended() && fold.summary().is_empty(), "{:?}", fold.summary());
    let Some(Kind::TreeEnded { refused, .. }) = bodies.last().map(|body| &body.kind) else { panic!("no ending") };
    let all = || {
        bodies.iter().map(|b| format!("{} {} {} {}", b.path, b.attempt, b.strand, decided(&b.kind))).collect::<Vec<_>>()
    };
    assert_eq!(*refused, 0, "records were refused: {:#?}", all());
    // Sessions whose supervisor died with them were closed by the writer: their own machine never spoke.
    let closed = |path: &SessionPath| {
        let mut above = path.parent();
        while let Some(path) = above {
            let by_supervisor = |b: &Body| {
                b.path == path
                    && matches!(b.kind, Kind::AttemptEnded { class: ExitClass::Panic | ExitClass::KilledByUs, .. })
            };
            if bodies.iter().any(by_supervisor) {
                return true;
            }
            above = path.parent();
        }
        false
    };
    let made = bodies.iter().filter_map(|body| match &body.kind {
        Kind::Delegated { child, .. } => Some(child),
        _ => None,
    });
    for child in made.filter(|child| !closed(child)) {
        let story = story(&bodies, child);
        let was: Vec<String> = story.iter().map(|body| decided(&body.kind)).collect();
        let free = judged(&story, &bodies, child, false);
        let stopped = judged(&story, &bodies, child, true);
        let (Some(free), Some(stopped)) = (free, stopped) else { continue };
        let said = |kinds: &[Kind]| kinds.iter().map(decided).collect::<Vec<_>>();
        // A stop between two attempts ends it without a further one.
        let between = was.iter().rev().take(3).any(|line| line.contains("Terminated"));
        assert!(
            was == said(&free) || was == said(&stopped) || between,
            "{child}: the actors said {was:#?}\nthe machine {:#?}\nor stopped {:#?}",
            said(&free),
            said(&stopped)
        );
    }
}

fn simulate(program: &Program, rules: &[String], stop_after: Option<u16>) -> Vec<Stored> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(perform(program, rules, stop_after))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn what_the_actors_record_is_what_the_machine_says(
        program in programs(),
        rules in rules(),
        stop_after in prop::option::weighted(0.3, 0_u16..5_000),
    ) {
        let stored = simulate(&program, &rules, stop_after);
        check(&stored);
        let again = simulate(&program, &rules, stop_after);
        let bodies = |stored: &[Stored]| stored.iter().map(|s| s.body.clone()).collect::<Vec<_>>();
        prop_assert_eq!(bodies(&stored), bodies(&again), "the same seed, other bodies");
    }
}
