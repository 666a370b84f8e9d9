//! The exit codes are those that `--help` lists.

use crate::cli_support::{Place, Ran};

fn codes(help: &Ran) -> Vec<i32> {
    let listed = help.out().lines().skip_while(|line| *line != "Exit codes:").skip(1);
    listed.map_while(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

#[test]
fn help_lists_them() {
    let place = Place::new();
    for args in [&["--help"][..], &["run", "--help"]] {
        assert_eq!(codes(&place.treeward(args).ended(0)), [0, 1, 2, 3, 4, 5, 6, 130]);
    }
    place.treeward(&["--version"]).ended(0);
}

#[test]
fn the_docs_list_the_same() {
    let docs = include_str!("../../docs/command-line.md");
    let listed = docs.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse::<i32>().ok());
    assert_eq!(listed.collect::<Vec<_>>(), codes(&Place::new().treeward(&["--help"]).ended(0)));
}

#[test]
fn zero_for_an_answer_and_one_for_the_agents_own_no() {
    let place = Place::new();
    place.script(r#"[{"do":"answer","text":"yes"}]"#, &[]).ended(0);
    let ran = place.script(r#"[{"do":"error","text":"no such thing"}]"#, &[]).ended(1);
    assert_eq!(ran.out(), "");
    ran.says("error: no such thing\n").says("next: treeward trace tree_");
    let ran = place.script(r#"[{"do":"error","text":"no"}]"#, &["--json"]).ended(1);
    assert_eq!(ran.json().last().expect("a completion")["completion"]["exit"], 1);
}

#[test]
fn two_for_bad_input_with_what_to_do() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).expect("a directory");
    std::fs::write(place.path("bad.toml"), "name = \"bad\"\nrum = 1\n").expect("a file");
    for (args, says) in [
        (&["run", "nowhere"][..], "nowhere: no such file"),
        (&["run", "empty"], "capsule.toml"),
        (&["run", "bad.toml"], "did you mean `run`?"),
        (&["run", "script", "--fault", "sesion panic"], "did you mean `session`?"),
        (&["run", "script", "--fault", "report panic"], "it takes drop, delay=TIME, duplicate"),
        (&["run", "script", "--budget", "token=1"], "did you mean `tokens`?"),
        (&["run", "script", "--deadline", "soon"], "--deadline"),
        (&["run", "script", "--deadline", "0s"], "from 1ms"),
        (&["run", "script", "--label", "tenant"], "KEY=VALUE"),
        (&["run", "script", "--json", "--quiet"], "cannot be used with"),
        (&["run", "script", "--input", "nowhere"], "nowhere"),
        (&["walk"], "walk"),
        (&["tree", "--journal", "memory"], "gone with the run"),
    ] {
        let ran = place.treeward(args).ended(2).says("error: ").says(says);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
    }
}

#[test]
fn three_for_a_crash() {
    let ran = Place::new().script(r#"[{"do":"trap"}]"#, &[]).ended(3).says("error: crashed: ");
    assert_eq!(ran.out(), "");
    Place::new()
        .script("[]", &["--fault", "session panic", "-q"])
        .ended(3)
        .says("error: crashed: a fault was injected");
}

#[test]
fn four_for_what_is_not_allowed() {
    let place = Place::new();
    place.capsule("reader", "read = [\"input\"]\n");
    place.treeward(&["run", "reader"]).ended(4).says("error: grants.read").says("help: --input DIR");
    place.script("[]", &["--work", "."]).ended(4).says("error: grants.write");
}

#[test]
fn five_for_a_deadline() {
    let steps = r#"[{"do":"sleep","ms":600000}]"#;
    Place::new().script(steps, &["--deadline", "300ms"]).ended(5).says("error: terminated: ");
}

#[test]
fn six_for_a_journal_that_cannot_be_used_or_fails() {
    let place = Place::new();
    std::fs::write(place.path("notes.txt"), "not a journal, and precious\n".repeat(100)).expect("a file");
    place.script("[]", &["--journal", "notes.txt"]).ended(6).says("not a treeward journal");
    let kept = std::fs::read_to_string(place.path("notes.txt")).expect("the file");
    assert_eq!(kept, "not a journal, and precious\n".repeat(100));
    place.treeward(&["tree"]).ended(6).says("there is no journal here");
    for rule in ["sync nth=1 error", "append nth=2 error=disk on fire"] {
        let ran = place.script(r#"[{"do":"answer","text":"x"}]"#, &["--fault", rule]).ended(6);
        assert_eq!(ran.out(), "", "an answer that may be forgotten is not given");
        ran.says("error: the journal has failed").says("help: ");
    }
}
