//! The bytes of a body are fixed: its keys, their order, and what is refused. `docs/schema.md` describes exactly these.

use std::collections::BTreeMap;
use std::time::Duration;

use treeward::capsule::{Budget, Usage};
use treeward::ids::{Digest, Strand};
use treeward::journal::*;
use treeward::supervision::ExitClass;

use crate::journal_kit::*;

const SPENT: Usage = Usage { tokens: 1, micro_usd: 2, tool_calls: 3, delegations: 4 };
const SPENT_JSON: &str = r#"{"tokens":1,"micro_usd":2,"tool_calls":3,"delegations":4}"#;
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn budget() -> Budget {
    Budget {
        tokens: Some(1),
        micro_usd: Some(2),
        tool_calls: Some(3),
        delegations: Some(4),
        depth: Some(5),
        wall: Some(Duration::from_millis(6)),
    }
}

/// One example of every kind, all its fields filled, and the bytes of its own fields.
fn examples() -> Vec<(Kind, String)> {
    let lent = || vec![LentDirectory { name: "input".into(), from: Some("work/src".into()), write: true }];
    let lent_json = r#"[{"name":"input","from":"work/src","write":true}]"#;
    let budget_json = r#"{"tokens":1,"micro_usd":2,"tool_calls":3,"delegations":4,"depth":5,"wall_ms":6}"#;
    let blob = Blob { blob: Digest::of(b""), len: 0 };
    let detail = || Some("why".to_owned());
    vec![
        (
            Kind::TreeStarted { schema: 1, capsule: "lead".into(), seed: u64::MAX, budget: budget() },
            format!(
                r#""kind":"tree_started","schema":1,"capsule":"lead","seed":18446744073709551615,"budget":{budget_json}"#
            ),
        ),
        (
            Kind::TreeEnded { status: CompletionStatus::Unknown, refused: 2 },
            r#""kind":"tree_ended","status":"unknown","refused":2"#.into(),
        ),
        (
            Kind::SessionStarted {
                capsule: "lead".into(),
                digest: Digest::of(b""),
                agent: AgentKind::Guest,
                lent: lent(),
                changes_world: true,
            },
            format!(
                r#""kind":"session_started","capsule":"lead","digest":"{EMPTY}","agent":"guest","lent":{lent_json},"changes_world":true"#
            ),
        ),
        (
            Kind::AttemptEnded { class: ExitClass::Signal { number: 9 }, detail: detail(), changed_world: false },
            r#""kind":"attempt_ended","class":{"signal":{"number":9}},"detail":"why","changed_world":false"#.into(),
        ),
        (
            Kind::Restarted { class: ExitClass::Panic, after_ms: 200 },
            r#""kind":"restarted","class":"panic","after_ms":200"#.into(),
        ),
        (
            Kind::SessionEnded { status: CompletionStatus::Crashed, by: Reporter::Recovery },
            r#""kind":"session_ended","status":"crashed","by":"recovery""#.into(),
        ),
        (Kind::TaskSubmitted { task: "go".into() }, r#""kind":"task_submitted","task":"go""#.into()),
        (Kind::TaskStarted {}, r#""kind":"task_started""#.into()),
        (
            Kind::TaskEnded { status: CompletionStatus::Ok, answer: Some("yes".into()), detail: detail() },
            r#""kind":"task_ended","status":"ok","answer":"yes","detail":"why""#.into(),
        ),
        (Kind::Text { text: Text::Blob(blob) }, format!(r#""kind":"text","text":{{"blob":"{EMPTY}","len":0}}"#)),
        (
            Kind::ToolCalled { tool: "grep".into(), input: "{}".into(), changes_world: false },
            r#""kind":"tool_called","tool":"grep","input":"{}","changes_world":false"#.into(),
        ),
        (
            Kind::ToolReturned { outcome: CallOutcome::Ended, output: "é\n\"".into() },
            r#""kind":"tool_returned","outcome":"ended","output":"é\n\"""#.into(),
        ),
        (Kind::GateAsked { tool: "grep".into() }, r#""kind":"gate_asked","tool":"grep""#.into()),
        (
            Kind::GateDecided { decision: Decision::Deny, by: "rules".into(), reason: detail() },
            r#""kind":"gate_decided","decision":"deny","by":"rules","reason":"why""#.into(),
        ),
        (Kind::QuestionAsked { question: "may I".into() }, r#""kind":"question_asked","question":"may I""#.into()),
        (
            Kind::QuestionAnswered { outcome: QuestionOutcome::Answered, answer: Some("no".into()) },
            r#""kind":"question_answered","outcome":"answered","answer":"no""#.into(),
        ),
        (
            Kind::Delegated {
                child: path("0.2"),
                capsule: "leaf".into(),
                task: "look".into(),
                lent: lent(),
                deadline_ms: 600_000,
            },
            format!(
                r#""kind":"delegated","child":"0.2","capsule":"leaf","task":"look","lent":{lent_json},"deadline_ms":600000"#
            ),
        ),
        (Kind::Queued { limit: "live_children".into() }, r#""kind":"queued","limit":"live_children""#.into()),
        (Kind::BudgetReserved { slice: budget() }, format!(r#""kind":"budget_reserved","slice":{budget_json}"#)),
        (Kind::BudgetCapped { cap: Budget::default() }, r#""kind":"budget_capped","cap":{}"#.into()),
        (
            Kind::BudgetSettled { spent: SPENT, estimated: true },
            format!(r#""kind":"budget_settled","spent":{SPENT_JSON},"estimated":true"#),
        ),
        (
            Kind::BudgetExhausted { key: "budget.tokens".into(), asked: 2, left: 1 },
            r#""kind":"budget_exhausted","key":"budget.tokens","asked":2,"left":1"#.into(),
        ),
        (Kind::UsageReported { usage: SPENT }, format!(r#""kind":"usage_reported","usage":{SPENT_JSON}"#)),
        (
            Kind::DelegationEnded {
                status: CompletionStatus::Terminated,
                by: Reporter::Supervisor,
                attempts: 3,
                answer: Some("half".into()),
                detail: detail(),
                spent: SPENT,
            },
            format!(
                r#""kind":"delegation_ended","status":"terminated","by":"supervisor","attempts":3,"answer":"half","detail":"why","spent":{SPENT_JSON}"#
            ),
        ),
        (Kind::DelegationTaken {}, r#""kind":"delegation_taken""#.into()),
        (Kind::Escalated { why: "too often".into() }, r#""kind":"escalated","why":"too often""#.into()),
        (Kind::StopRequested { reason: "enough".into() }, r#""kind":"stop_requested","reason":"enough""#.into()),
        (
            Kind::FaultInjected { point: "session".into(), action: "panic".into(), nth: 1 },
            r#""kind":"fault_injected","point":"session","action":"panic","nth":1"#.into(),
        ),
        (
            Kind::HarnessStarting { driver: "command".into(), program: "python3".into() },
            r#""kind":"harness_starting","driver":"command","program":"python3""#.into(),
        ),
        (Kind::HarnessStarted {}, r#""kind":"harness_started""#.into()),
        (Kind::HarnessReady { session: Some("s1".into()) }, r#""kind":"harness_ready","session":"s1""#.into()),
        (Kind::HarnessInterrupted { by: "SIGINT".into() }, r#""kind":"harness_interrupted","by":"SIGINT""#.into()),
        (Kind::HarnessKilled { signal: "SIGTERM".into() }, r#""kind":"harness_killed","signal":"SIGTERM""#.into()),
        (Kind::HarnessExited { exit: "exit code 0".into() }, r#""kind":"harness_exited","exit":"exit code 0""#.into()),
        (Kind::HarnessGone { survivors: 2 }, r#""kind":"harness_gone","survivors":2"#.into()),
        (
            Kind::Checkpoint { label: "half".into(), state: blob },
            format!(r#""kind":"checkpoint","label":"half","state":{{"blob":"{EMPTY}","len":0}}"#),
        ),
        (Kind::Chosen { among: vec![0, 2], chosen: Some(2) }, r#""kind":"chosen","among":[0,2],"chosen":2"#.into()),
        (Kind::Note { key: "k".into(), text: "t".into() }, r#""kind":"note","key":"k","text":"t""#.into()),
    ]
}

fn body_of(kind: Kind) -> Body {
    Body { path: path("0.2"), attempt: 1, strand: Strand::Call(7), n: 3, kind }
}

const HEAD: &str = r#"{"path":"0.2","attempt":1,"strand":"call.7","n":3,"#;

#[test]
fn every_kind_has_these_bytes_and_reads_back() {
    for (kind, own) in examples() {
        let name = kind.name();
        let golden = format!("{HEAD}{own}}}");
        let body = body_of(kind);
        assert_eq!(serde_json::to_string(&body).unwrap(), golden);
        assert_eq!(serde_json::from_str::<Body>(&golden).unwrap(), body);
        assert!(own.starts_with(&format!("\"kind\":\"{name}\"")), "{name}");
    }
}

#[test]
fn no_kind_is_without_an_example() {
    let source = include_str!("../../src/journal/record.rs");
    let names = source.lines().filter_map(|line| line.split_once("{ .. } => \"")?.1.strip_suffix("\","));
    let mut names: Vec<&str> = names.collect();
    let mut shown: Vec<&str> = examples().iter().map(|(kind, _)| kind.name()).collect();
    names.sort_unstable();
    shown.sort_unstable();
    assert!(names.len() > 30);
    assert_eq!(names, shown);
}

#[test]
fn what_this_schema_does_not_know_is_refused() {
    for (kind, own) in examples() {
        let name = kind.name();
        let with = |more: &str| serde_json::from_str::<Body>(&format!("{HEAD}{own},{more}}}"));
        assert!(with(r#""unheard_of":1"#).is_err(), "{name} takes an unknown field");
        assert!(with(r#""kind":"note""#).is_err(), "{name} takes a second kind");
    }
    assert!(serde_json::from_str::<Body>(&format!(r#"{HEAD}"kind":"unheard_of"}}"#)).is_err());
    assert!(serde_json::from_str::<Body>(r#"{"attempt":1,"strand":"main","n":1,"kind":"task_started"}"#).is_err());
    let envelope = format!(r#"{{"tree":"{}","seq":1,"at":2,"pid":3}}"#, tree(1));
    assert_eq!(serde_json::to_string(&serde_json::from_str::<Envelope>(&envelope).unwrap()).unwrap(), envelope);
    let more = envelope.replace("\"pid\"", "\"who\":1,\"pid\"");
    assert!(serde_json::from_str::<Envelope>(&more).is_err());
}

/// The kinds a page describes, each with its fields in order.
fn described(page: &str) -> BTreeMap<String, Vec<String>> {
    let mut kinds = BTreeMap::new();
    let mut kind = None;
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("### `") {
            let name = name.trim_end_matches('`').to_owned();
            kinds.insert(name.clone(), Vec::new());
            kind = Some(name);
        } else if line.starts_with('#') {
            kind = None;
        } else if let (Some(kind), Some(row)) = (&kind, line.strip_prefix("| `")) {
            let fields: &mut Vec<String> = kinds.get_mut(kind).unwrap();
            fields.push(row.split('`').next().unwrap().to_owned());
        }
    }
    kinds
}

/// The keys of an object, in the order of its bytes.
fn keys(object: &str) -> Vec<String> {
    struct Keys(Vec<String>);
    impl<'de> serde::Deserialize<'de> for Keys {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Keys;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                    let mut keys = Vec::new();
                    while let Some(key) = map.next_key()? {
                        keys.push(key);
                        map.next_value::<serde::de::IgnoredAny>()?;
                    }
                    Ok(Keys(keys))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    serde_json::from_str::<Keys>(object).unwrap().0
}

#[test]
fn the_schema_page_describes_every_field_of_every_kind() {
    let described = described(include_str!("../../docs/schema.md"));
    let real: BTreeMap<String, Vec<String>> = examples()
        .into_iter()
        .map(|(kind, own)| (kind.name().to_owned(), keys(&format!("{{{own}}}"))[1..].to_vec()))
        .collect();
    assert_eq!(described, real);
}
