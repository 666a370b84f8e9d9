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

    /// Appends records to `strand` at once. The last holds `credit` until it is committed.
    pub(crate) fn say_all<const N: usize>(&self, strand: Strand, kinds: [Kind; N], credit: Credit) {
        let mut entries: Vec<Entry> = kinds.into_iter().map(|kind| self.entry(strand, kind, None)).collect();
        if let Some(last) = entries.last_mut() {
            last.credit = credit;
        }
        self.journal.record_all(entries);
    }

    /// Appends a record that holds `credit` until it is committed.
    pub(crate) fn say_on(&self, strand: Strand, kind: Kind, credit: Credit) {
        self.journal.record(self.entry(strand, kind, credit));
    }

    /// Appends `before` and `last` to `strand` at once; something outside is to wait for the last, which holds `credit`.
    pub(crate) fn promise<const N: usize>(
        &self,
        strand: Strand,
        before: [Kind; N],
        last: Kind,
        credit: Credit,
    ) -> Ticket {
        let before = before.into_iter().map(|kind| self.entry(strand, kind, None)).collect();
        self.journal.append_behind(before, self.entry(strand, last, credit))
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
