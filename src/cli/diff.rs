//! `treeward diff`: the first body in which two trees differ.

use std::path::PathBuf;

use serde_json::json;
use treeward::journal::diff::{Comparison, Difference, diff};
use treeward::journal::{Reader, TreeInfo};

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::out::Out;
use super::place::DEFAULT;
use super::source::{At, failed, find};
use super::view::{Line, Style, count};

/// Compares the bodies of two trees, strand by strand.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each side is a journal, and behind a `#` the tree in it (the latest where none is named). Clock, ids and durations are \
no part of a body: two runs of one seed, with the same inputs, are equal strand by strand.

Examples:
  treeward diff monday.db tuesday.db
  treeward diff '#tree_6f1c' '#latest'         two trees of the journal in this directory
  treeward diff 'a.db#tree_6f1c' b.db --json")]
pub struct Args {
    /// JOURNAL[#TREE]
    #[arg(value_name = "A")]
    left: String,
    /// JOURNAL[#TREE]
    #[arg(value_name = "B")]
    right: String,
    /// The result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Compares, and says where they first differ.
pub fn run(args: &Args) -> Outcome {
    let (mut left, left_info) = side(&args.left)?;
    let (mut right, right_info) = side(&args.right)?;
    let found = diff((&mut left, left_info.tree), (&mut right, right_info.tree)).map_err(failed)?;
    let mut out = Out::stdout();
    if args.json {
        out.json(&as_json(&left_info, &right_info, &found).to_string())?;
    } else {
        lines(&found).iter().try_for_each(|line| out.line(line))?;
    }
    out.finish()?;
    Ok(if found.first.is_none() { Exit::Ok } else { Exit::Failed })
}

fn side(named: &str) -> Result<(Reader, TreeInfo), Failure> {
    let (journal, tree) = split(named);
    let mut source = At { journal }.open()?;
    let info = find(&mut source, tree)?;
    Ok((source, info))
}

/// `JOURNAL#TREE`, either of which may be missing. A file's own name may hold a `#`: only `#tree_…` and `#latest` count.
fn split(named: &str) -> (PathBuf, Option<&str>) {
    let (journal, tree) = match named.rsplit_once('#') {
        Some((journal, tree)) if tree.starts_with("tree_") || tree == "latest" => (journal, Some(tree)),
        _ => (named, None),
    };
    (PathBuf::from(if journal.is_empty() { DEFAULT } else { journal }), tree)
}

fn lines(found: &Comparison) -> Vec<Line> {
    let equal = count(found.equal, "body", "bodies");
    let Some(first) = &found.first else {
        let order = if found.same_order { "also in the same order" } else { "in another order over the strands" };
        return vec![Line::new().with(Style::Good, &format!("equal: {equal}, {order}"))];
    };
    let Difference { path, strand, n, left, right } = first;
    let said = |side: &Option<(u64, String)>| match side {
        Some((seq, body)) => format!("record {seq}: {body}"),
        None => "nothing there".to_owned(),
    };
    vec![
        Line::new()
            .with(Style::Bad, &format!("differ at {path} {strand} number {n}"))
            .with(Style::Dim, &format!(" ({equal} equal)")),
        Line::new().with(Style::Plain, &format!("A {}", said(left))),
        Line::new().with(Style::Plain, &format!("B {}", said(right))),
    ]
}

fn as_json(left: &TreeInfo, right: &TreeInfo, found: &Comparison) -> serde_json::Value {
    let body = |side: &Option<(u64, String)>| {
        side.as_ref().map(|(seq, body)| {
            // A body that is no JSON is shown as text: it differs, whatever it is.
            let body = serde_json::from_str(body).unwrap_or_else(|_| json!(body));
            json!({ "seq": seq, "body": body })
        })
    };
    json!({
        "a": left.tree,
        "b": right.tree,
        "equal": found.equal,
        "same_order": found.same_order,
        "first": found.first.as_ref().map(|first| json!({
            "path": first.path, "strand": first.strand, "n": first.n, "a": body(&first.left), "b": body(&first.right),
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_journal_and_a_tree_either_of_which_may_be_missing() {
        assert_eq!(split("a.db"), ("a.db".into(), None));
        assert_eq!(split("a.db#tree_6f"), ("a.db".into(), Some("tree_6f")));
        assert_eq!(split("a#b.db#latest"), ("a#b.db".into(), Some("latest")));
        assert_eq!(split("a#b.db"), ("a#b.db".into(), None));
        assert_eq!(split("#tree_6f"), (DEFAULT.into(), Some("tree_6f")));
    }

    #[test]
    fn the_first_difference_is_shown_with_both_bodies_or_their_absence() {
        let first = Difference {
            path: "0.1".into(),
            strand: "main".into(),
            n: 3,
            left: Some((7, "{\"a\":\"\u{9b}\"}".into())),
            right: None,
        };
        let text: Vec<String> = lines(&Comparison { equal: 6, first: Some(first), same_order: false })
            .iter()
            .map(|line| line.show(None, false))
            .collect();
        assert_eq!(
            text,
            ["differ at 0.1 main number 3 (6 bodies equal)", "A record 7: {\"a\":\"\\u{9b}\"}", "B nothing there",]
        );
    }
}
