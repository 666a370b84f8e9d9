//! `tree`, `trace`, `verify` and `diff` tell what a journal holds, also of a run that was killed, and of one that was
//! tampered with.

use std::io::{BufRead as _, BufReader};

use nix::sys::signal::Signal;

use crate::cli_support::{Place, finish, send};

/// A child that answers, and one that crashes.
const TWO: &str = r#"[{"do":"delegate","script":[{"do":"answer","text":"fine"}]},
    {"do":"delegate","script":[{"do":"trap"}]},{"do":"wait-all"},{"do":"answer","text":"done"}]"#;

#[test]
fn the_latest_tree_is_shown_with_what_became_of_each_session() {
    let place = Place::new();
    place.script("[]", &["-q"]).ended(0);
    place.script(TWO, &["-q"]).ended(0);
    let shown = place.treeward(&["tree"]).ended(0);
    let lines: Vec<&str> = shown.out().lines().collect();
    assert!(lines[0].starts_with("✓ 0 script  ") && lines[0].ends_with("  ok"), "{lines:?}");
    assert!(lines[1].starts_with("├─ ✓ 0.0 script  ") && lines[1].ends_with("  ok"), "{lines:?}");
    assert!(lines[2].starts_with("└─ ✗ 0.1 script  ") && lines[2].contains("  crashed · "), "{lines:?}");
    assert!(lines[3].contains("3 sessions: 2 ok, 1 crashed"), "{lines:?}");
    let tree = place.treeward(&["tree", "latest", "--json"]).ended(0).json().remove(0);
    assert_eq!(tree["status"], "ok");
    assert_eq!(tree["sessions"][2]["path"], "0.1");
    assert_eq!(tree["sessions"][2]["state"], "crashed");
    let id = tree["tree"].as_str().expect("an id");
    assert_eq!(place.treeward(&["tree", &id[..20]]).ended(0).out(), shown.out(), "by the beginning of its id");
    place.treeward(&["tree", "tree_zz"]).ended(2).says("there is no tree `tree_zz`").says(id);
}

#[test]
fn one_session_is_traced_with_what_its_delegator_says_of_it() {
    let place = Place::new();
    place.script(TWO, &["-q"]).ended(0);
    let records = place.treeward(&["trace", "--path", "0.1", "--json"]).ended(0).json();
    let kinds: Vec<&str> = records.iter().filter_map(|record| record["body"]["kind"].as_str()).collect();
    assert_eq!(kinds.first(), Some(&"delegated"));
    assert!(
        kinds.contains(&"session_started") && kinds.contains(&"attempt_ended") && kinds.contains(&"delegation_ended")
    );
    let all = place.treeward(&["trace", "--json"]).ended(0).json();
    assert!(records.len() < all.len());
    assert_eq!(place.treeward(&["trace"]).ended(0).out().lines().count(), all.len(), "one line a record");
    place.treeward(&["trace", "--path", "0.7"]).ended(2).says("has no session 0.7").says("treeward tree tree_");
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let place = Place::new();
    place.script(TWO, &["-q"]).ended(0);
    for args in [&["trace"][..], &["trace", "--json"], &["tree"], &["verify"], &["faults"]] {
        let mut child = place.start(args);
        drop(child.stdout.take());
        let ran = finish(child, std::time::Duration::from_secs(30)).ended(0);
        assert_eq!(ran.err, "");
    }
}

#[test]
fn a_killed_run_is_whole_says_what_had_not_ended_and_is_ended_by_the_next() {
    let place = Place::new();
    let steps = r#"[{"do":"delegate","script":[{"do":"sleep","ms":600000}]},{"do":"wait","of":0}]"#;
    let mut child = place.start(&["run", "script", "--task", steps]);
    let errors = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
    let started = errors.lines().any(|line| line.expect("a line").contains("0.0      script starts"));
    assert!(started);
    send(child.id(), Signal::SIGKILL);
    child.wait().expect("its end");
    let verified = place.treeward(&["verify"]).ended(0);
    assert!(verified.out().contains(" whole · "), "{}", verified.out());
    assert!(verified.out().contains(" · not ended\n"), "{}", verified.out());
    assert!(verified.out().contains("had not ended: 2 sessions (0, 0.0)"), "{}", verified.out());
    assert!(place.treeward(&["tree"]).ended(0).out().contains("not ended: it runs, or was killed"));
    let ran = place.script("[]", &[]).ended(0).says("had been killed; it was ended as crashed");
    let id =
        ran.err.split_whitespace().find(|word| word.starts_with("tree_")).expect("the killed tree's id").to_owned();
    let verified = place.treeward(&["verify", &id]).ended(0);
    assert!(verified.out().contains(" · ended\n"), "{}", verified.out());
}

#[test]
fn a_record_that_was_changed_is_found() {
    let place = Place::new();
    place.script(TWO, &["-q"]).ended(0);
    place.treeward(&["verify", "--all"]).ended(0);
    let journal = rusqlite::Connection::open(place.path(".treeward/journal.db")).expect("the journal");
    let changed = journal.execute("UPDATE records SET body = replace(body, 'crashed', 'ok')", []).expect("changed");
    assert!(changed > 0);
    drop(journal);
    let verified = place.treeward(&["verify"]).ended(1);
    assert!(verified.out().contains("DAMAGED") && verified.out().contains("is not the one that was written there"));
    let verified = place.treeward(&["verify", "--all", "--json"]).ended(1).json();
    assert_eq!(verified[0]["whole"], false);
    assert!(verified[0]["problem_count"].as_u64() > Some(0));
}

#[test]
fn two_runs_are_compared_body_by_body() {
    let place = Place::new();
    let steps = r#"[{"do":"delegate","script":[{"do":"answer","text":"same"}]},{"do":"wait","of":0},{"do":"answer","text":"A"}]"#;
    place.script(steps, &["-q", "--seed", "7", "--journal", "a.db"]).ended(0);
    place.script(steps, &["-q", "--seed", "7", "--journal", "b.db"]).ended(0);
    place.script(&steps.replace("\"same\"", "\"other\""), &["-q", "--seed", "7", "--journal", "c.db"]).ended(0);
    let same = place.treeward(&["diff", "a.db", "b.db"]).ended(0);
    assert!(same.out().starts_with("equal: "), "{}", same.out());
    let differs = place.treeward(&["diff", "a.db", "c.db#latest"]).ended(1);
    let lines: Vec<&str> = differs.out().lines().collect();
    assert!(lines[0].starts_with("differ at 0 "), "{lines:?}");
    assert!(lines[1].starts_with("A record ") && lines[1].contains("same"), "{lines:?}");
    assert!(lines[2].starts_with("B record ") && lines[2].contains("other"), "{lines:?}");
    let json = place.treeward(&["diff", "a.db", "c.db", "--json"]).ended(1).json();
    assert_eq!(json[0]["first"]["path"], "0");
    place.treeward(&["diff", "a.db", "nowhere.db"]).ended(6).says("nowhere.db: there is no journal here");
}
