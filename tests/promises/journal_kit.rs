//! What the journal's promises are tested with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use treeward::capsule::{Budget, Usage};
use treeward::env::Env;
use treeward::ids::{Digest, SessionPath, Strand, TreeId};
use treeward::journal::*;
use treeward::supervision::ExitClass;

pub const DEADLINE: std::time::Duration = std::time::Duration::from_secs(20);

/// Fails instead of hanging.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.expect("it hung")
}

pub fn path(text: &str) -> SessionPath {
    text.parse().unwrap()
}

/// A tree's id, the same for the same number.
pub fn tree(number: u64) -> TreeId {
    let digest = Digest::of(&number.to_le_bytes());
    format!("tree_{}", &digest.to_string()[..32]).parse().unwrap()
}

pub fn started() -> Kind {
    Kind::TreeStarted { schema: SCHEMA, capsule: "lead".into(), seed: 1, budget: Budget::default() }
}

pub fn session(changes_world: bool) -> Kind {
    Kind::SessionStarted {
        capsule: "lead".into(),
        digest: Digest::of(b""),
        agent: AgentKind::Native,
        lent: Vec::new(),
        changes_world,
    }
}

pub fn said(text: &str) -> Kind {
    Kind::Text { text: text.into() }
}

pub fn attempt_ended() -> Kind {
    Kind::AttemptEnded { class: ExitClass::Done, detail: None, changed_world: false }
}

pub fn session_ended() -> Kind {
    Kind::SessionEnded { status: CompletionStatus::Ok, by: Reporter::Child }
}

pub fn tree_ended() -> Kind {
    Kind::TreeEnded { status: CompletionStatus::Ok, refused: 0 }
}

pub fn delegated(child: &str) -> Kind {
    Kind::Delegated {
        child: path(child),
        capsule: "leaf".into(),
        task: "look".into(),
        lent: Vec::new(),
        deadline_ms: 1000,
    }
}

pub fn delegation_ended() -> Kind {
    Kind::DelegationEnded {
        status: CompletionStatus::Ok,
        by: Reporter::Child,
        attempts: 1,
        answer: None,
        detail: None,
        spent: Usage::default(),
    }
}

pub fn entry(tree: TreeId, at: &str, attempt: u32, strand: Strand, kind: Kind) -> Entry {
    Entry::new(tree, path(at), attempt, strand, kind)
}

/// An entry on the main line of the first attempt.
pub fn main(tree: TreeId, at: &str, kind: Kind) -> Entry {
    entry(tree, at, 1, Strand::Main, kind)
}

pub fn on_tree(tree: TreeId, kind: Kind) -> Entry {
    entry(tree, "0", 0, Strand::Tree, kind)
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    Arc::new(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect::<BTreeMap<_, _>>())
}

/// Starts a tree whose root session is open.
pub fn begin(journal: &Journal, tree: TreeId) {
    begin_with(journal, tree, Labels::default());
}

pub fn begin_with(journal: &Journal, tree: TreeId, labels: Labels) {
    drop(journal.open_tree(on_tree(tree, started()), labels));
    drop(journal.append(main(tree, "0", session(false))));
}

/// Ends what [`begin`] began.
pub fn end(journal: &Journal, tree: TreeId) -> Ticket {
    drop(journal.append(main(tree, "0", attempt_ended())));
    drop(journal.append(main(tree, "0", session_ended())));
    journal.append(on_tree(tree, tree_ended()))
}

pub fn closing(by: Reporter) -> Closing {
    Closing { scope: Scope::Session, verdict: Verdict::Judged, class: ExitClass::Panic, by, detail: None }
}

pub async fn journal(env: &Env, store: impl Store) -> Journal {
    Journal::start(env, Box::new(store), Options::default(), None, None).await.unwrap()
}

pub async fn in_memory() -> Journal {
    journal(&Env::real(Some(1), None), MemoryStore::new()).await
}

pub async fn all(journal: &Journal, tree: TreeId) -> Vec<Stored> {
    let whole = Limit { records: usize::MAX, bytes: usize::MAX };
    journal.read(tree, 1, whole).await.unwrap().records
}

pub fn body(stored: &Stored) -> Body {
    serde_json::from_str(&stored.body).unwrap()
}

/// A store that asks before each append whether, and how, to go on.
pub struct Obeying {
    inner: MemoryStore,
    orders: Receiver<Order>,
    seen: UnboundedSender<usize>,
}

pub enum Order {
    Store,
    Fail,
    Panic,
}

/// Gives the orders, and hears how many records each batch had.
pub struct Boss {
    pub orders: Sender<Order>,
    seen: UnboundedReceiver<usize>,
}

impl Boss {
    /// How many records the store is asked to append next; `None` once it is closed.
    pub async fn asked(&mut self) -> Option<usize> {
        soon(self.seen.recv()).await
    }
}

pub fn obeying() -> (Obeying, Boss) {
    let (orders, taken) = channel();
    let (told, seen) = unbounded_channel();
    (Obeying { inner: MemoryStore::new(), orders: taken, seen: told }, Boss { orders, seen })
}

impl Source for Obeying {
    fn read(&mut self, tree: TreeId, from: u64, limit: Limit) -> Result<Page, StoreError> {
        self.inner.read(tree, from, limit)
    }

    fn tip(&mut self, tree: TreeId) -> Result<Option<Tip>, StoreError> {
        self.inner.tip(tree)
    }

    fn trees(&mut self, filter: &Filter) -> Result<Vec<TreeInfo>, StoreError> {
        self.inner.trees(filter)
    }

    fn blob(&mut self, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        self.inner.blob(digest)
    }
}

impl Store for Obeying {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let _nobody = self.seen.send(batch.records.len());
        // Once nobody orders any more, it stores.
        match self.orders.recv().unwrap_or(Order::Store) {
            Order::Store => self.inner.append(batch),
            Order::Fail => Err(StoreError::Other("the disk is on fire".into())),
            Order::Panic => panic!("the store is broken"),
        }
    }

    fn delete_blob(&mut self, digest: Digest) -> Result<(), StoreError> {
        self.inner.delete_blob(digest)
    }

    fn prune(&mut self, tree: TreeId) -> Result<(), StoreError> {
        self.inner.prune(tree)
    }
}
