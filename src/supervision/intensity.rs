//! How many restarts within which time are too many.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// At most `max_restarts` within any `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Intensity {
    max_restarts: u32,
    window: Duration,
}

/// An intensity that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntensityError {
    /// More restarts than can be remembered.
    #[error("max_restarts is {asked}: set it to {} or less", Intensity::MOST)]
    TooMany {
        /// What was asked.
        asked: u32,
    },
    /// A window in which nothing can be counted, or one longer than a run.
    #[error("window is {asked:?}: set it to between 1 ms and 24 hours")]
    Window {
        /// What was asked.
        asked: Duration,
    },
}

impl Intensity {
    /// The most restarts within a window that can be asked for; it bounds what is remembered.
    pub const MOST: u32 = 1_000;

    /// At most `max_restarts` within any `window`. 0 restarts: the first failure is the last.
    pub fn new(max_restarts: u32, window: Duration) -> Result<Self, IntensityError> {
        if max_restarts > Self::MOST {
            return Err(IntensityError::TooMany { asked: max_restarts });
        }
        if window < Duration::from_millis(1) || window > Duration::from_secs(24 * 60 * 60) {
            return Err(IntensityError::Window { asked: window });
        }
        Ok(Self { max_restarts, window })
    }

    /// How many restarts are allowed within the window.
    pub fn max_restarts(&self) -> u32 {
        self.max_restarts
    }

    /// The time within which they are counted.
    pub fn window(&self) -> Duration {
        self.window
    }
}

impl Default for Intensity {
    /// 3 in 60 s.
    fn default() -> Self {
        Self { max_restarts: 3, window: Duration::from_secs(60) }
    }
}

/// The restarts already granted, as far back as the window reaches.
///
/// A granted restart counts from the moment it is granted until the window has passed since it *took place*. So
/// neither the failures that were answered by a restart nor the restarts themselves, which come later by the wait, are
/// ever more than allowed in any window. It remembers at most `max_restarts` times.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Restarts {
    intensity: Intensity,
    /// Granted, not yet taken place.
    due: u32,
    /// When the others took place, oldest first.
    taken: VecDeque<Instant>,
}

impl Restarts {
    /// None granted so far.
    pub fn new(intensity: Intensity) -> Self {
        Self { intensity, due: 0, taken: VecDeque::new() }
    }

    /// Whether another restart would be granted now.
    pub fn left(&self, now: Instant) -> bool {
        self.counted(now) < self.intensity.max_restarts
    }

    /// Grants a restart that is to take place later, or refuses it: then it is one too many.
    /// A granted one is followed by one call of [`taken`](Self::taken).
    #[must_use]
    pub fn grant(&mut self, now: Instant) -> bool {
        let granted = self.left(now);
        if granted {
            self.due += 1;
        }
        granted
    }

    /// A granted restart takes place now, or never will: it is spent either way.
    pub fn taken(&mut self, now: Instant) {
        if self.due == 0 {
            return;
        }
        self.due -= 1;
        while self.taken.front().is_some_and(|&at| !self.counts(at, now)) {
            self.taken.pop_front();
        }
        self.taken.push_back(now);
    }

    /// All that were granted have taken place by now, or never will.
    pub fn all_taken(&mut self, now: Instant) {
        (0..self.due).for_each(|_| self.taken(now));
    }

    /// Grants a restart that takes place now, or refuses it.
    #[must_use]
    pub fn spend(&mut self, now: Instant) -> bool {
        let granted = self.grant(now);
        if granted {
            self.taken(now);
        }
        granted
    }

    fn counted(&self, now: Instant) -> u32 {
        let taken = self.taken.iter().filter(|&&at| self.counts(at, now)).count();
        self.due.saturating_add(u32::try_from(taken).unwrap_or(u32::MAX))
    }

    /// The window is closed at both ends.
    fn counts(&self, at: Instant, now: Instant) -> bool {
        now.saturating_duration_since(at) <= self.intensity.window
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn one_more_than_allowed_is_refused_until_the_window_has_passed() {
        let start = Instant::now();
        let mut restarts = Restarts::new(Intensity::new(3, 100 * MS).unwrap());
        assert!((0..3).all(|n| restarts.spend(start + n * MS)));
        assert!(!restarts.spend(start + 3 * MS));
        assert!(!restarts.spend(start + 100 * MS), "the window is closed at both ends");
        assert!(restarts.spend(start + 101 * MS));
        assert!(!restarts.spend(start + 101 * MS));
    }

    #[test]
    fn a_granted_restart_counts_until_a_window_after_it_took_place() {
        let start = Instant::now();
        let mut restarts = Restarts::new(Intensity::new(1, 100 * MS).unwrap());
        assert!(restarts.grant(start));
        assert!(!restarts.left(start + 1_000 * MS), "due however late");
        restarts.taken(start + 1_000 * MS);
        assert!(!restarts.left(start + 1_100 * MS));
        assert!(restarts.left(start + 1_101 * MS));
    }

    #[test]
    fn none_allowed_is_none_and_a_restart_nobody_granted_is_not_counted() {
        let start = Instant::now();
        let mut restarts = Restarts::new(Intensity::new(0, MS).unwrap());
        restarts.taken(start);
        assert!(!restarts.spend(start));
        assert!(restarts.taken.is_empty());
    }

    proptest! {
        #[test]
        fn never_more_than_allowed_in_any_window(
            max in 0_u32..6, window in 1_u32..200, gaps in prop::collection::vec((0_u32..120, 0_u32..60), 0..120),
        ) {
            let mut now = Instant::now();
            let mut restarts = Restarts::new(Intensity::new(max, window * MS).unwrap());
            let (mut granted, mut taken) = (Vec::new(), Vec::new());
            for (gap, wait) in gaps {
                now += gap * MS;
                if restarts.grant(now) {
                    granted.push(now);
                    now += wait * MS;
                    restarts.taken(now);
                    taken.push(now);
                }
                prop_assert!(restarts.taken.len() <= max as usize);
            }
            for times in [&granted, &taken] {
                for from in times {
                    let within = times.iter().filter(|&t| t >= from && *t - *from <= window * MS).count();
                    prop_assert!(within <= max as usize);
                }
            }
        }
    }
}
