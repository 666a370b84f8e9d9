use proptest::prelude::*;

use super::*;
use crate::capsule::Budget;
use crate::ids::Digest;
use crate::journal::record::{AgentKind, QuestionOutcome, Reporter, Text};
use crate::supervision::ExitClass;

const ROOT: &str = "0";

fn path(text: &str) -> SessionPath {
    text.parse().unwrap()
}

fn tree_started() -> Kind {
    Kind::TreeStarted { schema: 1, capsule: "lead".into(), seed: 1, budget: Budget::default() }
}

fn started(changes_world: bool) -> Kind {
    Kind::SessionStarted {
        capsule: "lead".into(),
        digest: Digest::of(b""),
        agent: AgentKind::Native,
        lent: Vec::new(),
        changes_world,
    }
}

fn attempt_ended() -> Kind {
    Kind::AttemptEnded { class: ExitClass::Done, detail: None, changed_world: false }
}

fn task_ended() -> Kind {
    Kind::TaskEnded { status: CompletionStatus::Ok, answer: None, detail: None }
}

fn session_ended() -> Kind {
    Kind::SessionEnded { status: CompletionStatus::Ok, by: Reporter::Child }
}

fn tree_ended() -> Kind {
    Kind::TreeEnded { status: CompletionStatus::Ok, refused: 0 }
}

fn restarted() -> Kind {
    Kind::Restarted { class: ExitClass::Panic, after_ms: 0 }
}

fn delegated(child: &str) -> Kind {
    Kind::Delegated {
        child: path(child),
        capsule: "leaf".into(),
        task: Text::default(),
        lent: Vec::new(),
        deadline_ms: 1,
    }
}

fn delegation_ended() -> Kind {
    Kind::DelegationEnded {
        status: CompletionStatus::Ok,
        by: Reporter::Child,
        attempts: 1,
        answer: None,
        detail: None,
        spent: Usage { tokens: 7, ..Usage::default() },
    }
}

fn reserved() -> Kind {
    Kind::BudgetReserved { slice: Budget { tokens: Some(10), ..Budget::default() } }
}

fn settled() -> Kind {
    Kind::BudgetSettled { spent: Usage::default(), estimated: false }
}

fn tool_called(changes_world: bool) -> Kind {
    Kind::ToolCalled { tool: "write".into(), input: Text::default(), changes_world }
}

fn gate_asked() -> Kind {
    Kind::GateAsked { tool: "write".into() }
}

fn decided(decision: Decision) -> Kind {
    Kind::GateDecided { decision, by: "rules".into(), reason: None }
}

fn returned() -> Kind {
    Kind::ToolReturned { outcome: CallOutcome::Ok, output: Text::default() }
}

fn asked() -> Kind {
    Kind::QuestionAsked { question: Text::default() }
}

fn answered() -> Kind {
    Kind::QuestionAnswered { outcome: QuestionOutcome::Answered, answer: None }
}

fn text() -> Kind {
    Kind::Text { text: "hello".into() }
}

fn note() -> Kind {
    Kind::Note { key: "x".into(), text: Text::default() }
}

/// A fold that is told things briefly.
#[derive(Clone, Default)]
struct Told(Fold);

impl Told {
    /// A tree whose root works on its task.
    fn working() -> Self {
        let mut told = Self::default();
        told.tree(tree_started());
        told.ok(ROOT, 0, Strand::Main, Kind::TaskSubmitted { task: "go".into() });
        told.main(ROOT, started(false));
        told.main(ROOT, Kind::TaskStarted {});
        told
    }

    fn with_child(mut self) -> Self {
        self.ok(ROOT, 1, Strand::Delegation(0), delegated("0.0"));
        self.ok(ROOT, 1, Strand::Delegation(0), reserved());
        self.main("0.0", started(false));
        self.main("0.0", Kind::TaskStarted {});
        self
    }

    #[track_caller]
    fn ok(&mut self, at: &str, attempt: u32, strand: Strand, kind: Kind) -> u32 {
        self.0.apply(&path(at), attempt, strand, &kind).unwrap()
    }

    #[track_caller]
    fn main(&mut self, at: &str, kind: Kind) -> u32 {
        self.ok(at, 1, Strand::Main, kind)
    }

    #[track_caller]
    fn tree(&mut self, kind: Kind) -> u32 {
        self.ok(ROOT, 0, Strand::Tree, kind)
    }

    #[track_caller]
    fn no(&mut self, at: &str, attempt: u32, strand: Strand, kind: Kind, why: Why) {
        let before = self.0.clone();
        assert_eq!(self.0.apply(&path(at), attempt, strand, &kind).unwrap_err().why, why);
        assert_eq!(self.0, before, "a refused record changes nothing");
    }

    fn end(&mut self, at: &str) {
        self.main(at, attempt_ended());
        self.main(at, task_ended());
        self.main(at, session_ended());
    }

    fn close(&mut self, at: &str, closing: &Closing) -> Vec<Event> {
        let events = self.0.close(&path(at), closing);
        for (path, attempt, strand, kind) in &events {
            self.0.apply(path, *attempt, *strand, kind).unwrap();
        }
        events
    }
}

fn closing(scope: Scope) -> Closing {
    Closing { scope, verdict: Verdict::Judged, class: ExitClass::Panic, by: Reporter::Supervisor, detail: None }
}

#[test]
fn a_whole_life_is_taken_and_numbered_within_its_strands() {
    let mut told = Told::working().with_child();
    assert_eq!(told.main("0.0", text()), 3);
    told.end("0.0");
    assert_eq!(told.ok(ROOT, 1, Strand::Delegation(0), delegation_ended()), 3);
    assert_eq!(told.ok(ROOT, 1, Strand::Delegation(0), Kind::DelegationTaken {}), 4);
    assert_eq!(told.ok(ROOT, 1, Strand::Delegation(0), settled()), 5);
    assert_eq!(told.main(ROOT, text()), 4);
    told.end(ROOT);
    assert!(told.0.summary().is_empty());
    assert_eq!(told.tree(tree_ended()), 2);
    assert!(told.0.has_ended());
}

#[test]
fn nothing_is_said_before_the_tree_or_behind_its_end() {
    let mut told = Told::default();
    told.no(ROOT, 1, Strand::Main, started(false), Why::TreeNotStarted);
    told.no(ROOT, 0, Strand::Tree, tree_ended(), Why::TreeNotStarted);
    told.tree(tree_started());
    told.no(ROOT, 0, Strand::Tree, tree_started(), Why::AlreadyStarted);
    told.tree(tree_ended());
    for kind in [tree_ended(), tree_started(), note()] {
        told.no(ROOT, 0, Strand::Tree, kind, Why::TreeEnded);
    }
    told.no(ROOT, 1, Strand::Main, started(false), Why::TreeEnded);
}

#[test]
fn a_second_ending_of_anything_is_refused() {
    let mut told = Told::working().with_child();
    told.main("0.0", attempt_ended());
    told.no("0.0", 1, Strand::Main, attempt_ended(), Why::AlreadyEnded);
    told.main("0.0", task_ended());
    told.no("0.0", 1, Strand::Main, task_ended(), Why::AlreadyEnded);
    told.main("0.0", session_ended());
    told.no("0.0", 1, Strand::Main, session_ended(), Why::AlreadyEnded);
    told.ok(ROOT, 1, Strand::Delegation(0), delegation_ended());
    told.no(ROOT, 1, Strand::Delegation(0), delegation_ended(), Why::AlreadyEnded);
    told.ok(ROOT, 1, Strand::Delegation(0), settled());
    told.no(ROOT, 1, Strand::Delegation(0), settled(), Why::Reservation);
    told.ok(ROOT, 1, Strand::Delegation(0), Kind::DelegationTaken {});
    told.no(ROOT, 1, Strand::Delegation(0), Kind::DelegationTaken {}, Why::AlreadyEnded);
    told.ok(ROOT, 1, Strand::Call(0), tool_called(false));
    told.ok(ROOT, 1, Strand::Call(0), returned());
    told.no(ROOT, 1, Strand::Call(0), returned(), Why::AlreadyEnded);
}

#[test]
fn nothing_is_said_of_a_session_behind_its_end() {
    let mut told = Told::working().with_child();
    told.end("0.0");
    for kind in [text(), note(), started(false), restarted(), Kind::TaskStarted {}, task_ended()] {
        told.no("0.0", 1, Strand::Main, kind, Why::AlreadyEnded);
    }
    told.no("0.0", 1, Strand::Call(0), tool_called(false), Why::AlreadyEnded);
    told.no("0.0", 1, Strand::Delegation(0), delegated("0.0.0"), Why::AlreadyEnded);
    told.no("0.0.0", 1, Strand::Main, started(false), Why::AlreadyEnded);
    told.ok(ROOT, 1, Strand::Delegation(0), delegation_ended());
    told.no(ROOT, 1, Strand::Delegation(0), note(), Why::AlreadyEnded);
    told.ok(ROOT, 1, Strand::Delegation(0), Kind::DelegationTaken {});
    told.ok(ROOT, 1, Strand::Delegation(0), settled());
    // What is forgotten is still known to be over.
    told.no("0.0", 1, Strand::Main, text(), Why::AlreadyEnded);
    told.no(ROOT, 1, Strand::Delegation(0), delegation_ended(), Why::AlreadyEnded);
    told.no(ROOT, 1, Strand::Delegation(0), delegated("0.0"), Why::AlreadyStarted);
    told.no("0.1", 1, Strand::Main, started(false), Why::NotStarted);
}

#[test]
fn nothing_ends_before_what_is_within_it() {
    let mut told = Told::working().with_child();
    told.no(ROOT, 1, Strand::Main, attempt_ended(), Why::StillOpen);
    told.no(ROOT, 1, Strand::Delegation(0), delegation_ended(), Why::StillOpen);
    told.no("0.0", 1, Strand::Main, session_ended(), Why::StillOpen);
    told.ok("0.0", 1, Strand::Call(0), tool_called(false));
    told.no("0.0", 1, Strand::Main, attempt_ended(), Why::StillOpen);
    told.ok("0.0", 1, Strand::Call(0), returned());
    told.main("0.0", asked());
    told.no("0.0", 1, Strand::Main, attempt_ended(), Why::StillOpen);
    told.main("0.0", answered());
    told.end("0.0");
    told.ok(ROOT, 1, Strand::Delegation(0), delegation_ended());
    // Still reserved.
    told.no(ROOT, 1, Strand::Main, attempt_ended(), Why::StillOpen);
    told.ok(ROOT, 1, Strand::Delegation(0), settled());
    told.no(ROOT, 0, Strand::Tree, tree_ended(), Why::StillOpen);
    told.main(ROOT, attempt_ended());
    told.no(ROOT, 1, Strand::Main, session_ended(), Why::StillOpen);
    told.main(ROOT, task_ended());
    told.main(ROOT, session_ended());
    told.tree(tree_ended());
}

#[test]
fn a_task_submitted_to_a_root_that_never_came_keeps_the_tree_open() {
    let mut told = Told::default();
    told.tree(tree_started());
    told.ok(ROOT, 0, Strand::Main, Kind::TaskSubmitted { task: "go".into() });
    told.no(ROOT, 0, Strand::Tree, tree_ended(), Why::StillOpen);
    assert_eq!(told.close(ROOT, &closing(Scope::Session)).len(), 1);
    told.tree(tree_ended());
}

#[test]
fn only_the_live_attempt_speaks() {
    let mut told = Told::working().with_child();
    told.no("0.0", 2, Strand::Main, text(), Why::WrongAttempt);
    told.no("0.0", 2, Strand::Main, restarted(), Why::StillOpen);
    told.main("0.0", attempt_ended());
    told.no("0.0", 1, Strand::Main, text(), Why::AlreadyEnded);
    told.no("0.0", 1, Strand::Call(0), tool_called(false), Why::AlreadyEnded);
    told.no("0.0", 1, Strand::Delegation(0), delegated("0.0.0"), Why::AlreadyEnded);
    told.no("0.0", 3, Strand::Main, restarted(), Why::WrongAttempt);
    // Between two attempts a stop can still be asked for.
    told.main("0.0", Kind::StopRequested { reason: "enough".into() });
    told.ok("0.0", 2, Strand::Main, restarted());
    told.no("0.0", 1, Strand::Main, text(), Why::WrongAttempt);
    told.no("0.0", 1, Strand::Main, attempt_ended(), Why::WrongAttempt);
    // The same task goes on; a re-run starts it again, once.
    told.ok("0.0", 2, Strand::Main, Kind::TaskStarted {});
    told.no("0.0", 2, Strand::Main, Kind::TaskStarted {}, Why::AlreadyStarted);
    told.ok("0.0", 2, Strand::Main, text());
}

#[test]
fn kinds_stay_on_their_strands() {
    let mut told = Told::working().with_child();
    told.no(ROOT, 1, Strand::Main, returned(), Why::WrongStrand);
    told.no(ROOT, 1, Strand::Main, delegation_ended(), Why::WrongStrand);
    told.no(ROOT, 1, Strand::Call(0), text(), Why::WrongStrand);
    told.no(ROOT, 1, Strand::Call(0), returned(), Why::NotStarted);
    told.no(ROOT, 1, Strand::Delegation(0), text(), Why::WrongStrand);
    told.no(ROOT, 1, Strand::Delegation(1), delegated("0.2"), Why::WrongStrand);
    told.no(ROOT, 1, Strand::Delegation(1), delegated("0.0.1"), Why::WrongStrand);
    told.no("0.0", 0, Strand::Tree, note(), Why::WrongStrand);
    told.no(ROOT, 1, Strand::Tree, note(), Why::WrongAttempt);
    told.no(ROOT, 0, Strand::Tree, session_ended(), Why::WrongStrand);
}

#[test]
fn a_change_of_the_world_is_known_of_the_attempt_and_of_everything_above() {
    for (decision, order_swapped, changed) in
        [(Decision::Allow, false, true), (Decision::Allow, true, true), (Decision::Deny, false, false)]
    {
        let mut told = Told::working().with_child();
        let (mut first, mut second) = (vec![tool_called(true), gate_asked()], vec![decided(decision)]);
        if order_swapped {
            first = vec![gate_asked(), decided(decision)];
            second = vec![tool_called(true)];
        }
        first.into_iter().chain(second).for_each(|kind| {
            told.ok("0.0", 1, Strand::Call(0), kind);
        });
        told.ok("0.0", 1, Strand::Call(0), returned());
        assert_eq!(told.0.attempt_changed_world(&path("0.0")), changed);
        assert_eq!(told.0.attempt_changed_world(&path(ROOT)), changed);
        let mut ending = attempt_ended();
        if changed {
            told.no("0.0", 1, Strand::Main, ending.clone(), Why::Understated);
        }
        told.0.complete(&path("0.0"), &mut ending);
        assert_eq!(ending, Kind::AttemptEnded { class: ExitClass::Done, detail: None, changed_world: changed });
        told.main("0.0", ending);
        // A new attempt has changed nothing yet; the session has.
        told.ok("0.0", 2, Strand::Main, restarted());
        assert!(!told.0.attempt_changed_world(&path("0.0")));
        assert_eq!(told.0.changed_world(&path(ROOT)), changed);
        told.close("0.0", &closing(Scope::Session));
        assert_eq!(told.0.attempt_changed_world(&path(ROOT)), changed, "also once the child is forgotten");
    }
}

#[test]
fn closing_ends_everything_deepest_first_and_once() {
    let mut told = Told::working().with_child();
    told.ok(ROOT, 1, Strand::Delegation(1), delegated("0.1"));
    told.ok("0.0", 1, Strand::Delegation(0), delegated("0.0.0"));
    told.ok("0.0.0", 1, Strand::Main, started(true));
    told.ok("0.0", 1, Strand::Call(0), asked());
    told.ok(ROOT, 1, Strand::Call(3), tool_called(false));
    told.ok(ROOT, 1, Strand::Call(3), asked());
    told.main(ROOT, Kind::UsageReported { usage: Usage { tokens: 5, ..Usage::default() } });
    let events = told.close(ROOT, &closing(Scope::Session));
    let told_as: Vec<String> =
        events.iter().map(|(path, _, strand, kind)| format!("{path} {strand} {}", kind.name())).collect();
    assert_eq!(
        told_as,
        [
            "0.0.0 main attempt_ended",
            "0.0.0 main session_ended",
            "0.0 call.0 question_answered",
            "0.0 delegation.0 delegation_ended",
            "0.0 main attempt_ended",
            "0.0 main task_ended",
            "0.0 main session_ended",
            "0 call.3 question_answered",
            "0 call.3 tool_returned",
            "0 delegation.0 delegation_ended",
            "0 delegation.0 budget_settled",
            "0 delegation.1 delegation_ended",
            "0 main attempt_ended",
            "0 main task_ended",
            "0 main session_ended",
        ]
    );
    let status_of = |index: usize| match &events[index].3 {
        Kind::DelegationEnded { status, attempts, .. } => (*status, *attempts),
        Kind::SessionEnded { status, .. } => (*status, 0),
        other => panic!("{other:?}"),
    };
    // The grandchild may have changed the world, so everything above it may have; the queued child did nothing.
    assert_eq!(status_of(9), (CompletionStatus::Unknown, 1));
    assert_eq!(status_of(11), (CompletionStatus::Crashed, 0));
    assert_eq!(status_of(14), (CompletionStatus::Unknown, 0));
    assert!(told.close(ROOT, &closing(Scope::Session)).is_empty());
    assert!(told.0.summary().is_empty());
    told.tree(tree_ended());
}

#[test]
fn closing_the_inside_leaves_the_session_to_its_supervisor() {
    let mut told = Told::working().with_child();
    told.ok("0.0", 1, Strand::Delegation(0), delegated("0.0.0"));
    told.ok("0.0.0", 1, Strand::Main, started(false));
    told.ok("0.0", 1, Strand::Call(0), tool_called(false));
    told.close("0.0", &closing(Scope::Inside));
    assert!(told.close("0.0", &closing(Scope::Inside)).is_empty());
    told.main("0.0", attempt_ended());
    told.ok("0.0", 2, Strand::Main, restarted());
    // Children of a new attempt get new indices.
    told.no("0.0", 2, Strand::Delegation(0), delegated("0.0.0"), Why::AlreadyStarted);
    told.ok("0.0", 2, Strand::Delegation(1), delegated("0.0.1"));
}

#[test]
fn a_closed_delegation_says_what_its_child_had_said() {
    let mut told = Told::working().with_child();
    told.main("0.0", attempt_ended());
    told.main("0.0", task_ended());
    told.main("0.0", Kind::SessionEnded { status: CompletionStatus::Error, by: Reporter::Child });
    let events = told.close(ROOT, &closing(Scope::Inside));
    assert!(matches!(
        events[0].3,
        Kind::DelegationEnded { status: CompletionStatus::Error, attempts: 1, by: Reporter::Supervisor, .. }
    ));
}

#[test]
fn what_is_over_is_forgotten() {
    let mut told = Told::working();
    let empty = told.0.clone();
    for index in 0..1000 {
        let child = format!("0.{index}");
        told.ok(ROOT, 1, Strand::Delegation(index), delegated(&child));
        told.main(&child, started(false));
        told.main(&child, Kind::TaskStarted {});
        told.end(&child);
        told.ok(ROOT, 1, Strand::Delegation(index), delegation_ended());
        told.ok(ROOT, 1, Strand::Delegation(index), Kind::DelegationTaken {});
        told.ok(ROOT, 1, Strand::Call(index), tool_called(false));
        told.ok(ROOT, 1, Strand::Call(index), returned());
    }
    assert_eq!(told.0.summary(), empty.summary());
    assert_eq!(told.0.sessions.len(), 1);
    assert!(told.0.sessions[&path(ROOT)].delegations.is_empty());
    assert!(told.0.sessions[&path(ROOT)].calls.is_empty());
}

/// Every kind, anywhere plausible: most are refused, the rest make random trees.
fn any_event() -> impl Strategy<Value = Event> {
    let paths = prop::sample::select(vec!["0", "0.0", "0.1", "0.0.0", "0.0.1", "0.1.0"]);
    (paths, 1_u32..3, 0_u32..3, 0_u32..30).prop_map(|(at, attempt, number, choice)| {
        let child = path(at).child(number);
        let (strand, kind) = match choice {
            0 => (Strand::Main, started(number == 0)),
            1 => (Strand::Main, Kind::TaskStarted {}),
            2 => (Strand::Main, task_ended()),
            3 => (Strand::Main, Kind::AttemptEnded { class: ExitClass::Done, detail: None, changed_world: true }),
            4 => (Strand::Main, restarted()),
            5 => (Strand::Main, session_ended()),
            6 => (Strand::Main, asked()),
            7 => (Strand::Main, answered()),
            8 => (Strand::Main, text()),
            9..15 => (Strand::Delegation(number), delegated(&child.to_string())),
            15..17 => (Strand::Delegation(number), reserved()),
            17 => (Strand::Delegation(number), settled()),
            18 => (Strand::Delegation(number), delegation_ended()),
            19 => (Strand::Delegation(number), Kind::DelegationTaken {}),
            20 => (Strand::Call(number), gate_asked()),
            21 => (Strand::Call(number), decided(Decision::Allow)),
            22 => (Strand::Call(number), returned()),
            23 => (Strand::Call(number), asked()),
            24 => (Strand::Call(number), answered()),
            25..28 => (Strand::Main, started(false)),
            _ => (Strand::Call(number), tool_called(number == 1)),
        };
        (path(at), attempt, strand, kind)
    })
}

/// What ends, by the name of what it ends.
fn ending((path, attempt, strand, kind): &Event) -> Option<String> {
    Some(match kind {
        Kind::SessionEnded { .. } => format!("session {path}"),
        Kind::AttemptEnded { .. } => format!("attempt {path} {attempt}"),
        Kind::DelegationEnded { .. } => format!("{strand} {path}"),
        Kind::ToolReturned { .. } => format!("{strand} {path}"),
        Kind::TaskEnded { .. } => format!("task {path}"),
        _ => return None,
    })
}

fn beginning((path, attempt, strand, kind): &Event) -> Option<String> {
    Some(match kind {
        Kind::SessionStarted { .. } => format!("session {path}"),
        Kind::Delegated { .. } => format!("{strand} {path}"),
        Kind::GateAsked { .. } | Kind::ToolCalled { .. } => format!("{strand} {path}"),
        Kind::Restarted { .. } => format!("attempt {path} {attempt}"),
        _ => return None,
    })
}

proptest! {
    #[test]
    fn whatever_happened_closing_leaves_nothing_open_and_one_ending_each(
        events in prop::collection::vec(any_event(), 0..300),
        by_force in any::<bool>(),
    ) {
        let mut told = Told::working();
        let mut taken: Vec<Event> = events
            .into_iter()
            .filter(|(path, attempt, strand, kind)| told.0.apply(path, *attempt, *strand, kind).is_ok())
            .collect();
        let verdict = if by_force { Verdict::Forced(CompletionStatus::Terminated) } else { Verdict::Judged };
        taken.extend(told.close(ROOT, &Closing { verdict, ..closing(Scope::Session) }));
        prop_assert!(told.0.summary().is_empty());
        prop_assert!(told.close(ROOT, &closing(Scope::Session)).is_empty());
        told.tree(tree_ended());

        let mut endings: Vec<String> = taken.iter().filter_map(ending).collect();
        let count = endings.len();
        endings.sort();
        endings.dedup();
        prop_assert_eq!(endings.len(), count, "an ending was said twice");
        for began in taken.iter().filter_map(beginning) {
            prop_assert!(endings.contains(&began), "{} never ended", began);
        }
    }

    #[test]
    fn the_inside_of_any_session_can_be_closed_and_its_attempt_ended(
        events in prop::collection::vec(any_event(), 0..300),
    ) {
        let mut told = Told::working();
        for (path, attempt, strand, kind) in &events {
            let _refused = told.0.apply(path, *attempt, *strand, kind);
        }
        let open: Vec<SessionPath> = told.0.open_sessions().cloned().collect();
        for at in open {
            let mut told = told.clone();
            told.close(&at.to_string(), &closing(Scope::Inside));
            let Some(session) = told.0.sessions.get(&at) else { continue };
            if !session.attempt_over {
                let attempt = session.attempt;
                let mut ending = attempt_ended();
                told.0.complete(&at, &mut ending);
                prop_assert!(told.0.apply(&at, attempt, Strand::Main, &ending).is_ok());
            }
        }
    }
}
