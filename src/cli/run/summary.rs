//! What is said when a run is over.

use std::time::Duration;

use treeward::fault::{Rule, Scope};
use treeward::ids::{SessionPath, TreeId};
use treeward::journal::CompletionStatus;

use crate::cli::place::Place;
use crate::cli::view::{Line, Node, State, Style, Tree, census, count, grouped, status_name, time, usage};

/// Sessions named that did not end well.
const NAMED: usize = 5;

/// How it went, what it used, what went wrong, and what to look at next.
pub fn summary(tree: &Tree, id: TreeId, place: &Place) -> Vec<Line> {
    let took = tree.span.map_or(0, |(first, last)| last - first);
    let mut lines =
        vec![Line::new().with(Style::Strong, &format!("{} in {}", census(tree), time(Duration::from_micros(took))))];
    let mut used = format!("used: {}", usage(&tree.used));
    if tree.faults > 0 {
        used.push_str(&format!(" · {} struck", count(tree.faults, "fault", "faults")));
    }
    if tree.refused > 0 {
        used.push_str(&format!(" · {} came too late", count(tree.refused, "record", "records")));
    }
    lines.push(Line::new().with(Style::Plain, &used));
    let bad = failed(tree);
    for (path, status, why) in bad.iter().take(NAMED) {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        let line = Line::new().with(Style::Bad, &format!("{path} {}", status_name(*status)));
        lines.push(line.with(Style::Plain, &why));
    }
    if bad.len() > NAMED {
        lines.push(Line::new().with(Style::Dim, &format!("and {} more", grouped((bad.len() - NAMED) as u64))));
    }
    lines.push(next(bad.first().map(|(path, ..)| *path), id, place));
    lines
}

/// The rules of which no fault struck: a typing error in a path is otherwise taken for a promise that was kept. What
/// strikes the journal itself may be in no record, so nothing is said of it.
pub fn never_struck(tree: &Tree, rules: &[Rule]) -> Vec<Line> {
    let struck = |rule: &Rule| tree.struck.contains(&(rule.point().to_string(), rule.action().to_string()));
    let never = rules.iter().filter(|rule| rule.point().scope() == Scope::Session && !struck(rule));
    never.map(|rule| Line::new().with(Style::Warn, &format!("never struck: {rule}"))).collect()
}

/// The sessions that ended in error, crashed or unknown: causes before what they took with them, the deepest first.
fn failed(tree: &Tree) -> Vec<(&SessionPath, CompletionStatus, &str)> {
    let mut failed: Vec<_> = tree
        .sessions
        .iter()
        .filter_map(|(path, node)| match node.state {
            State::Ended(
                status @ (CompletionStatus::Error | CompletionStatus::Crashed | CompletionStatus::Unknown),
            ) => Some((path, status, node)),
            _ => None,
        })
        .collect();
    // A session that could not report is a cause, unless the same is true of the one that made it.
    let taken = |path: &SessionPath, node: &Node| {
        let above = path.parent().and_then(|parent| tree.sessions.get(&parent));
        node.unreported && above.is_some_and(|above| above.unreported)
    };
    failed.sort_by_key(|(path, _, node)| (taken(path, node), std::cmp::Reverse(path.depth())));
    failed.into_iter().map(|(path, status, node)| (path, status, node.detail.as_deref().unwrap_or_default())).collect()
}

fn next(look_at: Option<&SessionPath>, id: TreeId, place: &Place) -> Line {
    let line = Line::new().with(Style::Dim, "next: ");
    match (place, look_at) {
        (Place::Memory, _) => line.with(Style::Dim, "with --journal FILE the tree can be looked at again"),
        (place, Some(path)) => line.with(Style::Plain, &format!("treeward trace {id} --path {path}{}", place.option())),
        (place, None) => line.with(Style::Plain, &format!("treeward tree{}", place.option())),
    }
}

#[cfg(test)]
mod tests {
    use treeward::ids::Strand;
    use treeward::journal::{Body, Kind, Reporter};

    use super::*;

    fn ended(tree: &mut Tree, path: &str, status: CompletionStatus, by: Reporter, detail: &str) {
        let path: SessionPath = path.parse().unwrap();
        let (path, strand, kind) = match path.parent() {
            None => (path, Strand::Main, Kind::SessionEnded { status, by }),
            Some(parent) => {
                let detail = Some(detail.to_owned());
                let spent = Default::default();
                let kind = Kind::DelegationEnded { status, by, attempts: 1, answer: None, detail, spent };
                (parent, Strand::Delegation(path.index()), kind)
            }
        };
        tree.apply(&Body { path, attempt: 1, strand, n: 1, kind }, 2_500_000);
    }

    fn text(tree: &Tree, place: &Place) -> Vec<String> {
        let id = "tree_00000000000000000000000000000007".parse().unwrap();
        summary(tree, id, place).iter().map(|line| line.show(None, false)).collect()
    }

    #[test]
    fn the_cause_is_named_before_what_it_took_with_it() {
        let mut tree = Tree::default();
        ended(&mut tree, "0.1.0", CompletionStatus::Crashed, Reporter::Supervisor, "its delegator's session ended");
        ended(&mut tree, "0.1", CompletionStatus::Crashed, Reporter::Supervisor, "panicked");
        ended(&mut tree, "0", CompletionStatus::Ok, Reporter::Child, "");
        assert_eq!(
            text(&tree, &Place::File("j.db".into())),
            [
                "3 sessions: 1 ok, 2 crashed in 0ms",
                "used: nothing",
                "0.1 crashed: panicked",
                "0.1.0 crashed: its delegator's session ended",
                "next: treeward trace tree_00000000000000000000000000000007 --path 0.1 --journal j.db",
            ]
        );
    }

    #[test]
    fn when_all_went_well_the_tree_is_what_is_next() {
        let mut tree = Tree::default();
        ended(&mut tree, "0", CompletionStatus::Ok, Reporter::Child, "");
        assert_eq!(text(&tree, &Place::File(crate::cli::place::DEFAULT.into())).last().unwrap(), "next: treeward tree");
        let last = text(&tree, &Place::Memory).pop().unwrap();
        assert_eq!(last, "next: with --journal FILE the tree can be looked at again");
    }

    #[test]
    fn a_thousand_failures_are_five_lines_and_a_count() {
        let mut tree = Tree::default();
        (0..1000).for_each(|n| ended(&mut tree, &format!("0.{n}"), CompletionStatus::Error, Reporter::Child, "no"));
        let text = text(&tree, &Place::Memory);
        assert_eq!(text.len(), 2 + NAMED + 2);
        assert!(text.contains(&"and 995 more".to_owned()));
    }
}
