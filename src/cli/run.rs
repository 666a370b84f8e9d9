//! `treeward run`: a capsule on a task, with its tree on the screen.

mod follow;
mod interrupts;
mod panics;
mod reporter;
pub(super) mod screen;
mod summary;
mod task;

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use treeward::agent::Completion;
use treeward::capsule::{Budget, Team};
use treeward::fault::{Plan, Rule};
use treeward::journal::{CompletionStatus, Durability};
use treeward::limits::Limits;
use treeward::{Builder, Runtime, StartError, Submission, SubmitError};

use super::exit::{self, Exit};
use super::failure::{Failure, Outcome};
use super::out::{Out, wants_colour};
use super::place::{DEFAULT, Place};
use super::view::{Line, Style, status_name};
use follow::{Followed, follow};
use interrupts::Interrupts;
use reporter::{Mode, Reporter};

/// Runs a capsule on a task, shows its tree as it grows, and prints the answer.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::HELP))]
pub struct Args {
    /// A directory with a capsule.toml, or a lone NAME.toml
    #[arg(value_name = "CAPSULE")]
    capsule: PathBuf,
    /// The task; otherwise it is read from --task-file, or from standard input where that is no terminal
    #[arg(long, value_name = "TEXT", conflicts_with = "task_file")]
    task: Option<String>,
    /// The file the task is in; `-` for standard input
    #[arg(long, value_name = "FILE")]
    task_file: Option<PathBuf>,
    /// A directory lent to be read, as `input`
    #[arg(long, value_name = "DIR")]
    input: Option<PathBuf>,
    /// A directory lent to be read and written, as `work`
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Ceilings of the whole tree: tokens, usd, tool_calls, delegations, depth, wall
    #[arg(long, value_name = "KEY=N,…")]
    budget: Option<Budget>,
    /// How long the whole tree may take, like `90s` or `10m`
    #[arg(long, value_name = "TIME", value_parser = deadline)]
    deadline: Option<Duration>,
    /// The journal file, or `memory`
    #[arg(long, value_name = "FILE", default_value = DEFAULT)]
    journal: Place,
    /// When an append counts as done: on the disk, with the operating system, in the process
    #[arg(long, value_name = "WHEN", value_enum, default_value = "sync")]
    durability: When,
    /// The seed all chance is drawn from; otherwise from the system
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// As a simulation: one thread, time that passes only when nothing else can happen, no programs and no network. The
    /// same seed and the same files then give the same record bodies, byte for byte
    #[arg(long)]
    simulate: bool,
    /// A fault that is to strike (`treeward faults` lists what there is); repeatable
    #[arg(long = "fault", value_name = "RULE")]
    faults: Vec<Rule>,
    /// A label that rides in every record; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Every record as a line of JSON on standard output, and the completion as the last
    #[arg(long)]
    json: bool,
    /// Nothing but the answer
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Do not listen: `treeward ps`, `stop` and `tree --watch` then do not reach this run
    #[arg(long)]
    no_control: bool,
}

const EXAMPLES: &str = "\
The answer alone goes to standard output. On a terminal the tree is drawn on standard error while it grows, otherwise \
each event is a line there. Ctrl-C stops the tree in order, a second one at once.

Examples:
  treeward run examples/survey --input .
  treeward run examples/survey --input . --task json --quiet | jq .files
  treeward run examples/survey --input . --fault 'session path=0.1 panic'
  treeward run examples/survey --input docs --simulate --seed 7 --fault 'agent p=0.1 trap'
  treeward run mine --task-file task.md --input docs --budget usd=2,depth=3 --deadline 10m";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum When {
    Sync,
    Os,
    Memory,
}

/// The longest deadline: timers are certain to hold it.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

fn deadline(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() || time > LONGEST { Err("a deadline is from 1ms to 365days".to_owned()) } else { Ok(time) }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is written KEY=VALUE".to_owned()),
    }
}

/// Runs the capsule to its end.
pub fn run(args: &Args) -> Outcome {
    let team = Team::load(&args.capsule).map_err(|error| Failure::new(Exit::Usage, error))?;
    let task = task::task(args.task.clone(), args.task_file.clone(), Limits::default().task)?;
    let mut builder = Runtime::builder().journal(place(args));
    // Named, not "this one": programs can then call back with it.
    if let Ok(treeward) = std::env::current_exe() {
        builder = builder.warden(treeward::harness::Program::Path(treeward));
    }
    if !args.no_control {
        builder = builder.control(treeward::control::Listen::UsualPlace);
    }
    builder = variables(&team, builder);
    if let Some(seed) = args.seed {
        builder = builder.seed(seed);
    }
    if !args.faults.is_empty() {
        builder = builder.faults(Plan::new(args.faults.clone()));
    }
    let submission = submission(team, task, args);
    if args.simulate {
        builder = builder.simulated();
    }
    let threads = match args.simulate {
        true => tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build(),
        false => tokio::runtime::Builder::new_multi_thread().enable_all().build(),
    };
    let threads = threads.map_err(|error| Failure::new(Exit::Crashed, format!("no threads to run on: {error}")))?;
    let outcome = threads.block_on(carry_out(builder, submission, args));
    // What still blocks a thread by now (a read of a dead network file system) does not keep the process.
    threads.shutdown_timeout(Duration::from_millis(200));
    outcome
}

fn place(args: &Args) -> treeward::Place {
    let durability = match args.durability {
        When::Sync => Durability::Sync,
        When::Os => Durability::Os,
        When::Memory => Durability::Memory,
    };
    match &args.journal {
        Place::Memory => treeward::Place::Memory,
        Place::File(path) => treeward::Place::File(path.clone(), durability),
    }
}

/// The environment variables that the team is granted, where they are set and are text.
fn variables(team: &Team, builder: Builder) -> Builder {
    let granted: BTreeSet<&String> = team.members().values().flat_map(|capsule| &capsule.grants().env).collect();
    granted.into_iter().fold(builder, |builder, name| match std::env::var(name) {
        Ok(value) => builder.variable(name, value),
        Err(_) => builder,
    })
}

fn submission(team: Team, task: String, args: &Args) -> Submission {
    let mut submission = Submission::new(team, task);
    if let Some(input) = &args.input {
        submission = submission.read("input", input);
    }
    if let Some(work) = &args.work {
        submission = submission.write("work", work);
    }
    if let Some(budget) = args.budget {
        submission = submission.budget(budget);
    }
    if let Some(deadline) = args.deadline {
        submission = submission.deadline(deadline);
    }
    args.labels.iter().fold(submission, |submission, (key, value)| submission.label(key, value))
}

async fn carry_out(builder: Builder, submission: Submission, args: &Args) -> Outcome {
    let panics = panics::keep();
    let mut interrupts = Interrupts::listen()
        .map_err(|error| Failure::new(Exit::Crashed, format!("signals cannot be received: {error}")))?;
    let mode = Mode::choose(args.json, args.quiet, std::io::stderr().is_terminal());
    let mut reporter = Reporter::new(mode, std::io::stderr().is_terminal() && wants_colour());
    let runtime = builder.start().await.map_err(not_started)?;
    if let Some(problem) = runtime.control_problem() {
        reporter.notice(&format!("note: `treeward ps` and `stop` do not reach this run: {problem}"));
    }
    for recovered in runtime.recovered() {
        reporter.notice(&format!(
            "note: {} had been killed; it was ended as {}",
            recovered.tree,
            status_name(recovered.status)
        ));
    }
    let tree = match runtime.submit(submission).await {
        Ok(tree) => tree,
        Err(error) => {
            // Nothing runs; what the journal says of that is of less use than why.
            let _nothing_lost = runtime.stop(Duration::ZERO).await;
            return Err(not_submitted(error));
        }
    };
    let id = tree.id();
    let mut out = Out::stdout();
    let Followed { completion, unheard } = follow(&runtime, tree, &mut interrupts, &mut reporter, &mut out).await;
    let grace = if interrupts.count() > 1 { Duration::ZERO } else { Limits::default().grace };
    let stopped = runtime.stop(grace).await;
    reporter.show(true);
    if let Some(unheard) = unheard {
        return Err(unheard);
    }
    let lost = |error| {
        let saved = "what was acknowledged is safe; the next run with this journal ends what was left open";
        Failure::new(Exit::Journal, error)
            .help(format!("{saved}; `treeward verify{}` checks it", args.journal.option()))
    };
    let completion = completion.map_err(lost)?;
    let exit = Exit::of(completion.status, interrupts.count() > 0);
    if args.json {
        out.json(&completion_json(id, &completion, exit))?;
    } else if completion.status == CompletionStatus::Ok {
        if mode == Mode::Screen {
            reporter.say(&Line::new());
        }
        out.answer(&completion.answer)?;
    }
    out.finish()?;
    if completion.status != CompletionStatus::Ok && !args.json {
        let why = completion.detail.as_deref().unwrap_or("it gave no reason");
        let error = match completion.status {
            CompletionStatus::Error => format!("error: {why}"),
            status => format!("error: {}: {why}", status_name(status)),
        };
        reporter.say(&Line::new().with(Style::Bad, &error));
    }
    match mode {
        Mode::Screen | Mode::Lines => {
            reporter.say(&Line::new());
            panics.try_iter().for_each(|panic| reporter.say(&Line::new().with(Style::Dim, &format!("panic: {panic}"))));
            summary::never_struck(reporter.tree(), &args.faults).iter().for_each(|line| reporter.say(line));
            summary::summary(reporter.tree(), id, &args.journal).iter().for_each(|line| reporter.say(line));
        }
        Mode::Quiet if completion.status != CompletionStatus::Ok && args.journal != Place::Memory => {
            let help = format!("help: `treeward trace {id}{}` shows what happened", args.journal.option());
            reporter.say(&Line::new().with(Style::Plain, &help));
        }
        Mode::Quiet | Mode::Json => {}
    }
    stopped.map_err(lost)?;
    Ok(exit)
}

/// The last line of `--json`.
fn completion_json(id: treeward::ids::TreeId, completion: &Completion, exit: Exit) -> String {
    json!({
        "completion": {
            "tree": id,
            "status": completion.status,
            "answer": completion.answer,
            "detail": completion.detail,
            "spent": completion.spent,
            "exit": exit.code(),
        }
    })
    .to_string()
}

fn not_started(error: StartError) -> Failure {
    match error {
        StartError::Limits(_) => Failure::new(Exit::Usage, error),
        StartError::Actor(_) => Failure::new(Exit::Crashed, error),
        StartError::Store(_) => Failure::new(Exit::Journal, error),
    }
}

fn not_submitted(error: SubmitError) -> Failure {
    match &error {
        SubmitError::Refused(refusal) => {
            let help = match refusal.key.as_str() {
                "grants.read" => "--input DIR lends a directory to be read, as `input`",
                "grants.write" => "--work DIR lends a directory to be written, as `work`",
                _ => "`treeward check CAPSULE` says what the capsule may do and spend",
            };
            Failure::new(Exit::Refused, &error).help(help)
        }
        SubmitError::Prepare(_) | SubmitError::Directory(_) => Failure::new(Exit::Usage, &error),
        SubmitError::Closed(_) => Failure::new(Exit::Journal, &error),
    }
}
