//! `treeward verify`: whether the journal is what was written.

use serde_json::json;
use treeward::journal::verify::{Verified, verify};
use treeward::journal::{Filter, Source as _};

use super::exit::Exit;
use super::failure::Outcome;
use super::out::Out;
use super::source::{At, failed, find};
use super::view::{Line, Style, count};

/// Verifies a tree: the chain of its records, their numbers, and that none contradicts another.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A tree without its ending is whole: it still runs, or the process was killed. Keep the head elsewhere to notice a \
journal that was cut off and written anew.

Examples:
  treeward verify                  the latest tree
  treeward verify --all            every tree in the journal
  treeward verify --all --json")]
pub struct Args {
    /// The tree: its id, the beginning of one, or `latest`
    #[arg(value_name = "TREE", conflicts_with = "all")]
    tree: Option<String>,
    /// Every tree of the journal
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    at: At,
    /// One JSON object a tree
    #[arg(long)]
    json: bool,
}

/// Verifies, and says what was found.
pub fn run(args: &Args) -> Outcome {
    let mut source = args.at.open()?;
    let trees = match args.all {
        true => source.trees(&Filter::default()).map_err(failed)?,
        false => vec![find(&mut source, args.tree.as_deref())?],
    };
    let mut out = Out::stdout();
    let mut whole = true;
    for info in trees {
        let found = verify(&mut source, &info).map_err(failed)?;
        whole &= found.is_whole();
        if args.json {
            out.json(&as_json(&found).to_string())?;
        } else {
            lines(&found).iter().try_for_each(|line| out.line(line))?;
        }
    }
    out.finish()?;
    Ok(if whole { Exit::Ok } else { Exit::Failed })
}

/// Sessions named of those that had not ended.
const NAMED: usize = 8;

fn lines(found: &Verified) -> Vec<Line> {
    let (style, verdict) = if found.is_whole() { (Style::Good, "whole") } else { (Style::Bad, "DAMAGED") };
    let head = found.head.map_or_else(|| "none".to_owned(), |tip| format!("{} {}", tip.seq, hex::encode(tip.hash)));
    let ended = if found.ended { "ended" } else { "not ended" };
    let line = Line::new().with(Style::Strong, &found.tree.to_string()).with(style, &format!(" {verdict}"));
    let mut lines =
        vec![line.with(Style::Plain, &format!(" · {} · {ended}", count(found.records, "record", "records")))];
    lines.push(Line::new().with(Style::Plain, &format!("  head {head}")));
    if !found.open.is_empty() {
        lines.push(Line::new().with(Style::Warn, &format!("  had not ended: {}", open(found))));
    }
    for problem in &found.problems {
        lines.push(Line::new().with(Style::Bad, &format!("  {problem}")));
    }
    let more = found.problem_count.saturating_sub(found.problems.len() as u64);
    if more > 0 {
        lines.push(Line::new().with(Style::Bad, &format!("  and {}", count(more, "more", "more"))));
    }
    lines
}

fn open(found: &Verified) -> String {
    let paths: Vec<String> = found.open.sessions.iter().take(NAMED).map(ToString::to_string).collect();
    let more = found.open.sessions.len().saturating_sub(NAMED);
    let mut parts = vec![format!(
        "{} ({}{})",
        count(found.open.sessions.len() as u64, "session", "sessions"),
        paths.join(", "),
        if more > 0 { format!(" and {more} more") } else { String::new() }
    )];
    for (n, one, many) in [
        (found.open.delegations.len(), "delegation", "delegations"),
        (found.open.tasks, "task", "tasks"),
        (found.open.calls, "call", "calls"),
        (found.open.reservations, "reservation", "reservations"),
    ] {
        if n > 0 {
            parts.push(count(n as u64, one, many));
        }
    }
    parts.join(", ")
}

fn as_json(found: &Verified) -> serde_json::Value {
    json!({
        "tree": found.tree,
        "whole": found.is_whole(),
        "records": found.records,
        "head": found.head.map(|tip| json!({ "seq": tip.seq, "hash": hex::encode(tip.hash) })),
        "ended": found.ended,
        "open": {
            "sessions": found.open.sessions,
            "delegations": found.open.delegations,
            "tasks": found.open.tasks,
            "calls": found.open.calls,
            "reservations": found.open.reservations,
        },
        "problems": found.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "problem_count": found.problem_count,
    })
}
