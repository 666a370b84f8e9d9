//! One delegation in the session that made it, as a pure state machine: attempts, cancellation and the one ending.
//!
//! It knows no actors, no clock and no journal: events go in, effects come out, and whoever holds it obeys. The
//! executable model of the rules of ending and the actors run this same code.

use std::time::Duration;

use tokio::time::Instant;

use super::look::Standing;
use super::report::{Outcome, status_of};
use crate::journal::{CompletionStatus, Reporter};
use crate::supervision::{Decision, EndedAttempt, ExitClass, Failures, RestartSpec, Restarts, StopTimes};

/// Where a delegation stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Waiting for a place among its delegator's live children.
    Queued,
    /// Its session is being started.
    Starting,
    /// Its session is live.
    Running,
    /// Its session was told to stop.
    Stopping,
    /// Its session's actor is gone without a report: what it leaves behind must be confirmed gone.
    Burying { class: ExitClass, detail: Option<String> },
    /// All of it is gone; the writer was asked to close what it left open.
    Closing { class: ExitClass, detail: Option<String> },
    /// Between two attempts: the next starts when the last is `gone` and the pause is over.
    Resting { gone: bool, rested: bool, class: ExitClass, after: Duration },
    /// It has ended; `dismissed` once nothing of its last session is left.
    Ended { status: CompletionStatus },
}

/// Why a delegation is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopCause {
    /// Its delegator cancelled it.
    Canceled,
    /// Nobody waits for it any more.
    Dropped,
    /// Its delegator is ending.
    ParentEnding,
    /// Its deadline passed.
    Deadline,
    /// The journal failed.
    Journal,
    /// Somebody outside the tree asked for it.
    Asked,
}

impl StopCause {
    /// As a record and a completion say it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Canceled => "cancelled by its delegator",
            Self::Dropped => "nobody waits for it any more",
            Self::ParentEnding => "its delegator ended",
            Self::Deadline => "its deadline passed",
            Self::Journal => "the journal failed",
            Self::Asked => "stopped from outside",
        }
    }
}

/// What can happen to a delegation. An event of an attempt that is over changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A place became free.
    Admitted,
    /// The session of this attempt is live.
    Started { attempt: u32 },
    /// The session of this attempt could not be started.
    StartFailed { attempt: u32, class: ExitClass, detail: String },
    /// The session of this attempt reported its ending. Nothing below it is left.
    Reported { attempt: u32, outcome: Outcome },
    /// The actor of this attempt is gone. Judged behind any report already queued.
    Exited { attempt: u32, class: ExitClass, detail: Option<String> },
    /// No task of this attempt, nor of anything below it, is left.
    Gone { attempt: u32 },
    /// The writer closed what this attempt left open, and says whether it may have changed the world.
    Closed { attempt: u32, changed_world: bool },
    /// The pause before this attempt is over.
    Rested { attempt: u32 },
    /// It is to stop. A later stop can only tighten.
    Stop { cause: StopCause, times: StopTimes },
    /// The delegator's own time for giving up on it has come.
    GiveUp { attempt: u32 },
}

/// What is to be done. Effects are carried out in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Start the session of this attempt.
    Start { attempt: u32 },
    /// Tell the session to stop.
    Tell { cause: StopCause, times: StopTimes },
    /// Send [`Event::GiveUp`] at this time.
    GiveUpAt { attempt: u32, at: Instant },
    /// Stop the session's actor: it has reported and holds nothing any more.
    Dismiss,
    /// End the session's actor, and whatever is being started, by force.
    Kill,
    /// Send [`Event::Gone`] once no task of this attempt or below it is left.
    ConfirmGone { attempt: u32 },
    /// Let the writer close everything open below the session (and its own calls), then send [`Event::Closed`].
    CloseBelow { attempt: u32, class: ExitClass },
    /// Append: this attempt ended.
    AttemptEnded { attempt: u32, class: ExitClass, detail: Option<String>, changed_world: bool },
    /// Append: the next attempt begins.
    Restarted { attempt: u32, class: ExitClass, after: Duration },
    /// Send [`Event::Rested`] for this attempt after this pause.
    Rest { attempt: u32, after: Duration },
    /// Append the endings: of task and session where a session was `begun`, then of the delegation; and hand over
    /// the completion.
    End { begun: bool, status: CompletionStatus, by: Reporter, attempts: u32, outcome: Outcome },
}

/// One handing-over of a task. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delegation {
    state: State,
    attempt: u32,
    /// Whether a session of it was ever recorded as started.
    begun: bool,
    /// Whether any attempt so far may have changed the world.
    changed_world: bool,
    stop: Option<(StopCause, StopTimes)>,
    spec: RestartSpec,
    restarts: Restarts,
    failures: Failures,
    up_since: Option<Instant>,
}

impl Delegation {
    /// A delegation that waits for its place.
    pub fn new(spec: RestartSpec) -> Self {
        Self {
            state: State::Queued,
            attempt: 1,
            begun: false,
            changed_world: false,
            stop: None,
            spec,
            restarts: Restarts::new(spec.intensity()),
            failures: Failures::default(),
            up_since: None,
        }
    }

    /// The attempt that is live, or the last that was.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether it waits for its place.
    pub fn is_queued(&self) -> bool {
        self.state == State::Queued
    }

    /// How it ended, once it has.
    pub fn ending(&self) -> Option<CompletionStatus> {
        match self.state {
            State::Ended { status } => Some(status),
            _ => None,
        }
    }

    /// Where it stands, for whoever looks.
    pub fn standing(&self) -> Standing {
        match self.state {
            State::Queued => Standing::Queued,
            State::Starting => Standing::Starting,
            State::Running => Standing::Running,
            State::Stopping | State::Burying { .. } | State::Closing { .. } => Standing::Stopping,
            State::Resting { .. } => Standing::Restarting,
            State::Ended { status } => Standing::Ended(status),
        }
    }

    /// Whether a session of it is, or is about to be, live: it takes up one of its delegator's places.
    pub fn takes_place(&self) -> bool {
        !matches!(self.state, State::Queued | State::Ended { .. })
    }

    /// Takes one event at time `now`; `chance` (uniform in 0..1) sets the jitter of a pause.
    pub fn on(&mut self, event: Event, now: Instant, chance: f64) -> Vec<Effect> {
        match event {
            Event::Admitted => self.admitted(),
            Event::Stop { cause, times } => self.stop(cause, times),
            Event::Started { attempt } if attempt == self.attempt => self.started(now),
            Event::StartFailed { attempt, class, detail } if attempt == self.attempt => {
                self.start_failed(class, detail, now, chance)
            }
            Event::Reported { attempt, outcome } if attempt == self.attempt => self.reported(outcome, now, chance),
            Event::Exited { attempt, class, detail } => self.exited(attempt, class, detail),
            Event::Gone { attempt } if attempt == self.attempt => self.gone(),
            Event::Closed { attempt, changed_world } if attempt == self.attempt => {
                self.closed(changed_world, now, chance)
            }
            Event::Rested { attempt } if attempt == self.next_number() => self.rested(),
            Event::GiveUp { attempt } if attempt == self.attempt => self.give_up(),
            _ => Vec::new(),
        }
    }

    fn admitted(&mut self) -> Vec<Effect> {
        if self.state != State::Queued {
            return Vec::new();
        }
        self.state = State::Starting;
        vec![Effect::Start { attempt: self.attempt }]
    }

    fn started(&mut self, now: Instant) -> Vec<Effect> {
        if self.state != State::Starting {
            return Vec::new();
        }
        self.begun = true;
        self.up_since = Some(now);
        match self.stop {
            None => {
                self.state = State::Running;
                Vec::new()
            }
            Some((cause, times)) => {
                self.state = State::Stopping;
                vec![Effect::Tell { cause, times }]
            }
        }
    }

    fn start_failed(&mut self, class: ExitClass, detail: String, now: Instant, chance: f64) -> Vec<Effect> {
        if self.state != State::Starting {
            return Vec::new();
        }
        let outcome = Outcome::broken(class, Some(detail), false);
        // Nothing of it ran: there is nobody to dismiss and nothing to confirm.
        self.conclude(outcome, Reporter::Supervisor, true, now, chance)
    }

    fn stop(&mut self, cause: StopCause, times: StopTimes) -> Vec<Effect> {
        let (cause, times) = match self.stop {
            Some((first, set)) => (first, set.tighten(times)),
            None => (cause, times),
        };
        let tightened = self.stop.is_none_or(|(_, set)| set != times);
        match self.state {
            State::Ended { .. } => return Vec::new(),
            State::Queued => {
                self.stop = Some((cause, times));
                return self.end(CompletionStatus::Terminated, Reporter::Supervisor, Outcome::stopped(cause.text()));
            }
            State::Resting { gone: true, .. } => {
                self.stop = Some((cause, times));
                return self.end(CompletionStatus::Terminated, Reporter::Supervisor, Outcome::stopped(cause.text()));
            }
            _ => {}
        }
        self.stop = Some((cause, times));
        if !tightened {
            return Vec::new();
        }
        let mut effects = Vec::new();
        match self.state {
            State::Running | State::Stopping => {
                self.state = State::Stopping;
                effects.push(Effect::Tell { cause, times });
            }
            // One that is starting is told when it is live; what is buried or closed ends when that is done.
            _ => {}
        }
        effects.push(Effect::GiveUpAt { attempt: self.attempt, at: times.abandon_at() });
        effects
    }

    fn reported(&mut self, outcome: Outcome, now: Instant, chance: f64) -> Vec<Effect> {
        match self.state {
            State::Running | State::Stopping => self.conclude(outcome, Reporter::Child, false, now, chance),
            // A second report of the same attempt, or one that comes after its burial began.
            _ => Vec::new(),
        }
    }

    fn exited(&mut self, attempt: u32, class: ExitClass, detail: Option<String>) -> Vec<Effect> {
        if attempt != self.attempt {
            return Vec::new();
        }
        match self.state {
            State::Running | State::Stopping => {
                self.state = State::Burying { class, detail };
                vec![Effect::ConfirmGone { attempt }]
            }
            _ => Vec::new(),
        }
    }

    fn give_up(&mut self) -> Vec<Effect> {
        match self.state {
            State::Starting | State::Running | State::Stopping => {
                let detail = self.stop.map(|(cause, _)| format!("{}; it did not stop in time", cause.text()));
                self.state = State::Burying { class: ExitClass::KilledByUs, detail };
                vec![Effect::Kill, Effect::ConfirmGone { attempt: self.attempt }]
            }
            State::Resting { gone: false, .. } => vec![Effect::Kill, Effect::ConfirmGone { attempt: self.attempt }],
            _ => Vec::new(),
        }
    }

    fn gone(&mut self) -> Vec<Effect> {
        match &mut self.state {
            State::Burying { class, detail } => {
                let (class, detail) = (*class, detail.take());
                self.state = State::Closing { class, detail };
                vec![Effect::CloseBelow { attempt: self.attempt, class }]
            }
            State::Resting { gone: gone @ false, .. } => {
                *gone = true;
                self.next_attempt()
            }
            _ => Vec::new(),
        }
    }

    fn closed(&mut self, changed_world: bool, now: Instant, chance: f64) -> Vec<Effect> {
        let State::Closing { class, detail } = &mut self.state else { return Vec::new() };
        let outcome = Outcome::broken(*class, detail.take(), changed_world);
        self.conclude(outcome, Reporter::Supervisor, true, now, chance)
    }

    fn rested(&mut self) -> Vec<Effect> {
        let State::Resting { rested: rested @ false, .. } = &mut self.state else { return Vec::new() };
        *rested = true;
        self.next_attempt()
    }

    fn next_attempt(&mut self) -> Vec<Effect> {
        match (&self.state, self.stop) {
            (State::Resting { gone: true, .. }, Some((cause, _))) => {
                self.end(CompletionStatus::Terminated, Reporter::Supervisor, Outcome::stopped(cause.text()))
            }
            (State::Resting { gone: true, rested: true, class, after }, None) => {
                let (class, after) = (*class, *after);
                self.attempt = self.next_number();
                self.state = State::Starting;
                let attempt = self.attempt;
                let restarted = self.begun.then_some(Effect::Restarted { attempt, class, after });
                restarted.into_iter().chain([Effect::Start { attempt }]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The number of the attempt that would follow: one that was never recorded as started is not counted.
    fn next_number(&self) -> u32 {
        if self.begun { self.attempt + 1 } else { self.attempt }
    }

    /// An attempt is over: run the task again, or end. `gone`: no actor of it is left.
    fn conclude(&mut self, mut outcome: Outcome, by: Reporter, gone: bool, now: Instant, chance: f64) -> Vec<Effect> {
        let mut effects = Vec::new();
        let changed_in_this_attempt = outcome.changed_world;
        self.changed_world |= outcome.changed_world;
        outcome.changed_world = self.changed_world;
        if self.begun {
            effects.push(Effect::AttemptEnded {
                attempt: self.attempt,
                class: outcome.class,
                detail: outcome.detail.clone(),
                changed_world: changed_in_this_attempt,
            });
        }
        let decision = match self.stop {
            Some(_) => Decision::End,
            None => self.after(&outcome, now),
        };
        let after = match decision {
            Decision::Resume | Decision::Rerun if self.restarts.spend(now) => {
                let failures = self.failures.failed(self.up_since.take(), now, self.spec.healthy_after());
                Some(self.spec.backoff().wait(failures, chance))
            }
            Decision::Park { ms } => Some(Duration::from_millis(ms)),
            _ => None,
        };
        match after {
            Some(after) => {
                self.state = State::Resting { gone, rested: false, class: outcome.class, after };
                effects.push(Effect::Rest { attempt: self.next_number(), after });
                if !gone {
                    // Never two incarnations at once: an exit event alone would not say that its tasks are gone too.
                    return effects
                        .into_iter()
                        .chain([Effect::Dismiss, Effect::ConfirmGone { attempt: self.attempt }])
                        .collect();
                }
            }
            None => effects.extend(self.end(status_of(&outcome, self.stop.is_some()), by, outcome)),
        }
        if !gone {
            effects.push(Effect::Dismiss);
        }
        effects
    }

    /// What follows an attempt that nobody asked to stop. There is nobody to ask here, so `rerun = "ask"` is a no.
    fn after(&self, outcome: &Outcome, now: Instant) -> Decision {
        EndedAttempt {
            class: outcome.class,
            restart: self.spec.restart(),
            changed_world: self.changed_world,
            rerun: self.spec.rerun(),
            can_ask: false,
            can_resume: false,
            restarts_left: self.restarts.left(now),
        }
        .decide()
    }

    fn end(&mut self, status: CompletionStatus, by: Reporter, outcome: Outcome) -> Vec<Effect> {
        debug_assert!(self.ending().is_none(), "a delegation ends once");
        let begun = self.begun;
        let attempts = if begun { self.attempt } else { 0 };
        self.state = State::Ended { status };
        vec![Effect::End { begun, status, by, attempts, outcome }]
    }
}
