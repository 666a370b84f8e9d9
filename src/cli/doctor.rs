//! `treeward doctor`: every limit, and what this machine allows.

mod machine;

use std::path::PathBuf;

use serde_json::{Value as Json, json};
use treeward::harness::{Containment, Warden, WardenConfig};
use treeward::limits::{Limits, Row, Set, Value};

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::out::Out;
use super::place::DEFAULT;
use super::view::{Line, Style, grouped, time};
use machine::{Finding, findings};

/// Says what this machine allows, what each limit is, and what holds the programs that are run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A line that begins with `!` says what stands in the way of the defaults, and what to do about it.

Examples:
  treeward doctor
  treeward doctor --journal /srv/treeward/journal.db
  treeward doctor --json | jq '.machine[] | select(.enough == false)'")]
pub struct Args {
    /// The journal whose disk is tried
    #[arg(long, value_name = "FILE", default_value = DEFAULT)]
    journal: PathBuf,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Looks, and prints what it found.
pub fn run(args: &Args) -> Outcome {
    let limits = Limits::default();
    let findings = findings(&limits, &args.journal);
    let containment = containment()?;
    let mut out = Out::stdout();
    if args.json {
        let machine: Vec<_> = findings.iter().map(Finding::json).collect();
        let limits: Vec<_> = limits.table().iter().map(row_json).collect();
        let programs = match &containment {
            Ok(containment) => json!({ "containment": containment.to_string() }),
            Err(why) => json!({ "error": why }),
        };
        out.json(&json!({ "machine": machine, "limits": limits, "programs": programs }).to_string())?;
    } else {
        section(&mut out, "machine")?;
        for line in findings.iter().flat_map(Finding::lines) {
            out.line(&line)?;
        }
        section(&mut out, "programs (harnesses and commands)")?;
        match &containment {
            Ok(containment) => {
                for line in containment.to_string().lines() {
                    out.line(&Line::new().with(Style::Plain, &format!("  {line}")))?;
                }
            }
            Err(why) => out.line(&Line::new().with(Style::Bad, &format!("! none can be run: {why}")))?,
        }
        section(&mut out, "limits")?;
        for row in limits.table() {
            out.line(&row_line(&row))?;
        }
    }
    out.finish()?;
    Ok(Exit::Ok)
}

fn section(out: &mut Out, name: &str) -> Result<(), Failure> {
    out.line(&Line::new().with(Style::Strong, name))
}

/// What holds the processes of a run here: tried out, since nothing else tells. An error is why none can be run.
fn containment() -> Result<Result<Containment, String>, Failure> {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let threads = threads.map_err(|error| Failure::new(Exit::Crashed, format!("no threads to run on: {error}")))?;
    Ok(threads.block_on(async {
        let warden = Warden::start(WardenConfig::default()).await.map_err(|error| error.to_string())?;
        let containment = warden.containment();
        warden.stop().await;
        Ok(containment)
    }))
}

fn value(value: Value) -> String {
    match value {
        Value::Count(n) => grouped(n),
        Value::Bytes(n) if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{} MiB", grouped(n >> 20)),
        Value::Bytes(n) if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{} KiB", grouped(n >> 10)),
        Value::Bytes(n) => format!("{} B", grouped(n)),
        Value::Time(duration) => time(duration),
    }
}

fn set(set: Set) -> String {
    match set {
        Set::Runtime => "Builder::limits".to_owned(),
        Set::Capsule(key) => format!("Builder::limits, or {key} of a capsule"),
        Set::Fixed => "fixed".to_owned(),
    }
}

fn row_line(row: &Row) -> Line {
    Line::new()
        .with(Style::Plain, &format!("  {:<20} {:>10}  ", row.name, value(row.value)))
        .with(Style::Dim, &format!("{}; then: {} (set by: {})", row.what, row.reached, set(row.set)))
}

fn row_json(row: &Row) -> Json {
    let number = |value| match value {
        Value::Count(n) => json!({ "count": n }),
        Value::Bytes(n) => json!({ "bytes": n }),
        Value::Time(duration) => json!({ "ms": u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) }),
    };
    json!({
        "name": row.name,
        "value": number(row.value),
        "default": number(row.default),
        "what": row.what,
        "reached": row.reached,
        "set": set(row.set),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_one_line_with_what_happens() {
        let table = Limits::default().table();
        let line = |name: &str| row_line(table.iter().find(|row| row.name == name).unwrap()).show(None, false);
        assert!(line("guest.memory").starts_with("  guest.memory            256 MiB  of a guest; then: out of memory"));
        assert!(line("live_sessions").contains("10 000  in the process; then: refused: busy"));
        assert!(line("deadline").contains("10m") && line("detail").contains("2 000 B"));
    }
}
