//! The warden: the small, single-threaded helper process that spawns and buries every harness.

use std::path::PathBuf;
use std::time::Duration;

use super::containment::Containment;
use super::process::{Buried, ExitStatus, Process, Signal, SignalError, SpawnError, SpawnRequest, Whom};

/// Where the warden's program is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// This very program, whose `main` calls [`warden_main_if_asked`] first.
    #[default]
    CurrentExe,
    /// Another one that does.
    Path(PathBuf),
}

/// How a warden is started and watched.
#[derive(Clone, Debug)]
pub struct WardenConfig {
    /// Where its program is.
    pub program: Program,
    /// How often it is asked whether it is there.
    pub heartbeat: Duration,
    /// How long it may leave a question unanswered before it is killed and replaced.
    pub silence: Duration,
}

impl Default for WardenConfig {
    fn default() -> Self {
        Self { program: Program::default(), heartbeat: Duration::from_secs(1), silence: Duration::from_secs(5) }
    }
}

/// Why there is no warden.
#[derive(Debug, thiserror::Error)]
pub enum WardenError {
    /// Not built yet.
    #[error("the warden is not there")]
    NotThere,
}

/// The helper process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Warden {
    containment: Containment,
}

impl Warden {
    /// Starts the warden, and sweeps what a treeward that was killed together with its warden left behind.
    pub async fn start(_config: WardenConfig) -> Result<Self, WardenError> {
        Err(WardenError::NotThere)
    }

    /// Spawns a process. When the caller is dropped meanwhile, whatever was spawned is buried.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<Process, SpawnError> {
        let program = request.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Err(SpawnError::WardenStopped { program })
    }

    /// What holds the processes of a run on this machine.
    pub fn containment(&self) -> Containment {
        self.containment.clone()
    }

    /// Buries every process and ends the warden. Resolves when that is confirmed.
    pub async fn stop(self) {}
}

/// A process as the warden's other side holds it.
#[derive(Debug)]
pub(super) struct Grip {}

impl Grip {
    pub(super) async fn exited(&self) -> ExitStatus {
        ExitStatus::Lost
    }

    pub(super) fn signal(&self, _signal: Signal, _whom: Whom) -> Result<(), SignalError> {
        Err(SignalError::Gone)
    }

    pub(super) async fn bury(&self) -> Buried {
        Buried { exit: ExitStatus::Lost, survivors: 0 }
    }
}

/// Runs the warden and does not return, where this process was started as one. The first line of a `main`.
pub fn warden_main_if_asked() {}
