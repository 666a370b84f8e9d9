//! Makes a team ready to run: every component compiled and checked before anything of a tree starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::context::{Prepared, PreparedTool, Shared, Thinker, ToolKind};
use crate::capsule::{Capsule, Run, Team, ToolRun};

/// Why a team cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A component is not what it should be.
    #[cfg(feature = "guest")]
    #[error(transparent)]
    Component(#[from] crate::guest::ComponentError),
    /// The engine for guests could not be set up.
    #[cfg(feature = "guest")]
    #[error(transparent)]
    Engine(#[from] crate::guest::EngineError),
    /// A capsule has a component and this build has no engine.
    #[error("capsule `{capsule}` needs WebAssembly: build with the feature `guest`")]
    NoGuests {
        /// Its name.
        capsule: String,
    },
    /// A capsule sets a limit above the runtime's.
    #[error(
        "capsule `{capsule}`: {key} is {asked} bytes and this runtime's {limit} is {most}: lower the one or raise the other"
    )]
    AboveLimit {
        /// Its name.
        capsule: String,
        /// The manifest key.
        key: &'static str,
        /// What it says there.
        asked: u64,
        /// The runtime's limit.
        limit: &'static str,
        /// What that is.
        most: u64,
    },
    /// A simulation has no processes and no network: time does not pass while it waits for them.
    #[error("capsule `{capsule}` needs {what}, which a simulation does not have: run it without one")]
    Simulated {
        /// Its name.
        capsule: String,
        /// What it needs.
        what: &'static str,
    },
    /// The warden could not be started.
    #[cfg(feature = "harness")]
    #[error(transparent)]
    Warden(#[from] crate::harness::WardenError),
    /// A capsule is a program and this build cannot run one.
    #[error("capsule `{capsule}` is a program: build with the feature `harness`")]
    NoCommands {
        /// Its name.
        capsule: String,
    },
}

/// Prepares every capsule of `team`.
pub(crate) async fn prepare(shared: &Shared, team: &Team) -> Result<BTreeMap<String, Arc<Prepared>>, PrepareError> {
    let mut members = BTreeMap::new();
    for (name, capsule) in team.members() {
        members.insert(name.clone(), Arc::new(one(shared, capsule).await?));
    }
    Ok(members)
}

async fn one(shared: &Shared, capsule: &Arc<Capsule>) -> Result<Prepared, PrepareError> {
    let most = shared.limits.guest_memory;
    if let Some(asked) = capsule.limits().memory.filter(|&asked| asked > most) {
        let (key, limit) = ("limits.memory", "limits.guest.memory");
        return Err(PrepareError::AboveLimit { capsule: capsule.name().to_owned(), key, asked, limit, most });
    }
    let needs = match (capsule.run(), capsule.grants().network.is_empty()) {
        (Run::Command(_), _) => Some("a process"),
        (_, false) => Some("the network"),
        (_, true) => None,
    };
    if let Some(what) = needs.filter(|_| shared.env.is_simulated()) {
        return Err(PrepareError::Simulated { capsule: capsule.name().to_owned(), what });
    }
    let agent = match capsule.run() {
        Run::Native(agent) => Thinker::Native(agent.clone()),
        Run::Guest(component) => guest(shared, capsule, component).await?,
        Run::Command(command) => program(shared, capsule, command).await?,
    };
    let mut tools = BTreeMap::new();
    for (name, tool) in capsule.tools() {
        let kind = match &tool.run {
            ToolRun::Native(native) => ToolKind::Native(native.clone()),
            ToolRun::Component(component) => guest_tool(shared, capsule, component).await?,
        };
        tools.insert(name.clone(), PreparedTool { changes_world: tool.changes_world, kind });
    }
    Ok(Prepared { capsule: capsule.clone(), agent, tools })
}

#[cfg(feature = "harness")]
async fn program(
    shared: &Shared,
    capsule: &Capsule,
    command: &crate::capsule::CommandLine,
) -> Result<Thinker, PrepareError> {
    let mut spec = crate::harness::run::CommandSpec::new(command.clone());
    // What calls back from inside is this very program, where this very program is treeward's own.
    spec.treeward = shared.program.treeward();
    spec.limits.memory = capsule.limits().memory;
    Ok(Thinker::Command(shared.warden().await?.clone(), Box::new(spec)))
}

#[cfg(not(feature = "harness"))]
async fn program(_: &Shared, capsule: &Capsule, _: &crate::capsule::CommandLine) -> Result<Thinker, PrepareError> {
    Err(PrepareError::NoCommands { capsule: capsule.name().to_owned() })
}

#[cfg(feature = "guest")]
async fn guest(
    shared: &Shared,
    capsule: &Capsule,
    component: &crate::capsule::Component,
) -> Result<Thinker, PrepareError> {
    let bytes = bytes::Bytes::from_owner(component.bytes.clone());
    let file = component.path.display().to_string();
    let guests = shared.guests().await?;
    Ok(Thinker::Guest(guests.load_agent(&file, bytes, allowed(capsule)).await?))
}

#[cfg(feature = "guest")]
async fn guest_tool(
    shared: &Shared,
    capsule: &Capsule,
    component: &crate::capsule::Component,
) -> Result<ToolKind, PrepareError> {
    use crate::agent::Session;
    use crate::guest::Confinement;
    use crate::ids::{SessionPath, Strand};

    let bytes = bytes::Bytes::from_owner(component.bytes.clone());
    let file = component.path.display().to_string();
    let guests = shared.guests().await?;
    let limits = &shared.limits;
    let chance = shared.env.chance(&SessionPath::root(), 0, Strand::Tree);
    let nothing = Confinement::nothing(limits.guest_memory, limits.gate, shared.env.clone(), chance);
    let session = Session::new(Arc::new(super::guests::Nobody), SessionPath::root(), limits.credit);
    let tool = guests.load_tool(&file, bytes, allowed(capsule), session, nothing).await?;
    Ok(ToolKind::Guest(Arc::new(tool)))
}

#[cfg(feature = "guest")]
fn allowed(capsule: &Capsule) -> crate::guest::Allowed {
    crate::guest::Allowed { network: !capsule.grants().network.is_empty() }
}

#[cfg(not(feature = "guest"))]
async fn guest(_: &Shared, capsule: &Capsule, _: &crate::capsule::Component) -> Result<Thinker, PrepareError> {
    Err(PrepareError::NoGuests { capsule: capsule.name().to_owned() })
}

#[cfg(not(feature = "guest"))]
async fn guest_tool(_: &Shared, capsule: &Capsule, _: &crate::capsule::Component) -> Result<ToolKind, PrepareError> {
    Err(PrepareError::NoGuests { capsule: capsule.name().to_owned() })
}
