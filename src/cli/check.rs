//! `treeward check`: what a capsule may do and spend, without running it.

use std::path::PathBuf;
use std::time::Duration;

use treeward::Runtime;
use treeward::capsule::{ComponentSummary, Summary, Team, TeamSummary};
use treeward::journal::AgentKind;
use treeward::limits::Limits;
use treeward::supervision::{Rerun, RestartType};

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::out::Out;
use super::view::{Line, Style, budget, count, grouped, one_line, time};

/// Checks a capsule and its team, and says what each may do and spend.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  treeward check examples/survey
  treeward check mine.toml --json | jq '.capsules[].grants'")]
pub struct Args {
    /// A directory with a capsule.toml, or a lone NAME.toml
    #[arg(value_name = "CAPSULE")]
    capsule: PathBuf,
    /// The summary as one JSON object
    #[arg(long)]
    json: bool,
}

/// Loads the team and prints what it may do.
pub fn run(args: &Args) -> Outcome {
    let team = Team::load(&args.capsule).map_err(|error| Failure::new(Exit::Usage, error))?;
    prepare(&team)?;
    let summary = team.summary();
    let mut out = Out::stdout();
    if args.json {
        let json = serde_json::to_string(&summary).map_err(|error| Failure::new(Exit::Usage, error))?;
        out.json(&json)?;
    } else {
        lines(&summary).iter().try_for_each(|line| out.line(line))?;
    }
    out.finish()?;
    Ok(Exit::Ok)
}

/// Whether its components are components of their worlds that import nothing they are not granted.
fn prepare(team: &Team) -> Result<(), Failure> {
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let threads = threads.map_err(|error| Failure::new(Exit::Crashed, format!("no threads to run on: {error}")))?;
    threads.block_on(async {
        let runtime = Runtime::builder().start().await.map_err(|error| Failure::new(Exit::Crashed, error))?;
        let prepared = runtime.prepare(team).await.map_err(|error| Failure::new(Exit::Usage, error));
        // Nothing ran: there is nothing in its journal to be lost.
        let _nothing_lost = runtime.stop(Duration::ZERO).await;
        prepared
    })
}

fn lines(team: &TeamSummary) -> Vec<Line> {
    let mut lines = Vec::new();
    for capsule in &team.capsules {
        if !lines.is_empty() {
            lines.push(Line::new());
        }
        about(capsule, &mut lines);
    }
    lines
}

fn row(lines: &mut Vec<Line>, key: &str, style: Style, text: &str) {
    lines.push(Line::new().with(Style::Dim, &format!("  {key:<11}")).with(style, text));
}

fn about(capsule: &Summary, lines: &mut Vec<Line>) {
    let mut title = Line::new().with(Style::Strong, &capsule.name);
    if !capsule.version.is_empty() {
        title.push(Style::Plain, &format!(" {}", capsule.version));
    }
    lines.push(title);
    if !capsule.description.is_empty() {
        capsule.description.lines().for_each(|text| lines.push(Line::new().with(Style::Plain, &format!("  {text}"))));
    }
    let runs = match (&capsule.agent, &capsule.guest) {
        (AgentKind::Guest, Some(component)) => component_text(component),
        (AgentKind::Guest, None) => "a component".to_owned(),
        (AgentKind::Native, _) => "a Rust function (trusted code)".to_owned(),
        (AgentKind::Command, _) => {
            let words = capsule.command.iter().flatten().map(|word| one_line(word, 60));
            format!("a program: {}", words.collect::<Vec<_>>().join(" "))
        }
    };
    row(lines, "runs", Style::Plain, &runs);
    row(lines, "digest", Style::Dim, &capsule.digest.to_string());
    grants(capsule, lines);
    for tool in &capsule.tools {
        let changes = if tool.changes_world { ", changes the world" } else { "" };
        let component = tool.component.as_ref().map_or_else(|| "a Rust function".to_owned(), component_text);
        row(lines, "tool", Style::Plain, &format!("{}{changes}: {component}", tool.name));
    }
    let (style, text) = match capsule.may_change_world {
        true => (Style::Warn, "may change something outside treeward: a failed task is not simply run again"),
        false => (Style::Good, "cannot change anything outside treeward"),
    };
    row(lines, "world", style, text);
    let ceilings = budget(&capsule.budget);
    let ceilings = if ceilings.is_empty() { "no ceiling of its own".to_owned() } else { format!("at most {ceilings}") };
    row(lines, "spends", Style::Plain, &ceilings);
    row(lines, "limits", Style::Plain, &limits(capsule));
    row(lines, "restart", Style::Plain, &restart(capsule));
}

fn component_text(component: &ComponentSummary) -> String {
    format!("{} ({} bytes)", component.path.display(), grouped(component.len))
}

fn grants(capsule: &Summary, lines: &mut Vec<Line>) {
    let grants = &capsule.grants;
    let list = |names: &mut dyn Iterator<Item = String>| names.collect::<Vec<_>>().join(", ");
    let rows = [
        ("reads", list(&mut grants.read.iter().cloned())),
        ("writes", list(&mut grants.write.iter().cloned())),
        ("sees", list(&mut grants.env.iter().map(|name| format!("${name}")))),
        ("network", list(&mut grants.network.iter().map(ToString::to_string))),
        ("delegates", list(&mut grants.delegate.iter().cloned())),
    ];
    if rows.iter().all(|(_, names)| names.is_empty()) {
        row(lines, "granted", Style::Plain, "nothing");
    }
    for (key, names) in rows.iter().filter(|(_, names)| !names.is_empty()) {
        row(lines, key, Style::Plain, names);
    }
    let not_enforced = match capsule.agent {
        AgentKind::Guest => return,
        AgentKind::Native => "files, network and environment of Rust code are not enforced here",
        AgentKind::Command => "files and network of a program are not enforced here: it can do what you can",
    };
    row(lines, "", Style::Warn, not_enforced);
}

/// The limits that hold, its own or the runtime's.
fn limits(capsule: &Summary) -> String {
    let defaults = Limits::default();
    let own = &capsule.limits;
    let mut parts = vec![
        format!("ends after {}", time(own.deadline(&defaults))),
        format!("stalled after {}", time(own.stall(&defaults))),
        format!("{} live", count(own.live_children(&defaults).into(), "child", "children")),
    ];
    if capsule.agent == AgentKind::Guest {
        parts.push(format!("{} MiB of memory", grouped(own.memory(&defaults) >> 20)));
        parts.push(format!("{} of running", time(own.running(&defaults))));
    }
    if let (AgentKind::Command, Some(memory)) = (capsule.agent, own.memory) {
        parts.push(format!("{} MiB of memory", grouped(memory >> 20)));
    }
    parts.join(", ")
}

fn restart(capsule: &Summary) -> String {
    let restart = &capsule.restart;
    let kind = match restart.kind {
        RestartType::Permanent => "after every exit",
        RestartType::Transient => "after a failure",
        RestartType::Temporary => return "never".to_owned(),
    };
    let rerun = match restart.rerun {
        Rerun::Yes => "the task may be run again",
        Rerun::No => "the task is not run again",
        Rerun::Ask => "a person decides whether the task is run again",
    };
    let window = time(Duration::from_millis(restart.window_ms));
    format!("{kind}, {} in {window}; {rerun}", count(restart.max_restarts.into(), "time", "times"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(manifest: &str) -> String {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("capsule.toml"), manifest).unwrap();
        std::fs::write(place.path().join("a.wasm"), b"\0asm").unwrap();
        let team = Team::load(place.path()).unwrap();
        let lines = lines(&team.summary());
        let text: Vec<String> = lines.iter().map(|line| line.show(None, false)).collect();
        text.join("\n").replace(&place.path().display().to_string(), "HERE")
    }

    #[test]
    fn what_a_capsule_may_do_is_said_in_full() {
        let text = shown(
            "name = \"writer\"\nversion = \"0.2.0\"\ndescription = \"Writes.\"\n[run]\nguest = \"a.wasm\"\n\
             [grants]\nread = [\"input\"]\nwrite = [\"work\"]\nenv = [\"LANG\"]\nnetwork = [\"https://api.example.com\"]\n\
             delegate = [\"writer\"]\n[tools.send]\ncomponent = \"a.wasm\"\nchanges_world = true\n\
             [budget]\ntokens = 200_000\nusd = \"1.50\"\nwall = \"30m\"\n[limits]\nmemory = \"64MiB\"\n",
        );
        for line in [
            "writer 0.2.0",
            "  Writes.",
            "  runs       HERE/a.wasm (4 bytes)",
            "  reads      input",
            "  writes     work",
            "  sees       $LANG",
            "  network    https://api.example.com",
            "  delegates  writer",
            "  tool       send, changes the world: HERE/a.wasm (4 bytes)",
            "  world      may change something outside treeward: a failed task is not simply run again",
            "  spends     at most 200 000 tokens, $1.50, 30m",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line:?} is not in\n{text}");
        }
        assert!(text.contains("64 MiB of memory"));
    }

    #[test]
    fn what_is_not_enforced_on_a_program_is_said() {
        let text = shown("name = \"p\"\n[run]\ncommand = [\"python3\", \"a.py\"]\nunconfined = true\n");
        assert!(text.contains("  runs       a program: python3 a.py"), "{text}");
        assert!(text.contains("files and network of a program are not enforced here"), "{text}");
        assert!(text.contains("  world      may change something outside treeward"), "{text}");
    }

    #[test]
    fn a_capsule_granted_nothing_is_said_to_be() {
        let text = shown("name = \"leaf\"\n[run]\nguest = \"a.wasm\"\n");
        assert!(text.contains("  granted    nothing"), "{text}");
        assert!(text.contains("  world      cannot change anything outside treeward"), "{text}");
        assert!(text.contains("  spends     no ceiling of its own"), "{text}");
    }
}
