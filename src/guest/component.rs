//! Loading components: what they must be, what they may import, and the errors that say so.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime::component::{Component, InstancePre};

use super::bindings::treeward::agent::types;
use super::bindings::{AgentPre, tool::ToolPre};
use super::engine::{Guests, Inner};
use super::run::{Exit, GuestFault, run};
use super::state::Guest;
use super::wasi::Confinement;
use crate::agent::{Session, Task};

/// Bytes of a component file; a Python guest has some 20 MB.
const LARGEST: usize = 256 << 20;
/// Tools one component may offer, and bytes of what it says of each.
const TOOLS: usize = 256;
const TOOL_TEXT: usize = 64 << 10;

/// What a capsule's grants allow its components to import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Whether `grants.network` lists any host.
    pub network: bool,
}

/// A component is not what it must be. Every variant names the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComponentError {
    /// It is neither a component nor its text form.
    #[error("{file} is not a WebAssembly component: {why}; build it for wasm32-wasip2, or write it as WAT text")]
    NotWasm {
        /// The file.
        file: String,
        /// What it looks like.
        why: String,
    },
    /// It is larger than any component is taken.
    #[error("{file} has {bytes} bytes; a component has at most {LARGEST}")]
    TooLarge {
        /// The file.
        file: String,
        /// How many it has.
        bytes: usize,
    },
    /// It is a core module.
    #[error("{file} is a core module, not a component: run `wasm-tools component new {file} -o OUT.wasm`")]
    CoreModule {
        /// The file.
        file: String,
    },
    /// It begins like a component but does not hold together.
    #[error("{file} is damaged or uses what is not supported here: {why}; build it again")]
    Broken {
        /// The file.
        file: String,
        /// What is wrong, and where.
        why: String,
    },
    /// It does not export what its world asks for.
    #[error("{file} is not of the world `{world}` (wit/treeward.wit): {why}")]
    World {
        /// The file.
        file: String,
        /// The world it was loaded for.
        world: &'static str,
        /// What is missing or different.
        why: String,
    },
    /// It imports what its capsule was not granted.
    #[error("{file} imports `{import}`, which its capsule is not granted: add hosts under {key}, or build it without")]
    NotGranted {
        /// The file.
        file: String,
        /// The import.
        import: String,
        /// The manifest key that grants it.
        key: &'static str,
    },
    /// It imports what no grant gives.
    #[error("{file} imports `{import}`, which no grant gives: {why}")]
    Unknown {
        /// The file.
        file: String,
        /// The import.
        import: String,
        /// What there is instead.
        why: &'static str,
    },
    /// Its description of its tools is not usable.
    #[error("{file} does not describe its tools: {why}")]
    Describe {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
}

/// One tool a component offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolInfo {
    /// Its name, unlike that of any other in the component.
    pub name: String,
    /// What it does, in its own words: untrusted text.
    pub description: String,
    /// The JSON Schema of its input: a JSON object, not otherwise checked.
    pub input_schema: String,
}

/// A loaded component of the world `agent`. Cheap to clone; it holds no instance.
#[derive(Clone)]
pub struct AgentComponent {
    inner: Arc<Inner>,
    pre: AgentPre<Guest>,
}

/// A loaded component of the world `tool`. Cheap to clone; it holds no instance.
#[derive(Clone)]
pub struct ToolComponent {
    inner: Arc<Inner>,
    pre: ToolPre<Guest>,
    tools: Arc<[ToolInfo]>,
}

impl std::fmt::Debug for AgentComponent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AgentComponent")
    }
}

impl std::fmt::Debug for ToolComponent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolComponent").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl Guests {
    /// Loads a component of the world `agent`: binary, or WAT text. `file` is how errors call it.
    ///
    /// Compiles away from the caller's thread, except in simulation. Given up, the compilation ends by itself.
    pub async fn load_agent(
        &self,
        file: &str,
        bytes: Bytes,
        allowed: Allowed,
    ) -> Result<AgentComponent, ComponentError> {
        let pre = self.load(file, bytes, allowed, "agent").await?;
        let pre = AgentPre::new(pre).map_err(|error| world(file, "agent", &error))?;
        Ok(AgentComponent { inner: self.inner().clone(), pre })
    }

    /// Loads a component of the world `tool` and has it describe its tools, in `confinement`.
    pub async fn load_tool(
        &self,
        file: &str,
        bytes: Bytes,
        allowed: Allowed,
        session: Session,
        confinement: Confinement,
    ) -> Result<ToolComponent, ComponentError> {
        let pre = self.load(file, bytes, allowed, "tool").await?;
        let pre = ToolPre::new(pre).map_err(|error| world(file, "tool", &error))?;
        let mut described = None;
        let exit = run(self.inner(), pre.instance_pre(), session, confinement, None, async |store, instance| {
            let tool = super::bindings::tool::Tool::new(&mut *store, &instance)?;
            described = Some(tool.call_describe(store).await?);
            Ok(Ok(String::new()))
        })
        .await;
        let describe = |why| ComponentError::Describe { file: file.to_owned(), why };
        // Its running time is not a capsule's here.
        let why = || exit.detail().unwrap_or_default().replace("limits.running", "limits.gate");
        let Some(tools) = described else { return Err(describe(why())) };
        let tools = checked(tools).map_err(describe)?;
        Ok(ToolComponent { inner: self.inner().clone(), pre, tools: tools.into() })
    }

    async fn load(
        &self,
        file: &str,
        bytes: Bytes,
        allowed: Allowed,
        world: &'static str,
    ) -> Result<InstancePre<Guest>, ComponentError> {
        let inner = self.inner().clone();
        let name = file.to_owned();
        let compile = move || compile(&inner, &name, &bytes);
        let component = if self.inner().simulated {
            compile()?
        } else {
            let broken =
                |why: tokio::task::JoinError| ComponentError::Broken { file: file.to_owned(), why: why.to_string() };
            tokio::task::spawn_blocking(compile).await.map_err(broken)??
        };
        check_imports(self.inner(), file, &component, allowed, world)?;
        let linker = if world == "agent" { &self.inner().agents } else { &self.inner().tools };
        linker.instantiate_pre(&component).map_err(|error| ComponentError::World {
            file: file.to_owned(),
            world,
            why: format!("an import is not as the world has it: {error:#}"),
        })
    }
}

fn compile(inner: &Inner, file: &str, bytes: &[u8]) -> Result<Component, ComponentError> {
    let file = || file.to_owned();
    if bytes.len() > LARGEST {
        return Err(ComponentError::TooLarge { file: file(), bytes: bytes.len() });
    }
    let text = match kind(bytes) {
        Kind::Component => false,
        Kind::Text => true,
        Kind::CoreModule => return Err(ComponentError::CoreModule { file: file() }),
        Kind::Other(why) => return Err(ComponentError::NotWasm { file: file(), why: why.to_owned() }),
    };
    inner.compile(bytes).map_err(|error| {
        let why = format!("{error:#}");
        if text && why.contains("WebAssembly module") {
            ComponentError::CoreModule { file: file() }
        } else if text {
            ComponentError::NotWasm { file: file(), why }
        } else {
            ComponentError::Broken { file: file(), why }
        }
    })
}

enum Kind {
    Component,
    CoreModule,
    Text,
    Other(&'static str),
}

fn kind(bytes: &[u8]) -> Kind {
    match bytes {
        [] => Kind::Other("it is empty"),
        // The version says which of the two it is: 1 for a module, 13 in layer 1 for a component.
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Kind::CoreModule,
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => Kind::Component,
        [0, b'a', b's', b'm', ..] => Kind::Other("it is cut short, or of an unknown version"),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) if text.contains('(') => Kind::Text,
            Ok(_) => Kind::Other("it is some other text"),
            Err(_) => Kind::Other("it is some other file"),
        },
    }
}

fn check_imports(
    inner: &Inner,
    file: &str,
    component: &Component,
    allowed: Allowed,
    world: &'static str,
) -> Result<(), ComponentError> {
    for (import, _) in component.component_type().imports(&inner.engine) {
        let unknown = |why| ComponentError::Unknown { file: file.to_owned(), import: import.to_owned(), why };
        let (interface, version) = import.split_once('@').unwrap_or((import, ""));
        let package = interface.split_once('/').map_or("", |(package, _)| package);
        match package {
            "treeward:agent" if !version.starts_with("0.1.") => {
                return Err(unknown("this treeward has treeward:agent@0.1.x; build it against wit/treeward.wit"));
            }
            "treeward:agent" if interface.ends_with("/session") && world == "tool" => {
                return Err(unknown("a tool has no session; the agent that calls it has"));
            }
            "treeward:agent" => {}
            "wasi:http" if !allowed.network => {
                return Err(ComponentError::NotGranted {
                    file: file.to_owned(),
                    import: import.to_owned(),
                    key: "grants.network",
                });
            }
            "wasi:io" | "wasi:clocks" | "wasi:random" | "wasi:cli" | "wasi:filesystem" | "wasi:sockets"
            | "wasi:http" => {
                if !version.starts_with("0.2.") {
                    return Err(unknown("this treeward has WASI 0.2; build it for wasm32-wasip2"));
                }
            }
            _ => return Err(unknown("there is treeward:agent/session, wasi:* 0.2, and with grants.network wasi:http")),
        }
    }
    Ok(())
}

fn world(file: &str, world: &'static str, error: &wasmtime::Error) -> ComponentError {
    ComponentError::World { file: file.to_owned(), world, why: format!("{error:#}") }
}

fn checked(described: Vec<types::ToolInfo>) -> Result<Vec<ToolInfo>, String> {
    if described.is_empty() || described.len() > TOOLS {
        return Err(format!("it offers {} tools, and 1 to {TOOLS} can be", described.len()));
    }
    let mut tools: Vec<ToolInfo> = Vec::with_capacity(described.len());
    for types::ToolInfo { name, description, input_schema } in described {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        if !plain || !(1..=64).contains(&name.len()) {
            let shown: String = name.chars().take(64).collect();
            return Err(format!("`{shown}` cannot name a tool: use letters, digits, `-` and `_`, at most 64"));
        }
        if tools.iter().any(|tool| tool.name == name) {
            return Err(format!("it offers two tools named `{name}`"));
        }
        if description.len() + input_schema.len() > TOOL_TEXT {
            return Err(format!("what it says of `{name}` is longer than {TOOL_TEXT} bytes"));
        }
        if serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&input_schema).is_err() {
            return Err(format!("the input schema of `{name}` is not a JSON object"));
        }
        tools.push(ToolInfo { name, description, input_schema });
    }
    Ok(tools)
}

impl AgentComponent {
    /// Works on `task` in a fresh instance.
    ///
    /// # Cancel safety
    /// Dropping the future ends the guest: at once where it waits, within 10 ms where it runs. Its delegations are
    /// cancelled with it.
    /// # Restart
    /// Nothing is kept between two runs but what the guest had recorded.
    pub async fn run(&self, session: Session, task: Task, confinement: Confinement, fault: Option<GuestFault>) -> Exit {
        let task = types::Task { text: task.text };
        run(&self.inner, self.pre.instance_pre(), session, confinement, fault, async |store, instance| {
            let agent = super::bindings::Agent::new(&mut *store, &instance)?;
            agent.call_run(store, &task).await
        })
        .await
    }
}

impl ToolComponent {
    /// What it offers, as it said when it was loaded.
    pub fn tools(&self) -> &[ToolInfo] {
        &self.tools
    }

    /// Runs one of its tools in a fresh instance. `session` is only asked about outgoing HTTP.
    ///
    /// # Cancel safety
    /// As [`AgentComponent::run`].
    pub async fn call(
        &self,
        session: Session,
        name: &str,
        input: &str,
        confinement: Confinement,
        fault: Option<GuestFault>,
    ) -> Exit {
        run(&self.inner, self.pre.instance_pre(), session, confinement, fault, async |store, instance| {
            let tool = super::bindings::tool::Tool::new(&mut *store, &instance)?;
            tool.call_call(store, name, input).await
        })
        .await
    }
}
