//! What treeward costs, each figure beside its floor measured in the same run.
//!
//! `cargo bench` prints them all, `cargo bench -- --short` in under a minute, `cargo bench -- NAME…` those whose name
//! begins so, `--json` one object a line. A missed goal is said, and is not an error: `benches/README.md` says how to
//! find out why.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock, starts processes and owns its tasks")]

mod agents;
mod appends;
mod delegation;
mod floors;
mod gate;
mod idle;
mod kill;
mod machine;
mod population;
mod report;
mod stop;
mod throughput;

use std::process::ExitCode;

use report::Report;

/// How thorough a run is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    Short,
    Full,
}

impl Effort {
    /// One of two.
    pub fn pick<T>(self, short: T, full: T) -> T {
        match self {
            Self::Short => short,
            Self::Full => full,
        }
    }
}

type Measure = fn(&mut Report, Effort);

/// Every measurement, by the names of the figures it makes.
const ALL: [(&[&str], Measure); 8] = [
    (&["delegation-native", "delegation-guest", "delegation-vs-process"], delegation::measure),
    (&["gate", "tool-call"], gate::measure),
    (&["appends-1", "appends-8", "appends-64"], appends::measure),
    (&["durable-children"], throughput::measure),
    (
        &["resident-guest-1000", "resident-guest-10000", "live-guests", "live-native", "resident-native"],
        population::measure,
    ),
    (&["stop-wide", "stop-deep"], stop::measure),
    (&["kill-guest"], kill::measure),
    (&["idle-memory", "idle-cpu"], idle::measure),
];

fn main() -> ExitCode {
    let mut wanted = Vec::new();
    let (mut effort, mut json) = (Effort::Full, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--short" => effort = Effort::Short,
            "--json" => json = true,
            // Said by cargo.
            "--bench" => {}
            // This program again, as the process that is measured from outside.
            "--part" => return machine::part(&arguments.collect::<Vec<_>>()),
            "--help" | "-h" => {
                println!("cargo bench [-- [--short] [--json] [NAME…]]\n\nfigures:");
                ALL.iter().flat_map(|(names, _)| *names).for_each(|name| println!("  {name}"));
                return ExitCode::SUCCESS;
            }
            name if name.starts_with('-') => {
                eprintln!("unknown option {name}; try --help");
                return ExitCode::from(2);
            }
            name => wanted.push(name.to_owned()),
        }
    }
    let known = |want: &String| ALL.iter().flat_map(|(names, _)| *names).any(|name| name.starts_with(want.as_str()));
    if let Some(unknown) = wanted.iter().find(|want| !known(want)) {
        eprintln!("no figure begins with `{unknown}`; try --help");
        return ExitCode::from(2);
    }
    let mut report = Report::new(wanted, json);
    for (names, measure) in ALL {
        if names.iter().any(|name| report.wants(name)) {
            measure(&mut report, effort);
        }
    }
    report.finish();
    ExitCode::SUCCESS
}
