//! A pipe in memory that can have several writers, and ends when the last of them is gone.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

/// Bytes that go through at once.
const PIECE: usize = 4 << 10;
/// Pieces a pipe holds: 64 KiB, as the kernel's.
const PIECES: usize = 16;

/// What is written to. A clone holds the pipe open.
#[derive(Clone, Debug)]
pub(super) struct Writer(mpsc::Sender<Bytes>);

/// What is read.
#[derive(Debug)]
pub struct Reader {
    from: mpsc::Receiver<Bytes>,
    left: Bytes,
}

pub(super) fn pipe() -> (Writer, Reader) {
    let (to, from) = mpsc::channel(PIECES);
    (Writer(to), Reader { from, left: Bytes::new() })
}

impl Writer {
    /// Writes all of it; `false` where nobody reads any more.
    pub(super) async fn write(&self, bytes: &[u8]) -> bool {
        for piece in bytes.chunks(PIECE) {
            if self.0.send(Bytes::copy_from_slice(piece)).await.is_err() {
                return false;
            }
        }
        true
    }
}

impl AsyncRead for Reader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        if this.left.is_empty() {
            match ready!(this.from.poll_recv(cx)) {
                Some(piece) => this.left = piece,
                None => return Poll::Ready(Ok(())),
            }
        }
        let len = this.left.len().min(buf.remaining());
        buf.put_slice(&this.left[..len]);
        this.left.advance(len);
        Poll::Ready(Ok(()))
    }
}
