//! Faults on the way to a process and back: what the kernel can do to a spawn, an exit, a harness and the warden.

use std::time::Duration;

use nix::errno::Errno;

use super::process::{Buried, ExitStatus, Signal, SpawnError, SpawnRequest, SpawnStage, Whom};
use super::run::{Launcher, Proc};
use super::warden::spawn_error;
use crate::fault::Action;

/// What strikes one run: at most one fault at each of its points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFaults {
    /// On the spawn: it fails, or begins late.
    pub spawn: Option<Action>,
    /// On the exit as the run learns of it: it is lost, or late.
    pub exit_status: Option<Action>,
    /// On the spawned process and its group, as soon as it runs: SIGKILL, or SIGSTOP.
    pub harness: Option<Action>,
    /// On the warden, as soon as the process runs: SIGKILL, or SIGSTOP.
    pub warden: Option<Action>,
}

impl RunFaults {
    /// How much later the spawn begins. Waited for by whoever can also be told to stop meanwhile.
    pub fn lateness(&self) -> Option<Duration> {
        match self.spawn {
            Some(Action::Delay(delay)) => Some(delay),
            _ => None,
        }
    }
}

/// Spawns as another launcher does, with faults.
#[derive(Debug)]
pub struct Faulty<'a, L> {
    launcher: &'a L,
    faults: RunFaults,
}

impl<'a, L> Faulty<'a, L> {
    /// Spawns through `launcher`.
    pub fn new(launcher: &'a L, faults: RunFaults) -> Self {
        Self { launcher, faults }
    }
}

/// A process whose exit may be lost or late.
#[derive(Debug)]
pub struct FaultyProc<P> {
    process: P,
    exit_status: Option<Action>,
}

impl<L: Launcher> Launcher for Faulty<'_, L> {
    type Proc = FaultyProc<L::Proc>;

    async fn spawn(&self, request: SpawnRequest) -> Result<Self::Proc, SpawnError> {
        if let Some(Action::Error(reason)) = &self.faults.spawn {
            return Err(injected(&request, reason.as_deref()));
        }
        let process = self.launcher.spawn(request).await?;
        if let Some(signal) = self.faults.harness.as_ref().and_then(signal_of) {
            process.signal(signal, Whom::Group);
        }
        if let Some(signal) = self.faults.warden.as_ref().and_then(signal_of) {
            self.launcher.strike(signal).await;
        }
        Ok(FaultyProc { process, exit_status: self.faults.exit_status.clone() })
    }

    async fn strike(&self, signal: Signal) {
        self.launcher.strike(signal).await;
    }
}

fn signal_of(action: &Action) -> Option<Signal> {
    match action {
        Action::Kill => Some(Signal::Kill),
        Action::Hang => Some(Signal::Stop),
        _ => None,
    }
}

/// The error the system would give: `ENOENT`, `EACCES`, `ETXTBSY`, `EAGAIN` or `EMFILE`; any other text is its own words.
fn injected(request: &SpawnRequest, reason: Option<&str>) -> SpawnError {
    let program = request.argv.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let known = [
        ("ENOENT", SpawnStage::Exec, Errno::ENOENT),
        ("EACCES", SpawnStage::Exec, Errno::EACCES),
        ("ETXTBSY", SpawnStage::Exec, Errno::ETXTBSY),
        ("EAGAIN", SpawnStage::Fork, Errno::EAGAIN),
        ("EMFILE", SpawnStage::Pipes, Errno::EMFILE),
    ];
    match known.into_iter().find(|(name, ..)| Some(*name) == reason) {
        Some((_, stage, errno)) => spawn_error(&program, &request.cwd.display().to_string(), stage, errno),
        None => SpawnError::Other {
            program,
            stage: SpawnStage::Exec,
            reason: reason.unwrap_or("a fault was injected here").to_owned(),
            errno: Errno::EIO as i32,
        },
    }
}

impl<P: Proc> Proc for FaultyProc<P> {
    type Input = P::Input;
    type Output = P::Output;

    fn streams(&mut self) -> (Option<P::Input>, Option<P::Output>, Option<P::Output>) {
        self.process.streams()
    }

    async fn exited(&self) -> ExitStatus {
        let status = self.process.exited().await;
        match self.exit_status {
            Some(Action::Drop) => std::future::pending().await,
            Some(Action::Delay(delay)) => tokio::time::sleep(delay).await,
            _ => {}
        }
        status
    }

    fn signal(&self, signal: Signal, whom: Whom) {
        self.process.signal(signal, whom);
    }

    async fn bury(&self) -> Buried {
        self.process.bury().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{ProcessLimits, RunTag};

    #[test]
    fn the_errors_of_the_system_are_typed_and_name_the_program() {
        let request = SpawnRequest {
            argv: vec!["agent".into()],
            cwd: "/".into(),
            env: Vec::new(),
            tag: RunTag::new([1; 16]),
            limits: ProcessLimits::default(),
        };
        let program = || "agent".to_owned();
        let is = |reason| injected(&request, Some(reason));
        assert_eq!(is("ENOENT"), SpawnError::NotFound { program: program() });
        assert_eq!(is("EACCES"), SpawnError::PermissionDenied { program: program() });
        assert_eq!(is("ETXTBSY"), SpawnError::TextFileBusy { program: program() });
        assert_eq!(is("EAGAIN"), SpawnError::NoProcess { program: program(), stage: SpawnStage::Fork });
        assert_eq!(is("EMFILE"), SpawnError::NoDescriptor { program: program(), stage: SpawnStage::Pipes });
        assert!(is("out of luck").to_string().contains("`agent` could not be started: out of luck"));
        assert!(injected(&request, None).to_string().contains("a fault was injected here"));
    }

    #[test]
    fn only_what_a_signal_can_do_is_a_signal() {
        assert_eq!(signal_of(&Action::Kill), Some(Signal::Kill));
        assert_eq!(signal_of(&Action::Hang), Some(Signal::Stop));
        assert_eq!(signal_of(&Action::Drop), None);
    }
}
