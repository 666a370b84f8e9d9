//! Appends the records of one session.

use crate::agent::Credit;
use crate::ids::{SessionPath, Strand, TreeId};
use crate::journal::{Entry, Ids, Journal, Kind, Ticket};

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
    pub(crate) fn say(&self, strand: Strand, kind: Kind) -> Ticket {
        self.say_on(strand, kind, None)
    }

    /// Appends a record that holds `credit` until it is committed.
    pub(crate) fn say_on(&self, strand: Strand, kind: Kind, credit: Credit) -> Ticket {
        self.journal.append(Entry {
            tree: self.tree,
            path: self.path.clone(),
            attempt: self.attempt,
            strand,
            kind,
            ids: self.ids,
            credit,
        })
    }

    /// Records that a fault struck.
    pub(crate) fn struck(&self, strand: Strand, strike: &crate::fault::Strike) {
        self.say(
            strand,
            Kind::FaultInjected {
                point: strike.point.to_string(),
                action: strike.action.to_string(),
                nth: strike.nth,
            },
        );
    }

    /// The same session in another attempt.
    pub(crate) fn at(&self, attempt: u32) -> Self {
        Self { attempt, ..self.clone() }
    }
}
