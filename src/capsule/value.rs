//! A capsule as a validated value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use super::builder::Builder;
use super::grants::Grants;
use super::terms::{CapsuleLimits, Invalid, MOST_ENTRIES, Terms};
use super::usage::Budget;
use crate::agent::{Agent, Session, Task};
use crate::ids::Digest;
use crate::journal::AgentKind;
use crate::supervision::RestartSpec;

/// A packaged agent: what thinks, what it may do and what it may spend. Immutable.
#[derive(Debug)]
pub struct Capsule {
    terms: Terms,
    run: Run,
    tools: BTreeMap<String, Tool>,
    digest: Digest,
}

/// What thinks in a session of a capsule.
#[derive(Clone)]
pub enum Run {
    /// A WebAssembly component.
    Guest(Component),
    /// A Rust function of the embedder.
    Native(Arc<dyn Agent>),
    /// A program, run as a subprocess.
    Command(CommandLine),
}

/// A program of a capsule. Neither its files nor its network are confined: the manifest had to say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The capsule's directory, in which it starts; absolute.
    pub directory: PathBuf,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guest(component) => f.debug_tuple("Guest").field(component).finish(),
            Self::Native(_) => f.write_str("Native"),
            Self::Command(command) => command.fmt(f),
        }
    }
}

/// A component file of a capsule, as it was when the capsule was loaded. Whether its bytes are a component is not
/// judged here.
#[derive(Clone, PartialEq, Eq)]
pub struct Component {
    /// The file, for messages.
    pub path: PathBuf,
    /// SHA-256 of its bytes: the name it is cached by.
    pub digest: Digest,
    /// What it holds.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Component({}, {} B, {})", self.path.display(), self.bytes.len(), self.digest)
    }
}

/// A tool of a capsule. Every call of it goes through the gate.
#[derive(Clone, Debug)]
pub struct Tool {
    /// What answers a call.
    pub run: ToolRun,
    /// Whether a call may change something outside treeward: where it may, a failed task is not simply run again.
    pub changes_world: bool,
}

/// What answers a tool's calls.
#[derive(Clone)]
pub enum ToolRun {
    /// A WebAssembly component.
    Component(Component),
    /// A Rust function of the embedder: the input, and the result or what went wrong.
    Native(NativeTool),
}

/// A tool as a Rust function.
pub type NativeTool = Arc<dyn Fn(String) -> ToolRunning + Send + Sync>;

/// A running call of a [`NativeTool`].
pub type ToolRunning = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

impl fmt::Debug for ToolRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Component(component) => component.fmt(f),
            Self::Native(_) => f.write_str("Native"),
        }
    }
}

impl Capsule {
    /// Begins a capsule whose agent is a Rust function. It is granted nothing until it is said; see [`Builder`].
    pub fn native<F, R>(name: impl Into<String>, agent: F) -> Builder
    where
        F: Fn(Session, Task) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, String>> + Send + 'static,
    {
        Builder::new(name.into(), Arc::new(agent))
    }

    /// Begins a capsule whose agent is a Rust value.
    pub fn agent(name: impl Into<String>, agent: Arc<dyn Agent>) -> Builder {
        Builder::new(name.into(), agent)
    }

    pub(crate) fn new(
        terms: Terms,
        run: Run,
        tools: BTreeMap<String, Tool>,
        manifest: Option<Digest>,
    ) -> Result<Self, Invalid> {
        terms.check()?;
        if tools.len() > MOST_ENTRIES {
            return Err(Invalid::new("tools", format!("{} tools; at most {MOST_ENTRIES}", tools.len())));
        }
        for name in tools.keys() {
            super::name::check_name(name).map_err(|bad| Invalid::new("tools", bad))?;
        }
        let digest = digest(&terms, &run, &tools, manifest);
        Ok(Self { terms, run, tools, digest })
    }

    /// Its name, by which delegators and records know it.
    pub fn name(&self) -> &str {
        &self.terms.name
    }

    /// Its version, as its author wrote it; may be empty.
    pub fn version(&self) -> &str {
        &self.terms.version
    }

    /// What it says it does; may be empty.
    pub fn description(&self) -> &str {
        &self.terms.description
    }

    /// What thinks.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The same as a record names it.
    pub fn kind(&self) -> AgentKind {
        match self.run {
            Run::Guest(_) => AgentKind::Guest,
            Run::Native(_) => AgentKind::Native,
            Run::Command(_) => AgentKind::Command,
        }
    }

    /// What it may touch.
    pub fn grants(&self) -> &Grants {
        &self.terms.grants
    }

    /// Its tools by name.
    pub fn tools(&self) -> &BTreeMap<String, Tool> {
        &self.tools
    }

    /// The ceilings of its own manifest, for a session of it and all below.
    pub fn budget(&self) -> &Budget {
        &self.terms.budget
    }

    /// The limits of its sessions.
    pub fn limits(&self) -> &CapsuleLimits {
        &self.terms.limits
    }

    /// When a session of it is restarted.
    pub fn restart(&self) -> &RestartSpec {
        &self.terms.restart
    }

    /// What it is, as one digest: over its manifest and its components.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether anything it was granted lets it change something outside treeward. A program always can.
    pub fn may_change_world(&self) -> bool {
        matches!(self.run, Run::Command(_))
            || self.terms.grants.change_the_world()
            || self.tools.values().any(|tool| tool.changes_world)
    }
}

/// Over names and digests of fixed spelling, one a line: two different capsules never spell the same.
fn digest(terms: &Terms, run: &Run, tools: &BTreeMap<String, Tool>, manifest: Option<Digest>) -> Digest {
    let mut text = format!("treeward capsule 1\n{}\n", terms.name);
    match manifest {
        Some(manifest) => text.push_str(&format!("manifest {manifest}\n")),
        // A native agent has no file; what can be told of it is what was declared.
        None => text.push_str(&format!("native {terms:?}\n")),
    }
    match run {
        Run::Guest(component) => text.push_str(&format!("guest {}\n", component.digest)),
        Run::Command(command) => text.push_str(&format!("command {:?}\n", command.argv)),
        Run::Native(_) => {}
    }
    for (name, tool) in tools {
        let of = match &tool.run {
            ToolRun::Component(component) => component.digest.to_string(),
            ToolRun::Native(_) => format!("native {}", tool.changes_world),
        };
        text.push_str(&format!("tool {name} {of}\n"));
    }
    Digest::of(text.as_bytes())
}
