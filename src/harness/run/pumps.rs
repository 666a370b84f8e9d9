//! The three pumps of a process: each an owned task, so that none can block another, or a stop.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::tail::Tail;
use crate::tree::owned::Owned;

/// How much is read at once.
const PIECE: usize = 64 << 10;
/// Pieces a pump holds that were not taken, beside the one in its hand: 1 MiB in all.
const PIECES: usize = 15;
/// Writes that wait for a harness to read.
const WRITES: usize = 64;
/// After the exit, what was written is read until nothing more comes for this long.
const QUIET: Duration = Duration::from_millis(20);
/// A pipe holds no more than this, so all that was written before the exit is in the first of it.
const PIPE: usize = 1 << 20;

/// After the exit: until when more output is waited for.
pub(super) type Draining = watch::Receiver<Option<Instant>>;

/// What is written to a process, in order, by a task of its own.
pub(super) struct Input {
    to: Option<mpsc::Sender<Vec<u8>>>,
    _task: Owned,
}

impl Input {
    pub(super) fn new(mut pipe: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (to, mut from) = mpsc::channel::<Vec<u8>>(WRITES);
        let task = Owned::spawn(async move {
            while let Some(bytes) = from.recv().await {
                if pipe.write_all(&bytes).await.is_err() || pipe.flush().await.is_err() {
                    // It does not read any more: that is its right.
                    return;
                }
            }
            let _closed = pipe.shutdown().await;
        });
        Self { to: Some(to), _task: task }
    }

    /// Queues bytes. `false`: too much waits already, and these are lost.
    pub(super) fn write(&self, bytes: Vec<u8>) -> bool {
        match &self.to {
            Some(to) => !matches!(to.try_send(bytes), Err(mpsc::error::TrySendError::Full(_))),
            None => true,
        }
    }

    /// Closes it, once everything queued is written.
    pub(super) fn close(&mut self) {
        self.to = None;
    }
}

/// Reads `pipe` into pieces, at most 1 MiB ahead of whoever takes them. The channel closes when nothing more comes.
pub(super) fn output(
    mut pipe: impl AsyncRead + Unpin + Send + 'static,
    draining: Draining,
) -> (mpsc::Receiver<Bytes>, Owned) {
    let (to, from) = mpsc::channel(PIECES);
    let task = Owned::spawn(async move {
        let mut reader = Reader::new(draining);
        while let Ok(place) = to.reserve().await {
            let piece = reader.next(&mut pipe).await;
            if piece.is_empty() {
                return;
            }
            place.send(Bytes::copy_from_slice(piece));
        }
    });
    (from, task)
}

/// Reads `pipe` and keeps the end of it. Sent when nothing more comes.
pub(super) fn tail(
    mut pipe: impl AsyncRead + Unpin + Send + 'static,
    draining: Draining,
) -> (oneshot::Receiver<Tail>, Owned) {
    let (to, from) = oneshot::channel();
    let task = Owned::spawn(async move {
        let mut reader = Reader::new(draining);
        let mut tail = Tail::default();
        loop {
            let piece = reader.next(&mut pipe).await;
            if piece.is_empty() {
                break;
            }
            tail.push(piece);
            // A flood is not to keep a worker from everything else.
            tokio::task::consume_budget().await;
        }
        let _nobody = to.send(tail);
    });
    (from, task)
}

struct Reader {
    draining: Draining,
    buffer: Vec<u8>,
    drained: usize,
}

impl Reader {
    fn new(draining: Draining) -> Self {
        Self { draining, buffer: vec![0; PIECE], drained: 0 }
    }

    /// The next piece; empty when nothing more comes, or is waited for.
    async fn next(&mut self, pipe: &mut (impl AsyncRead + Unpin)) -> &[u8] {
        let len = loop {
            let until = *self.draining.borrow_and_update();
            let Some(until) = until else {
                tokio::select! {
                    biased;
                    changed = self.draining.changed() => match changed {
                        Ok(()) => continue,
                        // The run is gone, and with it whoever would take this.
                        Err(_) => break 0,
                    },
                    len = pipe.read(&mut self.buffer) => break len.unwrap_or(0),
                }
            };
            if self.drained >= PIPE {
                break 0;
            }
            // Reading comes before the clock: what is there is read, however late it is.
            let wait = until.min(Instant::now() + QUIET);
            let len = timeout_at(wait, pipe.read(&mut self.buffer)).await;
            let len = len.map_or(0, |len| len.unwrap_or(0));
            self.drained += len;
            break len;
        };
        &self.buffer[..len]
    }
}
