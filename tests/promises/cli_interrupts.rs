//! Ctrl-C stops a tree in order, a second one at once, and what happened is in the journal either way.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::cli_support::{Place, Ran, finish, send};

/// Shorter than the grace of a stop, 20 s: what ends within it did not wait for the grace to pass.
const AT_ONCE: Duration = Duration::from_secs(12);

/// A tree of three, all of which hang.
const HANGS: &str = r#"[{"do":"delegate","script":[{"do":"delegate","script":[{"do":"sleep","ms":600000}]},
    {"do":"wait","of":0}]},{"do":"wait","of":0}]"#;

struct Run {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    said: String,
}

impl Run {
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut child = place.start(&[&["run", "script", "--task", HANGS], args].concat());
        let errors = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        Self { child, errors, said: String::new() }
    }

    /// Reads on until a line says this.
    fn until(&mut self, part: &str) {
        loop {
            let mut line = String::new();
            let read = self.errors.read_line(&mut line).expect("a line");
            assert!(read > 0, "{part:?} did not come:\n{}", self.said);
            self.said.push_str(&line);
            if line.contains(part) {
                return;
            }
        }
    }

    fn end(mut self) -> Ran {
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            let _read = self.errors.read_to_string(&mut rest);
            self.said + &rest
        });
        let ran = finish(self.child, AT_ONCE);
        Ran { err: rest.join().expect("the rest"), ..ran }
    }
}

fn everything_ended(place: &Place) {
    let verified = place.treeward(&["verify", "--json"]).ended(0).json();
    assert_eq!((&verified[0]["whole"], &verified[0]["ended"]), (&true.into(), &true.into()));
    assert_eq!(verified[0]["open"]["sessions"].as_array().map(Vec::len), Some(0));
    assert_eq!(verified[0]["open"]["reservations"], 0);
}

#[test]
fn once_stops_in_order() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let place = Place::new();
        let mut run = Run::start(&place, &[]);
        run.until("0.0.0    script starts");
        send(run.child.id(), signal);
        let ran = run.end().ended(130).says("stopping in order, within 20s; Ctrl-C again stops at once");
        ran.says("error: terminated: ");
        everything_ended(&place);
        let tree = place.treeward(&["tree", "--json"]).ended(0).json();
        let states: Vec<_> = tree[0]["sessions"].as_array().expect("sessions").iter().map(|s| &s["state"]).collect();
        assert_eq!(states, ["terminated"; 3]);
    }
}

#[test]
fn twice_stops_at_once_also_what_does_not_hear_the_first() {
    let place = Place::new();
    let mut run = Run::start(&place, &["--fault", "stop drop"]);
    run.until("0.0.0    script starts");
    send(run.child.id(), Signal::SIGINT);
    run.until("stopping in order");
    send(run.child.id(), Signal::SIGINT);
    run.end().ended(130).says("stopping at once");
    everything_ended(&place);
}

#[test]
fn a_reader_that_goes_away_stops_the_tree_in_order() {
    let place = Place::new();
    let mut run = Run::start(&place, &["--json"]);
    let mut records = BufReader::new(run.child.stdout.take().expect("standard output is a pipe"));
    let mut line = String::new();
    while !line.contains("\"path\":\"0.0.0\"") {
        line.clear();
        assert!(records.read_line(&mut line).expect("a record") > 0);
    }
    drop(records);
    // What it says next nobody hears.
    send(run.child.id(), Signal::SIGINT);
    run.end();
    everything_ended(&place);
}

#[test]
fn a_child_that_is_cancelled_as_it_begins_ends_then_and_not_when_the_grace_is_over() {
    let place = Place::new();
    let steps =
        r#"[{"do":"delegate","script":[{"do":"sleep","ms":600000}]},{"do":"cancel","of":0},{"do":"wait","of":0}]"#;
    for _ in 0..10 {
        finish(place.start(&["run", "script", "--task", steps, "--journal", "memory"]), AT_ONCE).ended(0);
    }
}
