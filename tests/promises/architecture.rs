//! ARCHITECTURE.md is true of the code: every folder is in it, dependencies point only where it says, and the files it
//! names exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
const PAGE: &str = include_str!("../../ARCHITECTURE.md");

/// The words in backquotes of a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows of the table of folders: its name, and what it may use.
fn table() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let table = PAGE.split_once("| folder |").expect("a table of folders").1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [folder, _, _, uses] = cells[..] else { panic!("not four cells: {row}") };
        (quoted(folder).next().expect("a folder"), quoted(uses).collect())
    })
    .collect()
}

/// Every source file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

/// The folders of `src/`, and the lone files that are modules of their own, each with its sources.
fn folders() -> BTreeMap<String, Vec<PathBuf>> {
    let mut folders: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let src = Path::new(REPOSITORY).join("src");
    for entry in fs::read_dir(&src).expect("src").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let files = folders.entry(name).or_default();
        if entry.is_dir() { sources(&entry, files) } else { files.push(entry) }
    }
    folders.remove("lib");
    folders.remove("main");
    folders
}

/// The modules of the crate that a source names, documentation included.
fn used(source: &str) -> BTreeSet<&str> {
    source
        .split("crate::")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default())
        .filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect()
}

#[test]
fn every_folder_is_named_and_every_name_is_a_folder() {
    let there: BTreeSet<String> = folders().into_keys().collect();
    let named: BTreeSet<String> = table().into_keys().map(str::to_owned).collect();
    assert_eq!(named, there);
}

#[test]
fn dependencies_point_only_where_it_says() {
    let table = table();
    let mut really: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (folder, files) in folders() {
        let may = &table[folder.as_str()];
        for file in files {
            let source = fs::read_to_string(&file).expect("a source");
            for other in used(&source).into_iter().filter(|other| *other != folder || folder == "cli") {
                assert!(may.contains(other), "{} uses `{other}`, which ARCHITECTURE.md does not allow", file.display());
                really.entry(folder.clone()).or_default().insert(other.to_owned());
            }
        }
    }
    for (folder, may) in table {
        // What is allowed and not used would hide the next one who uses it.
        let really = really.remove(folder).unwrap_or_default();
        let idle: Vec<&&str> = may.iter().filter(|other| !really.contains(**other)).collect();
        assert!(idle.is_empty(), "`{folder}` does not use {idle:?}: take it out of ARCHITECTURE.md");
    }
}

/// What decides is tested as plain functions: it awaits nothing and touches no file, socket or actor.
#[test]
fn what_is_pure_stays_pure() {
    let folders = folders();
    for folder in ["supervision", "driver", "fault", "gate"] {
        for file in &folders[folder] {
            let source = fs::read_to_string(file).expect("a source");
            let code = source.split("#[cfg(test)]").next().expect("code");
            for forbidden in ["std::fs", "std::net", "std::io::", "tokio::fs", "tokio::net", "ractor", ".await"] {
                let found = code.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(forbidden));
                assert!(!found, "{}: {forbidden}", file.display());
            }
        }
    }
}

#[test]
fn every_file_it_names_exists() {
    let mut named = 0;
    for word in quoted(PAGE) {
        let path = word.trim_end_matches('/');
        if ["src/", "tests/", "examples/", "wit/", "benches/"].iter().any(|top| word.starts_with(top)) {
            named += 1;
            assert!(Path::new(REPOSITORY).join(path).exists(), "ARCHITECTURE.md names {word}");
        }
    }
    assert!(named > 40, "the page was read: {named}");
}
