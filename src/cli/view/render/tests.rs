use std::fmt::Write as _;

use proptest::prelude::*;
use treeward::ids::{Digest, Strand};
use treeward::journal::{AgentKind, Body, Kind, Reporter, Text};

use super::*;

/// Records of a run, written short: the path says whose, the strand is what the writer would use.
#[derive(Default)]
struct Story {
    tree: Tree,
    at: u64,
}

impl Story {
    fn say(&mut self, path: &str, attempt: u32, strand: Strand, kind: Kind) -> &mut Self {
        self.at += 1_000;
        let body = Body { path: path.parse().unwrap(), attempt, strand, n: 1, kind };
        self.tree.apply(&body, self.at);
        self
    }

    fn delegated(&mut self, child: &str, capsule: &str, task: &str) -> &mut Self {
        let child: SessionPath = child.parse().unwrap();
        let kind = Kind::Delegated {
            child: child.clone(),
            capsule: capsule.into(),
            task: Text::from(task),
            lent: vec![],
            deadline_ms: 1,
        };
        self.say(&child.parent().unwrap().to_string(), 1, Strand::Delegation(child.index()), kind)
    }

    fn started(&mut self, path: &str, capsule: &str, attempt: u32) -> &mut Self {
        let kind = Kind::SessionStarted {
            capsule: capsule.into(),
            digest: Digest::of(b""),
            agent: AgentKind::Guest,
            lent: vec![],
            changes_world: false,
        };
        self.say(path, attempt, Strand::Main, kind)
    }

    fn ended(&mut self, path: &str, status: CompletionStatus, detail: Option<&str>) -> &mut Self {
        let path: SessionPath = path.parse().unwrap();
        let Some(parent) = path.parent() else {
            return self.say("0", 1, Strand::Main, Kind::SessionEnded { status, by: Reporter::Child });
        };
        let kind = Kind::DelegationEnded {
            status,
            by: Reporter::Child,
            attempts: 1,
            answer: None,
            detail: detail.map(Into::into),
            spent: Default::default(),
        };
        self.say(&parent.to_string(), 1, Strand::Delegation(path.index()), kind)
    }

    fn child(&mut self, path: &str, task: &str, status: Option<CompletionStatus>) -> &mut Self {
        self.delegated(path, "reader", task).started(path, "reader", 1);
        if let Some(status) = status { self.ended(path, status, None) } else { self }
    }
}

/// A survey in the middle of which one subtree crashed.
fn survey() -> Story {
    let mut story = Story::default();
    let started = Kind::TreeStarted { schema: 1, capsule: "survey".into(), seed: 7, budget: Default::default() };
    story.say("0", 0, Strand::Tree, started).started("0", "survey", 1);
    story.say("0", 1, Strand::Main, Kind::TaskSubmitted { task: "survey\nthe directory".into() });
    story.delegated("0.0", "survey", "docs").started("0.0", "survey", 1);
    story.child("0.0.0", "docs/a.md", Some(CompletionStatus::Ok)).child(
        "0.0.1",
        "docs/b.md",
        Some(CompletionStatus::Ok),
    );
    story.ended("0.0", CompletionStatus::Ok, None);
    story.delegated("0.1", "survey", "src").started("0.1", "survey", 1);
    story.child("0.1.0", "src/lib.rs", None);
    let fault = Kind::FaultInjected { point: "session".into(), action: "panic".into(), nth: 1 };
    story.say("0.1", 1, Strand::Main, fault);
    story.ended("0.1.0", CompletionStatus::Terminated, Some("its parent crashed"));
    story.ended("0.1", CompletionStatus::Crashed, Some("panicked: a fault was injected here"));
    story.delegated("0.2", "reader", "Cargo.toml").started("0.2", "reader", 1).started("0.2", "reader", 2);
    story.delegated("0.3", "reader", "README.md");
    story.say("0", 1, Strand::Delegation(3), Kind::Queued { limit: "limits.live_children".into() });
    story
}

fn drawn(tree: &Tree, space: Space) -> String {
    draw(tree, space).iter().fold(String::new(), |mut out, line| {
        writeln!(out, "{}", line.show(space.width, false)).unwrap();
        out
    })
}

#[test]
fn the_whole_tree() {
    let shown = drawn(&survey().tree, Space::default());
    assert_eq!(
        shown,
        "\
● 0 survey  survey the directory  running
├─ ✓ 0.0 survey  docs  ok
│  ├─ ✓ 0.0.0 reader  docs/a.md  ok
│  └─ ✓ 0.0.1 reader  docs/b.md  ok
├─ ✗ 0.1 survey  src  crashed · fault: session panic · panicked: a fault was injected here
│  └─ ■ 0.1.0 reader  src/lib.rs  terminated · its parent crashed
├─ ● 0.2 reader  Cargo.toml  running · attempt 2
└─ · 0.3 reader  README.md  queued · waits for a place (limits.live_children)
"
    );
}

#[test]
fn while_it_runs_what_is_over_takes_one_line() {
    let shown = drawn(&survey().tree, Space { width: Some(60), rows: Some(20), fold_ended: true });
    assert_eq!(
        shown,
        "\
● 0 survey  survey the directory  running
├─ ✓ 0.0 survey  docs  ok · below: 2 ok
├─ ✗ 0.1 survey  src  crashed · fault: session panic · pani…
├─ ● 0.2 reader  Cargo.toml  running · attempt 2
└─ · 0.3 reader  README.md  queued · waits for a place (lim…
"
    );
}

#[test]
fn in_little_room_what_lives_and_what_failed_is_seen_first() {
    let shown = drawn(&survey().tree, Space { width: Some(80), rows: Some(4), fold_ended: true });
    assert_eq!(
        shown,
        "\
● 0 survey  survey the directory  running
├─ ✗ 0.1 survey  src  crashed · fault: session panic · panicked: a fault was in…
├─ ● 0.2 reader  Cargo.toml  running · attempt 2
└─ 2 more: 1 queued, 3 ok
"
    );
    assert_eq!(drawn(&survey().tree, Space { rows: Some(1), ..Space::default() }).lines().count(), 1);
    assert_eq!(drawn(&survey().tree, Space { rows: Some(0), ..Space::default() }).lines().count(), 1);
}

#[test]
fn a_long_task_gives_way_to_the_state() {
    let mut story = Story::default();
    story.delegated("0.0", "reader", &"word ".repeat(100)).started("0.0", "reader", 1);
    let shown = drawn(&story.tree, Space { width: Some(50), ..Space::default() });
    assert!(shown.lines().nth(1).unwrap().ends_with("…  running"), "{shown}");
}

#[test]
fn a_hostile_task_stays_on_its_line() {
    let mut story = Story::default();
    story.delegated("0.0", "re\u{1b}[2Jader", "a\r\n\u{1b}]0;owned\u{7}b\u{9b}1A").started("0.0", "re\u{1b}[2Jader", 1);
    let shown = drawn(&story.tree, Space::default());
    assert_eq!(shown.lines().count(), 2);
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
}

#[test]
fn a_tree_that_never_was_is_no_line() {
    assert!(draw(&Tree::default(), Space::default()).is_empty());
    assert_eq!(census(&Tree::default()), "0 sessions");
    assert_eq!(census(&survey().tree), "8 sessions: 2 running, 1 queued, 3 ok, 1 crashed, 1 terminated");
}

#[test]
fn an_ending_is_kept_whatever_comes_late() {
    let mut story = Story::default();
    story.child("0.0", "x", Some(CompletionStatus::Terminated)).started("0.0", "reader", 2);
    let node = &story.tree.sessions[&"0.0".parse().unwrap()];
    assert_eq!(node.state, State::Ended(CompletionStatus::Terminated));
}

#[test]
fn a_path_of_absurd_depth_does_not_take_the_reader_with_it() {
    let mut story = Story::default();
    let deep = format!("0{}", ".0".repeat(200_000));
    story.started(&deep, "x", 1).started("0", "root", 1);
    assert!(story.tree.sessions.len() < 2_000);
    let deep = format!("0{}", ".0".repeat(1_000));
    story.started(&deep, "x", 1);
    assert_eq!(draw(&story.tree, Space { width: Some(80), ..Space::default() }).len(), 1_001);
}

proptest! {
    #[test]
    fn no_frame_is_larger_than_its_room(
        sessions in prop::collection::vec((prop::collection::vec(0_u32..6, 0..5), 0_usize..6, "\\PC{0,20}"), 0..60),
        rows in 1_usize..20, width in 1_usize..60, fold_ended in any::<bool>(),
    ) {
        let mut story = Story::default();
        for (way, state, task) in &sessions {
            let path = way.iter().fold(SessionPath::root(), |path, index| path.child(*index));
            let status = [None, Some(CompletionStatus::Ok), Some(CompletionStatus::Crashed), Some(CompletionStatus::Error)];
            if path.depth() > 0 {
                story.child(&path.to_string(), task, status.get(*state).copied().flatten());
            } else {
                story.started("0", "root", 1);
            }
        }
        let lines = draw(&story.tree, Space { width: Some(width), rows: Some(rows), fold_ended });
        prop_assert!(lines.len() <= rows);
        prop_assert_eq!(lines.is_empty(), story.tree.sessions.is_empty());
        // Nothing goes missing: every session has its row or is counted somewhere.
        let all = Sessions::of(&story.tree);
        let shown = all.choose(Space { width: Some(width), rows: Some(rows), fold_ended });
        for (index, (path, _)) in all.nodes.iter().enumerate() {
            let parent_shown = path.parent().is_none_or(|parent| {
                all.nodes.iter().position(|(other, _)| **other == parent).is_some_and(|parent| shown[parent])
            });
            prop_assert!(!shown[index] || parent_shown);
        }
        let room = draw(&story.tree, Space { width: Some(width), rows: Some(1_000), fold_ended: false });
        prop_assert_eq!(room.len(), story.tree.sessions.len());
    }
}
