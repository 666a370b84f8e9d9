//! `treeward stop`: ends a session of a running process, with everything below it.

use std::time::Duration;

use serde_json::json;
use treeward::Stopped;
use treeward::control::protocol::{Answer, Ask};
use treeward::control::{Client, ClientError, Followed};
use treeward::ids::{SessionPath, Strand, TreeId};
use treeward::journal::{Body, CompletionStatus, Kind};

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::live::{PATIENCE, find, listening, look, trees};
use super::out::Out;
use super::records::Record;
use super::view::{Line, Style, status_name, time};

/// Stops a session, with everything below it, and waits until it is gone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Whoever delegated to it hears that it was terminated and goes on. The path `0`, or a tree, stops the whole tree.

Examples:
  treeward stop 0.2
  treeward stop tree_6f1c --grace 5s
  treeward stop 0.2.1 --tree latest --pid 4711")]
pub struct Args {
    /// The session's path, like `0.2`; or a tree: its id, or the beginning of one
    #[arg(value_name = "PATH|TREE")]
    target: String,
    /// The tree the path is in; needed where more than one runs
    #[arg(long, value_name = "TREE")]
    tree: Option<String>,
    /// Only in this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// How long it may take, like `5s`; then it is ended by force
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    grace: Option<Duration>,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Beyond its grace, until its ending is recorded.
const BEYOND: Duration = Duration::from_secs(10);

/// Stops it.
pub fn run(args: &Args) -> Outcome {
    let (tree, path) = target(&args.target, args.tree.as_deref())?;
    let live = look(listening(args.pid)?, None);
    let running = trees(&live);
    let nothing = || {
        let what = tree.map_or_else(|| "no tree of yours runs".to_owned(), |tree| format!("no tree `{tree}` runs"));
        Failure::new(Exit::Usage, what).help("`treeward ps` lists what does")
    };
    let tree = find(&running, tree)?.ok_or_else(nothing)?;
    let failed = |error: ClientError| Failure::new(Exit::Failed, format!("process {}: {error}", tree.process.pid));
    let mut client = Client::connect(tree.process, PATIENCE).map_err(failed)?;
    let grace_ms = args.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
    let ask = Ask::Stop { tree: tree.id, path: path.clone(), grace_ms };
    let Answer::Stop { stopped, seq, grace_ms } = client.ask(&ask).map_err(failed)? else {
        return Err(failed(ClientError::Unreadable("it is not about a stop".to_owned())));
    };
    let status = match stopped {
        Stopped::Told => {
            let patience = Duration::from_millis(grace_ms).saturating_add(BEYOND);
            ending(&mut client, tree.id, &path, seq, patience).map_err(failed)?
        }
        Stopped::Ended(status) => Some(status),
        Stopped::Unknown => {
            return Err(Failure::new(Exit::Usage, format!("no session {path} lives in {}", tree.id))
                .help("`treeward ps --all` lists those that do"));
        }
        Stopped::Silent => {
            return Err(Failure::new(Exit::Failed, format!("a session above {path} did not answer"))
                .help(format!("`treeward stop 0 --tree {}` stops the whole tree", tree.id)));
        }
    };
    let mut out = Out::stdout();
    if args.json {
        out.json(&json!({ "tree": tree.id, "path": path, "status": status }).to_string())?;
    } else {
        let said = match (stopped, status) {
            (Stopped::Ended(status), _) => format!("{path} had ended already: {}", status_name(status)),
            (_, Some(status)) => format!("{path} ended: {}", status_name(status)),
            (_, None) => format!("{path} was told to stop, within {}", time(Duration::from_millis(grace_ms))),
        };
        out.line(&Line::new().with(Style::Plain, &said))?;
    }
    out.finish()?;
    Ok(Exit::Ok)
}

/// What is meant: a tree or the one that is named, and a path in it.
fn target<'a>(target: &'a str, tree: Option<&'a str>) -> Result<(Option<&'a str>, SessionPath), Failure> {
    match target.parse::<SessionPath>() {
        Ok(path) => Ok((tree, path)),
        Err(_) if target.starts_with("tree_") && tree.is_none() => Ok((Some(target), SessionPath::root())),
        Err(bad) if !target.starts_with("tree_") => Err(Failure::new(Exit::Usage, format!("`{target}`: {bad}"))
            .help("a path is like `0.2`, a tree like `tree_6f1c`; `treeward ps` lists both")),
        Err(_) => {
            Err(Failure::new(Exit::Usage, "two trees are named").help("give a PATH with --tree, or a TREE without"))
        }
    }
}

/// Waits for the ending; `None` where the process ended first.
fn ending(
    client: &mut Client,
    tree: TreeId,
    path: &SessionPath,
    seq: u64,
    patience: Duration,
) -> Result<Option<CompletionStatus>, ClientError> {
    client.follow(tree, seq + 1)?;
    loop {
        match client.next(tree, Some(patience)) {
            Ok(Followed::Record(stored)) => {
                let record = Record::read(&stored).map_err(|_| ClientError::Unreadable("a record".to_owned()))?;
                if let Some(status) = ends(&record.body, path) {
                    return Ok(Some(status));
                }
            }
            Ok(Followed::Over(_)) | Err(ClientError::Closed) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Whether a record is the ending of the session at `path`, or of its whole tree.
fn ends(body: &Body, path: &SessionPath) -> Option<CompletionStatus> {
    let above = path.parent();
    match &body.kind {
        Kind::TreeEnded { status, .. } => Some(*status),
        Kind::DelegationEnded { status, .. }
            if above.as_ref() == Some(&body.path) && body.strand == Strand::Delegation(path.index()) =>
        {
            Some(*status)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_or_a_tree_is_meant_and_never_two_trees() {
        let path = |text: &str| text.parse::<SessionPath>().unwrap();
        assert_eq!(target("0.2", None).unwrap(), (None, path("0.2")));
        assert_eq!(target("0", Some("latest")).unwrap(), (Some("latest"), path("0")));
        assert_eq!(target("tree_6f", None).unwrap(), (Some("tree_6f"), path("0")));
        assert!(target("tree_6f", Some("tree_7")).unwrap_err().lines().contains("two trees are named"));
        assert!(target("reader", None).unwrap_err().lines().contains("a path is like `0.2`"));
        assert!(target("", None).is_err());
    }
}
