//! What is said when a run is over.

use std::time::Duration;

use treeward::ids::{SessionPath, TreeId};
use treeward::journal::CompletionStatus;

use crate::cli::place::Place;
use crate::cli::view::{Line, State, Style, Tree, census, count, status_name, time, usage};

/// Sessions named that did not end well.
const NAMED: usize = 5;

/// How it went, what it used, what went wrong, and what to look at next.
pub fn summary(tree: &Tree, id: TreeId, place: &Place, refused: u64) -> Vec<Line> {
    let took = tree.span.map_or(0, |(first, last)| last - first);
    let mut lines =
        vec![Line::new().with(Style::Strong, &format!("{} in {}", census(tree), time(Duration::from_micros(took))))];
    let mut used = format!("used: {}", usage(&tree.used));
    if tree.faults > 0 {
        used.push_str(&format!(" · {} struck", count(tree.faults, "fault", "faults")));
    }
    if refused > 0 {
        used.push_str(&format!(" · {} came too late", count(refused, "record", "records")));
    }
    lines.push(Line::new().with(Style::Plain, &used));
    let bad = failed(tree);
    for (path, status, why) in bad.iter().take(NAMED) {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        let line = Line::new().with(Style::Bad, &format!("{path} {}", status_name(*status)));
        lines.push(line.with(Style::Plain, &why));
    }
    if bad.len() > NAMED {
        lines.push(Line::new().with(Style::Dim, &format!("and {} more", bad.len() - NAMED)));
    }
    lines.push(next(bad.first().map(|(path, ..)| *path), id, place));
    lines
}

/// The sessions that ended in error, crashed or unknown, the deepest cause first where one lies below another.
fn failed(tree: &Tree) -> Vec<(&SessionPath, CompletionStatus, &str)> {
    let mut failed: Vec<_> = tree
        .sessions
        .iter()
        .filter_map(|(path, node)| match node.state {
            State::Ended(
                status @ (CompletionStatus::Error | CompletionStatus::Crashed | CompletionStatus::Unknown),
            ) => Some((path, status, node.detail.as_deref().unwrap_or_default())),
            _ => None,
        })
        .collect();
    failed.sort_by_key(|(path, ..)| std::cmp::Reverse(path.depth()));
    failed
}

fn next(look_at: Option<&SessionPath>, id: TreeId, place: &Place) -> Line {
    let line = Line::new().with(Style::Dim, "next: ");
    match (place, look_at) {
        (Place::Memory, _) => line.with(Style::Dim, "with --journal FILE the tree can be looked at again"),
        (place, Some(path)) => line.with(Style::Plain, &format!("treeward trace {id} --path {path}{}", place.option())),
        (place, None) => line.with(Style::Plain, &format!("treeward tree{}", place.option())),
    }
}
