//! A runtime as its user holds it: one journal, one engine, any number of trees.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::children::ChildSeed;
use super::context::{Shared, TreeContext};
use super::delegation::StopCause;
use super::look::Sessions;
use super::message::RootMessage;
use super::places::{Places, Share};
use super::prepare::{PrepareError, prepare};
use super::remote::{Remote, Stopped};
use super::root::{Root, Submit};
use crate::agent::{Completion, Refusal};
use crate::capsule::{self, Account, Budget, Team};
use crate::control::{Control, Histogram, Listen, PlaceError};
use crate::env::Env;
use crate::fault::Plan;
#[cfg(feature = "harness")]
use crate::harness::Program;
use crate::ids::{SessionId, SessionPath, Strand, TaskId, TreeId};
use crate::journal::recover::{Recovered, recover};
use crate::journal::{
    AppendError, Entry, Ids, Journal, Kind, LentDirectory, MemoryStore, Options, SCHEMA, Sizes, Store, StoreError, Text,
};
use crate::lending::{Directory, OpenError};
use crate::limits::{Limits, LimitsError};
use crate::supervision::StopTimes;

/// Where the journal is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In memory: gone with the runtime.
    Memory,
    /// In one SQLite file.
    #[cfg(feature = "sqlite")]
    File(PathBuf, crate::journal::Durability),
}

/// Sets up a [`Runtime`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs until it is started"]
pub struct Builder {
    place: Place,
    limits: Limits,
    seed: Option<u64>,
    simulated: bool,
    plan: Option<Plan>,
    variables: BTreeMap<String, String>,
    cache: Option<Option<PathBuf>>,
    #[cfg(feature = "harness")]
    program: Program,
    listen: Listen,
}

/// Why a runtime did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The journal cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The limits make no sense.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// An actor did not start.
    #[error("starting: {0}")]
    Actor(String),
}

/// Why a tree was not started. Nothing of it is recorded.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// A limit or a grant forbids it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A component is not what it should be.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// A directory to be lent cannot be opened.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// The runtime is stopped, or its journal has failed.
    #[error("the runtime takes no more tasks: {0}")]
    Closed(String),
}

/// A task for a team, and what it is lent.
#[derive(Clone, Debug)]
pub struct Submission {
    team: Team,
    task: String,
    directories: Vec<(String, PathBuf, bool)>,
    budget: Budget,
    deadline: Option<Duration>,
    labels: BTreeMap<String, String>,
}

impl Submission {
    /// `task` for the root of `team`, with nothing lent.
    pub fn new(team: Team, task: impl Into<String>) -> Self {
        Self {
            team,
            task: task.into(),
            directories: Vec::new(),
            budget: Budget::default(),
            deadline: None,
            labels: BTreeMap::new(),
        }
    }

    /// Lends a directory to be read, under this name.
    #[must_use]
    pub fn read(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.directories.push((name.into(), path.into(), false));
        self
    }

    /// Lends a directory to be read and written, under this name.
    #[must_use]
    pub fn write(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.directories.push((name.into(), path.into(), true));
        self
    }

    /// What the whole tree may spend; the capsule's own ceilings hold as well.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// How long the whole tree may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Attaches a label (tenant, request): it rides in every envelope of the tree.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }
}

impl Builder {
    /// Keeps the journal there. Default: in memory.
    pub fn journal(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Other limits than the defaults.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The seed all chance is drawn from. Default: from the system; recorded either way.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Runs as a simulation: call on a current-thread tokio runtime, best with its clock paused. The same seed and
    /// inputs then give the same record bodies, byte for byte.
    pub fn simulated(mut self) -> Self {
        self.simulated = true;
        self
    }

    /// Faults that are to strike.
    pub fn faults(mut self, plan: Plan) -> Self {
        self.plan = Some(plan);
        self
    }

    /// An environment variable that capsules may be granted. None is unless it is named here.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Where compiled components are kept; `None` keeps none. Default: the user's cache directory.
    pub fn cache(mut self, place: Option<PathBuf>) -> Self {
        self.cache = Some(place);
        self
    }

    /// Where the program is that can be started as the warden: one whose `main` begins with
    /// [`warden_main_if_asked`](crate::harness::warden_main_if_asked). Default: this one.
    #[cfg(feature = "harness")]
    pub fn warden(mut self, program: Program) -> Self {
        self.program = program;
        self
    }

    /// Listens on a local socket, so that `treeward ps`, `stop` and `tree --watch` reach this process. Default: nowhere,
    /// and never in a simulation. Where the socket cannot be made the runtime runs without: see
    /// [`Runtime::control_problem`].
    pub fn control(mut self, listen: Listen) -> Self {
        self.listen = listen;
        self
    }

    /// Starts the runtime on the caller's tokio. Trees that an earlier process left open in the journal are closed first.
    ///
    /// # Errors
    /// When the journal cannot be opened for writing, or the limits make no sense; nothing is running then.
    pub async fn start(self) -> Result<Runtime, StartError> {
        self.limits.check()?;
        let env = match self.simulated {
            true => Env::simulated(self.seed.unwrap_or(0), self.plan),
            false => Env::real(self.seed, self.plan),
        };
        let env = if self.place == Place::Memory { env } else { env.with_ids_of_its_own() };
        let sizes = Sizes::from(&self.limits);
        let (store, recovered) = self.place.open(&env, sizes).await?;
        let options = Options { sizes, ..Options::default() };
        let faults = super::store_faults::of(&env);
        let actor = |error: ractor::SpawnErr| StartError::Actor(error.to_string());
        let journal = Journal::start(&env, store, options, faults, None).await.map_err(actor)?;
        let places = Places::new(self.limits.live_sessions);
        let shared = Arc::new(Shared {
            journal,
            env,
            places,
            gate_took: Histogram::default(),
            variables: self.variables,
            #[cfg(feature = "harness")]
            program: self.program,
            #[cfg(feature = "harness")]
            warden: tokio::sync::OnceCell::new(),
            #[cfg(feature = "guest")]
            cache: self.cache,
            #[cfg(feature = "guest")]
            engine: tokio::sync::OnceCell::new(),
            limits: self.limits,
        });
        let (root, joined) = Root::spawn(None, Root, shared.clone()).await.map_err(actor)?;
        shared.journal.cell().link(root.get_cell());
        // In a simulation nobody outside has a say.
        let listen = if shared.env.is_simulated() { Listen::Nowhere } else { self.listen };
        let (control, control_problem) = match Control::listen(&listen, Remote::new(root.clone(), shared.clone())) {
            Ok(control) => (control, None),
            Err(problem) => (None, Some(problem)),
        };
        Ok(Runtime { root, joined, shared, trees: AtomicU32::new(0), recovered, control, control_problem })
    }
}

impl Place {
    /// Opens the store and ends what an earlier process left open in it.
    async fn open(&self, env: &Env, sizes: Sizes) -> Result<(Box<dyn Store>, Vec<Recovered>), StoreError> {
        let (place, env) = (self.clone(), env.clone());
        let inline = env.is_simulated() || *self == Self::Memory;
        let open = move || -> Result<(Box<dyn Store>, Vec<Recovered>), StoreError> {
            let mut store: Box<dyn Store> = match place {
                Self::Memory => Box::new(MemoryStore::default()),
                #[cfg(feature = "sqlite")]
                Self::File(path, durability) => {
                    let options = crate::journal::SqliteOptions { durability, ..Default::default() };
                    Box::new(crate::journal::SqliteStore::open(&path, options)?)
                }
            };
            let recovered = recover(store.as_mut(), &env, sizes)?;
            Ok((store, recovered))
        };
        if inline {
            return open();
        }
        match tokio::task::spawn_blocking(open).await {
            Ok(result) => result,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
}

/// Runs trees. Dropping it kills what runs; [`stop`](Self::stop) ends it in order.
#[derive(Debug)]
pub struct Runtime {
    root: ActorRef<RootMessage>,
    joined: tokio::task::JoinHandle<()>,
    shared: Arc<Shared>,
    trees: AtomicU32,
    recovered: Vec<Recovered>,
    control: Option<Control>,
    control_problem: Option<PlaceError>,
}

impl Runtime {
    /// A runtime with its journal in memory and the default limits, to be described further.
    pub fn builder() -> Builder {
        Builder {
            place: Place::Memory,
            limits: Limits::default(),
            seed: None,
            simulated: false,
            plan: None,
            variables: BTreeMap::new(),
            cache: None,
            #[cfg(feature = "harness")]
            program: Program::default(),
            listen: Listen::Nowhere,
        }
    }

    /// The journal, for whoever wants to see what happens.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// The seed this run draws from.
    pub fn seed(&self) -> u64 {
        self.shared.env.seed()
    }

    /// What an earlier process had left open in the journal, closed when this one started.
    pub fn recovered(&self) -> &[Recovered] {
        &self.recovered
    }

    /// How many more sessions may be live.
    pub fn free_places(&self) -> usize {
        self.shared.places.free()
    }

    /// Compiles and checks every component of `team`, as [`submit`](Self::submit) does, and runs none of it but what
    /// its tools answer when asked what they offer.
    pub async fn prepare(&self, team: &Team) -> Result<(), PrepareError> {
        prepare(&self.shared, team).await.map(drop)
    }

    /// Why nobody outside can reach it, where it was to listen.
    pub fn control_problem(&self) -> Option<&PlaceError> {
        self.control_problem.as_ref()
    }

    /// The sessions that live now, of every tree or of one, as far as they answer within `within`.
    pub async fn sessions(&self, tree: Option<TreeId>, within: Duration) -> Sessions {
        Remote::new(self.root.clone(), self.shared.clone()).sessions(tree, within).await
    }

    /// Stops one session with everything below it, within `grace`: whoever delegated to it hears `terminated`. Returns
    /// when it was told, after `within` at the latest.
    pub async fn stop_session(&self, tree: TreeId, path: SessionPath, grace: Duration, within: Duration) -> Stopped {
        Remote::new(self.root.clone(), self.shared.clone()).stop(tree, path, grace, within).await
    }

    /// Starts a tree. When this returns its start is appended; nobody outside need know before it is committed.
    ///
    /// # Cancel safety
    /// Dropped before it returns, either nothing was started or the tree runs without anybody waiting for it.
    pub async fn submit(&self, submission: Submission) -> Result<Tree, SubmitError> {
        let Submission { team, task, directories, budget, deadline, labels } = submission;
        let limits = &self.shared.limits;
        let root = team.root().clone();
        if task.len() > limits.task {
            let reason = format!("the task is {} bytes, at most {}", task.len(), limits.task);
            return Err(Refusal { key: "limits.task".into(), reason }.into());
        }
        let share = Share::default();
        let place = self
            .shared
            .places
            .take(&share)
            .map_err(|busy| Refusal { key: "limits.live_sessions".into(), reason: busy.to_string() })?;
        let members = prepare(&self.shared, &team).await?;
        let directories = self.open(directories).await?;
        let lent: Vec<LentDirectory> = directories
            .iter()
            .map(|dir| LentDirectory { name: dir.name().to_owned(), from: None, write: dir.may_write() })
            .collect();
        capsule::check_declared(&lent, root.grants())?;
        let budget = budget.lesser(root.budget());
        let key = self.trees.fetch_add(1, Ordering::Relaxed);
        let mut chance = self.shared.env.ids_of(u64::from(key), &SessionPath::root());
        let id = TreeId::new(chance.uuid());
        let ids = Ids {
            session: Some(SessionId::new(chance.uuid())),
            delegation: None,
            task: Some(TaskId::new(chance.uuid())),
            run: None,
        };
        let own = deadline.or(root.limits().deadline).unwrap_or(limits.deadline);
        let own = budget.wall.map_or(own, |wall| own.min(wall));
        let path = SessionPath::root();
        let started =
            Kind::TreeStarted { schema: SCHEMA, capsule: root.name().to_owned(), seed: self.shared.env.seed(), budget };
        let entry = |kind| Entry { ids, ..Entry::new(id, path.clone(), 0, Strand::Tree, kind) };
        let _later = self.shared.journal.open_tree(entry(started), Arc::new(labels));
        let submitted = Kind::TaskSubmitted { task: Text::Inline(task.clone()) };
        let _later = self.shared.journal.append(entry(submitted));
        let prepared = members[root.name()].clone();
        let seed = ChildSeed {
            tree: Arc::new(TreeContext {
                id,
                number: u64::from(key),
                share,
                #[cfg(feature = "guest")]
                lane: crate::guest::Lane::default(),
                members,
            }),
            path: path.clone(),
            prepared,
            task: Arc::from(task),
            to_lend: Vec::new(),
            directories: Some(directories.into()),
            lent,
            deadline: Instant::now() + own,
            account: Account::root(&budget),
            // What nobody says is `limits.depth`; what is said holds up to `limits.deepest`.
            depth_left: budget.depth.map_or(limits.depth, |depth| depth.min(limits.deepest)),
            ids,
        };
        let (done, ending) = oneshot::channel();
        let submit = Box::new(Submit { seed, place, key, done });
        let closed = |why: &str| SubmitError::Closed(why.to_owned());
        self.root.cast(RootMessage::Submit(submit)).map_err(|_| closed("it is stopped"))?;
        Ok(Tree { id, key, root: self.root.clone(), ending, grace: limits.grace, depth: limits.depth })
    }

    async fn open(&self, directories: Vec<(String, PathBuf, bool)>) -> Result<Vec<Directory>, OpenError> {
        let open =
            move || directories.into_iter().map(|(name, path, write)| Directory::open(name, path, write)).collect();
        if self.shared.env.is_simulated() {
            return open();
        }
        match tokio::task::spawn_blocking(open).await {
            Ok(result) => result,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    /// Stops every tree in order within `grace`, commits what there is to commit, and ends.
    ///
    /// # Errors
    /// When the journal had failed: what it could not store is lost, everything that ran is ended all the same.
    pub async fn stop(self, grace: Duration) -> Result<(), AppendError> {
        let times = StopTimes::within(Instant::now(), grace, self.shared.limits.depth);
        let (done, finished) = oneshot::channel();
        if self.root.cast(RootMessage::StopAll { times, done }).is_ok() {
            let _root_died = finished.await;
        }
        #[cfg(feature = "harness")]
        if let Some(warden) = self.shared.warden.get() {
            warden.clone().stop().await;
        }
        if let Some(control) = self.control {
            control.close().await;
        }
        let journal = self.shared.journal.finish().await;
        self.root.stop(None);
        let _ended = self.joined.await;
        journal
    }
}

/// A tree that was submitted.
#[derive(Debug)]
pub struct Tree {
    id: TreeId,
    key: u32,
    root: ActorRef<RootMessage>,
    ending: oneshot::Receiver<Result<Completion, AppendError>>,
    grace: Duration,
    depth: u32,
}

impl Tree {
    /// Its id.
    pub fn id(&self) -> TreeId {
        self.id
    }

    /// Stops it in order, within `grace`. Its completion can still be waited for.
    pub fn stop(&self, grace: Duration) {
        let times = StopTimes::within(Instant::now(), grace, self.depth);
        let _gone = self.root.cast(RootMessage::StopTree { key: self.key, cause: StopCause::Canceled, times });
    }

    /// Something that can stop the tree while its completion is waited for.
    pub fn stopper(&self) -> Stopper {
        Stopper { key: self.key, root: self.root.clone(), depth: self.depth }
    }

    /// How long it may take to stop when nothing else is said.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// How it ended, once that is committed. The answer is whole.
    ///
    /// # Errors
    /// When the journal failed: nothing can be said that is sure to be remembered.
    pub async fn completion(self) -> Result<Completion, AppendError> {
        self.ending.await.unwrap_or(Err(AppendError::Gone))
    }
}

/// Stops one tree.
#[derive(Clone, Debug)]
pub struct Stopper {
    key: u32,
    root: ActorRef<RootMessage>,
    depth: u32,
}

impl Stopper {
    /// Stops the tree within `grace`; a second call can only tighten.
    pub fn stop(&self, grace: Duration) {
        let times = StopTimes::within(Instant::now(), grace, self.depth);
        let _gone = self.root.cast(RootMessage::StopTree { key: self.key, cause: StopCause::Canceled, times });
    }
}
