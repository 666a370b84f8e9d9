//! One stop, two times.

use std::time::Duration;

use tokio::time::Instant;

/// When a stop kills what has not gone by itself, and when everything below it is gone.
///
/// `kill_at` is the same all the way down: what runs at the leaves is killed then. `done_by` is when the level where
/// the stop began has nothing left below it. Between the two the levels give up one after the other, the lowest first:
/// with δ = (`done_by` − `kill_at`) / (deepest level + 2), level *d* abandons what is left of a child at
/// `done_by` − δ·(*d* + 1). So no parent gives up on a child before the child's own time, at any depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StopTimes {
    kill_at: Instant,
    done_by: Instant,
    /// Levels below where the stop began.
    level: u32,
    /// The deepest level below where the stop began.
    deepest: u32,
}

/// Two times in the wrong order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stop would kill {late:?} after everything is to be gone: kill at `done_by` or before")]
pub struct StopTimesError {
    late: Duration,
}

impl StopTimes {
    /// A stop that begins here, with `deepest` levels below (0: no children).
    pub fn new(kill_at: Instant, done_by: Instant, deepest: u32) -> Result<Self, StopTimesError> {
        if kill_at > done_by {
            return Err(StopTimesError { late: kill_at - done_by });
        }
        Ok(Self { kill_at, done_by, level: 0, deepest })
    }

    /// A stop that is done within `grace` from now and kills after half of it.
    pub fn within(now: Instant, grace: Duration, deepest: u32) -> Self {
        // A grace too long for the clock is as far as the clock goes in half a century.
        let grace = grace.min(Duration::from_secs(50 * 365 * 24 * 60 * 60));
        Self { kill_at: now + grace / 2, done_by: now + grace, level: 0, deepest }
    }

    /// When what has not gone by itself is killed.
    pub fn kill_at(&self) -> Instant {
        self.kill_at
    }

    /// When nothing is left at the level where the stop began.
    pub fn done_by(&self) -> Instant {
        self.done_by
    }

    /// How many levels below where the stop began this is.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// When this level gives up on a child that is not confirmed gone, and closes what is left of its subtree. Never
    /// before `kill_at`, and never before a child's own.
    pub fn abandon_at(&self) -> Instant {
        let (numerator, parts) = self.fraction();
        let span = (self.done_by - self.kill_at).as_nanos();
        // Rounded down, so that the lowest level's time is not before `kill_at`.
        let before = span * u128::from(numerator) / u128::from(parts);
        self.done_by - Duration::from_nanos(u64::try_from(before).unwrap_or(u64::MAX))
    }

    /// The same stop for a child. Below the deepest level nothing is left but the time of the kill.
    #[must_use]
    pub fn one_level_down(&self) -> Self {
        Self { level: self.level.saturating_add(1).min(self.deepest.saturating_add(1)), ..*self }
    }

    /// This stop after another one came: of each time the earlier. A stop can only tighten.
    #[must_use]
    pub fn tighten(&self, other: Self) -> Self {
        let ((a, of_a), (b, of_b)) = (self.fraction(), other.fraction());
        // Of two places in two stops the one that abandons earlier.
        let earlier = if u128::from(b) * u128::from(of_a) > u128::from(a) * u128::from(of_b) { &other } else { self };
        Self {
            kill_at: self.kill_at.min(other.kill_at),
            done_by: self.done_by.min(other.done_by),
            level: earlier.level,
            deepest: earlier.deepest,
        }
    }

    /// How far from `done_by` towards `kill_at` this level abandons.
    fn fraction(&self) -> (u64, u64) {
        (u64::from(self.level) + 1, u64::from(self.deepest) + 2)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_kill_after_the_end_cannot_be_written() {
        let now = Instant::now();
        assert!(StopTimes::new(now + MS, now, 0).is_err());
        let at_once = StopTimes::new(now, now, 3).unwrap();
        assert_eq!(at_once.abandon_at(), now);
        assert_eq!(StopTimes::within(now, Duration::MAX, 0).level(), 0);
    }

    #[test]
    fn levels_give_up_as_the_formula_says() {
        let now = Instant::now();
        let root = StopTimes::new(now + 10 * MS, now + 50 * MS, 2).unwrap();
        let down = std::iter::successors(Some(root), |times| Some(times.one_level_down()));
        let at: Vec<_> = down.take(6).map(|times| (times.abandon_at() - now).as_millis()).collect();
        assert_eq!(at, [40, 30, 20, 10, 10, 10]);
    }

    /// A line of sessions in which nothing goes before it must: the lowest dies `late` after the kill, every other
    /// when its child is gone or given up on. The times each is gone, the root first.
    fn stop_a_line(root: StopTimes, depth: u32, late: Duration) -> Vec<(StopTimes, Instant)> {
        let levels: Vec<_> =
            std::iter::successors(Some(root), |t| Some(t.one_level_down())).take(depth as usize + 1).collect();
        let mut gone: Vec<(StopTimes, Instant)> = Vec::new();
        for &times in levels.iter().rev() {
            let at = gone.last().map_or(times.kill_at() + late, |&(_, child)| child.min(times.abandon_at()));
            gone.push((times, at));
        }
        gone.reverse();
        gone
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn at_depth_1000_no_parent_gives_up_before_its_child_and_all_are_gone_in_time(
            kill in 0_u64..20_000_000_000, span in 0_u64..40_000_000_000, late in 0_u64..80_000_000_000,
        ) {
            let now = Instant::now();
            let kill_at = now + Duration::from_nanos(kill);
            let root = StopTimes::new(kill_at, kill_at + Duration::from_nanos(span), 1_000).unwrap();
            let line = stop_a_line(root, 1_000, Duration::from_nanos(late));
            prop_assert!(line[0].1 <= root.done_by());
            for pair in line.windows(2) {
                let ((parent, parent_gone), (child, child_gone)) = (pair[0], pair[1]);
                prop_assert!(child.abandon_at() <= parent.abandon_at());
                prop_assert!(child.abandon_at() >= kill_at);
                prop_assert_eq!(child.kill_at(), kill_at);
                // With time for every level to act in, the child's time is strictly before its parent's.
                prop_assert!(span < 1_002 || child.abandon_at() < parent.abandon_at());
                prop_assert!(parent_gone <= parent.abandon_at());
                prop_assert!(child.level() == 1_000 || child_gone <= parent.abandon_at());
            }
        }

        #[test]
        fn a_later_stop_only_tightens_and_parents_still_outwait_their_children(
            kill in [0_u32..500, 0_u32..500], span in [0_u32..500, 0_u32..500], deepest in [0_u32..12, 0_u32..12], started in 0_u32..12,
        ) {
            let now = Instant::now();
            let times = |n: usize| StopTimes::new(now + kill[n] * MS, now + (kill[n] + span[n]) * MS, deepest[n]).unwrap();
            // The first stop began `started` levels above the second.
            let mut first = (0..started).fold(times(0), |times, _| times.one_level_down());
            let mut second = times(1);
            let mut parents: Option<(StopTimes, StopTimes)> = None;
            for _ in 0..14 {
                let both = first.tighten(second);
                for one in [first, second] {
                    prop_assert!(both.kill_at() <= one.kill_at());
                    prop_assert!(both.done_by() <= one.done_by());
                    prop_assert!(both.abandon_at() <= one.abandon_at());
                }
                prop_assert!(both.kill_at() <= both.done_by());
                prop_assert_eq!(both.tighten(first), both);
                if let Some((handed_down, parent)) = parents {
                    // Whether the child put the two together itself or its parent did for it.
                    prop_assert!(handed_down.abandon_at() <= parent.abandon_at());
                    prop_assert!(both.abandon_at() <= parent.abandon_at());
                }
                parents = Some((both.one_level_down(), both));
                (first, second) = (first.one_level_down(), second.one_level_down());
            }
        }
    }
}
