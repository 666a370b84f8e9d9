//! The journal as everybody else holds it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ractor::{ActorCell, ActorRef};
use tokio::sync::{oneshot, watch};

use crate::agent::Credit;
use crate::capsule::Usage;
use crate::env::Env;
use crate::ids::{Digest, SessionPath, Strand, TreeId};
use crate::limits::Limits;

use super::counts::{Counter, Counts};
use super::fold::{Closing, Refused};
use super::queue::Share;
use super::record::{Ids, Kind, Labels};
use super::seal::Sizes;
use super::store::{Filter, Limit, Opener, Page, Source, Store, StoreError, TreeInfo};
use super::writer::{self, Append, Message, Writer};

/// One thing to be recorded.
#[derive(Debug)]
pub struct Entry {
    /// The tree.
    pub tree: TreeId,
    /// The session it happened in.
    pub path: SessionPath,
    /// Its incarnation; 0 on the tree's own strand.
    pub attempt: u32,
    /// The line of its doing.
    pub strand: Strand,
    /// What happened. What only the fold knows (`changed_world`, `refused`) the writer fills in.
    pub kind: Kind,
    /// The ids it concerns.
    pub ids: Ids,
    /// Bytes the record names by digest (a checkpoint's state), stored in the same transaction.
    pub blob: Option<Bytes>,
    /// The session's share of uncommitted bytes, given back when the record is committed, refused or lost.
    pub credit: Credit,
}

impl Entry {
    /// An entry without ids, blob or credit.
    pub fn new(tree: TreeId, path: SessionPath, attempt: u32, strand: Strand, kind: Kind) -> Self {
        Self { tree, path, attempt, strand, kind, ids: Ids::default(), blob: None, credit: None }
    }
}

/// A record is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number within the tree; for a barrier 0.
    pub seq: u64,
}

/// Why a record is not, and will not be, in the journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// It contradicts what was already recorded. Counted in the tree's ending.
    #[error("refused: {0}")]
    Refused(Box<Refused>),
    /// The store has failed; nothing will be stored any more.
    #[error("the journal has failed: {0}")]
    Poisoned(Arc<str>),
    /// The writer is gone.
    #[error("the journal is closed")]
    Gone,
}

pub(super) type Outcome = Result<Committed, AppendError>;

/// Whoever waits for a record, and the credit it holds until then.
#[derive(Debug, Default)]
pub struct Wait {
    pub(super) reply: Option<oneshot::Sender<Outcome>>,
    pub(super) credit: Credit,
}

impl Wait {
    pub(super) fn tell(self, outcome: Outcome) {
        drop(self.credit);
        if let Some(reply) = self.reply {
            // Most tickets are dropped: inside the process nobody waits for the disk.
            let _unwanted = reply.send(outcome);
        }
    }
}

/// Resolves when a record is committed. Dropping it changes nothing: the record is appended either way.
#[derive(Debug)]
#[must_use = "await it before anything may leave the process; drop it where nothing does"]
pub struct Ticket(oneshot::Receiver<Outcome>);

impl Ticket {
    pub(super) fn new() -> (oneshot::Sender<Outcome>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }
}

impl Future for Ticket {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.0).poll(context).map(|outcome| outcome.unwrap_or(Err(AppendError::Gone)))
    }
}

/// What closing a subtree found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// How many endings were missing.
    pub endings: usize,
    /// Whether the attempt that was live, or anything open below it, may have changed the world.
    pub attempt_changed_world: bool,
    /// Whether any attempt, or anything below, may have.
    pub changed_world: bool,
    /// The attempt that was live or last; 0 where the session was not open.
    pub attempt: u32,
    /// What the open subtree is known to have spent.
    pub spent: Usage,
    /// The number its next delegation would have had.
    pub next_delegation: u32,
    /// The number its next call would have had.
    pub next_call: u32,
}

/// Both answers to closing a subtree.
#[derive(Debug)]
pub struct ClosedTicket {
    /// As soon as the endings are folded: nothing of the subtree can be recorded any more. An error means that the
    /// writer is gone.
    pub folded: oneshot::Receiver<Closed>,
    /// When they are committed, with everything the tree appended before; at once with an error when poisoned.
    pub committed: Ticket,
}

/// Whether the store still takes records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It does.
    #[default]
    Good,
    /// It failed, for this reason. For good: a sync is never tried again.
    Poisoned(Arc<str>),
}

impl Health {
    /// Whether it failed.
    pub fn is_poisoned(&self) -> bool {
        matches!(self, Self::Poisoned(_))
    }
}

/// How far a tree is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The last committed record; 0 for none.
    pub seq: u64,
    /// Whether that is the tree's ending.
    pub ended: bool,
}

/// Why a journal was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store said so.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer is gone.
    #[error("the journal is closed")]
    Gone,
}

/// How the writer works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How large a field and a body may be.
    pub sizes: Sizes,
    /// How much is stored in one transaction.
    pub batch: Share,
}

impl Default for Options {
    fn default() -> Self {
        Self { sizes: Sizes::from(&Limits::default()), batch: Share { records: 4096, bytes: 4 << 20 } }
    }
}

/// An entry nobody waits for.
fn unawaited(mut entry: Entry) -> Append {
    let wait = Wait { reply: None, credit: entry.credit.take() };
    Append { entry, labels: Labels::default(), wait }
}

/// The one journal of a runtime. Cheap to clone.
#[derive(Clone)]
pub struct Journal {
    writer: ActorRef<Message>,
    health: watch::Receiver<Health>,
    counts: Arc<Counts>,
    opener: Option<Opener>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Journal")
    }
}

impl Journal {
    /// Starts the one writer of `store`, linked to `supervisor` where there is one. In a simulation it stores in
    /// line; otherwise on a thread of its own. Unended trees are recovered before this, not by it.
    pub async fn start(
        env: &Env,
        store: Box<dyn Store>,
        options: Options,
        faults: Option<Box<dyn writer::StoreFaults>>,
        supervisor: Option<ActorCell>,
    ) -> Result<Self, ractor::SpawnErr> {
        let opener = if env.is_simulated() { None } else { store.opener() };
        let (health_sender, health) = watch::channel(Health::Good);
        let counts = Arc::new(Counts::default());
        let start =
            writer::Start { env: env.clone(), store, options, faults, health: health_sender, counts: counts.clone() };
        let (writer, _join) = match supervisor {
            Some(supervisor) => ractor::Actor::spawn_linked(None, Writer, start, supervisor).await?,
            None => ractor::Actor::spawn(None, Writer, start).await?,
        };
        Ok(Self { writer, health, counts, opener })
    }

    /// The writer's actor, for its supervisor.
    pub fn cell(&self) -> ActorCell {
        self.writer.get_cell()
    }

    /// Appends. Never waits; records of one sender stay in order.
    pub fn append(&self, entry: Entry) -> Ticket {
        self.open_tree(entry, Labels::default())
    }

    /// Appends where nothing that leaves the process depends on it: there is no ticket to be awaited.
    pub fn record(&self, entry: Entry) {
        self.send(Message::Append(Box::new(unawaited(entry))));
    }

    /// Appends several records at once, nothing in between, where nothing that leaves the process depends on them.
    pub fn record_all(&self, entries: Vec<Entry>) {
        self.send(Message::AppendAll(entries.into_iter().map(unawaited).collect()));
    }

    /// Appends `before` and `last` at once, nothing in between. The commit of the last.
    pub fn append_behind(&self, before: Vec<Entry>, last: Entry) -> Ticket {
        let (reply, ticket) = Ticket::new();
        let mut last = unawaited(last);
        last.wait.reply = Some(reply);
        self.send(Message::AppendAll(before.into_iter().map(unawaited).chain([last]).collect()));
        ticket
    }

    /// Appends the `tree_started` of a tree whose every envelope carries `labels`.
    pub fn open_tree(&self, mut entry: Entry, labels: Labels) -> Ticket {
        let (reply, ticket) = Ticket::new();
        let wait = Wait { reply: Some(reply), credit: entry.credit.take() };
        self.send(Message::Append(Box::new(Append { entry, labels, wait })));
        ticket
    }

    /// Resolves when everything appended before it, to any tree, is committed.
    pub fn barrier(&self) -> Ticket {
        let (reply, ticket) = Ticket::new();
        self.send(Message::Barrier { tree: None, reply });
        ticket
    }

    /// Resolves when everything appended to `tree` before it is committed, whatever other trees have waiting.
    pub fn barrier_of(&self, tree: TreeId) -> Ticket {
        let (reply, ticket) = Ticket::new();
        self.send(Message::Barrier { tree: Some(tree), reply });
        ticket
    }

    /// Appends every ending that is missing at and below `path`. Doing it twice appends nothing more.
    pub fn close_subtree(&self, tree: TreeId, path: SessionPath, closing: Closing) -> ClosedTicket {
        let (folded_sender, folded) = oneshot::channel();
        let (reply, committed) = Ticket::new();
        self.send(Message::Close { tree, path, closing, folded: folded_sender, reply });
        ClosedTicket { folded, committed }
    }

    /// Whether the store still takes records; its owner watches it, and ends the runtime when it does not.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// What the writer has counted since it started. Never waits; the numbers of two calls may belong to two moments.
    pub fn count(&self, counter: Counter) -> u64 {
        self.counts.get(counter)
    }

    /// The committed head of `tree`: wait for a change, then read. Closes behind the tree's ending.
    pub fn subscribe(&self, tree: TreeId) -> watch::Receiver<Head> {
        let (sender, receiver) = watch::channel(Head::default());
        self.send(Message::Subscribe { tree, sender });
        receiver
    }

    /// Committed records of `tree` from `from` on.
    pub async fn read(&self, tree: TreeId, from: u64, limit: Limit) -> Result<Page, ReadError> {
        self.query(move |source| source.read(tree, from, limit)).await
    }

    /// The trees that are meant, newest first.
    pub async fn trees(&self, filter: Filter) -> Result<Vec<TreeInfo>, ReadError> {
        self.query(move |source| source.trees(&filter)).await
    }

    /// A blob's bytes; `None` where it was deleted.
    pub async fn blob(&self, digest: Digest) -> Result<Option<Bytes>, ReadError> {
        self.query(move |source| source.blob(digest)).await
    }

    /// Reads with a connection of its own where the store has several, otherwise between two batches. Dropping the
    /// future abandons the answer, not the read.
    pub async fn query<T, F>(&self, question: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Source) -> Result<T, StoreError> + Send + 'static,
    {
        if let Some(open) = self.opener.clone() {
            let read = tokio::task::spawn_blocking(move || question(open()?.as_mut()));
            return read.await.map_err(|_| ReadError::Gone)?.map_err(ReadError::Store);
        }
        self.with_store(move |store| question(store)).await
    }

    /// Deletes the ended trees that `filter` means, with the blobs nothing else names. Returns how many.
    pub async fn prune(&self, filter: Filter) -> Result<usize, ReadError> {
        self.with_store(move |store| super::prune::prune(store, &filter)).await
    }

    /// Deletes one blob; the chain stays whole.
    pub async fn delete_blob(&self, digest: Digest) -> Result<(), ReadError> {
        self.with_store(move |store| store.delete_blob(digest)).await
    }

    async fn with_store<T, F>(&self, work: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let work: writer::Work = Box::new(move |store| drop(reply.send(work(store))));
        self.send(Message::Work(work));
        answer.await.map_err(|_| ReadError::Gone)?.map_err(ReadError::Store)
    }

    /// Stores what waits, closes the store and ends the writer. What is appended later gets [`AppendError::Gone`].
    pub async fn finish(&self) -> Result<(), AppendError> {
        let (reply, ticket) = Ticket::new();
        self.send(Message::Finish { reply });
        ticket.await.map(|_| ())
    }

    fn send(&self, message: Message) {
        // A writer that is gone drops the message, and with it the replies inside: every ticket then says so.
        let _gone = self.writer.cast(message);
    }
}
