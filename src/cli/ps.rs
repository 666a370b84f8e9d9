//! `treeward ps`: what runs now.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use treeward::control::Client;
use treeward::control::protocol::{Answer, Ask};
use treeward::ids::TreeId;
use treeward::{SessionView, Standing};

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::live::{Live, PATIENCE, listening, look};
use super::out::Out;
use super::view::{Line, Style, count, status_name, time};

/// Lists what runs now, in every treeward of yours.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  treeward ps
  treeward ps --json | jq '.processes[].sessions[] | select(.state == \"queued\") | .path'
  treeward ps --pid 4711 --metrics")]
pub struct Args {
    /// Only this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Every session; otherwise the first of each tree
    #[arg(long)]
    all: bool,
    /// Its metrics, as Prometheus reads them
    #[arg(long, conflicts_with_all = ["all", "json"])]
    metrics: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Sessions of a tree that are shown where not all are wanted.
const SHOWN: usize = 32;

/// Prints it.
pub fn run(args: &Args) -> Outcome {
    let processes = listening(args.pid)?;
    if args.metrics {
        return metrics(&processes);
    }
    let live = look(processes, None);
    let mut out = Out::stdout();
    if args.json {
        out.json(&as_json(&live).to_string())?;
    } else if live.is_empty() {
        out.line(&Line::new().with(Style::Dim, "nothing of yours runs that listens"))?;
    }
    for process in live.iter().filter(|_| !args.json) {
        for line in lines(process, if args.all { usize::MAX } else { SHOWN }) {
            out.cut_line(&line)?;
        }
    }
    out.finish()?;
    Ok(Exit::Ok)
}

fn metrics(processes: &[treeward::control::Process]) -> Outcome {
    let [process] = processes else {
        let what =
            if processes.is_empty() { "nothing of yours runs that listens" } else { "more than one process runs" };
        return Err(Failure::new(Exit::Usage, what).help("`--pid PID` names one; `treeward ps` lists them"));
    };
    let answer = Client::connect(process, PATIENCE).and_then(|mut client| client.ask(&Ask::Metrics {}));
    match answer {
        Ok(Answer::Metrics { text }) => {
            let mut out = Out::stdout();
            out.text(text.trim_end())?;
            out.finish()?;
            Ok(Exit::Ok)
        }
        Ok(_) => Err(Failure::new(Exit::Failed, format!("process {} answered something else", process.pid))),
        Err(error) => Err(Failure::new(Exit::Failed, format!("process {}: {error}", process.pid))),
    }
}

fn state(standing: Standing) -> (&'static str, Style) {
    match standing {
        Standing::Queued => ("queued", Style::Dim),
        Standing::Starting => ("starting", Style::Plain),
        Standing::Running => ("running", Style::Good),
        Standing::Stopping => ("stopping", Style::Warn),
        Standing::Restarting => ("restarting", Style::Warn),
        Standing::Ended(status) => (status_name(status), Style::Dim),
    }
}

fn lines(live: &Live, shown: usize) -> Vec<Line> {
    let head = Line::new().with(Style::Strong, &format!("process {}", live.process.pid));
    let seen = match &live.seen {
        Err(why) => return vec![head.with(Style::Bad, &format!("  {why}"))],
        Ok(seen) => seen,
    };
    let mut lines = vec![head.with(Style::Dim, &format!("  {}", census(&seen.sessions)))];
    let mut trees: BTreeMap<TreeId, Vec<&SessionView>> = BTreeMap::new();
    seen.sessions.iter().for_each(|session| trees.entry(session.tree).or_default().push(session));
    for (id, sessions) in trees {
        lines.push(Line::new().with(Style::Plain, &format!("  {id}")));
        lines.extend(sessions.iter().take(shown).map(|session| row(session)));
        if sessions.len() > shown {
            let more = count((sessions.len() - shown) as u64, "more session", "more sessions");
            lines.push(Line::new().with(Style::Dim, &format!("    and {more}: `treeward ps --all`")));
        }
    }
    if seen.partial {
        lines.push(
            Line::new().with(Style::Warn, "  some sessions did not answer in time: what is below them is missing"),
        );
    }
    if seen.left_out > 0 {
        let more = count(seen.left_out, "session was", "sessions were");
        lines.push(Line::new().with(Style::Warn, &format!("  {more} left out: they were too many")));
    }
    lines
}

fn row(session: &SessionView) -> Line {
    let (word, style) = state(session.state);
    let mut more = format!("  {}", time(Duration::from_millis(session.age_ms)));
    if session.attempt > 1 {
        more.push_str(&format!(" · attempt {}", session.attempt));
    }
    if let Some(doing) = session.doing {
        if doing.live_children > 0 {
            more.push_str(&format!(" · {}", count(doing.live_children.into(), "child", "children")));
        }
        if doing.queued_children > 0 {
            more.push_str(&format!(" · {} queued", doing.queued_children));
        }
        if doing.calls > 0 {
            more.push_str(&format!(" · {}", count(doing.calls.into(), "call", "calls")));
        }
        if doing.behind_ms >= 100 {
            more.push_str(&format!(" · {} behind", time(Duration::from_millis(doing.behind_ms))));
        }
    } else if session.state == Standing::Running {
        more.push_str(" · did not answer");
    }
    let path = session.path.to_string();
    Line::new()
        .with(Style::Plain, &format!("    {path:<10} {:<16} ", session.capsule))
        .with(style, &format!("{word:<10}"))
        .with(Style::Dim, &more)
}

fn census(sessions: &[SessionView]) -> String {
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    sessions.iter().for_each(|session| *states.entry(state(session.state).0).or_default() += 1);
    let parts: Vec<_> = states.iter().map(|(state, n)| format!("{n} {state}")).collect();
    let total = count(sessions.len() as u64, "session", "sessions");
    if parts.is_empty() { total } else { format!("{total}: {}", parts.join(", ")) }
}

fn as_json(live: &[Live]) -> serde_json::Value {
    let processes: Vec<_> = live
        .iter()
        .map(|one| {
            let (pid, socket) = (one.process.pid, &one.process.socket);
            match &one.seen {
                Ok(seen) => json!({
                    "pid": pid,
                    "socket": socket,
                    "sessions": seen.sessions,
                    "partial": seen.partial,
                    "left_out": seen.left_out,
                }),
                Err(why) => json!({ "pid": pid, "socket": socket, "error": why }),
            }
        })
        .collect();
    json!({ "processes": processes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use treeward::control::Process;
    use treeward::ids::SessionPath;
    use treeward::{Doing, Sessions};

    fn live(children: u32) -> Live {
        let tree = "tree_00000000000000000000000000000007".parse().unwrap();
        let view = |path: SessionPath, state, doing| SessionView {
            tree,
            path,
            capsule: "a\u{1b}[2J".into(),
            state,
            attempt: 2,
            age_ms: 12_000,
            left_ms: 1,
            doing,
        };
        let doing = Doing { live_children: 2, queued_children: 3, calls: 1, behind_ms: 1_500 };
        let mut sessions = vec![view(SessionPath::root(), Standing::Running, Some(doing))];
        sessions.extend((0..children).map(|n| view(SessionPath::root().child(n), Standing::Queued, None)));
        let seen = Ok(Sessions { sessions, partial: true, left_out: 0 });
        Live { process: Process { pid: 7, socket: "s".into() }, seen }
    }

    fn text(live: &Live) -> Vec<String> {
        lines(live, SHOWN).iter().map(|line| line.show(None, false)).collect()
    }

    #[test]
    fn a_session_says_what_it_does_and_a_partial_view_that_it_is_one() {
        let text = text(&live(1));
        assert_eq!(text[0], "process 7  2 sessions: 1 queued, 1 running");
        let row = &text[2];
        assert!(
            row.contains("running") && row.contains("12s · attempt 2 · 2 children · 3 queued · 1 call · 1.5s behind")
        );
        assert!(!row.contains('\u{1b}'), "{row:?}");
        assert!(text.last().unwrap().contains("did not answer in time"));
    }

    #[test]
    fn a_thousand_children_are_a_screen_and_a_count() {
        let text = text(&live(1_000));
        assert_eq!(text.len(), 2 + SHOWN + 2);
        assert!(text[2 + SHOWN].contains("and 969 more sessions"), "{}", text[2 + SHOWN]);
    }
}
