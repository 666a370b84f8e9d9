//! `kill -9` at any moment: the journal opens, verifies, says what had not ended, and the next run ends it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn treeward(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_treeward")).args(arguments).current_dir(directory).output();
    let ran = ran.expect("the binary runs");
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

const SURVEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/survey");

/// Runs a survey and kills it when it has said `lines` lines; whether it was still running then.
fn killed_after(directory: &Path, lines: usize) -> bool {
    let mut run = Command::new(env!("CARGO_BIN_EXE_treeward"))
        .args(["run", SURVEY, "--input", "input", "--journal", "j.db"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let said = BufReader::new(run.stderr.take().expect("piped"));
    let seen = said.lines().take(lines).count();
    run.kill().expect("killed");
    let status = run.wait().expect("reaped");
    seen == lines && status.code().is_none()
}

#[test]
fn what_was_killed_verifies_says_what_was_open_and_is_ended_by_the_next_run() {
    let place = tempfile::tempdir().expect("a directory");
    for directory in 0..12 {
        let directory = place.path().join(format!("input/{directory}"));
        fs::create_dir_all(&directory).expect("directories");
        (0..12).for_each(|file| fs::write(directory.join(format!("{file}")), "a line\n").expect("a file"));
    }
    let mut open_seen = 0;
    for lines in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144] {
        let killed = killed_after(place.path(), lines);
        let (code, said) = treeward(place.path(), &["verify", "--all", "--journal", "j.db"]);
        assert_eq!(code, 0, "after {lines} lines: {said}");
        assert!(!killed || said.contains("not ended") || said.contains("open"), "after {lines} lines: {said}");
        open_seen += usize::from(killed);
    }
    assert!(open_seen >= 6, "only {open_seen} runs were killed while they ran");
    let (code, said) = treeward(place.path(), &["run", SURVEY, "--input", "input", "--journal", "j.db"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("had been killed"), "{said}");
    let (code, said) = treeward(place.path(), &["verify", "--all", "--journal", "j.db", "--json"]);
    assert_eq!(code, 0, "{said}");
    for line in said.lines() {
        let tree: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(!tree.to_string().contains("\"ended\":false"), "{tree}");
    }
}
