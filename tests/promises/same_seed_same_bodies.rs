//! Two simulations of one seed give the same record bodies, byte for byte and in the same order; other seeds do not.

use std::fs;
use std::path::Path;
use std::process::Command;

fn treeward(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_treeward")).args(arguments).current_dir(directory).output();
    let ran = ran.expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (ran.status.code().unwrap_or(-1), text(ran.stdout), text(ran.stderr))
}

fn simulate(directory: &Path, seed: &str, journal: &str) {
    let survey = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/survey");
    let run = ["run", survey, "--input", "input", "--simulate", "--seed", seed, "--journal", journal];
    let faults =
        ["--fault", "agent p=0.3 trap", "--fault", "report p=0.3 delay=3s", "--fault", "session path=0.1 panic"];
    let (code, _, error) = treeward(directory, &[&run[..], &faults].concat());
    assert_eq!(code, 0, "{error}");
}

#[test]
fn guests_under_faults_repeat_exactly() {
    let place = tempfile::tempdir().expect("a directory");
    for (name, text) in [("a/one", "1\n"), ("a/b/two", "TODO\n"), ("c/three", "x y\n"), ("c/four", ""), ("five", "5")] {
        let file = place.path().join("input").join(name);
        fs::create_dir_all(file.parent().expect("a parent")).expect("directories");
        fs::write(file, text).expect("a file");
    }
    simulate(place.path(), "7", "first.db");
    simulate(place.path(), "7", "second.db");
    simulate(place.path(), "8", "third.db");
    let (code, same, error) = treeward(place.path(), &["diff", "first.db", "second.db", "--json"]);
    assert_eq!(code, 0, "{same}{error}");
    let (code, other, _) = treeward(place.path(), &["diff", "first.db", "third.db", "--json"]);
    assert_ne!(code, 0, "{other}");
    // Not only each strand: the whole order.
    let bodies = |journal: &str| {
        let (_, trace, _) = treeward(place.path(), &["trace", "--journal", journal, "--json"]);
        let body = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["body"].to_string();
        trace.lines().map(body).collect::<Vec<_>>()
    };
    assert!(bodies("first.db").len() > 20);
    assert_eq!(bodies("first.db"), bodies("second.db"));
}
