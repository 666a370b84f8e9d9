//! From an event to the bytes that are stored: number, body, envelope, hash.

use bytes::Bytes;

use crate::env::Timestamp;
use crate::ids::{Digest, SessionPath, Strand, TreeId};

use super::chain::{self, Hash};
use super::fold::{Fold, Refused, Why};
use super::record::{Blob, Body, Envelope, Ids, Kind, Labels, Text};
use super::store::{Batch, Started, Stored, StoredBlob};

/// How large a field and a body may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// A text longer than this goes to the blob store.
    pub field: usize,
    /// A body longer than this is refused.
    pub body: usize,
}

impl From<&crate::limits::Limits> for Sizes {
    fn from(limits: &crate::limits::Limits) -> Self {
        Self { field: limits.field, body: limits.body }
    }
}

/// One tree as its writer holds it: what is open, and where its chain ends.
#[derive(Clone, Debug)]
pub struct Line {
    tree: TreeId,
    labels: Labels,
    fold: Fold,
    seq: u64,
    hash: Hash,
    refused: u64,
    pid: u32,
}

/// A record ready to be stored.
#[derive(Debug)]
pub struct Sealed {
    /// Set for the first record of a tree.
    pub started: Option<Started>,
    /// What was too long for the body, and what the record names.
    pub blobs: Vec<StoredBlob>,
    /// The record.
    pub record: Stored,
    /// When, if it is the tree's ending.
    pub ended: Option<Timestamp>,
}

impl Sealed {
    /// Its weight in a batch, in bytes.
    pub fn size(&self) -> usize {
        self.record.size() + self.blobs.iter().map(|blob| blob.bytes.len()).sum::<usize>()
    }

    /// Adds it to what is stored next.
    pub fn join(self, batch: &mut Batch) {
        batch.started.extend(self.started);
        batch.blobs.extend(self.blobs);
        batch.ended.extend(self.ended.map(|at| (self.record.tree, at)));
        batch.records.push(self.record);
    }
}

impl Line {
    /// A tree nothing is known of yet.
    pub fn new(tree: TreeId, labels: Labels, pid: u32) -> Self {
        Self { tree, labels, fold: Fold::default(), seq: 0, hash: chain::START, refused: 0, pid }
    }

    /// A tree that was read back, to be gone on with.
    pub fn resumed(tree: TreeId, labels: Labels, pid: u32, fold: Fold, seq: u64, hash: Hash) -> Self {
        Self { tree, labels, fold, seq, hash, refused: 0, pid }
    }

    /// What is open.
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    /// The number of the last record.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Takes one event, or refuses and counts it.
    pub fn seal(
        &mut self,
        (path, attempt, strand, mut kind): (SessionPath, u32, Strand, Kind),
        ids: Ids,
        at: Timestamp,
        sizes: Sizes,
    ) -> Result<Sealed, Refused> {
        self.fold.complete(&path, &mut kind);
        if let Kind::TreeEnded { refused, .. } = &mut kind {
            *refused = self.refused;
        }
        let n = match self.fold.check(&path, attempt, strand, &kind) {
            Ok(n) => n,
            Err(refused) => {
                self.refused += 1;
                return Err(refused);
            }
        };
        let blob = kind.text_mut().and_then(|text| spill(text, sizes.field)).map(|(digest, bytes)| StoredBlob {
            tree: self.tree,
            digest,
            bytes,
        });
        let body = Body { path, attempt, strand, n, kind };
        let json = to_json(&body);
        let Body { path, kind, .. } = body;
        if json.len() > sizes.body {
            self.refused += 1;
            return Err(Refused { path, strand, kind: kind.name(), why: Why::TooLarge });
        }
        self.fold.accept(&path, strand, &kind);
        self.seq += 1;
        let envelope =
            to_json(&Envelope { tree: self.tree, seq: self.seq, at, ids, labels: self.labels.clone(), pid: self.pid });
        self.hash = chain::link(&self.hash, json.as_bytes(), envelope.as_bytes());
        let first = matches!(kind, Kind::TreeStarted { .. });
        let last = matches!(kind, Kind::TreeEnded { .. });
        Ok(Sealed {
            started: first.then(|| Started { tree: self.tree, at, labels: self.labels.clone() }),
            blobs: blob.into_iter().collect(),
            record: Stored { tree: self.tree, seq: self.seq, body: json, envelope, hash: self.hash },
            ended: last.then_some(at),
        })
    }
}

/// Puts a text that is too long for a body aside, leaving its digest and length.
fn spill(text: &mut Text, field: usize) -> Option<(Digest, Bytes)> {
    let Text::Inline(inline) = text else { return None };
    if inline.len() <= field {
        return None;
    }
    let bytes = Bytes::from(std::mem::take(inline));
    let digest = Digest::of(&bytes);
    *text = Text::Blob(Blob { blob: digest, len: bytes.len() as u64 });
    Some((digest, bytes))
}

/// Records hold nothing JSON cannot say: no map with other keys than texts, no number that is not finite.
fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("a record is plain data")
}
