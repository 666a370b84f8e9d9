//! What waits to be stored, with a fair share for each tree.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::TreeId;

use super::store::Batch;

use super::handle::Wait;
use super::seal::Sealed;

/// How much is stored in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Records.
    pub records: usize,
    /// Bytes.
    pub bytes: usize,
}

impl Share {
    fn is_spent(self) -> bool {
        self.records == 0 || self.bytes == 0
    }

    fn spend(&mut self, bytes: usize) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// What one tree may put into a batch before the next one has its turn.
const TURN: Share = Share { records: 64, bytes: 64 << 10 };

/// One thing that waits.
pub enum Item {
    /// A record, and why storing it must fail where a fault says so.
    Record { sealed: Box<Sealed>, fails: Option<String>, wait: Wait },
    /// Nothing to store, but somebody wants to know when everything before it is.
    Barrier(u64),
}

/// Somebody to be told when a batch is stored.
pub enum Waiting {
    /// That record `seq` of `tree` is committed.
    Record { tree: TreeId, seq: u64, ended: bool, wait: Wait },
    /// That one tree has passed this barrier.
    Barrier(u64),
}

/// The next batch, who waits for it, and why it must fail where a fault says so.
#[derive(Default)]
pub struct Taken {
    pub batch: Batch,
    pub waiting: Vec<Waiting>,
    pub fails: Option<String>,
}

/// Everything appended and not yet given to the store.
#[derive(Default)]
pub struct Queue {
    trees: BTreeMap<TreeId, VecDeque<Item>>,
    /// Trees with something waiting; the front has the next turn.
    turn: VecDeque<TreeId>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.turn.is_empty()
    }

    pub fn push(&mut self, tree: TreeId, item: Item) {
        let items = self.trees.entry(tree).or_default();
        if items.is_empty() {
            self.turn.push_back(tree);
        }
        items.push_back(item);
    }

    /// Puts `barrier` behind everything that waits, or behind what waits of one tree. Returns how many trees must
    /// pass it.
    pub fn barrier(&mut self, barrier: u64, tree: Option<TreeId>) -> usize {
        let meant =
            self.trees.iter_mut().filter(|(other, items)| tree.is_none_or(|t| t == **other) && !items.is_empty());
        meant.map(|(_, items)| items.push_back(Item::Barrier(barrier))).count()
    }

    /// Takes the next batch: each tree in turn gives its share until the batch is full or nothing waits.
    pub fn take(&mut self, limit: Share) -> Taken {
        let mut taken = Taken::default();
        let mut left = limit;
        while !left.is_spent()
            && let Some(tree) = self.turn.pop_front()
        {
            let Some(items) = self.trees.get_mut(&tree) else { continue };
            let mut share = TURN;
            while !share.is_spent()
                && !left.is_spent()
                && let Some(item) = items.pop_front()
            {
                let bytes = taken.add(item);
                share.spend(bytes);
                left.spend(bytes);
            }
            if items.is_empty() {
                self.trees.remove(&tree);
            } else {
                self.turn.push_back(tree);
            }
        }
        taken
    }

    /// Everything that waits, when nothing will be stored any more.
    pub fn drain(&mut self) -> Vec<Waiting> {
        let mut taken = Taken::default();
        for (_, items) in std::mem::take(&mut self.trees) {
            for item in items {
                taken.add(item);
            }
        }
        self.turn.clear();
        taken.waiting
    }
}

impl Taken {
    fn add(&mut self, item: Item) -> usize {
        match item {
            Item::Record { sealed, fails, wait } => {
                let size = sealed.size();
                let (tree, seq, ended) = (sealed.record.tree, sealed.record.seq, sealed.ended.is_some());
                self.waiting.push(Waiting::Record { tree, seq, ended, wait });
                self.fails = self.fails.take().or(fails);
                sealed.join(&mut self.batch);
                size
            }
            Item::Barrier(barrier) => {
                self.waiting.push(Waiting::Barrier(barrier));
                0
            }
        }
    }
}
