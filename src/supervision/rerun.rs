//! Restart is not re-run: what follows when an attempt of something that thinks has ended.
//!
//! Infrastructure restarts freely. Doing a task a second time is another matter: it may have sent the mail already.
//! The first row that fits decides:
//!
//! | the attempt ended | type | restarts left | resumable | `rerun` | someone to ask | then |
//! |---|---|---|---|---|---|---|
//! | done, canceled, killed by us | | | | | | end as it was reported or asked |
//! | refused | | | | | | lost |
//! | any other | temporary | | | | | lost |
//! | any other, but throttled | | no | | | | lost |
//! | any other | | | yes | | | resume |
//! | any other | | | no | yes | | run again |
//! | any other | | | no | no | | lost |
//! | any other | | | no | ask | yes | ask |
//! | any other | | | no | ask | no | lost |
//!
//! *Lost* ends `crashed` where no attempt changed the world and `unknown` where one may have. *Throttled* spends no
//! restart: where its row says resume, run again or ask, it is parked until the quota lifts, and that follows then.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ExitClass, RestartType};

/// Whether the same task may simply be run again from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rerun {
    /// It may.
    Yes,
    /// It may not.
    No,
    /// A person decides each time.
    Ask,
}

/// An attempt that has ended, and all that decides what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedAttempt {
    /// How it ended.
    pub class: ExitClass,
    /// Which exits are followed by a restart.
    pub restart: RestartType,
    /// Whether this attempt or an earlier one may have changed the world, as the journal has it.
    pub changed_world: bool,
    /// Whether the task may be run again.
    pub rerun: Rerun,
    /// Whether there is a person to ask.
    pub can_ask: bool,
    /// Whether the next attempt can go on where this one ended, so that nothing is done twice.
    pub can_resume: bool,
    /// Whether the intensity would grant another restart.
    pub restarts_left: bool,
}

/// What follows an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Another attempt goes on where this one ended. Spends a restart.
    Resume,
    /// Another attempt begins the task anew. Spends a restart.
    Rerun,
    /// A person says whether the task is run again; no, or no answer, is the loss [`EndedAttempt::lost`] names.
    Ask,
    /// Nothing for this long, then [`EndedAttempt::after_park`]. Spends no restart.
    Park {
        /// How long, in milliseconds: never under a second, so that a quota that claims to lift at once does not make a
        /// busy loop, and never over a day.
        ms: u64,
    },
    /// The session ends `crashed`: no answer, and nothing outside was changed.
    EndCrashed,
    /// The session ends `unknown`: no answer, and something outside may have been changed.
    EndUnknown,
    /// The session ends as was reported (done) or asked for (canceled, killed by us).
    End,
}

impl EndedAttempt {
    /// What follows: the table at the top of this file.
    pub fn decide(&self) -> Decision {
        match self.class {
            ExitClass::Done | ExitClass::Canceled | ExitClass::KilledByUs => Decision::End,
            ExitClass::Refused => self.lost(),
            ExitClass::Throttled { lifts_ms } => match self.next_attempt(true) {
                Decision::Resume | Decision::Rerun | Decision::Ask => Decision::Park { ms: park_ms(lifts_ms) },
                lost => lost,
            },
            ExitClass::Retryable
            | ExitClass::Stalled
            | ExitClass::OutOfMemory
            | ExitClass::Signal { .. }
            | ExitClass::Trap
            | ExitClass::Panic => self.next_attempt(self.restarts_left),
        }
    }

    /// What follows once a parked attempt's quota has lifted. The restart is not spent.
    pub fn after_park(&self) -> Decision {
        self.next_attempt(true)
    }

    /// How the session ends when no attempt follows.
    pub fn lost(&self) -> Decision {
        if self.changed_world { Decision::EndUnknown } else { Decision::EndCrashed }
    }

    fn next_attempt(&self, restarts_left: bool) -> Decision {
        if self.restart == RestartType::Temporary || !restarts_left {
            return self.lost();
        }
        match self.rerun {
            _ if self.can_resume => Decision::Resume,
            Rerun::Yes => Decision::Rerun,
            Rerun::Ask if self.can_ask => Decision::Ask,
            Rerun::No | Rerun::Ask => self.lost(),
        }
    }
}

/// How long something throttled is parked, whatever the quota claims.
pub(super) fn park(lifts_ms: u64) -> Duration {
    Duration::from_millis(park_ms(lifts_ms))
}

fn park_ms(lifts_ms: u64) -> u64 {
    lifts_ms.clamp(1_000, 24 * 60 * 60 * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [ExitClass; 11] = [
        ExitClass::Done,
        ExitClass::Canceled,
        ExitClass::KilledByUs,
        ExitClass::Refused,
        ExitClass::Throttled { lifts_ms: 5_000 },
        ExitClass::Retryable,
        ExitClass::Stalled,
        ExitClass::OutOfMemory,
        ExitClass::Signal { number: 9 },
        ExitClass::Trap,
        ExitClass::Panic,
    ];

    fn every_attempt() -> Vec<EndedAttempt> {
        let mut all = Vec::new();
        for class in CLASSES {
            for restart in [RestartType::Permanent, RestartType::Transient, RestartType::Temporary] {
                for rerun in [Rerun::Yes, Rerun::No, Rerun::Ask] {
                    for bits in 0..16 {
                        let [changed_world, can_ask, can_resume, restarts_left] = [1, 2, 4, 8].map(|b| bits & b != 0);
                        all.push(EndedAttempt {
                            class,
                            restart,
                            changed_world,
                            rerun,
                            can_ask,
                            can_resume,
                            restarts_left,
                        });
                    }
                }
            }
        }
        all
    }

    /// The table as it is written above: `None` in a cell is one left empty there.
    #[derive(Clone, Copy)]
    struct Row {
        fits: fn(ExitClass) -> bool,
        temporary: Option<bool>,
        left: Option<bool>,
        resumable: Option<bool>,
        rerun: Option<Rerun>,
        ask: Option<bool>,
        /// `None` is *lost*.
        then: Option<Decision>,
    }

    fn table() -> [Row; 9] {
        let other =
            Row { fits: |_| true, temporary: None, left: None, resumable: None, rerun: None, ask: None, then: None };
        [
            Row {
                fits: |class| matches!(class, ExitClass::Done | ExitClass::Canceled | ExitClass::KilledByUs),
                then: Some(Decision::End),
                ..other
            },
            Row { fits: |class| class == ExitClass::Refused, ..other },
            Row { temporary: Some(true), ..other },
            Row { fits: |class| !matches!(class, ExitClass::Throttled { .. }), left: Some(false), ..other },
            Row { resumable: Some(true), then: Some(Decision::Resume), ..other },
            Row { resumable: Some(false), rerun: Some(Rerun::Yes), then: Some(Decision::Rerun), ..other },
            Row { resumable: Some(false), rerun: Some(Rerun::No), ..other },
            Row {
                resumable: Some(false),
                rerun: Some(Rerun::Ask),
                ask: Some(true),
                then: Some(Decision::Ask),
                ..other
            },
            Row { resumable: Some(false), rerun: Some(Rerun::Ask), ask: Some(false), ..other },
        ]
    }

    #[test]
    fn every_attempt_is_decided_as_the_table_says() {
        let mut hits = [0; 9];
        for attempt in every_attempt() {
            let is = |cell: Option<bool>, fact| cell.is_none_or(|cell| cell == fact);
            let (row, hit) = table()
                .into_iter()
                .zip(&mut hits)
                .find(|(row, _)| {
                    (row.fits)(attempt.class)
                        && is(row.temporary, attempt.restart == RestartType::Temporary)
                        && is(row.left, attempt.restarts_left)
                        && is(row.resumable, attempt.can_resume)
                        && row.rerun.is_none_or(|rerun| rerun == attempt.rerun)
                        && is(row.ask, attempt.can_ask)
                })
                .expect("some row fits");
            *hit += 1;
            let throttled = matches!(attempt.class, ExitClass::Throttled { .. });
            let expected = match row.then {
                None if attempt.changed_world => Decision::EndUnknown,
                None => Decision::EndCrashed,
                Some(Decision::End) => Decision::End,
                Some(_) if throttled => Decision::Park { ms: 5_000 },
                Some(then) => then,
            };
            assert_eq!(attempt.decide(), expected, "{attempt:?}");
            if let (true, Some(then)) = (throttled, row.then) {
                assert_eq!(attempt.after_park(), then, "{attempt:?}");
            }
        }
        assert!(hits.iter().all(|&n| n > 0), "every row is met: {hits:?}");
    }

    #[test]
    fn what_ended_for_good_is_never_tried_again() {
        for attempt in every_attempt() {
            let over = matches!(
                attempt.class,
                ExitClass::Done | ExitClass::Canceled | ExitClass::KilledByUs | ExitClass::Refused
            );
            let ends = matches!(attempt.decide(), Decision::End | Decision::EndCrashed | Decision::EndUnknown);
            assert!(ends || !over, "{attempt:?}");
        }
    }

    #[test]
    fn nothing_that_may_have_changed_the_world_is_run_again_unasked() {
        for attempt in every_attempt().into_iter().filter(|a| a.changed_world && a.rerun != Rerun::Yes) {
            assert_ne!(attempt.decide(), Decision::Rerun, "{attempt:?}");
            assert_ne!(attempt.decide(), Decision::EndCrashed, "{attempt:?}");
        }
    }

    #[test]
    fn a_quota_that_lies_about_when_it_lifts_neither_spins_nor_sleeps_for_ever() {
        let parked = |lifts_ms| {
            EndedAttempt {
                class: ExitClass::Throttled { lifts_ms },
                restart: RestartType::Transient,
                changed_world: false,
                rerun: Rerun::Yes,
                can_ask: false,
                can_resume: false,
                restarts_left: false,
            }
            .decide()
        };
        assert_eq!(parked(0), Decision::Park { ms: 1_000 });
        assert_eq!(parked(u64::MAX), Decision::Park { ms: 86_400_000 });
    }

    #[test]
    fn rerun_is_written_as_in_a_manifest() {
        for (value, text) in [(Rerun::Yes, "\"yes\""), (Rerun::No, "\"no\""), (Rerun::Ask, "\"ask\"")] {
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
            assert_eq!(serde_json::from_str::<Rerun>(text).unwrap(), value);
        }
        assert!(serde_json::from_str::<Rerun>("\"maybe\"").is_err());
    }
}
