//! treeward's hold on the warden's process: started, asked, killed, reaped.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use tokio::io::unix::AsyncFd;

use super::trial::isolation_word;
use super::wire::Link;
use super::{HIDDEN_WORD, Program, WardenError, sys};
use crate::harness::containment::Isolation;
use crate::harness::identity::{RunTag, TAG_VARIABLE};

/// The warden's process.
#[derive(Debug)]
pub(super) struct Helper {
    child: Option<Child>,
    pidfd: AsyncFd<OwnedFd>,
}

impl Helper {
    /// Starts one, with its end of the socket as standard input. The standard library uses posix_spawn for this: it costs
    /// the same whatever the size of this process.
    #[expect(clippy::disallowed_methods, reason = "the one process that treeward starts itself")]
    pub(super) fn start(program: &Program, at_most: Isolation) -> Result<(Self, AsyncFd<Link>), WardenError> {
        let path = match program {
            // Also when the file was replaced or deleted meanwhile: the very program that runs here.
            Program::CurrentExe => "/proc/self/exe".into(),
            Program::Path(path) => path.clone(),
        };
        let failed = |source| WardenError::Start { program: path.display().to_string(), source };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (mine, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)
            .map_err(|errno| failed(io::Error::from(errno)))?;
        let mut command = Command::new(&path);
        command.arg0("treeward").arg(HIDDEN_WORD).arg(isolation_word(at_most));
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        command.env_clear().env(TAG_VARIABLE, RunTag::of_a_warden().as_str());
        // An embedder's program may not load without it.
        if let Some(libraries) = std::env::var_os("LD_LIBRARY_PATH") {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        let child = command.spawn().map_err(failed)?;
        // Closes this process's copy of the warden's end, without which the warden's death would not close the socket.
        drop(command);
        // Not reaped before the handle is dropped, so this is that child and nobody else.
        let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
        let mut helper = Reaped(Some(child));
        let pidfd = sys::pidfd_open(pid).map_err(|errno| failed(errno.into()))?;
        let pidfd = sys::registered(pidfd).map_err(failed)?;
        let link = sys::registered(Link::new(mine)).map_err(failed)?;
        Ok((Self { child: helper.0.take(), pidfd }, link))
    }

    /// Resolves when it is dead. Cancel safe.
    pub(super) async fn died(&self) {
        // An error can only come from a reactor that is shut down, where nobody waits any more.
        let _readable = self.pidfd.readable().await;
    }

    pub(super) fn signal(&self, signal: Signal) {
        let _dead = sys::pidfd_signal(self.pidfd.get_ref().as_fd(), Some(signal), false);
    }

    /// Kills it and takes it away.
    pub(super) async fn end(mut self) {
        self.signal(Signal::SIGKILL);
        self.died().await;
        if let Some(mut child) = self.child.take() {
            // It is dead: this does not wait. An embedder that reaps every child may have been first.
            let _reaped = child.wait();
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(Reaped(self.child.take()));
    }
}

/// Takes a child away when it ends by itself, which it does when its socket closes: nobody else may be left to.
struct Reaped(Option<Child>);

impl Drop for Reaped {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        if matches!(child.try_wait(), Ok(None)) {
            let _waits = std::thread::Builder::new().name("treeward-reaper".into()).spawn(move || child.wait());
        }
    }
}
