//! What the run needs of a process, so that a scripted one can stand in for a real one.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;

use crate::harness::{Buried, ExitStatus, Process, Signal, SpawnError, SpawnRequest, Warden, Whom};

/// A process's standard input, output and error, as far as they were not given away yet.
pub type Streams<I, O> = (Option<I>, Option<O>, Option<O>);

/// A spawned process.
pub trait Proc: Send + Sync + 'static {
    /// What it reads.
    type Input: AsyncWrite + Unpin + Send + 'static;
    /// What it writes.
    type Output: AsyncRead + Unpin + Send + 'static;

    /// Its standard input, output and error; each is given once.
    fn streams(&mut self) -> Streams<Self::Input, Self::Output>;
    /// How it ended; see [`Process::exited`].
    fn exited(&self) -> impl Future<Output = ExitStatus> + Send;
    /// Sends a signal; one to what is gone is none.
    fn signal(&self, signal: Signal, whom: Whom);
    /// Kills all of it; see [`Process::bury`].
    fn bury(&self) -> impl Future<Output = Buried> + Send;
}

/// What spawns processes.
pub trait Launcher: Send + Sync {
    /// What it spawns.
    type Proc: Proc;

    /// Spawns a process. When this is dropped meanwhile, whatever was spawned is buried.
    fn spawn(&self, request: SpawnRequest) -> impl Future<Output = Result<Self::Proc, SpawnError>> + Send;

    /// Sends a signal to the helper that spawns, where there is one: a fault.
    fn strike(&self, _signal: Signal) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

impl Proc for Process {
    type Input = pipe::Sender;
    type Output = pipe::Receiver;

    fn streams(&mut self) -> Streams<pipe::Sender, pipe::Receiver> {
        (self.stdin.take(), self.stdout.take(), self.stderr.take())
    }

    async fn exited(&self) -> ExitStatus {
        Process::exited(self).await
    }

    fn signal(&self, signal: Signal, whom: Whom) {
        // What is gone already needs no signal; a refusal shows in that it does not go, and burying follows.
        let _gone = Process::signal(self, signal, whom);
    }

    async fn bury(&self) -> Buried {
        Process::bury(self).await
    }
}

impl Launcher for Warden {
    type Proc = Process;

    async fn spawn(&self, request: SpawnRequest) -> Result<Process, SpawnError> {
        Warden::spawn(self, request).await
    }

    async fn strike(&self, signal: Signal) {
        Warden::strike(self, signal).await;
    }
}
