//! Compares the bodies of two trees: first strand by strand, then in their overall order.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;

use crate::ids::{SessionPath, Strand, TreeId};

use super::store::{Limit, Source, StoreError, Stored};

/// How two trees differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Bodies that were found equal.
    pub equal: u64,
    /// The first body that differs, strand by strand. `None`: every strand is equal.
    pub first: Option<Difference>,
    /// Whether the bodies are also in the same order over all strands, as two simulated runs of one seed are.
    pub same_order: bool,
}

/// One body that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The session.
    pub path: String,
    /// The strand.
    pub strand: String,
    /// Its number within the strand.
    pub n: u32,
    /// The body and its place in the left tree; `None` where that tree has none.
    pub left: Option<(u64, String)>,
    /// The same of the right tree.
    pub right: Option<(u64, String)>,
}

/// The part of a body that says where it belongs.
#[derive(Deserialize)]
struct Place {
    path: SessionPath,
    strand: Strand,
    n: u32,
}

/// Bodies of one strand that one tree has and the other has not shown yet. Only the nearer side waits.
struct Ahead {
    left: bool,
    waiting: VecDeque<(u32, Stored)>,
}

#[derive(Default)]
struct Strands(BTreeMap<(SessionPath, Strand), Ahead>);

impl Strands {
    /// Matches one body with the other tree's, if that is already known. `Err` is the difference.
    fn meet(&mut self, left: bool, stored: Stored) -> Result<bool, Box<Difference>> {
        let place: Place = match serde_json::from_str(&stored.body) {
            Ok(place) => place,
            // A body that cannot be read has no place: it is compared where it would begin the tree.
            Err(_) => Place { path: SessionPath::root(), strand: Strand::Tree, n: 0 },
        };
        let key = (place.path, place.strand);
        let ahead = self.0.entry(key.clone()).or_insert_with(|| Ahead { left, waiting: VecDeque::new() });
        if ahead.left == left {
            ahead.waiting.push_back((place.n, stored));
            return Ok(false);
        }
        let Some((_, other)) = ahead.waiting.pop_front() else { return Ok(false) };
        if ahead.waiting.is_empty() {
            self.0.remove(&key);
        }
        if other.body == stored.body {
            return Ok(true);
        }
        let (mine, theirs) = (Some((stored.seq, stored.body)), Some((other.seq, other.body)));
        let (left, right) = if left { (mine, theirs) } else { (theirs, mine) };
        Err(Box::new(Difference { path: key.0.to_string(), strand: key.1.to_string(), n: place.n, left, right }))
    }

    /// The earliest body that the other tree does not have.
    fn left_over(self) -> Option<Difference> {
        let seq = |ahead: &Ahead| ahead.waiting.front().map_or(u64::MAX, |(_, stored)| stored.seq);
        let ((path, strand), mut ahead) = self.0.into_iter().min_by_key(|(_, ahead)| seq(ahead))?;
        let (n, stored) = ahead.waiting.pop_front()?;
        let body = Some((stored.seq, stored.body));
        let (left, right) = if ahead.left { (body, None) } else { (None, body) };
        Some(Difference { path: path.to_string(), strand: strand.to_string(), n, left, right })
    }
}

/// Compares `left` with `right`. Memory grows only with how far apart the two orders are.
pub fn diff(left: (&mut dyn Source, TreeId), right: (&mut dyn Source, TreeId)) -> Result<Comparison, StoreError> {
    let (mut left, mut right) = (Bodies::new(left), Bodies::new(right));
    let mut strands = Strands::default();
    let mut found = Comparison { equal: 0, first: None, same_order: true };
    loop {
        let (a, b) = (left.next()?, right.next()?);
        found.same_order &= a.as_ref().map(|a| &a.body) == b.as_ref().map(|b| &b.body);
        if a.is_none() && b.is_none() {
            found.first = strands.left_over();
            return Ok(found);
        }
        for (is_left, stored) in [(true, a), (false, b)] {
            let Some(stored) = stored else { continue };
            match strands.meet(is_left, stored) {
                Ok(equal) => found.equal += u64::from(equal),
                Err(difference) => {
                    found.first = Some(*difference);
                    found.same_order = false;
                    return Ok(found);
                }
            }
        }
    }
}

/// The records of a tree, page by page.
struct Bodies<'a> {
    source: &'a mut dyn Source,
    tree: TreeId,
    next: u64,
    page: VecDeque<Stored>,
    more: bool,
}

impl<'a> Bodies<'a> {
    fn new((source, tree): (&'a mut dyn Source, TreeId)) -> Self {
        Self { source, tree, next: 1, page: VecDeque::new(), more: true }
    }

    fn next(&mut self) -> Result<Option<Stored>, StoreError> {
        if self.page.is_empty() && self.more {
            let page = self.source.read(self.tree, self.next, Limit::default())?;
            self.more = page.more;
            self.page = page.records.into();
        }
        let stored = self.page.pop_front();
        if let Some(stored) = &stored {
            self.next = stored.seq + 1;
        }
        Ok(stored)
    }
}
