//! How long to wait before the next try.

use std::time::Duration;

use tokio::time::Instant;

/// A wait that doubles with every failure in a row, from `initial` up to `max`.
///
/// The wait is drawn between the half and the whole of the doubled value, so that siblings that failed together do
/// not come back together. The number it is drawn with is passed in: the same numbers give the same waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
}

/// Waits that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackoffError {
    /// The first wait is longer than the longest.
    #[error("backoff.initial is {initial:?}, longer than backoff.max, {max:?}: lower `initial` or raise `max`")]
    InitialOverMax {
        /// The first wait.
        initial: Duration,
        /// The longest wait.
        max: Duration,
    },
    /// Nothing doubled is nothing: the wait would never grow towards `max`.
    #[error(
        "backoff.initial is 0, which never grows: set it to 1 ms or more, or `max` to 0 as well for no wait at all"
    )]
    NeverGrows,
    /// The longest wait is longer than [`Backoff::LONGEST`].
    #[error("backoff.max is {max:?}: set it to 24 hours or less")]
    TooLong {
        /// The longest wait.
        max: Duration,
    },
}

impl Backoff {
    /// No wait at all. For what is cheap to rebuild and bounded by its intensity alone.
    pub const NONE: Self = Self { initial: Duration::ZERO, max: Duration::ZERO };

    /// The longest `max` accepted: a day.
    pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

    /// A wait from `initial` to `max`.
    pub fn new(initial: Duration, max: Duration) -> Result<Self, BackoffError> {
        if initial > max {
            return Err(BackoffError::InitialOverMax { initial, max });
        }
        if initial.is_zero() && !max.is_zero() {
            return Err(BackoffError::NeverGrows);
        }
        if max > Self::LONGEST {
            return Err(BackoffError::TooLong { max });
        }
        Ok(Self { initial, max })
    }

    /// The first wait.
    pub fn initial(&self) -> Duration {
        self.initial
    }

    /// The longest wait.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The wait after the `failures`th failure in a row (1 for the first). `unit` is a number in `0.0..=1.0`; one outside
    /// of it counts as its nearest end.
    pub fn wait(&self, failures: u32, unit: f64) -> Duration {
        let whole = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .and_then(|factor| self.initial.checked_mul(factor))
            .map_or(self.max, |doubled| doubled.min(self.max));
        let unit = if unit.is_nan() { 0.0 } else { unit.clamp(0.0, 1.0) };
        (whole / 2).saturating_add((whole - whole / 2).mul_f64(unit)).min(whole)
    }
}

impl Default for Backoff {
    /// 200 ms to 10 s.
    fn default() -> Self {
        Self { initial: Duration::from_millis(200), max: Duration::from_secs(10) }
    }
}

/// The failures in a row of one thing that is tried again. Only sustained health ends the row: a start that succeeds and
/// fails a moment later is one more failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Failures {
    in_a_row: u32,
}

impl Failures {
    /// One more failure, and the number of it in its row. `up_since` is when it came up, where it did; up for
    /// `healthy_after` or longer, the row begins anew.
    pub fn failed(&mut self, up_since: Option<Instant>, now: Instant, healthy_after: Duration) -> u32 {
        if up_since.is_some_and(|since| now.saturating_duration_since(since) >= healthy_after) {
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.in_a_row
    }

    /// How many failures in a row so far.
    pub fn in_a_row(&self) -> u32 {
        self.in_a_row
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn it_doubles_to_its_longest_and_stays_there() {
        let backoff = Backoff::new(200 * MS, 10_000 * MS).unwrap();
        let waits: Vec<_> = (1..=8).map(|n| backoff.wait(n, 1.0).as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(backoff.wait(1, 0.0), 100 * MS);
        assert_eq!(backoff.wait(0, 1.0), 200 * MS);
    }

    #[test]
    fn waits_that_make_no_sense_cannot_be_made() {
        assert!(matches!(Backoff::new(2 * MS, MS), Err(BackoffError::InitialOverMax { .. })));
        assert_eq!(Backoff::new(Duration::ZERO, MS), Err(BackoffError::NeverGrows));
        assert!(matches!(Backoff::new(MS, Backoff::LONGEST + MS), Err(BackoffError::TooLong { .. })));
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO), Ok(Backoff::NONE));
    }

    #[test]
    fn only_sustained_health_ends_a_row_of_failures() {
        let start = Instant::now();
        let mut failures = Failures::default();
        let healthy = 1_000 * MS;
        assert_eq!(failures.failed(None, start, healthy), 1);
        assert_eq!(failures.failed(Some(start), start + 999 * MS, healthy), 2);
        assert_eq!(failures.failed(Some(start), start + 1_000 * MS, healthy), 1);
        assert_eq!(failures.failed(None, start + 9_000 * MS, healthy), 2, "never up is never healthy");
    }

    proptest! {
        #[test]
        fn any_wait_is_between_half_and_whole_and_never_over_the_longest(
            initial in 1_u64..=100_000, more in 0_u64..=80_000_000 - 100_000, failures in any::<u32>(), unit in any::<f64>(),
        ) {
            let backoff = Backoff::new(MS * u32::try_from(initial).unwrap(), Duration::from_millis(initial + more)).unwrap();
            let wait = backoff.wait(failures, unit);
            prop_assert!(wait <= backoff.max());
            prop_assert!(wait >= backoff.initial() / 2);
            prop_assert!(backoff.wait(failures.saturating_add(1), 0.0) >= backoff.wait(failures, 0.0));
            prop_assert_eq!(backoff.wait(u32::MAX, 1.0), backoff.max());
        }
    }
}
