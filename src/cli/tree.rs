//! `treeward tree`: the sessions of a tree and how they ended.

mod watch;

use std::time::Duration;

use serde_json::json;
use treeward::ids::TreeId;

use super::exit::Exit;
use super::failure::Outcome;
use super::out::Out;
use super::records::Record;
use super::source::{At, each_record, find};
use super::view::{Line, Space, State, Style, Tree, census, draw, status_name, time, usage};

/// Shows a tree: its sessions, how they ended, and the faults that struck.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  treeward tree                    the latest tree
  treeward tree tree_6f1c          the one whose id begins like this
  treeward tree --watch            the latest tree that runs, as it grows
  treeward tree --journal other.db --json | jq '.sessions[] | select(.state != \"ok\")'")]
pub struct Args {
    /// The tree: its id, the beginning of one, or `latest`
    #[arg(value_name = "TREE")]
    tree: Option<String>,
    #[command(flatten)]
    at: At,
    /// Follow a running tree, of any process of yours, to its end
    #[arg(long)]
    watch: bool,
    /// Only in this process
    #[arg(long, value_name = "PID", requires = "watch")]
    pid: Option<u32>,
    /// The tree as one JSON object; with --watch each record as one
    #[arg(long)]
    json: bool,
}

/// Prints the tree.
pub fn run(args: &Args) -> Outcome {
    if args.watch
        && let Some(watched) = watch::watch(args.tree.as_deref(), args.pid, args.json)?
    {
        return watched;
    }
    // One that does not run is what the journal says it was.
    let mut source = args.at.open()?;
    let info = find(&mut source, args.tree.as_deref())?;
    let mut tree = Tree::default();
    each_record(&mut source, &info, |stored| {
        let record = Record::read(stored)?;
        tree.apply(&record.body, record.envelope.at);
        Ok(())
    })?;
    let mut out = Out::stdout();
    if args.json {
        out.json(&as_json(info.tree, &tree).to_string())?;
    } else {
        let space = Space { width: out.width(), ..Space::default() };
        for line in draw(&tree, space) {
            out.cut_line(&line)?;
        }
        out.line(&about(info.tree, &tree))?;
    }
    out.finish()?;
    Ok(Exit::Ok)
}

/// The line below the tree.
fn about(id: TreeId, tree: &Tree) -> Line {
    let took = tree.span.map_or(0, |(first, last)| last - first);
    let ended = match tree.ended {
        Some(status) => format!("{} after {}", status_name(status), time(Duration::from_micros(took))),
        None => "not ended: it runs, or was killed".to_owned(),
    };
    let faults = if tree.faults > 0 {
        format!(" · {} struck", super::view::count(tree.faults, "fault", "faults"))
    } else {
        String::new()
    };
    let seed = tree.seed.map(|seed| format!(" · seed {seed}")).unwrap_or_default();
    let text = format!("{id} · {ended} · {} · used {}{faults}{seed}", census(tree), usage(&tree.used));
    Line::new().with(Style::Dim, &text)
}

fn as_json(id: TreeId, tree: &Tree) -> serde_json::Value {
    let state = |state: State| match state {
        State::Starting => "starting",
        State::Queued => "queued",
        State::Running => "running",
        State::Ended(status) => status_name(status),
    };
    let sessions: Vec<_> = tree
        .sessions
        .iter()
        .map(|(path, node)| {
            json!({
                "path": path,
                "capsule": node.capsule,
                "task": node.task,
                "state": state(node.state),
                "attempts": node.attempts,
                "faults": node.faults.as_ref().map_or(0, |(n, _)| *n),
                "detail": node.detail,
            })
        })
        .collect();
    json!({
        "tree": id,
        "capsule": tree.capsule,
        "seed": tree.seed,
        "status": tree.ended.map(status_name),
        "faults": tree.faults,
        "refused": tree.refused,
        "used": tree.used,
        "sessions": sessions,
    })
}
