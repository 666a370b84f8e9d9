//! treeward's hold on one process.

use std::os::fd::{AsFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use tokio::sync::{mpsc, watch};

use super::sys;
use super::wire::RunId;
use crate::harness::identity::Identity;
use crate::harness::process::{Buried, ExitStatus, Signal, SignalError, Whom};

/// What is known of how a process ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fate {
    pub(super) exit: Option<ExitStatus>,
    pub(super) buried: Option<Buried>,
}

/// Asks for the burial of one process when sent.
pub(super) type Undertaker = mpsc::UnboundedSender<RunId>;

/// A live process, or what is known of a dead one. Dropping it buries it.
#[derive(Debug)]
pub(in crate::harness) struct Grip {
    run: RunId,
    identity: Identity,
    pidfd: OwnedFd,
    fate: watch::Receiver<Fate>,
    undertaker: Undertaker,
    /// A burial is asked for once: this bounds the queue by the live processes.
    asked: std::sync::Once,
}

impl Grip {
    pub(super) fn new(
        run: RunId,
        identity: Identity,
        pidfd: OwnedFd,
        fate: watch::Receiver<Fate>,
        undertaker: Undertaker,
    ) -> Self {
        Self { run, identity, pidfd, fate, undertaker, asked: std::sync::Once::new() }
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(in crate::harness) async fn exited(&self) -> ExitStatus {
        let mut fate = self.fate.clone();
        let known = fate.wait_for(|fate| fate.exit.is_some()).await;
        known.ok().and_then(|fate| fate.exit).unwrap_or(ExitStatus::Lost)
    }

    pub(in crate::harness) fn signal(&self, signal: Signal, whom: Whom) -> Result<(), SignalError> {
        if self.fate.borrow().buried.is_some() {
            return Err(SignalError::Gone);
        }
        let (pidfd, signal) = (self.pidfd.as_fd(), signal.raw());
        let sent = match whom {
            Whom::Leader => sys::pidfd_signal(pidfd, Some(signal), false),
            Whom::Group => match sys::pidfd_signal(pidfd, Some(signal), true) {
                // An older kernel. The leader is not reaped before its burial, so while a signal could be sent to it the
                // group's number is its own.
                Err(Errno::EINVAL) => sys::pidfd_signal(pidfd, None, false).and_then(|()| {
                    if self.identity.holds() {
                        killpg(Pid::from_raw(self.identity.pid), signal)
                    } else {
                        Err(Errno::ESRCH)
                    }
                }),
                sent => sent,
            },
        };
        sent.map_err(|errno| match errno {
            Errno::ESRCH => SignalError::Gone,
            errno => SignalError::Refused(errno as i32),
        })
    }

    pub(in crate::harness) async fn bury(&self) -> Buried {
        self.ask();
        let mut fate = self.fate.clone();
        let known = fate.wait_for(|fate| fate.buried.is_some()).await;
        let buried = known.ok().and_then(|fate| fate.buried);
        match buried {
            Some(buried) => buried,
            // The runtime is being shut down, and nobody is left to confirm anything.
            None => std::future::pending().await,
        }
    }

    fn ask(&self) {
        self.asked.call_once(|| {
            // Refused only when the watch is over, and everything with it.
            let _over = self.undertaker.send(self.run);
        });
    }
}

impl Drop for Grip {
    fn drop(&mut self) {
        self.ask();
    }
}
