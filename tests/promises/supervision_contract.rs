//! The supervision policy keeps its contract: docs/supervision.md has one row for each test here.

mod rig;
mod rows;
mod storm;

/// Every row of the page names a test of this contract or of the module it is about, and every test of this contract
/// has its row.
#[test]
fn every_row_of_the_page_names_a_test_and_every_test_has_a_row() {
    let page = include_str!("../../docs/supervision.md");
    let sources = [
        include_str!("supervision_contract/rows.rs"),
        include_str!("supervision_contract/storm.rs"),
        include_str!("../../src/supervision/backoff.rs"),
        include_str!("../../src/supervision/intensity.rs"),
        include_str!("../../src/supervision/progress.rs"),
        include_str!("../../src/supervision/rerun.rs"),
        include_str!("../../src/supervision/restart.rs"),
        include_str!("../../src/supervision/spec.rs"),
        include_str!("../../src/supervision/stop.rs"),
    ];
    let tests = |source: &'static str| {
        source
            .split("#[test]")
            .skip(1)
            .filter_map(|after| after.split_once("fn ")?.1.split_once('('))
            .map(|(name, _)| name)
    };
    let named: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.trim_end_matches(" |").rsplit_once("| `")?.1.strip_suffix('`'))
        .collect();
    let all: Vec<&str> = sources.into_iter().flat_map(tests).collect();
    assert!(named.len() > 40, "the page was read: {named:?}");
    for name in &named {
        assert!(all.contains(name), "docs/supervision.md names `{name}`, which is no test");
    }
    for name in all {
        assert_eq!(named.iter().filter(|n| **n == name).count(), 1, "`{name}` has not exactly one row");
    }
}
