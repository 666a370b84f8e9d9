//! When something supervised is restarted, and how often: what a manifest's `[restart]` becomes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Backoff, BackoffError, Intensity, IntensityError, Rerun};

/// Which exits are followed by a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestartType {
    /// Every one. A session's task that is done is never run again, though: there it is as `Transient`.
    Permanent,
    /// Failures; what finished its work, was cancelled or was refused stays down.
    Transient,
    /// None.
    Temporary,
}

/// The restart rules of a session, validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RestartSpec {
    restart: RestartType,
    intensity: Intensity,
    backoff: Backoff,
    rerun: Rerun,
}

/// Restart rules that make no sense. The message names the key and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestartSpecError {
    /// `max_restarts` or `window`.
    #[error(transparent)]
    Intensity(#[from] IntensityError),
    /// `backoff`.
    #[error(transparent)]
    Backoff(#[from] BackoffError),
}

impl RestartSpecError {
    /// The key below `[restart]` that is at fault.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Intensity(IntensityError::TooMany { .. }) => "max_restarts",
            Self::Intensity(IntensityError::Window { .. }) => "window",
            Self::Backoff(BackoffError::InitialOverMax { .. } | BackoffError::NeverGrows) => "backoff.initial",
            Self::Backoff(BackoffError::TooLong { .. }) => "backoff.max",
        }
    }
}

impl RestartSpec {
    /// The rules: at most `max_restarts` within any `window`, waiting from `backoff.0` to `backoff.1` before each.
    pub fn new(
        restart: RestartType,
        max_restarts: u32,
        window: Duration,
        backoff: (Duration, Duration),
        rerun: Rerun,
    ) -> Result<Self, RestartSpecError> {
        let intensity = Intensity::new(max_restarts, window)?;
        let backoff = Backoff::new(backoff.0, backoff.1)?;
        Ok(Self { restart, intensity, backoff, rerun })
    }

    /// Which exits are followed by a restart.
    pub fn restart(&self) -> RestartType {
        self.restart
    }

    /// How many restarts, within which time.
    pub fn intensity(&self) -> Intensity {
        self.intensity
    }

    /// How long to wait before each.
    pub fn backoff(&self) -> Backoff {
        self.backoff
    }

    /// Whether the same task may simply be run again.
    pub fn rerun(&self) -> Rerun {
        self.rerun
    }

    /// How long an incarnation must have been up for its failure to be the first of a new row: the window, and never
    /// less than the longest wait.
    pub fn healthy_after(&self) -> Duration {
        self.intensity.window().max(self.backoff.max())
    }
}

impl Default for RestartSpec {
    /// Transient, 3 in 60 s, waiting 200 ms to 10 s, and a person is asked before a task is run again.
    fn default() -> Self {
        Self {
            restart: RestartType::Transient,
            intensity: Intensity::default(),
            backoff: Backoff::default(),
            rerun: Rerun::Ask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_default_is_the_documented_one() {
        let made = RestartSpec::new(
            RestartType::Transient,
            3,
            60 * SECOND,
            (Duration::from_millis(200), 10 * SECOND),
            Rerun::Ask,
        );
        assert_eq!(made, Ok(RestartSpec::default()));
    }

    #[test]
    fn rules_that_make_no_sense_are_refused_by_key() {
        let key = |max, window, backoff| {
            RestartSpec::new(RestartType::Transient, max, window, backoff, Rerun::No).unwrap_err().key()
        };
        let fine = (SECOND, SECOND);
        assert_eq!(key(Intensity::MOST + 1, SECOND, fine), "max_restarts");
        assert_eq!(key(3, Duration::ZERO, fine), "window");
        assert_eq!(key(3, SECOND, (2 * SECOND, SECOND)), "backoff.initial");
        assert_eq!(key(3, SECOND, (Duration::ZERO, SECOND)), "backoff.initial");
        assert_eq!(key(3, SECOND, (SECOND, 2 * Backoff::LONGEST)), "backoff.max");
    }

    #[test]
    fn health_is_never_shorter_than_the_longest_wait() {
        let spec = RestartSpec::new(RestartType::Transient, 3, SECOND, (SECOND, 9 * SECOND), Rerun::No).unwrap();
        assert_eq!(spec.healthy_after(), 9 * SECOND);
        assert_eq!(RestartSpec::default().healthy_after(), 60 * SECOND);
    }

    #[test]
    fn types_are_written_as_in_a_manifest() {
        assert_eq!(serde_json::to_string(&RestartType::Transient).unwrap(), "\"transient\"");
        assert_eq!(serde_json::from_str::<Rerun>("\"ask\"").unwrap(), Rerun::Ask);
    }
}
