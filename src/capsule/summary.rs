//! What a capsule may do and spend, as plain data to be shown.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::grants::Grants;
use super::team::Team;
use super::terms::CapsuleLimits;
use super::usage::Budget;
use super::value::{Capsule, Component, Run, ToolRun};
use crate::ids::Digest;
use crate::journal::AgentKind;
use crate::supervision::{Rerun, RestartType};

/// A team, its root first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TeamSummary {
    /// The capsule a tree begins with.
    pub root: String,
    /// Every capsule: the root, then the others by name.
    pub capsules: Vec<Summary>,
}

/// One capsule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// Its version; may be empty.
    pub version: String,
    /// What it says it does; may be empty.
    pub description: String,
    /// Over its manifest and its components.
    pub digest: Digest,
    /// What thinks.
    pub agent: AgentKind,
    /// The guest's component, where a guest thinks.
    pub guest: Option<ComponentSummary>,
    /// The program and its arguments, where a program thinks.
    pub command: Option<Vec<String>>,
    /// The manifest keys whose grants this platform does not enforce on what thinks.
    pub not_enforced_here: Vec<&'static str>,
    /// What it may do.
    pub grants: Grants,
    /// Its tools by name.
    pub tools: Vec<ToolSummary>,
    /// Whether anything of this can change something outside treeward.
    pub may_change_world: bool,
    /// What it and all below may spend.
    pub budget: Budget,
    /// Its own limits, where it sets them.
    pub limits: CapsuleLimits,
    /// When it is restarted.
    pub restart: RestartSummary,
}

/// A component file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComponentSummary {
    /// The file.
    pub path: PathBuf,
    /// How many bytes it has.
    pub len: u64,
    /// SHA-256 of them.
    pub digest: Digest,
}

/// A tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolSummary {
    /// Its name.
    pub name: String,
    /// Whether a call may change something outside treeward.
    pub changes_world: bool,
    /// Its component, where it is one.
    pub component: Option<ComponentSummary>,
}

/// Restart rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RestartSummary {
    /// Which exits are followed by a restart.
    #[serde(rename = "type")]
    pub kind: RestartType,
    /// At most so many…
    pub max_restarts: u32,
    /// …within so many milliseconds.
    pub window_ms: u64,
    /// The first wait, in milliseconds.
    pub backoff_initial_ms: u64,
    /// The longest wait, in milliseconds.
    pub backoff_max_ms: u64,
    /// Whether the same task may simply be run again.
    pub rerun: Rerun,
}

impl ComponentSummary {
    fn of(component: &Component) -> Self {
        Self { path: component.path.clone(), len: component.bytes.len() as u64, digest: component.digest }
    }
}

impl Capsule {
    /// What it may do and what it may spend.
    pub fn summary(&self) -> Summary {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let restart = self.restart();
        Summary {
            name: self.name().to_owned(),
            version: self.version().to_owned(),
            description: self.description().to_owned(),
            digest: self.digest(),
            agent: self.kind(),
            guest: match self.run() {
                Run::Guest(component) => Some(ComponentSummary::of(component)),
                Run::Native(_) | Run::Command(_) => None,
            },
            command: match self.run() {
                Run::Command(command) => Some(command.argv.clone()),
                Run::Guest(_) | Run::Native(_) => None,
            },
            not_enforced_here: match self.run() {
                Run::Guest(_) => Vec::new(),
                Run::Command(_) => vec!["grants.read", "grants.write", "grants.network"],
                Run::Native(_) => vec!["grants.read", "grants.write", "grants.env", "grants.network"],
            },
            grants: self.grants().clone(),
            tools: self
                .tools()
                .iter()
                .map(|(name, tool)| ToolSummary {
                    name: name.clone(),
                    changes_world: tool.changes_world,
                    component: match &tool.run {
                        ToolRun::Component(component) => Some(ComponentSummary::of(component)),
                        ToolRun::Native(_) => None,
                    },
                })
                .collect(),
            may_change_world: self.may_change_world(),
            budget: *self.budget(),
            limits: *self.limits(),
            restart: RestartSummary {
                kind: restart.restart(),
                max_restarts: restart.intensity().max_restarts(),
                window_ms: millis(restart.intensity().window()),
                backoff_initial_ms: millis(restart.backoff().initial()),
                backoff_max_ms: millis(restart.backoff().max()),
                rerun: restart.rerun(),
            },
        }
    }
}

impl Team {
    /// What every member may do and spend, the root first.
    pub fn summary(&self) -> TeamSummary {
        let others = self.members().values().filter(|member| member.name() != self.root().name());
        TeamSummary {
            root: self.root().name().to_owned(),
            capsules: [self.root()].into_iter().chain(others).map(|member| member.summary()).collect(),
        }
    }
}
