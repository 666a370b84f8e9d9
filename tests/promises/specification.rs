//! SPECIFICATION.md names only tests and figures that exist.

use std::fs;
use std::path::{Path, PathBuf};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
const PAGE: &str = include_str!("../../SPECIFICATION.md");

/// The sources of one promise: its file, and its folder where it has one.
fn promise(name: &str) -> Vec<PathBuf> {
    let promises = Path::new(REPOSITORY).join("tests/promises");
    let mut files = vec![promises.join(name).with_extension("rs")];
    if let Ok(folder) = fs::read_dir(promises.join(name)) {
        files.extend(folder.map(|entry| entry.expect("an entry").path()));
    }
    files
}

/// Whether a file has a test of this name, one that is run.
fn has_test(file: &Path, name: &str) -> bool {
    let Ok(source) = fs::read_to_string(file) else { return false };
    let Some((before, _)) = source.split_once(&format!("fn {name}(")) else { return false };
    let attributes: Vec<&str> = before.lines().rev().map(str::trim).take_while(|l| !l.ends_with('}')).collect();
    attributes.iter().any(|line| line.starts_with("#[") && line.contains("test"))
}

#[test]
fn every_promise_is_held_by_a_test_or_a_figure_that_exists() {
    let figures = fs::read_to_string(Path::new(REPOSITORY).join("benches/figures/main.rs")).expect("the benchmark");
    let rows = PAGE.lines().filter(|line| line.starts_with("| ") && !line.contains("| held by |"));
    let mut held = 0;
    for row in rows {
        let holders = row.trim_end_matches([' ', '|']).rsplit_once(" | ").expect("three cells").1;
        let mut named = holders.split('`').skip(1).step_by(2).peekable();
        assert!(named.peek().is_some(), "nothing holds: {row}");
        for holder in named {
            held += 1;
            if let Some(figure) = holder.strip_prefix("cargo bench -- ") {
                assert!(figures.contains(&format!("\"{figure}\"")), "no figure is called {figure}");
                continue;
            }
            let (place, test) =
                holder.split_once("::").unwrap_or_else(|| panic!("neither a test nor a figure: {holder}"));
            let files = if place.ends_with(".rs") { vec![Path::new(REPOSITORY).join(place)] } else { promise(place) };
            assert!(files.iter().any(|file| has_test(file, test)), "no test is called {holder}");
        }
    }
    assert!(held > 30, "the page was read: {held}");
}
