//! Progress, not heartbeats: whether something has stalled.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// When a session, and each of its children with everything below it, last made progress, and what it waits for.
///
/// Progress is what the work itself does: a text, a call, a result, a record. That a process answers is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<Id: Ord> {
    own: Instant,
    children: BTreeMap<Id, Instant>,
    waits_for_person: bool,
    waits_for_children: bool,
}

/// A judgement on progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// It has stalled: nothing since then, of itself or anything below it.
    Stalled {
        /// The last progress.
        since: Instant,
    },
    /// It has not; look again then.
    CheckAt(Instant),
    /// It waits for a person, whose question has a deadline of its own: look again when the wait is over.
    Waiting,
}

impl<Id: Ord> Progress<Id> {
    /// Something that starts now, without children.
    pub fn new(now: Instant) -> Self {
        Self { own: now, children: BTreeMap::new(), waits_for_person: false, waits_for_children: false }
    }

    /// It made progress itself.
    pub fn moved(&mut self, at: Instant) {
        self.own = self.own.max(at);
    }

    /// A child, or something below it, made progress: its start is the first. One entry for each live child.
    pub fn child_moved(&mut self, child: Id, at: Instant) {
        let last = self.children.entry(child).or_insert(at);
        *last = at.max(*last);
    }

    /// A child is gone, which is progress of its parent.
    pub fn child_gone(&mut self, child: &Id, at: Instant) {
        if self.children.remove(child).is_some() {
            self.moved(at);
        }
    }

    /// It begins or ceases to wait for a person. Either is progress.
    pub fn wait_for_person(&mut self, waits: bool, at: Instant) {
        self.waits_for_person = waits;
        self.moved(at);
    }

    /// It begins or ceases to wait for its children. Either is progress.
    pub fn wait_for_children(&mut self, waits: bool, at: Instant) {
        self.waits_for_children = waits;
        self.moved(at);
    }

    /// The last progress of it or of anything below it: what its parent is told.
    pub fn last(&self) -> Instant {
        self.children.values().fold(self.own, |last, &child| last.max(child))
    }

    /// Whether it has stalled, with `stall` as the limit.
    ///
    /// One that waits for live children is never the stalled one, however silent they are: they are judged themselves,
    /// and the judgement on them is what moves it again.
    pub fn judge(&self, now: Instant, stall: Duration) -> Stall {
        if self.waits_for_person {
            return Stall::Waiting;
        }
        let last = self.last();
        if now.saturating_duration_since(last) < stall {
            return Stall::CheckAt(last + stall);
        }
        if self.waits_for_children && !self.children.is_empty() {
            return Stall::CheckAt(now + stall);
        }
        Stall::Stalled { since: last }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const STALL: Duration = Duration::from_millis(100);

    #[test]
    fn a_silent_leaf_has_stalled_at_its_limit_and_not_before() {
        let start = Instant::now();
        let mut leaf = Progress::<u32>::new(start);
        assert_eq!(leaf.judge(start + 99 * MS, STALL), Stall::CheckAt(start + STALL));
        assert_eq!(leaf.judge(start + STALL, STALL), Stall::Stalled { since: start });
        leaf.moved(start + 99 * MS);
        assert_eq!(leaf.judge(start + STALL, STALL), Stall::CheckAt(start + 199 * MS));
    }

    #[test]
    fn a_parent_with_a_busy_child_has_not_stalled_whether_it_waits_or_not() {
        let start = Instant::now();
        let mut parent = Progress::new(start);
        parent.child_moved(0, start + 1_000 * MS);
        for waits in [false, true] {
            parent.wait_for_children(waits, start);
            assert_eq!(parent.judge(start + 1_050 * MS, STALL), Stall::CheckAt(start + 1_100 * MS));
        }
    }

    #[test]
    fn of_a_line_that_fell_silent_only_the_leaf_has_stalled() {
        let start = Instant::now();
        let mut line: Vec<Progress<u32>> = (0..5).map(|_| Progress::new(start)).collect();
        for parent in &mut line[..4] {
            parent.child_moved(0, start);
            parent.wait_for_children(true, start);
        }
        let now = start + 10 * STALL;
        let stalled: Vec<bool> =
            line.iter().map(|session| matches!(session.judge(now, STALL), Stall::Stalled { .. })).collect();
        assert_eq!(stalled, [false, false, false, false, true]);
    }

    #[test]
    fn waiting_for_children_that_are_all_gone_is_no_excuse() {
        let start = Instant::now();
        let mut parent = Progress::new(start);
        parent.child_moved(7, start);
        parent.wait_for_children(true, start);
        parent.child_gone(&7, start + 50 * MS);
        assert_eq!(parent.judge(start + 149 * MS, STALL), Stall::CheckAt(start + 150 * MS));
        assert_eq!(parent.judge(start + 150 * MS, STALL), Stall::Stalled { since: start + 50 * MS });
    }

    #[test]
    fn whoever_waits_for_a_person_has_not_stalled_until_the_wait_is_over() {
        let start = Instant::now();
        let mut asking = Progress::<u32>::new(start);
        asking.wait_for_person(true, start);
        assert_eq!(asking.judge(start + 1_000 * STALL, STALL), Stall::Waiting);
        asking.wait_for_person(false, start + 1_000 * STALL);
        assert_eq!(asking.judge(start + 1_000 * STALL, STALL), Stall::CheckAt(start + 1_001 * STALL));
        assert!(matches!(asking.judge(start + 1_001 * STALL, STALL), Stall::Stalled { .. }));
    }

    proptest! {
        #[test]
        fn the_next_look_is_always_ahead_and_a_stall_is_never_before_the_limit(
            own in 0_u32..500, children in prop::collection::btree_map(0_u8..5, 0_u32..500, 0..5), waits in any::<[bool; 2]>(), at in 0_u32..1_000,
        ) {
            let start = Instant::now();
            let mut progress = Progress::new(start);
            progress.wait_for_person(waits[0], start);
            progress.wait_for_children(waits[1], start);
            progress.moved(start + own * MS);
            for (&child, &moved) in &children {
                progress.child_moved(child, start + moved * MS);
            }
            let now = start + at * MS;
            let latest = children.values().copied().max().unwrap_or(0).max(own);
            let excused = waits[1] && !children.is_empty();
            match progress.judge(now, STALL) {
                Stall::Waiting => prop_assert!(waits[0]),
                Stall::CheckAt(next) => {
                    prop_assert!(next > now && !waits[0]);
                    prop_assert!(next == start + latest * MS + STALL || (excused && next == now + STALL));
                }
                Stall::Stalled { since } => {
                    prop_assert!(at >= latest + 100 && since == start + latest * MS);
                    prop_assert!(!waits[0] && !excused);
                }
            }
        }
    }
}
