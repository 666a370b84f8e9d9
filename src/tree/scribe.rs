//! Appends the records of one session.

use bytes::Bytes;

use crate::agent::Credit;
use crate::ids::{Digest, SessionPath, Strand, TreeId};
use crate::journal::{Blob, Entry, Ids, Journal, Kind, Ticket};

/// Appends to one session's strands.
#[derive(Clone, Debug)]
pub(crate) struct Scribe {
    pub(crate) journal: Journal,
    pub(crate) tree: TreeId,
    pub(crate) path: SessionPath,
    pub(crate) attempt: u32,
    pub(crate) ids: Ids,
}

impl Scribe {
    /// Appends a record to `strand`. Never waits.
    pub(crate) fn say(&self, strand: Strand, kind: Kind) {
        self.journal.record(self.entry(strand, kind, None));
    }

    /// Appends a record that holds `credit` until it is committed.
    pub(crate) fn say_on(&self, strand: Strand, kind: Kind, credit: Credit) {
        self.journal.record(self.entry(strand, kind, credit));
    }

    /// Appends a record that something outside is to wait for.
    pub(crate) fn promise(&self, strand: Strand, kind: Kind, credit: Credit) -> Ticket {
        self.journal.append(self.entry(strand, kind, credit))
    }

    fn entry(&self, strand: Strand, kind: Kind, credit: Credit) -> Entry {
        let entry = Entry::new(self.tree, self.path.clone(), self.attempt, strand, kind);
        Entry { ids: self.ids, credit, ..entry }
    }

    /// Appends a checkpoint with its state.
    pub(crate) fn checkpoint(&self, label: String, state: Bytes, credit: Credit) {
        let blob = Blob { blob: Digest::of(&state), len: state.len() as u64 };
        let kind = Kind::Checkpoint { label, state: blob };
        let entry = Entry::new(self.tree, self.path.clone(), self.attempt, Strand::Main, kind);
        self.journal.record(Entry { ids: self.ids, blob: Some(state), credit, ..entry });
    }

    /// Records that a fault struck.
    pub(crate) fn struck(&self, strand: Strand, strike: &crate::fault::Strike) {
        self.say(
            strand,
            Kind::FaultInjected { point: strike.point.to_string(), action: strike.action.to_string(), nth: strike.nth },
        );
    }
}
