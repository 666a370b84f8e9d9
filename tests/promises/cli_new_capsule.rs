//! `treeward new` makes a capsule that checks and runs as it is, and overwrites nothing.

use crate::cli_support::Place;

#[test]
fn what_it_makes_checks_and_runs() {
    let place = Place::new();
    let made = place.treeward(&["new", "mine", "--template", "guest"]).ended(0);
    let next = made.out().lines().find_map(|line| line.strip_prefix("next: treeward ")).expect("the next command");
    assert_eq!(next, "run mine --task 'Hello'");
    let checked = place.treeward(&["check", "mine"]).ended(0);
    assert!(checked.out().starts_with("mine 0.1.0\n"), "{}", checked.out());
    assert!(checked.out().contains("granted    nothing"), "{}", checked.out());
    let summary = place.treeward(&["check", "mine", "--json"]).ended(0).json().remove(0);
    assert_eq!(summary["root"], "mine");
    let ran = place.treeward(&["run", "mine", "--task", "Hello"]).ended(0);
    assert!(!ran.out.is_empty());
}

#[test]
fn it_overwrites_nothing() {
    let place = Place::new();
    let before = std::fs::read(place.path("script/capsule.toml")).expect("the manifest");
    place.treeward(&["new", "script"]).ended(2).says("help: nothing is overwritten");
    assert_eq!(std::fs::read(place.path("script/capsule.toml")).expect("the manifest"), before);
    place.treeward(&["new", "No Name"]).ended(2).says("is not a name");
}

#[test]
fn a_component_that_is_none_is_found_by_check_and_by_run() {
    let place = Place::new();
    std::fs::write(place.path("script/script.wasm"), b"\0asm truncated").expect("a file");
    for command in ["check", "run"] {
        place.treeward(&[command, "script"]).ended(2).says("error: ").says("script.wasm");
    }
}
