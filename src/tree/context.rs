//! What every actor of a runtime, and of a tree, may read: immutable once made.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::places::{Places, Share};
use crate::agent::Agent;
use crate::capsule::Capsule;
#[cfg(any(feature = "guest", feature = "harness"))]
use crate::capsule::Grants;
use crate::control::Histogram;
use crate::env::Env;
#[cfg(feature = "guest")]
use crate::guest::{AgentComponent, EngineError, GuestConfig, Guests, ToolComponent};
#[cfg(feature = "harness")]
use crate::harness::{Program, Warden, WardenConfig, WardenError, run::CommandSpec};
use crate::ids::TreeId;
use crate::journal::{AgentKind, Journal};
use crate::limits::Limits;

/// Shared by everything in one runtime.
pub(crate) struct Shared {
    pub(crate) journal: Journal,
    pub(crate) env: Env,
    pub(crate) limits: Limits,
    /// Places for live sessions in the process.
    pub(crate) places: Places,
    /// How long the gate takes to decide.
    pub(crate) gate_took: Histogram,
    /// The environment variables a capsule can be granted.
    #[cfg_attr(
        not(any(feature = "guest", feature = "harness")),
        expect(dead_code, reason = "only these lend variables")
    )]
    pub(crate) variables: BTreeMap<String, String>,
    /// Where compiled components are kept, where that was said.
    #[cfg(feature = "guest")]
    pub(crate) cache: Option<Option<std::path::PathBuf>>,
    /// Where the warden's program is.
    #[cfg(feature = "harness")]
    pub(crate) program: Program,
    /// The one warden, started when the first program is.
    #[cfg(feature = "harness")]
    pub(crate) warden: tokio::sync::OnceCell<Warden>,
    /// The one engine, made when the first guest is.
    #[cfg(feature = "guest")]
    pub(crate) engine: tokio::sync::OnceCell<Guests>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    /// The variables these grants name, where they are set.
    #[cfg(any(feature = "guest", feature = "harness"))]
    pub(crate) fn variables(&self, grants: &Grants) -> Vec<(String, String)> {
        let granted = grants.env.iter().filter_map(|name| self.variables.get_key_value(name));
        granted.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The warden.
    #[cfg(feature = "harness")]
    pub(crate) async fn warden(&self) -> Result<&Warden, WardenError> {
        let config = || WardenConfig { program: self.program.clone(), ..WardenConfig::default() };
        self.warden.get_or_try_init(|| Warden::start(config())).await
    }

    /// The engine.
    #[cfg(feature = "guest")]
    pub(crate) async fn guests(&self) -> Result<&Guests, EngineError> {
        let make = || async {
            let live_sessions = u32::try_from(self.places.total()).unwrap_or(u32::MAX);
            let limits = Limits { live_sessions, ..self.limits.clone() };
            let mut config = match self.env.is_simulated() {
                true => GuestConfig::simulated(limits),
                false => GuestConfig::new(limits),
            };
            if let Some(cache) = &self.cache {
                config.cache = cache.clone();
            }
            Guests::new(config)
        };
        self.engine.get_or_try_init(make).await
    }
}

/// Shared by everything in one tree.
pub(crate) struct TreeContext {
    pub(crate) id: TreeId,
    /// Its number within the runtime: what its ids are drawn by.
    pub(crate) number: u64,
    /// The places it holds.
    pub(crate) share: Share,
    /// Where its busy guests run.
    #[cfg(feature = "guest")]
    pub(crate) lane: crate::guest::Lane,
    /// The capsules of the team, by name, ready to run.
    pub(crate) members: BTreeMap<String, Arc<Prepared>>,
}

/// A capsule that can be run at once: its components are compiled and checked.
pub(crate) struct Prepared {
    pub(crate) capsule: Arc<Capsule>,
    pub(crate) agent: Thinker,
    pub(crate) tools: BTreeMap<String, PreparedTool>,
}

impl Prepared {
    /// Whether its grants alone let an agent change the world between two calls: it can write, or reach the network.
    pub(crate) fn changes_world(&self) -> bool {
        self.capsule.grants().change_the_world()
    }

    /// Whether the agent can change the world between two calls: by its grants, or because it is a program.
    pub(crate) fn is_free(&self) -> bool {
        self.changes_world() || self.agent.kind() == AgentKind::Command
    }
}

/// What thinks in a session.
pub(crate) enum Thinker {
    /// A Rust function.
    Native(Arc<dyn Agent>),
    /// A component.
    #[cfg(feature = "guest")]
    Guest(AgentComponent),
    /// A program.
    #[cfg(feature = "harness")]
    Command(Warden, Box<CommandSpec>),
}

impl Thinker {
    pub(crate) fn kind(&self) -> AgentKind {
        match self {
            Self::Native(_) => AgentKind::Native,
            #[cfg(feature = "guest")]
            Self::Guest(_) => AgentKind::Guest,
            #[cfg(feature = "harness")]
            Self::Command(..) => AgentKind::Command,
        }
    }
}

/// A tool that can be called at once.
pub(crate) struct PreparedTool {
    pub(crate) changes_world: bool,
    pub(crate) kind: ToolKind,
}

/// What a tool is.
#[derive(Clone)]
pub(crate) enum ToolKind {
    /// A Rust function.
    Native(crate::capsule::NativeTool),
    /// A component, instantiated anew for each call.
    #[cfg(feature = "guest")]
    Guest(Arc<ToolComponent>),
}
