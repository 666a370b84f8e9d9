//! One process sees, follows and stops what another one runs.

use std::io::{BufRead as _, BufReader};

use serde_json::Value;

use crate::cli_support::{Place, finish};

const HANGS: &str = r#"[{"do":"delegate","script":[{"do":"sleep","ms":600000}]},{"do":"wait","of":0}]"#;

/// Starts a run of two that hang, and waits until both live.
fn hanging(place: &Place) -> std::process::Child {
    let mut child = place.start(&["run", "script", "--task", HANGS, "--json"]);
    let mut records = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    let mut line = String::new();
    while !(line.contains("\"path\":\"0.0\"") && line.contains("task_started")) {
        line.clear();
        assert!(records.read_line(&mut line).expect("a record") > 0, "it ended early");
    }
    // The rest is read, or the run would stop because nobody listens.
    std::thread::spawn(move || std::io::copy(&mut records, &mut std::io::sink()));
    child
}

fn sessions(ps: &Value) -> Vec<(String, String)> {
    let listed = ps["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .flat_map(|one| one["sessions"].as_array().expect("sessions"));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    listed.map(|session| (text(&session["path"]), text(&session["state"]))).collect()
}

#[test]
fn what_runs_is_listed_measured_followed_and_stopped() {
    let place = Place::new();
    let nothing = place.treeward(&["ps"]).ended(0);
    assert!(nothing.out().contains("nothing of yours runs"), "{}", nothing.out());
    let run = hanging(&place);
    let pid = run.id().to_string();

    let listed = place.treeward(&["ps", "--json"]).ended(0).json().remove(0);
    let running = |path: &str| (path.to_owned(), "running".to_owned());
    assert_eq!(sessions(&listed), [running("0"), running("0.0")]);
    assert_eq!(listed["processes"][0]["pid"].to_string(), pid);
    let text = place.treeward(&["ps", "--pid", &pid]).ended(0);
    assert!(text.out().contains("2 sessions: 2 running") && text.out().contains("1 child"), "{}", text.out());
    let metrics = place.treeward(&["ps", "--metrics"]).ended(0);
    assert!(metrics.out().contains("treeward_sessions{state=\"running\"} 2"), "{}", metrics.out());

    place.treeward(&["stop", "0.5"]).ended(2).says("no session 0.5 lives");
    place.treeward(&["stop", "0", "--tree", "tree_ffff"]).ended(2).says("no tree `tree_ffff` runs");
    place.treeward(&["ps", "--pid", "1"]).ended(2).says("listens as process 1");

    let watch = place.start(&["tree", "--watch"]);
    let stopped = place.treeward(&["stop", "0.0", "--grace", "5s"]).ended(0);
    assert_eq!(stopped.out(), "0.0 ended: terminated\n");
    // The lead hears of it and ends by itself.
    let limit = std::time::Duration::from_secs(30);
    let watched = finish(watch, limit);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert!(watched.out().contains("0.0") && watched.out().contains("terminated"), "{}", watched.out());
    let ran = finish(run, limit);
    assert_ne!(ran.code, None, "{ran:?}");
    let after = place.treeward(&["ps", "--json"]).ended(0).json().remove(0);
    assert_eq!(after["processes"].as_array().map(Vec::len), Some(0));
    // What does not run any more is what the journal says it was.
    let tree = place.treeward(&["tree", "--watch"]).ended(0);
    assert!(tree.out().contains("terminated"), "{}", tree.out());
    assert_eq!(std::fs::read_dir(place.path("treeward")).expect("the sockets").count(), 0);
}

#[test]
fn one_that_was_killed_is_passed_over_and_the_next_run_sweeps_its_socket() {
    let place = Place::new();
    let run = hanging(&place);
    crate::cli_support::send(run.id(), nix::sys::signal::Signal::SIGKILL);
    finish(run, std::time::Duration::from_secs(30));
    assert_eq!(std::fs::read_dir(place.path("treeward")).expect("the sockets").count(), 1);
    let listed = place.treeward(&["ps"]).ended(0);
    assert!(listed.out().contains("nothing of yours runs"), "{}", listed.out());
    place.script("[]", &["--quiet"]);
    assert_eq!(std::fs::read_dir(place.path("treeward")).expect("the sockets").count(), 0);
}

#[test]
fn the_doctor_names_every_limit_and_what_holds_programs() {
    let place = Place::new();
    let found = place.treeward(&["doctor", "--json"]).ended(0).json().remove(0);
    let names = |part: &str| -> Vec<String> {
        let list = found[part].as_array().expect("a list").iter();
        list.map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("machine"), ["cores", "guests", "descriptors", "memory", "sync"]);
    for limit in treeward::Limits::default().table() {
        assert!(names("limits").contains(&limit.name.to_owned()), "{}", limit.name);
    }
    assert!(found["programs"]["containment"].as_str().is_some_and(|text| text.contains("for each run")), "{found}");
    let text = place.treeward(&["doctor"]).ended(0);
    assert!(text.out().contains("live_children") && text.out().contains("vm.max_map_count"), "{}", text.out());
}

#[test]
fn every_shell_gets_its_completions() {
    let place = Place::new();
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef treeward"), ("fish", "complete -c treeward")] {
        let script = place.treeward(&["completions", shell]).ended(0);
        assert!(script.out().contains(part) && script.out().contains("doctor"), "{shell}");
    }
    place.treeward(&["completions", "tcsh"]).ended(2);
}
