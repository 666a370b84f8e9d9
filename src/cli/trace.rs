//! `treeward trace`: what happened, record by record.

use treeward::ids::{SessionPath, Strand};
use treeward::journal::Body;

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::out::Out;
use super::records::{Record, json};
use super::source::{At, each_record, find};
use super::view::{Detail, event};

/// Shows the records of a tree in order.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  treeward trace                           everything that happened in the latest tree
  treeward trace --path 0.1                what the session 0.1 did, and how it ended
  treeward trace --path 0.1 --below        the same with everything below it
  treeward trace --json | jq 'select(.body.kind == \"fault_injected\")'")]
pub struct Args {
    /// The tree: its id, the beginning of one, or `latest`
    #[arg(value_name = "TREE")]
    tree: Option<String>,
    #[command(flatten)]
    at: At,
    /// Only this session
    #[arg(long, value_name = "PATH")]
    path: Option<SessionPath>,
    /// With --path: and everything below it
    #[arg(long, requires = "path")]
    below: bool,
    /// The records as they are stored, one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Prints the records.
pub fn run(args: &Args) -> Outcome {
    let mut source = args.at.open()?;
    let info = find(&mut source, args.tree.as_deref())?;
    let mut out = Out::stdout();
    let (mut start, mut shown) = (None, 0_u64);
    each_record(&mut source, &info, |stored| {
        let record = Record::read(stored)?;
        let start = *start.get_or_insert(record.envelope.at);
        if args.path.as_ref().is_some_and(|path| !concerns(&record.body, path, args.below)) {
            return Ok(());
        }
        shown += 1;
        if args.json {
            return out.json(&json(stored));
        }
        match event(&record.body, stored.seq, record.envelope.at, start, Detail::Everything) {
            Some(line) => out.cut_line(&line),
            None => Ok(()),
        }
    })?;
    out.finish()?;
    match &args.path {
        Some(path) if shown == 0 => Err(Failure::new(Exit::Usage, format!("{} has no session {path}", info.tree))
            .help(format!("`treeward tree {}{}` shows its sessions", info.tree, args.at.place().option()))),
        _ => Ok(Exit::Ok),
    }
}

/// Whether a record is about the session at `path` (what its delegator recorded of it too), or about one below.
fn concerns(body: &Body, path: &SessionPath, below: bool) -> bool {
    let about = |subject: &SessionPath| subject == path || (below && path.contains(subject));
    match body.strand {
        Strand::Delegation(index) => about(&body.path) || about(&body.path.child(index)),
        _ => about(&body.path),
    }
}

#[cfg(test)]
mod tests {
    use treeward::journal::Kind;

    use super::*;

    #[test]
    fn a_session_is_traced_with_what_its_delegator_says_of_it() {
        let concerned = |at: &str, strand: Strand, path: &str, below: bool| {
            let body = Body { path: at.parse().unwrap(), attempt: 1, strand, n: 1, kind: Kind::TaskStarted {} };
            concerns(&body, &path.parse().unwrap(), below)
        };
        assert!(concerned("0.1", Strand::Main, "0.1", false));
        assert!(concerned("0.1", Strand::Call(3), "0.1", false));
        assert!(concerned("0", Strand::Delegation(1), "0.1", false));
        assert!(!concerned("0", Strand::Delegation(2), "0.1", false));
        assert!(!concerned("0", Strand::Main, "0.1", true));
        assert!(!concerned("0.1.0", Strand::Main, "0.1", false));
        assert!(concerned("0.1.0", Strand::Main, "0.1", true));
        assert!(!concerned("0.10", Strand::Main, "0.1", true));
    }
}
