//! `treeward run` puts the answer alone on standard output, and takes its task from where it is told to.

use crate::cli_support::Place;

const HELLO: &str = r#"[{"do":"emit","text":"thinking"},{"do":"answer","text":"42"}]"#;

#[test]
fn the_answer_is_on_standard_output_and_what_happened_on_standard_error() {
    let ran = Place::new().script(HELLO, &[]).ended(0).says("script starts").says("says: thinking");
    assert_eq!(ran.out(), "42\n");
    let last: Vec<&str> = ran.err.lines().rev().take(3).collect();
    assert_eq!(last[0], "next: treeward tree");
    assert_eq!(last[1], "used: nothing");
    assert!(last[2].starts_with("1 session: 1 ok in "), "{last:?}");
}

#[test]
fn quiet_is_the_answer_and_nothing_else() {
    let ran = Place::new().script(HELLO, &["--quiet"]).ended(0);
    assert_eq!((ran.out(), ran.err.as_str()), ("42\n", ""));
}

#[test]
fn json_is_every_record_as_it_is_stored_and_the_completion_last() {
    let place = Place::new();
    let ran = place.script(HELLO, &["--json", "--label", "tenant=a", "--seed", "7"]).ended(0);
    assert_eq!(ran.err, "");
    let mut lines = ran.json();
    let completion = lines.pop().expect("a completion");
    assert_eq!(completion["completion"]["answer"], "42");
    assert_eq!(completion["completion"]["status"], "ok");
    assert_eq!(completion["completion"]["exit"], 0);
    for (n, line) in lines.iter().enumerate() {
        assert_eq!(line["envelope"]["seq"], n + 1);
        assert_eq!(line["envelope"]["labels"]["tenant"], "a");
        assert_eq!(line["hash"].as_str().map(str::len), Some(64));
    }
    assert_eq!(lines[0]["body"]["kind"], "tree_started");
    assert_eq!(lines[0]["body"]["seed"], 7);
    assert_eq!(lines[lines.len() - 1]["body"]["kind"], "tree_ended");
    // The same bytes as the journal gives back.
    let traced = place.treeward(&["trace", "--json"]).ended(0);
    let printed: Vec<&str> = ran.out().lines().collect();
    assert_eq!(traced.out().lines().collect::<Vec<_>>(), printed[..printed.len() - 1]);
}

#[test]
fn a_long_answer_arrives_whole() {
    let ran = Place::new().script(r#"[{"do":"answer-bytes","count":300000}]"#, &["--quiet"]).ended(0);
    assert_eq!(ran.out, [b"x".repeat(300_000), b"\n".to_vec()].concat());
}

#[test]
fn the_task_comes_from_a_file_or_standard_input() {
    let place = Place::new();
    std::fs::write(place.path("task.json"), HELLO).expect("a file");
    assert_eq!(place.treeward(&["run", "script", "--task-file", "task.json", "-q"]).ended(0).out(), "42\n");
    assert_eq!(place.treeward_reading(&["run", "script", "-q"], HELLO.as_bytes()).ended(0).out(), "42\n");
    let dash = ["run", "script", "--task-file", "-", "-q"];
    assert_eq!(place.treeward_reading(&dash, HELLO.as_bytes()).ended(0).out(), "42\n");
}

#[test]
fn a_task_that_is_none_is_refused_before_anything_starts() {
    let place = Place::new();
    std::fs::write(place.path("binary"), b"ab\xff").expect("a file");
    std::fs::write(place.path("long"), vec![b' '; (1 << 20) + 1]).expect("a file");
    let run = |file: &str| place.treeward(&["run", "script", "--task-file", file]).ended(2);
    run("binary").says("error: binary: the task is not UTF-8 (byte 2)\nhelp: ");
    run("long").says("error: long: the task is longer than 1 048 576 bytes (limits.task)\nhelp: ");
    run("missing").says("error: missing: the task cannot be read: ");
    place.treeward_reading(&["run", "script"], &vec![b' '; 3 << 20]).ended(2).says("limits.task");
    assert!(!place.path(".treeward").exists(), "nothing was started");
}

#[test]
fn what_an_agent_writes_does_not_steer_the_terminal() {
    let hostile = r"\u001b]0;owned\u0007\r\u009b2J\u202e";
    let steps = format!(
        r#"[{{"do":"emit","text":"{hostile}"}},{{"do":"delegate","script":[{{"do":"error","text":"{hostile}"}}]}},
            {{"do":"wait","of":0}},{{"do":"answer","text":"{hostile}"}}]"#
    );
    let place = Place::new();
    let ran = place.script(&steps, &[]).ended(0).says(r"says: \e]0;owned\u{7} \u{9b}2J\u{202e}");
    let tree = place.treeward(&["tree"]).ended(0);
    let trace = place.treeward(&["trace"]).ended(0);
    for shown in [&ran.err, tree.out(), trace.out()] {
        let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(steers), "{shown:?}");
    }
    // A pipe gets the answer as it is: it is data there.
    assert_eq!(ran.out(), "\u{1b}]0;owned\u{7}\r\u{9b}2J\u{202e}\n");
}
