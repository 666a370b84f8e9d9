//! `kill -9` at any moment: the journal opens, verifies, says what had not ended, and the next run ends it.

use std::fs;
use std::io::{BufRead, BufReader};

use crate::cli_support::Place;

const SURVEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/survey");
const RUN: [&str; 6] = ["run", SURVEY, "--input", "input", "--journal", "j.db"];

/// Runs a survey and kills it when it has said `lines` lines; whether it was still running then.
fn killed_after(place: &Place, lines: usize) -> bool {
    let mut run = place.start(&RUN);
    let said = BufReader::new(run.stderr.take().expect("piped"));
    let seen = said.lines().take(lines).count();
    run.kill().expect("killed");
    let status = run.wait().expect("reaped");
    seen == lines && status.code().is_none()
}

#[test]
fn what_was_killed_verifies_says_what_was_open_and_is_ended_by_the_next_run() {
    let place = Place::new();
    for directory in 0..12 {
        let directory = place.path("input").join(directory.to_string());
        fs::create_dir_all(&directory).expect("directories");
        (0..12).for_each(|file| fs::write(directory.join(file.to_string()), "a line\n").expect("a file"));
    }
    let mut left_open = 0;
    for lines in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144] {
        let killed = killed_after(&place, lines);
        let verified = place.treeward(&["verify", "--all", "--journal", "j.db"]).ended(0);
        // One killed between its tree's ending and its own has left nothing open.
        left_open += usize::from(killed && verified.out().contains("not ended"));
    }
    assert!(left_open >= 5, "only {left_open} trees were left open by a kill");
    place.treeward(&RUN).ended(0).says("had been killed");
    let verified = place.treeward(&["verify", "--all", "--journal", "j.db"]).ended(0);
    assert!(!verified.out().contains("not ended"), "{verified:?}");
}
