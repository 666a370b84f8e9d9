//! `treeward faults`: where faults can be made to strike, and how.

use serde_json::json;
use treeward::fault::{Point, Scope, Verb};

use super::exit::Exit;
use super::failure::Outcome;
use super::out::Out;
use super::view::{Line, Style};

/// Lists the points where a fault can strike, and what it can do there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  treeward faults
  treeward run examples/survey --input . --fault 'session path=0.1 panic'
  treeward run examples/survey --input . --fault 'report p=0.2 delay=1s' --seed 7
  treeward faults --json | jq -r '.[].example'")]
pub struct Args {
    /// The table as one JSON array
    #[arg(long)]
    json: bool,
}

/// Prints the table.
pub fn run(args: &Args) -> Outcome {
    let mut out = Out::stdout();
    if args.json {
        out.json(&table().to_string())?;
    } else {
        lines().iter().try_for_each(|line| out.line(line))?;
    }
    out.finish()?;
    Ok(Exit::Ok)
}

fn table() -> serde_json::Value {
    let rows = Point::ALL.map(|point| {
        json!({
            "point": point.name(),
            "meaning": point.meaning(),
            "actions": point.takes().iter().map(|verb| verb.name()).collect::<Vec<_>>(),
            "filters": filters(point),
            "example": point.example(),
        })
    });
    json!(rows)
}

fn filters(point: Point) -> Vec<&'static str> {
    match point.scope() {
        Scope::Journal => vec![],
        Scope::Session if point.has_tool() => vec!["path", "capsule", "tool", "attempt"],
        Scope::Session => vec!["path", "capsule", "attempt"],
    }
}

fn lines() -> Vec<Line> {
    let mut lines = vec![
        Line::new().with(
            Style::Strong,
            "--fault 'POINT [path=…] [capsule=…] [tool=…] [attempt=N] [nth=N|every=N|p=F] ACTION'",
        ),
        Line::new(),
        Line::new().with(Style::Dim, &row("POINT", "WHEN", "ACTIONS")),
    ];
    for point in Point::ALL {
        let actions = point.takes().iter().map(|verb| verb.name()).collect::<Vec<_>>().join(" ");
        lines.push(Line::new().with(Style::Plain, &row(point.name(), point.meaning(), &actions)));
    }
    lines.push(Line::new());
    lines.push(Line::new().with(Style::Dim, &format!("{:<16}{}", "ACTION", "WHAT IT DOES")));
    for verb in Verb::ALL {
        lines.push(Line::new().with(Style::Plain, &format!("{:<16}{}", verb.usage(), verb.meaning())));
    }
    lines.push(Line::new());
    for (key, meaning) in [
        ("path=0.1", "that session; path=0.1.* every session below it"),
        ("capsule=NAME", "sessions of that capsule"),
        ("tool=NAME", "calls of that tool (gate and tool)"),
        ("attempt=N", "only that incarnation of the session, from 1"),
        ("nth=N", "the n-th time only; every=N each n-th time; p=F with this probability, from the seed"),
    ] {
        lines.push(Line::new().with(Style::Plain, &format!("{key:<16}{meaning}")));
    }
    lines.push(Line::new());
    lines.push(Line::new().with(
        Style::Dim,
        "Times are counted within one attempt of one session; those of append and sync within the process.",
    ));
    lines.push(Line::new());
    lines.push(Line::new().with(Style::Dim, "To try:"));
    for point in Point::ALL {
        lines.push(Line::new().with(Style::Plain, &format!("  --fault '{}'", point.example())));
    }
    lines
}

fn row(point: &str, when: &str, actions: &str) -> String {
    format!("{point:<12}{when:<50}{actions}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_and_every_action_is_listed() {
        let text: Vec<String> = lines().iter().map(|line| line.show(None, false)).collect();
        let text = text.join("\n");
        for point in Point::ALL {
            assert!(text.contains(&format!("\n{:<12}", point.name())), "{point}");
            assert!(text.contains(point.example()), "{point}");
        }
        for verb in Verb::ALL {
            assert!(text.contains(&format!("\n{:<16}", verb.usage())), "{verb}");
        }
        assert_eq!(table().as_array().unwrap().len(), Point::ALL.len());
    }
}
