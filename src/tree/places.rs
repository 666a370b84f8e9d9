//! Places for live sessions, and how trees share them: no tree can take what another one needs to begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A tree may hold this many times what is still free. So one tree alone comes to the limit, with a hundredth of it still
/// free for others; several trees that want all they can get come to hold the same, and something is free even then.
const GREED: usize = 100;

/// Whether a tree that holds `held` may take one more where `free` are free and `limit` is the most there may be.
fn may_take(held: usize, free: usize, limit: usize) -> bool {
    held < limit && held < free.saturating_mul(GREED)
}

/// The places of a process.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    total: usize,
    limit: usize,
}

/// How many of them a tree holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share(Arc<AtomicUsize>);

/// One live session's place; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    share: Share,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.share.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// No place is to be had now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Busy {
    /// There is none.
    #[error("busy: the process holds as many as it may, {0}")]
    Full(usize),
    /// What is left is for other trees.
    #[error("busy: this tree holds {held} of {limit}, and the {free} that are free are kept for others")]
    Kept { held: usize, limit: usize, free: usize },
}

impl Places {
    /// `limit` places for one tree, and where that is many some more for those that come when it holds them all.
    pub(crate) fn new(limit: u32) -> Self {
        let limit = limit as usize;
        let total = limit + limit / GREED;
        Self { free: Arc::new(Semaphore::new(total)), total, limit }
    }

    /// All there are.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// How many are free.
    pub(crate) fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// A place for one more session of the tree with this share.
    pub(crate) fn take(&self, share: &Share) -> Result<Place, Busy> {
        let free = self.free();
        // Counted first, so that two sessions of a tree cannot both take the last.
        let held = share.0.fetch_add(1, Ordering::Relaxed);
        let permit = match may_take(held, free, self.limit) {
            true => self.free.clone().try_acquire_owned().map_err(|_| Busy::Full(self.total)),
            false if free == 0 => Err(Busy::Full(self.total)),
            false => Err(Busy::Kept { held, limit: self.limit, free }),
        };
        match permit {
            Ok(permit) => Ok(Place { _permit: permit, share: share.clone() }),
            Err(busy) => {
                share.0.fetch_sub(1, Ordering::Relaxed);
                Err(busy)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(places: &Places, share: &Share) -> Vec<Place> {
        std::iter::from_fn(|| places.take(share).ok()).collect()
    }

    #[test]
    fn one_tree_comes_to_the_limit_and_others_still_begin() {
        let places = Places::new(10_000);
        let hog = Share::default();
        let held = all(&places, &hog);
        assert_eq!(held.len(), 10_000);
        assert!(matches!(places.take(&hog), Err(Busy::Kept { .. })));
        let modest = Share::default();
        assert_eq!(all(&places, &modest).len(), 100);
        drop(held);
        assert_eq!(places.free(), places.total());
    }

    #[test]
    fn a_small_number_is_there_for_whoever_comes_first() {
        for limit in 1..50 {
            let places = Places::new(limit);
            assert_eq!(all(&places, &Share::default()).len(), limit as usize);
        }
    }

    #[test]
    fn trees_that_want_everything_come_to_hold_the_same() {
        let places = Places::new(10_000);
        let (first, second) = (Share::default(), Share::default());
        let mut of_first = all(&places, &first);
        let mut of_second = all(&places, &second);
        // Sessions end at random; both trees want each place that comes free.
        for round in 0..40_000_usize {
            let held = if round % 2 == 0 { &mut of_first } else { &mut of_second };
            let one = held.len().saturating_sub(1);
            held.truncate(one);
            of_first.extend(places.take(&first));
            of_second.extend(places.take(&second));
        }
        let (a, b) = (of_first.len(), of_second.len());
        assert!(a.abs_diff(b) * 20 < a + b, "{a} and {b}");
    }

    proptest! {
        #[test]
        fn what_is_taken_and_given_back_in_any_order_adds_up(limit in 1_u32..400, steps in proptest::collection::vec((0_usize..4, any::<bool>()), 0..600)) {
            let places = Places::new(limit);
            let shares: Vec<Share> = (0..4).map(|_| Share::default()).collect();
            let mut held: Vec<Vec<Place>> = (0..4).map(|_| Vec::new()).collect();
            for (tree, take) in steps {
                if take {
                    held[tree].extend(places.take(&shares[tree]));
                } else {
                    held[tree].pop();
                }
                let all: usize = held.iter().map(Vec::len).sum();
                prop_assert_eq!(places.free() + all, places.total());
                prop_assert!(held.iter().all(|held| held.len() <= limit as usize));
            }
        }
    }
}
