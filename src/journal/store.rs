//! What a store must do. Nothing outside `journal/` may know which store it is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::env::Timestamp;
use crate::ids::{Digest, TreeId};

use super::chain::Hash;
use super::record::Labels;

/// Opens another connection for reading.
pub type Opener = Arc<dyn Fn() -> Result<Box<dyn Source>, StoreError> + Send + Sync>;

/// When an append counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the disk says that it has it: a power failure loses nothing that was acknowledged.
    #[default]
    Sync,
    /// When the operating system has it: a crash of the process loses nothing, a power failure may.
    Os,
    /// When the process has it.
    Memory,
}

/// One record as it is stored: exactly these bytes are hashed, verified and read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The tree.
    pub tree: TreeId,
    /// 1, 2, 3, … within the tree.
    pub seq: u64,
    /// The body's JSON.
    pub body: String,
    /// The envelope's JSON.
    pub envelope: String,
    /// The chain up to here.
    pub hash: Hash,
}

impl Stored {
    /// Its weight in a batch or page, in bytes.
    pub fn size(&self) -> usize {
        self.body.len() + self.envelope.len() + size_of::<Hash>()
    }
}

/// Bytes kept outside a record, and the tree that needs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    /// The tree.
    pub tree: TreeId,
    /// SHA-256 of the bytes.
    pub digest: Digest,
    /// The bytes.
    pub bytes: Bytes,
}

/// A tree that starts in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The tree.
    pub tree: TreeId,
    /// When.
    pub at: Timestamp,
    /// The submitter's labels.
    pub labels: Labels,
}

/// What is appended in one go: all of it or nothing, in the order started, blobs, records, ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Trees that start.
    pub started: Vec<Started>,
    /// Blobs the records name.
    pub blobs: Vec<StoredBlob>,
    /// The records, in the order of each tree.
    pub records: Vec<Stored>,
    /// Trees that end, and when.
    pub ended: Vec<(TreeId, Timestamp)>,
}

impl Batch {
    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.blobs.is_empty()
    }
}

/// How much one page may hold. At least one record is always returned where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Records.
    pub records: usize,
    /// Bytes of records.
    pub bytes: usize,
}

impl Default for Limit {
    fn default() -> Self {
        Self { records: 1024, bytes: 4 << 20 }
    }
}

/// Consecutive records of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In order of `seq`.
    pub records: Vec<Stored>,
    /// Whether there were more when it was read.
    pub more: bool,
}

/// The end of a tree's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The last record's number.
    pub seq: u64,
    /// The last record's hash.
    pub hash: Hash,
}

/// A tree as the store lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeInfo {
    /// The tree.
    pub tree: TreeId,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended; `None` while it runs, and after a crash until recovery.
    pub ended_at: Option<Timestamp>,
    /// The submitter's labels.
    pub labels: Labels,
}

/// Which trees are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only trees that carry all of these labels.
    pub labels: BTreeMap<String, String>,
    /// `Some(true)`: only ended ones; `Some(false)`: only those without an ending.
    pub ended: Option<bool>,
    /// Only trees that ended before this moment.
    pub ended_before: Option<Timestamp>,
    /// Only the newest so many.
    pub newest: Option<usize>,
}

impl Filter {
    /// Whether `info` is meant, `newest` aside.
    pub fn admits(&self, info: &TreeInfo) -> bool {
        self.labels.iter().all(|(name, value)| info.labels.get(name) == Some(value))
            && self.ended.is_none_or(|ended| ended == info.ended_at.is_some())
            && self.ended_before.is_none_or(|before| info.ended_at.is_some_and(|at| at < before))
    }
}

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file holds something else.
    #[error("{path}: this is not a treeward journal; name another file with --journal")]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// Written by a later version.
    #[error("{path}: written in journal format {found}, this treeward reads up to {known}; use a newer treeward")]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format it is in.
        found: i64,
        /// The newest one known here.
        known: i64,
    },
    /// It may not be written.
    #[error("{path}: cannot be written ({reason}); make it writable, or name another file with --journal")]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Another process writes to it.
    #[error("{path}: in use by process {pid}; wait for it, stop it, or name another file with --journal")]
    Owned {
        /// The file.
        path: PathBuf,
        /// The process, as far as the lock says.
        pid: String,
    },
    /// A link stands in its place.
    #[error("{path}: is a symbolic link, which a journal must not be; name the file it points to")]
    Link {
        /// The file.
        path: PathBuf,
    },
    /// Nothing more fits.
    #[error("{path}: no space left; free some and start again, everything acknowledged is safe")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// There is no such journal.
    #[error("{path}: there is no journal here; run something first, or name another file with --journal")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A reader found unmerged changes it is not allowed to merge.
    #[error(
        "{path}: its last changes are in {path}-wal, and reading them needs a writable directory; copy both elsewhere"
    )]
    NeedsWritable {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("{path}: damaged ({reason}); keep a copy of it, and start with another journal")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// A tree of that id is already there.
    #[error("{0} is already in the journal; a simulation writes the same ids each time, give it a journal of its own")]
    TreeExists(TreeId),
    /// A tree that has not ended is not pruned.
    #[error("{0} has not ended; only ended trees are pruned")]
    NotEnded(TreeId),
    /// Anything else the store reports.
    #[error("{0}")]
    Other(String),
}

/// Reading. Also by readers that do not own the store.
pub trait Source: Send + 'static {
    /// The records of `tree` from `from` on, as many as `limit` allows.
    fn read(&mut self, tree: TreeId, from: u64, limit: Limit) -> Result<Page, StoreError>;

    /// Where the chain of `tree` ends; `None` where there is no such tree.
    fn tip(&mut self, tree: TreeId) -> Result<Option<Tip>, StoreError>;

    /// The trees that are meant, newest first.
    fn trees(&mut self, filter: &Filter) -> Result<Vec<TreeInfo>, StoreError>;

    /// A blob's bytes; `None` where it was deleted.
    fn blob(&mut self, digest: Digest) -> Result<Option<Bytes>, StoreError>;
}

/// Writing. Blocking; called by one thread only.
///
/// After an error from [`append`](Self::append) nothing is known about what reached the disk: the caller never tries
/// again, and what was stored is learned by opening the journal anew.
pub trait Store: Source {
    /// Appends, and returns when the batch is as durable as the store was opened for.
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// How to open another connection for reading, where there can be several.
    fn opener(&self) -> Option<Opener> {
        None
    }

    /// Deletes one blob; the chain stays whole.
    fn delete_blob(&mut self, digest: Digest) -> Result<(), StoreError>;

    /// Deletes an ended tree and the blobs nothing else names.
    fn prune(&mut self, tree: TreeId) -> Result<(), StoreError>;
}
