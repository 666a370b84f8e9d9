//! What README.md shows is what happens: its commands run, its output is real, its links lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
const README: &str = include_str!("../../README.md");

/// A directory with the examples in it, as a clone has them.
fn clone() -> tempfile::TempDir {
    let clone = tempfile::tempdir().expect("a directory");
    copy(&Path::new(REPOSITORY).join("examples"), &clone.path().join("examples"));
    clone
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").map(|entry| entry.expect("an entry")) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().expect("a type").is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copied");
        }
    }
}

/// Runs a script as a user's shell would, with the built binary on its path.
#[expect(clippy::disallowed_methods, reason = "a user's shell is a process of its own")]
fn shell(directory: &Path, script: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_treeward"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", binary.parent().expect("a directory").display());
    Command::new("sh")
        .args(["-euc", script])
        .current_dir(directory)
        .env("PATH", path)
        .env("XDG_CACHE_HOME", directory.join(".cache"))
        .output()
        .expect("a shell")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// What stands between a line `opening` and the end of the fence, for each such line.
fn blocks<'a>(page: &'a str, opening: &'a str) -> impl Iterator<Item = &'a str> {
    page.split(opening).skip(1).map(|rest| rest.split_once("\n```\n").expect("a fence is closed").0)
}

#[test]
fn its_commands_run() {
    let scripts: Vec<&str> = blocks(README, "<!-- runs -->\n```sh\n").collect();
    assert!(scripts.len() > 3, "the page was read: {scripts:?}");
    let clone = clone();
    for script in scripts {
        let output = shell(clone.path(), script);
        assert!(output.status.success(), "{script}\n{}", text(&output.stderr));
    }
}

#[test]
fn its_first_screen_is_what_the_command_says() {
    let screen = blocks(README, "```text\n$ ").next().expect("a first screen");
    let (command, shown) = screen.split_once('\n').expect("a command and its output");
    let mut parts = shown.split("\n\n");
    let (tree, table) = (parts.next().expect("a tree"), parts.next().expect("a table"));
    let clone = clone();
    let ran = shell(clone.path(), command);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    // Figures move with every line of those files; which files there are, and what is said of them, does not.
    let words = |table: &str| -> Vec<String> {
        table.split_whitespace().filter(|word| word.parse::<u64>().is_err()).map(str::to_owned).collect()
    };
    let said = text(&ran.stdout).split("\n\n").next().expect("a table");
    let (mut said, mut shown) = (words(said), words(table));
    said.sort();
    shown.sort();
    assert_eq!(said, shown, "{command}");
    let drawn = shell(clone.path(), "treeward tree");
    // How far a subtree had come when it was struck is for the threads to decide.
    let outside = |tree: &str| -> Vec<String> {
        tree.lines().filter(|line| !line.contains(" 0.1.") && !line.starts_with("tree_")).map(str::to_owned).collect()
    };
    assert_eq!(outside(tree), outside(text(&drawn.stdout)), "{command}");
    assert!(tree.contains("crashed") && tree.contains(" 0.1."), "there is a crash in it, with a subtree");
}

#[test]
fn its_program_is_the_one_the_library_tests() {
    let program = blocks(README, "```rust\n").next().expect("a program");
    let from = program.find("    let leaf").expect("where it begins");
    let tested: Vec<&str> =
        include_str!("../../src/lib.rs").lines().map(|l| l.trim_start_matches("//!").trim()).collect();
    let mut rest = tested.as_slice();
    for line in program[from..].lines().map(str::trim).filter(|line| !matches!(*line, "" | "Ok(())" | "}")) {
        let at = rest.iter().position(|tested| *tested == line);
        rest = &rest[at.unwrap_or_else(|| panic!("src/lib.rs does not test `{line}`")) + 1..];
    }
}

#[test]
fn its_commands_are_the_binarys() {
    let help = shell(Path::new(REPOSITORY), "treeward --help");
    let help = text(&help.stdout).split_once("Commands:\n").expect("a list").1;
    let listed: Vec<&str> = help
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split_once(' '))
        .map(|(name, _)| name)
        .filter(|name| !name.is_empty())
        .collect();
    for name in &listed {
        assert!(README.contains(&format!("| `treeward {name}")), "README.md does not list `{name}`");
    }
    assert_eq!(README.matches("\n| `treeward ").count(), listed.len(), "{listed:?}");
}

#[test]
fn every_fault_point_is_explained() {
    let page = include_str!("../../docs/faults.md");
    for point in treeward::fault::Point::ALL {
        assert!(page.contains(&format!("| `{}` |", point.name())), "docs/faults.md lacks `{}`", point.name());
    }
    for verb in treeward::fault::Verb::ALL {
        assert!(page.contains(&format!("| `{}` |", verb.usage())), "docs/faults.md lacks `{}`", verb.usage());
    }
}

/// Every page of the repository.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for directory in ["", "docs", "examples/survey"] {
        let entries = fs::read_dir(Path::new(REPOSITORY).join(directory)).expect("a directory");
        pages.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages
}

#[test]
fn every_link_of_every_page_leads_somewhere() {
    let pages = pages();
    assert!(pages.len() > 5, "{pages:?}");
    for page in pages {
        let said = fs::read_to_string(&page).expect("a page");
        for link in said.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().expect("a directory").join(file) };
            assert!(target.exists(), "{}: {link}", page.display());
            if !heading.is_empty() {
                let there = fs::read_to_string(&target).expect("a page");
                let mut anchors = there.lines().filter(|line| line.starts_with('#')).map(|line| {
                    let plain = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                    plain.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect::<String>()
                });
                assert!(anchors.any(|anchor| anchor == heading), "{}: {link}", page.display());
            }
        }
    }
}
