//! The one writer: folds, seals and groups what is appended, and publishes what is committed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{oneshot, watch};

use crate::env::Env;
use crate::ids::{SessionPath, Strand, TreeId};

use super::counts::{Counter, Counts};
use super::fold::{Closing, Refused, Why};
use super::handle::{AppendError, Closed, Committed, Entry, Head, Health, Options, Outcome, Wait};
use super::pen::{Commit, Pen};
use super::queue::{Item, Queue, Taken, Waiting};
use super::record::{Ids, Kind, Labels};
use super::seal::Line;
use super::store::{Store, StoredBlob};

/// Something to be done with the store between two batches.
pub type Work = Box<dyn FnOnce(&mut dyn Store) + Send>;

/// A record to be appended, and who waits for it. Boxed in its message: a message is moved many times.
pub struct Append {
    pub entry: Entry,
    pub labels: Labels,
    pub wait: Wait,
}

/// What the writer is told.
pub enum Message {
    /// Append one record.
    Append(Box<Append>),
    /// Append these, with nothing in between.
    AppendAll(Vec<Append>),
    /// Answer when everything before it is committed.
    Barrier { tree: Option<TreeId>, reply: oneshot::Sender<Outcome> },
    /// Append all missing endings.
    Close {
        tree: TreeId,
        path: SessionPath,
        closing: Closing,
        folded: oneshot::Sender<Closed>,
        reply: oneshot::Sender<Outcome>,
    },
    /// Publish the head of a tree here too.
    Subscribe { tree: TreeId, sender: watch::Sender<Head> },
    /// Do this with the store.
    Work(Work),
    /// To itself: whoever was about to append has done so by now.
    Flush { waited: bool },
    /// To itself: a delayed batch is due.
    Due(Commit),
    /// From the store's thread.
    Stored(Result<(), String>),
    /// From the store's thread, when the store is closed.
    StoreClosed,
    /// Store what waits, close, end.
    Finish { reply: oneshot::Sender<Outcome> },
}

/// Decides where storing fails or is slow.
pub trait StoreFaults: Send + 'static {
    /// Whether a fault strikes the append of this record.
    fn append(&mut self, tree: TreeId, path: &SessionPath, strand: Strand) -> Option<StoreFault>;

    /// Whether a fault strikes the sync of the next batch.
    fn sync(&mut self) -> Option<StoreFault>;
}

/// What a fault does to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// It fails, with this reason.
    Error(String),
    /// It takes this much longer.
    Delay(Duration),
}

/// What the writer starts from.
pub struct Start {
    pub(super) env: Env,
    pub(super) store: Box<dyn Store>,
    pub(super) options: Options,
    pub(super) faults: Option<Box<dyn StoreFaults>>,
    pub(super) health: watch::Sender<Health>,
    pub(super) counts: Arc<Counts>,
}

/// The writer's actor.
pub struct Writer;

/// One tree that is open, or whose ending is not committed yet.
struct Tree {
    line: Line,
    head: Head,
    watchers: Vec<watch::Sender<Head>>,
}

/// The writer's own state.
pub struct State {
    env: Env,
    options: Options,
    faults: Option<Box<dyn StoreFaults>>,
    health: watch::Sender<Health>,
    counts: Arc<Counts>,
    pid: u32,
    trees: BTreeMap<TreeId, Tree>,
    queue: Queue,
    /// Who waits for the batch that is being stored.
    in_flight: Vec<Waiting>,
    /// Added to the next batch's time by a fault.
    delay: Duration,
    barriers: BTreeMap<u64, Barrier>,
    next_barrier: u64,
    work: VecDeque<Work>,
    pen: Pen,
    /// A batch or a piece of work is with the store.
    busy: bool,
    /// A `Flush` is on its way.
    flushing: bool,
    poisoned: Option<Arc<str>>,
    /// Who waits for the end.
    finish: Vec<oneshot::Sender<Outcome>>,
}

struct Barrier {
    left: usize,
    reply: oneshot::Sender<Outcome>,
}

impl Actor for Writer {
    type Msg = Message;
    type State = State;
    type Arguments = Start;

    async fn pre_start(&self, myself: ActorRef<Message>, start: Start) -> Result<State, ActorProcessingErr> {
        let Start { env, store, options, faults, health, counts } = start;
        let pen = if env.is_simulated() { Pen::Inline(Some(store)) } else { Pen::thread(store, myself)? };
        Ok(State {
            env,
            options,
            faults,
            health,
            counts,
            pid: std::process::id(),
            trees: BTreeMap::new(),
            queue: Queue::default(),
            in_flight: Vec::new(),
            delay: Duration::ZERO,
            barriers: BTreeMap::new(),
            next_barrier: 0,
            work: VecDeque::new(),
            pen,
            busy: false,
            flushing: false,
            poisoned: None,
            finish: Vec::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if state.pen.is_closed() && !matches!(message, Message::StoreClosed) {
            // Whoever comes after the end finds its reply dropped, which says so.
            return Ok(());
        }
        match message {
            Message::Append(append) => state.append(*append),
            Message::AppendAll(all) => all.into_iter().for_each(|append| state.append(append)),
            Message::Barrier { tree, reply } => state.barrier(tree, reply),
            Message::Close { tree, path, closing, folded, reply } => {
                let closed = state.close(tree, &path, &closing, reply);
                let _unwanted = folded.send(closed);
            }
            Message::Subscribe { tree, sender } => state.subscribe(tree, sender),
            Message::Work(work) => state.work.push_back(work),
            Message::Flush { waited: false } if !state.pen.is_inline() => {
                // Those woken by the last commit run now, so that their records share the next one.
                tokio::task::yield_now().await;
                let _gone = myself.cast(Message::Flush { waited: true });
                return Ok(());
            }
            Message::Flush { .. } => {
                state.flushing = false;
                state.begin(&myself);
            }
            Message::Due(commit) => state.commit(commit),
            Message::Stored(result) => state.stored(result),
            Message::StoreClosed => state.closed(&myself),
            Message::Finish { reply } => state.finish.push(reply),
        }
        state.next(&myself);
        Ok(())
    }
}

impl State {
    /// Asks itself to go on, once, if there is anything to go on with.
    fn next(&mut self, myself: &ActorRef<Message>) {
        if self.busy || self.flushing {
            return;
        }
        let waiting = !self.queue.is_empty() || !self.work.is_empty();
        if waiting {
            self.flushing = true;
            let _gone = myself.cast(Message::Flush { waited: false });
        } else if !self.finish.is_empty() && self.pen.close() {
            let _gone = myself.cast(Message::StoreClosed);
        }
    }

    fn append(&mut self, Append { entry, labels, wait }: Append) {
        let Entry { tree, path, attempt, strand, kind, ids, blob, credit: _ } = entry;
        if matches!(kind, Kind::TreeStarted { .. }) {
            let fresh =
                || Tree { line: Line::new(tree, labels, self.pid), head: Head::default(), watchers: Vec::new() };
            self.trees.entry(tree).or_insert_with(fresh);
        }
        let taken = self.take(tree, (path, attempt, strand, kind), ids, blob, wait);
        if !taken && self.trees.get(&tree).is_some_and(|open| !open.line.fold().has_started()) {
            // A start that was itself refused.
            self.trees.remove(&tree);
        }
    }

    /// Folds, seals and queues one record. Says whether it was taken.
    fn take(
        &mut self,
        tree: TreeId,
        event: super::fold::Event,
        ids: Ids,
        blob: Option<bytes::Bytes>,
        wait: Wait,
    ) -> bool {
        let Some(open) = self.trees.get_mut(&tree) else {
            let (path, _, strand, kind) = event;
            let refused = Refused { path, strand, kind: kind.name(), why: Why::UnknownTree };
            wait.tell(Err(AppendError::Refused(Box::new(refused))));
            return false;
        };
        let place = self.faults.as_ref().map(|_| (event.0.clone(), event.2));
        let counter = Counter::of(&event.3);
        let mut sealed = match open.line.seal(event, ids, self.env.now(), self.options.sizes) {
            Ok(sealed) => sealed,
            Err(refused) => {
                tracing::debug!(%refused, "a record was refused");
                self.counts.add(Counter::Refused, 1);
                wait.tell(Err(AppendError::Refused(Box::new(refused))));
                return false;
            }
        };
        if let Some(counter) = counter {
            self.counts.add(counter, 1);
        }
        if let Some(reason) = &self.poisoned {
            // Folding goes on, so that an ending is still said once; there is only no disk any more.
            if sealed.ended.is_some() {
                self.trees.remove(&tree);
            }
            wait.tell(Err(AppendError::Poisoned(reason.clone())));
            return true;
        }
        if let Some(bytes) = blob {
            let digest = crate::ids::Digest::of(&bytes);
            sealed.blobs.push(StoredBlob { tree, digest, bytes });
        }
        let mut fails = None;
        if let (Some(faults), Some((path, strand))) = (&mut self.faults, place) {
            match faults.append(tree, &path, strand) {
                Some(StoreFault::Error(reason)) => fails = Some(reason),
                Some(StoreFault::Delay(delay)) => self.delay += delay,
                None => {}
            }
        }
        self.counts.add(Counter::Appended, 1);
        self.counts.add(Counter::Credit, credit(&wait));
        self.queue.push(tree, Item::Record { sealed: Box::new(sealed), fails, wait });
        true
    }

    fn barrier(&mut self, tree: Option<TreeId>, reply: oneshot::Sender<Outcome>) {
        if let Some(reason) = &self.poisoned {
            let _unwanted = reply.send(Err(AppendError::Poisoned(reason.clone())));
            return;
        }
        let barrier = self.next_barrier;
        self.next_barrier += 1;
        let mut left = self.queue.barrier(barrier, tree);
        if !self.in_flight.is_empty() {
            self.in_flight.push(Waiting::Barrier(barrier));
            left += 1;
        }
        if left == 0 {
            let _unwanted = reply.send(Ok(Committed { seq: 0 }));
        } else {
            self.barriers.insert(barrier, Barrier { left, reply });
        }
    }

    fn close(
        &mut self,
        tree: TreeId,
        path: &SessionPath,
        closing: &Closing,
        reply: oneshot::Sender<Outcome>,
    ) -> Closed {
        let Some(open) = self.trees.get(&tree) else {
            self.barrier(Some(tree), reply);
            return Closed::default();
        };
        let fold = open.line.fold();
        let mut closed = Closed {
            endings: 0,
            attempt_changed_world: fold.attempt_changed_world(path),
            changed_world: fold.changed_world(path),
            attempt: fold.attempt(path).unwrap_or(0),
            spent: fold.spent(path),
            next_delegation: fold.next_numbers(path).0,
            next_call: fold.next_numbers(path).1,
        };
        for event in fold.close(path, closing) {
            // Endings need no credit: they are bounded by what was opened with it.
            closed.endings += usize::from(self.take(tree, event, Ids::default(), None, Wait::default()));
        }
        self.barrier(Some(tree), reply);
        closed
    }

    fn subscribe(&mut self, tree: TreeId, sender: watch::Sender<Head>) {
        match self.trees.get_mut(&tree) {
            Some(open) => {
                sender.send_replace(open.head);
                open.watchers.retain(|watcher| !watcher.is_closed());
                open.watchers.push(sender);
            }
            None => self.work.push_back(Box::new(move |store| {
                let seq = store.tip(tree).ok().flatten().map_or(0, |tip| tip.seq);
                sender.send_replace(Head { seq, ended: true });
            })),
        }
    }

    /// Gives the store its next task.
    fn begin(&mut self, myself: &ActorRef<Message>) {
        if self.busy {
            return;
        }
        if let Some(work) = self.work.pop_front() {
            self.busy = true;
            if let Some(result) = self.pen.work(work) {
                self.stored(result);
            }
            return;
        }
        if self.queue.is_empty() {
            return;
        }
        let Taken { batch, waiting, fails } = self.queue.take(self.options.batch);
        self.in_flight = waiting;
        self.busy = true;
        let mut commit = Commit { batch, append_fails: fails, sync_fails: None };
        match self.faults.as_mut().and_then(|faults| faults.sync()) {
            Some(StoreFault::Error(reason)) => commit.sync_fails = Some(reason),
            Some(StoreFault::Delay(delay)) => self.delay += delay,
            None => {}
        }
        match std::mem::take(&mut self.delay) {
            Duration::ZERO => self.commit(commit),
            delay => drop(myself.send_after(delay, move || Message::Due(commit))),
        }
    }

    fn commit(&mut self, commit: Commit) {
        if let Some(result) = self.pen.commit(commit) {
            self.stored(result);
        }
    }

    /// The store has done its task.
    fn stored(&mut self, result: Result<(), String>) {
        self.busy = false;
        let waiting = std::mem::take(&mut self.in_flight);
        match result {
            Ok(()) => {
                self.publish(&waiting);
                waiting.into_iter().for_each(|one| self.tell(one, None));
            }
            Err(reason) => self.poison(&reason, waiting),
        }
    }

    fn poison(&mut self, reason: &str, in_flight: Vec<Waiting>) {
        let reason: Arc<str> = Arc::from(reason);
        tracing::error!(%reason, "the journal has failed");
        self.poisoned = Some(reason.clone());
        let lost = in_flight.into_iter().chain(self.queue.drain()).collect::<Vec<_>>();
        for one in lost {
            if let Waiting::Record { tree, ended: true, .. } = &one {
                self.trees.remove(tree);
            }
            self.tell(one, Some(&reason));
        }
        self.health.send_replace(Health::Poisoned(reason));
    }

    fn tell(&mut self, waiting: Waiting, lost: Option<&Arc<str>>) {
        let outcome = |seq| lost.map_or(Ok(Committed { seq }), |reason| Err(AppendError::Poisoned(reason.clone())));
        match waiting {
            Waiting::Record { seq, wait, .. } => {
                self.counts.subtract(Counter::Credit, credit(&wait));
                self.counts.add(Counter::Committed, u64::from(lost.is_none()));
                wait.tell(outcome(seq));
            }
            Waiting::Barrier(number) => {
                let Some(barrier) = self.barriers.get_mut(&number) else { return };
                barrier.left -= 1;
                if barrier.left > 0 && lost.is_none() {
                    return;
                }
                if let Some(barrier) = self.barriers.remove(&number) {
                    let _unwanted = barrier.reply.send(outcome(0));
                }
            }
        }
    }

    /// Moves the heads of the trees that have something new.
    fn publish(&mut self, waiting: &[Waiting]) {
        let mut heads: BTreeMap<TreeId, Head> = BTreeMap::new();
        for one in waiting {
            if let Waiting::Record { tree, seq, ended, .. } = one {
                heads.insert(*tree, Head { seq: *seq, ended: *ended });
            }
        }
        for (tree, head) in heads {
            let Some(open) = self.trees.get_mut(&tree) else { continue };
            open.head = head;
            open.watchers.retain(|watcher| !watcher.is_closed());
            for watcher in &open.watchers {
                watcher.send_replace(head);
            }
            if head.ended {
                self.trees.remove(&tree);
            }
        }
    }

    fn closed(&mut self, myself: &ActorRef<Message>) {
        let outcome = match &self.poisoned {
            Some(reason) => Err(AppendError::Poisoned(reason.clone())),
            None => Ok(Committed { seq: 0 }),
        };
        for reply in self.finish.drain(..) {
            let _unwanted = reply.send(outcome.clone());
        }
        myself.stop(None);
    }
}

fn credit(wait: &Wait) -> u64 {
    wait.credit.as_ref().map_or(0, |credit| credit.num_permits() as u64)
}
