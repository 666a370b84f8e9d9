//! Two simulations of one seed give the same record bodies, byte for byte and in the same order; other seeds do not.

use std::fs;

use crate::cli_support::Place;

const SURVEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/survey");

fn simulate(place: &Place, seed: &str, journal: &str) {
    let run = ["run", SURVEY, "--input", "input", "--simulate", "--seed", seed, "--journal", journal];
    let faults =
        ["--fault", "agent p=0.3 trap", "--fault", "report p=0.3 delay=3s", "--fault", "session path=0.1 panic"];
    place.treeward(&[&run[..], &faults].concat()).ended(0);
}

#[test]
fn guests_under_faults_repeat_exactly() {
    let place = Place::new();
    for (name, text) in [("a/one", "1\n"), ("a/b/two", "TODO\n"), ("c/three", "x y\n"), ("c/four", ""), ("five", "5")] {
        let file = place.path("input").join(name);
        fs::create_dir_all(file.parent().expect("a parent")).expect("directories");
        fs::write(file, text).expect("a file");
    }
    simulate(&place, "7", "first.db");
    simulate(&place, "7", "second.db");
    simulate(&place, "8", "third.db");
    place.treeward(&["diff", "first.db", "second.db"]).ended(0);
    let other = place.treeward(&["diff", "first.db", "third.db"]);
    assert_ne!(other.code, Some(0), "{other:?}");
    // Not only each strand: the whole order.
    let bodies = |journal: &str| {
        let trace = place.treeward(&["trace", "--journal", journal, "--json"]).ended(0);
        trace.json().iter().map(|record| record["body"].to_string()).collect::<Vec<_>>()
    };
    assert!(bodies("first.db").len() > 20);
    assert_eq!(bodies("first.db"), bodies("second.db"));
}
