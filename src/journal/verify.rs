//! Holds a tree to its promises, from the stored bytes alone.

use std::fmt;

use super::chain;
use super::fold::{Fold, Refused, Summary};
use super::record::{Body, Envelope};
use super::store::{Filter, Limit, Source, StoreError, Stored, Tip, TreeInfo};
use crate::ids::{SessionPath, TreeId};

/// How many problems of one tree are told apart; the rest are counted.
const TOLD: usize = 32;

/// What was found of one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The tree.
    pub tree: TreeId,
    /// Records read.
    pub records: u64,
    /// The last record; compare it with a head kept elsewhere to notice a tail that was cut off and re-ended.
    pub head: Option<Tip>,
    /// Whether the tree's ending was seen.
    pub ended: bool,
    /// What had not ended.
    pub open: Summary,
    /// What does not fit, the first of them.
    pub problems: Vec<Problem>,
    /// How many do not fit.
    pub problem_count: u64,
}

impl Verified {
    /// Whether everything fits. A tree that is still running, or was killed, can be whole without its ending.
    pub fn is_whole(&self) -> bool {
        self.problem_count == 0
    }

    fn note(&mut self, problem: Problem) {
        self.problem_count += 1;
        if self.problems.len() < TOLD {
            self.problems.push(problem);
        }
    }
}

/// One thing that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Records are missing, or out of order.
    Gap {
        /// Which number was due.
        expected: u64,
        /// Which was found.
        found: u64,
    },
    /// The bytes are not those that were written, or not in that place.
    Chain {
        /// The record.
        seq: u64,
    },
    /// The bytes are no record of this schema.
    Unreadable {
        /// The record.
        seq: u64,
        /// What the parser said.
        reason: String,
    },
    /// The envelope belongs to another record.
    Envelope {
        /// The record.
        seq: u64,
    },
    /// The record contradicts an earlier one.
    Refused {
        /// The record.
        seq: u64,
        /// The rule.
        refused: Box<Refused>,
    },
    /// The number within its strand is not the next.
    Number {
        /// The record.
        seq: u64,
        /// Where.
        path: SessionPath,
        /// Which number was due.
        expected: u32,
        /// Which was found.
        found: u32,
    },
    /// The store says that the tree has ended, and its ending is not there.
    EndingMissing,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { expected, found } => write!(f, "record {expected} is missing: {found} stands in its place"),
            Self::Chain { seq } => write!(f, "record {seq} is not the one that was written there"),
            Self::Unreadable { seq, reason } => write!(f, "record {seq} cannot be read: {reason}"),
            Self::Envelope { seq } => write!(f, "record {seq} has the envelope of another"),
            Self::Refused { seq, refused } => write!(f, "record {seq} contradicts an earlier one: {refused}"),
            Self::Number { seq, path, expected, found } => {
                write!(f, "record {seq} is number {found} of its strand in {path}, {expected} was due")
            }
            Self::EndingMissing => f.write_str("the tree is said to have ended, and its ending is not there"),
        }
    }
}

/// Reads one tree from its first record to its last, in bounded memory, and checks the chain, the numbering and that
/// no record contradicts another.
pub fn verify(source: &mut dyn Source, info: &TreeInfo) -> Result<Verified, StoreError> {
    let mut found = Verified {
        tree: info.tree,
        records: 0,
        head: None,
        ended: false,
        open: Summary::default(),
        problems: Vec::new(),
        problem_count: 0,
    };
    let fold = replay(source, info.tree, |stored, problems| {
        found.records += 1;
        found.head = Some(Tip { seq: stored.seq, hash: stored.hash });
        problems.into_iter().for_each(|problem| found.note(problem));
    })?;
    found.ended = fold.has_ended();
    found.open = fold.summary();
    if info.ended_at.is_some() && !found.ended {
        found.note(Problem::EndingMissing);
    }
    Ok(found)
}

/// Verifies every tree that `filter` means, newest first; `each` gets the results one by one.
pub fn verify_all(source: &mut dyn Source, filter: &Filter, mut each: impl FnMut(Verified)) -> Result<(), StoreError> {
    for info in source.trees(filter)? {
        each(verify(source, &info)?);
    }
    Ok(())
}

/// Folds the stored records of a tree, page by page. A record that does not fit is passed over.
pub(super) fn replay(
    source: &mut dyn Source,
    tree: TreeId,
    mut each: impl FnMut(&Stored, Vec<Problem>),
) -> Result<Fold, StoreError> {
    let mut fold = Fold::default();
    let (mut next, mut previous) = (1, chain::START);
    loop {
        let page = source.read(tree, next, Limit::default())?;
        for stored in &page.records {
            let mut problems = Vec::new();
            if stored.seq != next {
                problems.push(Problem::Gap { expected: next, found: stored.seq });
            }
            if chain::link(&previous, stored.body.as_bytes(), stored.envelope.as_bytes()) != stored.hash {
                problems.push(Problem::Chain { seq: stored.seq });
            }
            problems.extend(fold_one(&mut fold, tree, stored));
            each(stored, problems);
            // Go on from what is there, so that one break is told once.
            (next, previous) = (stored.seq + 1, stored.hash);
        }
        if !page.more {
            return Ok(fold);
        }
    }
}

fn fold_one(fold: &mut Fold, tree: TreeId, stored: &Stored) -> Option<Problem> {
    let seq = stored.seq;
    let unreadable = |error: serde_json::Error| Some(Problem::Unreadable { seq, reason: error.to_string() });
    match serde_json::from_str::<Envelope>(&stored.envelope) {
        Ok(envelope) if envelope.tree == tree && envelope.seq == seq => {}
        Ok(_) => return Some(Problem::Envelope { seq }),
        Err(error) => return unreadable(error),
    }
    let body = match serde_json::from_str::<Body>(&stored.body) {
        Ok(body) => body,
        Err(error) => return unreadable(error),
    };
    match fold.apply(&body.path, body.attempt, body.strand, &body.kind) {
        Err(refused) => Some(Problem::Refused { seq, refused: Box::new(refused) }),
        Ok(n) if n != body.n => Some(Problem::Number { seq, path: body.path, expected: n, found: body.n }),
        Ok(_) => None,
    }
}
