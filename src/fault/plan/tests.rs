use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn rule(text: &str) -> Result<Rule, RuleError> {
    text.parse()
}

fn complaint(text: &str) -> String {
    rule(text).unwrap_err().to_string()
}

#[test]
fn every_example_is_a_rule_for_its_point_and_is_written_as_it_reads() {
    for point in Point::ALL {
        let parsed = rule(point.example()).unwrap();
        assert_eq!(parsed.point(), point);
        assert_eq!(parsed.to_string(), point.example());
    }
}

#[test]
fn the_parts_of_a_rule_are_read() {
    let parsed = rule("  tool  path=0.1.*   capsule=reader tool=grep attempt=2 every=3 error=no such file ").unwrap();
    assert_eq!(parsed.point(), Point::Tool);
    assert_eq!(parsed.filter().path, Some(PathPattern::Below("0.1".parse().unwrap())));
    assert_eq!(parsed.filter().capsule.as_deref(), Some("reader"));
    assert_eq!(parsed.filter().tool.as_deref(), Some("grep"));
    assert_eq!(parsed.filter().attempt, NonZeroU32::new(2));
    assert_eq!(parsed.when(), When::Every(NonZeroU64::new(3).unwrap()));
    assert_eq!(parsed.action(), &Action::Error(Some("no such file".into())));
    assert_eq!(rule("report path=0.2 delay=1m30s").unwrap().action(), &Action::Delay(Duration::from_secs(90)));
}

#[test]
fn what_is_wrong_is_named_with_what_was_likely_meant() {
    for (text, says) in [
        ("", "not empty"),
        ("   ", "not empty"),
        ("sesion panic", "`sesion` is not a fault point; did you mean `session`?"),
        ("warp panic", "`treeward faults` lists"),
        ("session", "has no action; it takes panic, kill"),
        ("session path=0.1", "has no action"),
        ("session pth=0.1 panic", "`pth=0.1` is neither a filter nor an action; did you mean `path`?"),
        ("session panick", "did you mean `panic`?"),
        ("session path panic", "`path` is neither"),
        ("session path=1 panic", "`path=1`: a session's path"),
        ("session path=0.01 panic", "`path=0.01`"),
        ("session path=* panic", "`path=*`"),
        ("session attempt=0 panic", "`attempt=0`: a whole number from 1"),
        ("session nth=0 panic", "`nth=0`"),
        ("session nth=-1 panic", "`nth=-1`"),
        ("session nth=99999999999999999999 panic", "`nth=99999999999999999999`"),
        ("session p=0 panic", "probability"),
        ("session p=1.5 panic", "probability"),
        ("session p=NaN panic", "probability"),
        ("session p=-inf panic", "probability"),
        ("session nth=1 every=2 panic", "`every=2` says again"),
        ("session path=0 path=0.1 panic", "`path=0.1` says again"),
        ("session capsule= panic", "`capsule=`: a name"),
        ("session panic kill", "`kill` stands behind the action"),
        ("session panic nth=1", "`nth=1` stands behind the action"),
        ("tool error no such file", "`error=TEXT`"),
        ("session delay=1s", "`session` does not take `delay`; it takes panic, kill"),
        ("append delay=1s", "`append` does not take `delay`; it takes error[=TEXT]"),
        ("sync drop", "it takes error[=TEXT], delay=TIME"),
        ("report delay", "a delay is 1ms to 1h"),
        ("report delay=", "a delay is 1ms to 1h"),
        ("report delay=0s", "a delay is 1ms to 1h"),
        ("report delay=61m", "a delay is 1ms to 1h"),
        ("report delay=100us", "a delay is 1ms to 1h"),
        ("report delay=soon", "`delay=soon`"),
        ("tool error=", "1 to 256 bytes"),
        ("tool error=a\u{1b}[2J", "control characters"),
        ("report tool=grep drop", "cannot be filtered by `tool=`"),
        ("append path=0.1 error", "cannot be filtered by `path=`: one writer"),
        ("sync attempt=1 error", "cannot be filtered by `attempt=`"),
        ("sync capsule=a error", "cannot be filtered by `capsule=`"),
    ] {
        let said = complaint(text);
        assert!(said.contains(says), "{text:?} was answered with {said:?}");
    }
}

#[test]
fn a_hostile_rule_is_quoted_only_in_part() {
    let long = "x".repeat(1 << 20);
    for text in
        [long.clone(), format!("session {long}"), format!("session path={long} panic"), format!("tool error={long}")]
    {
        assert!(complaint(&text).len() < 300);
    }
}

#[test]
fn below_is_not_the_session_itself_nor_a_namesake() {
    let below = PathPattern::Below("0.1".parse().unwrap());
    let matches = |path: &str| below.matches(&path.parse().unwrap());
    assert!(matches("0.1.0") && matches("0.1.2.3"));
    assert!(!matches("0.1") && !matches("0.10") && !matches("0"));
}

fn paths() -> impl Strategy<Value = PathPattern> {
    (prop::collection::vec(0_u32..20, 0..4), any::<bool>()).prop_map(|(indices, below)| {
        let path = indices.into_iter().fold(SessionPath::root(), |path, index| path.child(index));
        if below { PathPattern::Below(path) } else { PathPattern::Exact(path) }
    })
}

fn actions() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Panic),
        Just(Action::Kill),
        Just(Action::Trap),
        Just(Action::Hang),
        Just(Action::Drop),
        Just(Action::Duplicate),
        Just(Action::Error(None)),
        "[!-~]([ -~é]{0,40}[!-~])?".prop_map(|text| Action::Error(Some(text.into()))),
        (1_u64..=3_600_000).prop_map(|ms| Action::Delay(Duration::from_millis(ms))),
    ]
}

fn whens() -> impl Strategy<Value = When> {
    prop_oneof![
        Just(When::Always),
        any::<NonZeroU64>().prop_map(When::Nth),
        any::<NonZeroU64>().prop_map(When::Every),
        (1e-9_f64..=1.0).prop_map(When::Chance),
    ]
}

prop_compose! {
    fn filters()(
        path in prop::option::of(paths()),
        capsule in prop::option::of("[a-z][a-z0-9=_-]{0,10}"),
        tool in prop::option::of("[a-z=][a-z0-9_-]{0,10}"),
        attempt in prop::option::of(any::<NonZeroU32>()),
    ) -> Filter {
        Filter { path, capsule: capsule.map(Into::into), tool: tool.map(Into::into), attempt }
    }
}

proptest! {
    #[test]
    fn a_rule_that_can_be_made_reads_back_as_it_is_written(
        point in prop::sample::select(Point::ALL.to_vec()), filter in filters(), when in whens(), action in actions(),
    ) {
        if let Ok(rule) = Rule::new(point, filter, when, action) {
            prop_assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        if let Ok(parsed) = rule(&text) {
            prop_assert_eq!(rule(&parsed.to_string()).unwrap(), parsed);
        }
    }

    #[test]
    fn any_words_are_read_or_refused(
        words in prop::collection::vec(
            prop::sample::select(vec!["session", "tool", "sync", "path=0", "path=0.1.*", "nth=2", "p=0.5", "tool=a", "panic",
                "error", "error=x y", "delay=5s", "drop", "attempt=1", "=", "nth="]), 0..6),
    ) {
        if let Ok(parsed) = rule(&words.join(" ")) {
            prop_assert_eq!(rule(&parsed.to_string()).unwrap(), parsed);
        }
    }
}
