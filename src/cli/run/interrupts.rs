//! Ctrl-C, once and twice.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cli::exit::Exit;

/// From the second interrupt to the end of the process, whatever still blocks it (a pipe nobody reads).
const LAST_RESORT: Duration = Duration::from_secs(3);

/// How often the user asked for the end: with Ctrl-C, SIGTERM, or by closing the terminal.
pub struct Interrupts {
    count: watch::Receiver<u32>,
    /// The task that listens; it ends with this.
    _listener: JoinSet<()>,
}

impl Interrupts {
    /// Listens from now on; the signals no longer end the process by themselves.
    pub fn listen() -> std::io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let (sender, count) = watch::channel(0);
        let mut listener = JoinSet::new();
        listener.spawn(async move {
            loop {
                tokio::select! { biased;
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                sender.send_modify(|count| *count += 1);
                if *sender.borrow() >= 2 {
                    tokio::time::sleep(LAST_RESORT).await;
                    std::process::exit(Exit::Interrupted.code().into());
                }
            }
        });
        Ok(Self { count, _listener: listener })
    }

    /// How often so far.
    pub fn count(&self) -> u32 {
        *self.count.borrow()
    }

    /// Resolves at the next one, with how many there were.
    ///
    /// # Cancel safety
    /// Dropped, it forgets nothing: the next call sees what came meanwhile.
    pub async fn next(&mut self) -> u32 {
        if self.count.changed().await.is_err() {
            return std::future::pending().await;
        }
        *self.count.borrow_and_update()
    }
}
