//! A program as the agent of a session.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use super::place::RunDirectory;
use super::proc::Launcher;
use super::record::Recorder;
use super::running::{Launch, Parts, Report, Sink, Sinking, StopOrder, run};
use super::stopping::Graces;
use crate::agent::{Session, Task};
use crate::capsule::CommandLine;
use crate::driver::{Command, Driver, Event, Plan, Request};
use crate::env::Chance;
use crate::harness::ProcessLimits;
use crate::harness::call::{CallServer, DirectoryInfo, SOCKET, TOKEN};
use crate::ids::RunId;
use crate::lending::Directory;
use crate::limits::Limits;
use crate::supervision::ExitClass;
use crate::tree::owned::Owned;

/// How a program is run.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// The program, its arguments and its directory.
    pub command: CommandLine,
    /// Where `treeward` itself is, so that the program can `treeward call`. Its directory is put last on the PATH, and the
    /// path itself in `TREEWARD`. `None`: the program uses the socket by itself.
    pub treeward: Option<PathBuf>,
    /// What it may take.
    pub limits: ProcessLimits,
    /// How long each step of it may take.
    pub graces: Graces,
    /// Where private directories of runs are made; `None`: where the system keeps temporary files.
    pub place: Option<PathBuf>,
}

impl CommandSpec {
    /// With the usual graces and no limits.
    pub fn new(command: CommandLine) -> Self {
        Self { command, treeward: None, limits: ProcessLimits::default(), graces: Graces::default(), place: None }
    }
}

/// Everything the agent of a session needs.
pub struct AgentParts {
    /// How the program is run.
    pub spec: CommandSpec,
    /// The session; what the program calls goes there.
    pub session: Session,
    /// Its task.
    pub task: Task,
    /// The directories lent to it.
    pub directories: Vec<Directory>,
    /// The variables it was granted.
    pub variables: Vec<(String, String)>,
    /// Set when it is to stop, and again to tighten. A program that was told to stop is refused further calls.
    pub stop: watch::Receiver<Option<StopOrder>>,
    /// Where its records go.
    pub recorder: Arc<dyn Recorder>,
    /// What names this run and draws its token; see [`Env::run_of`](crate::env::Env::run_of).
    pub chance: Chance,
    /// The limits of the runtime.
    pub limits: Limits,
}

/// The variables treeward itself sets; a grant does not replace them.
const OWN: [&str; 4] = [SOCKET, TOKEN, "TREEWARD", "TREEWARD_RUN"];
/// The PATH of a program that was granted none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a program as the agent of a session, until nothing of it is left.
///
/// # Cancel safety
/// Not to be dropped where the ending matters: see [`run`](super::run()). To end it, set `stop`.
/// # Restart
/// Every attempt is a new run, with a directory, a socket and a token of its own.
pub async fn agent<L: Launcher>(launcher: &L, parts: AgentParts) -> Report {
    let AgentParts { spec, session, task, directories, variables, stop, recorder, mut chance, limits } = parts;
    let run_id = RunId::new(chance.uuid());
    let mut token = [0; 32];
    chance.fill(&mut token);
    let token = hex::encode(token);
    let base = spec.place.clone().unwrap_or_else(std::env::temp_dir);
    let setup = tokio::task::spawn_blocking(move || -> std::io::Result<(RunDirectory, Vec<DirectoryInfo>)> {
        let place = RunDirectory::new(&base, run_id)?;
        Ok((place, directories.iter().map(info).collect::<Result<_, _>>()?))
    });
    let (place, lent) = match setup.await {
        Ok(Ok(made)) => made,
        Ok(Err(error)) => return broken(format!("no private directory could be made for the run: {error}")),
        Err(error) => return broken(error.to_string()),
    };
    let (stopping_to, stopping) = watch::channel(false);
    let refusing = Owned::spawn(refuse_when_stopped(stop.clone(), stopping_to));
    let server = match CallServer::start(place.socket(), &token, session.clone(), lent.clone(), stopping) {
        Ok(server) => server,
        Err(error) => return broken(format!("{}: no socket for calls: {error}", place.socket().display())),
    };
    let mut driver = Command::new(spec.command.argv.clone());
    let request = Request {
        task: task.text,
        directory: spec.command.directory.clone(),
        resume: None,
        env: variables.iter().cloned().collect(),
        answer_limit: limits.answer_whole,
    };
    let plan = match driver.launch(&request) {
        Ok(plan) => placed(plan, &place),
        Err(error) => return Report::never(ExitClass::Refused, error.to_string()),
    };
    for file in &plan.files {
        if let Err(error) = place.write(file) {
            return broken(format!("a private file of the run could not be written: {error}"));
        }
    }
    let mut env: BTreeMap<String, String> = plan.env.clone();
    env.extend(variables);
    environment(&mut env, &spec, &place, &lent);
    env.insert(SOCKET.to_owned(), server.path().display().to_string());
    env.insert(TOKEN.to_owned(), token);
    let launch =
        Launch { plan, env: env.into_iter().collect(), cwd: spec.command.directory.clone(), limits: spec.limits };
    let report = run(Parts {
        launcher,
        driver: Box::new(driver),
        launch,
        run: run_id,
        graces: spec.graces,
        stop,
        recorder,
        sink: Arc::new(SessionSink(session)),
        detail: limits.detail,
    })
    .await;
    drop((server, refusing));
    // Removing what a program left may take a while.
    let _removed = tokio::task::spawn_blocking(move || drop(place)).await;
    report
}

/// The plan with the directory of its private files put in.
fn placed(mut plan: Plan, place: &RunDirectory) -> Plan {
    if !plan.files.is_empty() {
        let files = place.path().display().to_string();
        plan.argv.iter_mut().chain(plan.env.values_mut()).for_each(|text| *text = text.replace("{files}", &files));
    }
    plan
}

fn broken(detail: String) -> Report {
    Report::never(ExitClass::Retryable, detail)
}

/// Refuses calls from the moment it is to stop.
async fn refuse_when_stopped(mut stop: watch::Receiver<Option<StopOrder>>, stopping: watch::Sender<bool>) {
    let stopped = stop.wait_for(Option::is_some).await.is_ok();
    if stopped {
        stopping.send_replace(true);
    }
    // A sender that is dropped would say the same: it is kept until the run is over.
    std::future::pending::<()>().await;
}

/// Where a lent directory is now.
fn info(directory: &Directory) -> std::io::Result<DirectoryInfo> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", directory.dir().as_fd().as_raw_fd()))?;
    Ok(DirectoryInfo { name: directory.name().to_owned(), path, write: directory.may_write() })
}

/// What is set beside the granted variables: where those set nothing of the kind, and treeward's own last.
fn environment(env: &mut BTreeMap<String, String>, spec: &CommandSpec, place: &RunDirectory, lent: &[DirectoryInfo]) {
    for name in OWN {
        env.remove(name);
    }
    let path = env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    if let Some(treeward) = &spec.treeward {
        if let Some(directory) = treeward.parent() {
            path.push(':');
            path.push_str(&directory.display().to_string());
        }
        env.insert("TREEWARD".to_owned(), treeward.display().to_string());
    }
    let private = place.tmp().display().to_string();
    env.entry("HOME".to_owned()).or_insert_with(|| private.clone());
    env.insert("TMPDIR".to_owned(), private);
    for directory in lent {
        env.insert(variable(&directory.name), directory.path.display().to_string());
    }
}

/// The variable that says where a lent directory is: `TREEWARD_DIR_INPUT` for `input`.
fn variable(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("TREEWARD_DIR_{}", name.chars().map(plain).collect::<String>())
}

/// Passes events on to a session.
struct SessionSink(Session);

impl Sink for SessionSink {
    fn event(&self, event: Event) -> Sinking {
        let session = self.0.clone();
        Box::pin(async move {
            if let Event::Text { text, .. } = event {
                // A session that is gone takes nothing, and stops this run.
                let _gone = session.emit(text).await;
            }
        })
    }

    fn progress(&self) {
        self.0.progress();
    }
}
