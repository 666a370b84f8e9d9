//! The listening side: one task under the runtime, and a task for each connection, which end with it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::place::{self, Owner, PlaceError};
use super::protocol::{Answer, Ask};
use super::{CONNECTIONS, FOLLOWERS, Listen, REQUEST, metrics};
use crate::ids::{SessionPath, TreeId};
use crate::journal::Limit;
use crate::tree::Stopped;
use crate::tree::owned::Owned;
use crate::tree::remote::Remote;

/// How long a request may take to come, a session to answer, and a reader to take what it is sent.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the sessions of a tree have to say what they do.
const LOOK: Duration = Duration::from_secs(2);
/// How long the metrics wait for the sessions.
const GLANCE: Duration = Duration::from_millis(500);
/// Between two reads of a followed tree: what a follower costs the runtime is bounded, however fast the tree grows.
const BREATH: Duration = Duration::from_millis(50);
/// After an accept failed: what it lacks (descriptors) may be there again.
const PAUSE: Duration = Duration::from_millis(100);
/// What those who follow a tree have to read its end, when the runtime ends.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest grace a stop may ask for.
const LONGEST_GRACE: Duration = Duration::from_secs(24 * 3600);

/// A runtime's socket. Dropping it closes the connections and removes the file.
pub(crate) struct Control {
    path: PathBuf,
    closing: watch::Sender<bool>,
    closed: oneshot::Receiver<()>,
    _listening: Owned,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Control({})", self.path.display())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.path);
    }
}

/// What every connection needs.
struct Desk {
    remote: Remote,
    closing: watch::Receiver<bool>,
    followers: Semaphore,
    /// One look at a time: each asks every session.
    looks: Semaphore,
}

impl Control {
    /// Listens where it was said; `None` where that is nowhere. Sockets of dead processes are removed first.
    pub(crate) fn listen(listen: &Listen, remote: Remote) -> Result<Option<Self>, PlaceError> {
        // Two runtimes of one process have two sockets.
        static RUNTIMES: AtomicU32 = AtomicU32::new(0);
        let directory = match listen {
            Listen::Nowhere => return Ok(None),
            Listen::UsualPlace => place::usual_place(),
            Listen::In(directory) => directory.clone(),
        };
        place::prepare(&directory)?;
        place::sweep(&directory)?;
        let path = place::socket(&directory, Owner::own(RUNTIMES.fetch_add(1, Ordering::Relaxed)))?;
        let failed = |why| PlaceError::Io { path: path.clone(), why };
        // Nobody else can have put it there: the directory is closed to others.
        match fs::remove_file(&path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(failed(why)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let (closing, closed_too) = watch::channel(false);
        let (done, closed) = oneshot::channel();
        let desk = Arc::new(Desk {
            remote,
            closing: closed_too,
            followers: Semaphore::new(FOLLOWERS),
            looks: Semaphore::new(1),
        });
        let listening = Owned::spawn(async move {
            serve(listener, desk).await;
            let _nobody = done.send(());
        });
        Ok(Some(Self { path, closing, closed, _listening: listening }))
    }

    /// Takes no more connections; those who follow a tree hear its end first, within a second.
    pub(crate) async fn close(mut self) {
        let _nobody = self.closing.send(true);
        let _late = timeout(LAST_WORDS, &mut self.closed).await;
    }
}

async fn serve(listener: UnixListener, desk: Arc<Desk>) {
    let mut closing = desk.closing.clone();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! { biased;
            () = told_to_close(&mut closing) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if !is_own(&stream) => {
                    tracing::warn!("another user connected to the control socket and was turned away");
                }
                // Not waited for: whoever does not read it hears nothing.
                Ok((stream, _)) if connections.len() >= CONNECTIONS => {
                    let busy = refused(&format!("busy: {CONNECTIONS} connections are open"));
                    let _unread = stream.try_write(busy.line().as_bytes());
                }
                Ok((stream, _)) => drop(connections.spawn(converse(stream, desk.clone()))),
                Err(error) => {
                    tracing::warn!(%error, "the control socket could not accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn told_to_close(closing: &mut watch::Receiver<bool>) {
    let _told_or_dropped = closing.wait_for(|closing| *closing).await.is_ok();
}

/// The file's mode and the directory's already say so; the kernel says it once more, about this very peer.
fn is_own(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == place::own_uid())
}

fn refused(why: &str) -> Answer {
    Answer::Refused { why: why.to_owned() }
}

type From = BufReader<tokio::net::unix::OwnedReadHalf>;

/// Answers one request after another until the other side is done, late, or says something that is no request.
async fn converse(stream: UnixStream, desk: Arc<Desk>) {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    let mut closing = desk.closing.clone();
    loop {
        let line = tokio::select! { biased;
            line = timeout(PATIENCE, request(&mut from)) => line,
            () = told_to_close(&mut closing) => return,
        };
        let ask = match line {
            Ok(Ok(Some(line))) => Ask::read(&line),
            // Done, gone, or too slow.
            Ok(Ok(None) | Err(_)) | Err(_) => return,
        };
        let ask = match ask {
            Ok(ask) => ask,
            Err(why) => {
                let _unread = send(&mut to, &refused(&why)).await;
                return;
            }
        };
        let answered = match ask {
            Ask::Follow { tree, from: first } => return desk.follow(tree, first, &mut from, &mut to).await,
            ask => send(&mut to, &desk.answer(ask).await).await,
        };
        if answered.is_err() {
            return;
        }
    }
}

/// The next line, without its end. `None` when there is none; an error where it is longer than a request may be.
async fn request(from: &mut From) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let here = from.fill_buf().await?;
        if here.is_empty() {
            return if line.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        let (part, used, whole) = match here.iter().position(|&byte| byte == b'\n') {
            Some(end) => (&here[..end], end + 1, true),
            None => (here, here.len(), false),
        };
        if line.len() + part.len() > REQUEST {
            // As a line it is no request, which is said.
            from.consume(used);
            return Ok(Some(b"a request is too long".to_vec()));
        }
        line.extend_from_slice(part);
        from.consume(used);
        if whole {
            return Ok(Some(line));
        }
    }
}

/// Sends an answer. A reader that does not take it in time is cut loose: it never holds anything up.
async fn send(to: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    let line = answer.line();
    timeout(PATIENCE, to.write_all(line.as_bytes())).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

impl Desk {
    async fn answer(&self, ask: Ask) -> Answer {
        match ask {
            Ask::Sessions { tree } => {
                let _one_at_a_time = self.looks.acquire().await;
                Answer::Sessions { pid: std::process::id(), seen: self.remote.sessions(tree, LOOK).await }
            }
            Ask::Stop { tree, path, grace_ms } => self.stop(tree, path, grace_ms).await,
            Ask::Metrics {} => {
                let _one_at_a_time = self.looks.acquire().await;
                Answer::Metrics { text: metrics::text(&self.remote, GLANCE).await }
            }
            Ask::Follow { .. } => refused("a tree is followed on a connection of its own"),
        }
    }

    async fn stop(&self, tree: TreeId, path: SessionPath, grace_ms: Option<u64>) -> Answer {
        let grace = grace_ms.map_or(self.remote.shared().limits.grace, Duration::from_millis).min(LONGEST_GRACE);
        let seq = self.remote.journal().subscribe(tree);
        let stopped = self.remote.stop(tree, path, grace, PATIENCE).await;
        let seq = match stopped {
            Stopped::Told => seq.borrow().seq,
            Stopped::Ended(_) | Stopped::Unknown | Stopped::Silent => 0,
        };
        Answer::Stop { stopped, seq, grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) }
    }

    async fn follow(&self, tree: TreeId, first: u64, from: &mut From, to: &mut OwnedWriteHalf) {
        let Ok(_follower) = self.followers.try_acquire() else {
            let _unread = send(to, &refused(&format!("busy: {FOLLOWERS} connections follow a tree"))).await;
            return;
        };
        let mut head = self.remote.journal().subscribe(tree);
        let mut closing = self.closing.clone();
        let mut next = first.max(1);
        loop {
            let ended = head.borrow_and_update().ended || head.has_changed().is_err();
            let last = *closing.borrow_and_update();
            loop {
                let page = match self.remote.journal().read(tree, next, Limit::default()).await {
                    Ok(page) => page,
                    Err(error) => {
                        let _unread = send(to, &refused(&error.to_string())).await;
                        return;
                    }
                };
                for stored in &page.records {
                    if send(to, &Answer::record(stored)).await.is_err() {
                        return;
                    }
                    next = stored.seq + 1;
                }
                if !page.more || page.records.is_empty() {
                    break;
                }
            }
            if ended || last {
                let _unread = send(to, &Answer::Over { ended }).await;
                return;
            }
            tokio::time::sleep(BREATH).await;
            tokio::select! { biased;
                _ = head.changed() => {}
                _ = closing.changed() => {}
                // Whoever follows says nothing more: this is its end.
                _ = from.fill_buf() => return,
            }
        }
    }
}
