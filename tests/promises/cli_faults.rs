//! `treeward faults` lists what can strike; each of its examples is a rule that `run` takes, and what strikes is shown.

use crate::cli_support::Place;

#[test]
fn every_example_is_taken() {
    let place = Place::new();
    let rows = place.treeward(&["faults", "--json"]).ended(0).json().remove(0);
    let rows = rows.as_array().expect("rows");
    assert!(rows.len() > 10);
    let mut args = vec!["run", "nowhere"];
    for row in rows {
        args.extend(["--fault", row["example"].as_str().expect("an example")]);
    }
    // The rules are read before the capsule is looked for: that it is not there is all that is wrong.
    place.treeward(&args).ended(2).says("error: nowhere: no such file");
}

#[test]
fn what_strikes_is_on_the_screen_and_takes_only_its_own_subtree() {
    let place = Place::new();
    let child = r#"{"do":"delegate","script":[{"do":"answer","text":"fine"}]}"#;
    let steps = format!(r#"[{child},{child},{child},{{"do":"wait-all"}},{{"do":"answer","text":"done"}}]"#);
    let ran = place.script(&steps, &["--fault", "session path=0.1 panic"]).ended(0);
    let ran = ran
        .says("FAULT session panic")
        .says("0.1      crashed: ")
        .says("4 sessions: 3 ok, 1 crashed")
        .says("1 fault struck");
    assert_eq!(ran.out(), "done\n");
    let tree = place.treeward(&["tree"]).ended(0);
    let crashed: Vec<&str> = tree.out().lines().filter(|line| line.contains('✗')).collect();
    assert_eq!(crashed.len(), 1);
    assert!(crashed[0].contains("0.1 script") && crashed[0].contains("fault: session panic"), "{crashed:?}");
    let verified = place.treeward(&["verify", "--json"]).ended(0).json();
    assert_eq!(verified[0]["open"]["reservations"], 0);
}

#[test]
fn a_rule_of_which_nothing_struck_is_named() {
    let place = Place::new();
    let ran = place.script("[]", &["--fault", "session path=0.7 panic", "--fault", "agent delay=1ms"]).ended(0);
    assert!(!ran.err.contains("never struck: agent"), "{}", ran.err);
    ran.says("never struck: session path=0.7 panic\n");
}
