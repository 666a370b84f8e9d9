//! A session's own life as a pure state machine: work, wind down, report once, wait to be dismissed.
//!
//! A session reports and does not stop itself. It reports only when nothing it started is left.

use super::delegation::StopCause;
use super::report::Outcome;
use crate::supervision::{ExitClass, StopTimes};

/// Where a session stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Its agent thinks.
    Working,
    /// Its agent has ended or is being ended; what it started is being stopped.
    Winding { outcome: Option<Outcome> },
    /// It has reported and waits to be dismissed.
    Reported { outcome: Outcome },
}

/// What can happen to a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LifeEvent {
    /// Its agent's task is over and gone.
    AgentEnded { outcome: Outcome },
    /// It made no progress for its stall limit.
    Stalled,
    /// Its delegator stops it.
    Stop { cause: StopCause, times: StopTimes },
    /// Something it started has ended.
    Quieter,
    /// It reported a while ago and is still here.
    ReportAgain,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LifeEffect {
    /// End the agent's task: at once, or where it can be told to stop, with these times. When it is gone,
    /// [`LifeEvent::AgentEnded`] follows.
    EndAgent { times: Option<StopTimes> },
    /// End running tool calls and withdraw questions.
    EndCalls,
    /// Stop every live child: with these times, or where there are none, with the usual grace.
    StopChildren { times: Option<StopTimes> },
    /// Send the report to the delegator, and [`LifeEvent::ReportAgain`] to oneself after a while.
    Report { outcome: Outcome },
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    phase: Phase,
    agent_alive: bool,
    stop: Option<StopCause>,
    stalled: bool,
}

impl Default for Life {
    fn default() -> Self {
        Self { phase: Phase::Working, agent_alive: true, stop: None, stalled: false }
    }
}

impl Life {
    /// Whether its agent may still ask for things.
    pub fn is_working(&self) -> bool {
        self.phase == Phase::Working
    }

    /// Takes one event. `busy`: how many children and calls of the session are not over yet.
    pub fn on(&mut self, event: LifeEvent, busy: usize) -> Vec<LifeEffect> {
        let mut effects = match event {
            LifeEvent::AgentEnded { outcome } => self.agent_ended(outcome),
            LifeEvent::Stalled if self.is_working() => {
                self.stalled = true;
                self.wind_down(None)
            }
            LifeEvent::Stop { cause, times } => self.stop(cause, times),
            LifeEvent::ReportAgain => self.report_again(),
            LifeEvent::Stalled | LifeEvent::Quieter => Vec::new(),
        };
        // Nobody is stopped twice for being counted before the effects above have run.
        let still_busy = busy > 0 && !matches!(self.phase, Phase::Reported { .. });
        if !still_busy
            && !self.agent_alive
            && let Phase::Winding { outcome } = &mut self.phase
        {
            let outcome = outcome.take().unwrap_or_else(|| Outcome::stopped("it was stopped"));
            self.phase = Phase::Reported { outcome: outcome.clone() };
            effects.push(LifeEffect::Report { outcome });
        }
        effects
    }

    fn wind_down(&mut self, times: Option<StopTimes>) -> Vec<LifeEffect> {
        self.phase = Phase::Winding { outcome: None };
        let mut effects = vec![LifeEffect::EndCalls, LifeEffect::StopChildren { times }];
        if self.agent_alive {
            effects.insert(0, LifeEffect::EndAgent { times });
        }
        effects
    }

    fn agent_ended(&mut self, outcome: Outcome) -> Vec<LifeEffect> {
        if !self.agent_alive {
            return Vec::new();
        }
        self.agent_alive = false;
        let effects = match self.phase {
            Phase::Working => self.wind_down(None),
            Phase::Winding { .. } | Phase::Reported { .. } => Vec::new(),
        };
        // What had finished before it could be aborted has finished.
        let outcome = match (outcome.class, self.stop) {
            (ExitClass::Done, _) | (_, None) if !self.stalled || outcome.class == ExitClass::Done => outcome,
            (_, Some(cause)) => Outcome::stopped(cause.text()),
            (_, None) => Outcome::broken(ExitClass::Stalled, Some("no progress within limits.stall".into()), false),
        };
        if let Phase::Winding { outcome: slot } = &mut self.phase {
            *slot = Some(outcome);
        }
        effects
    }

    fn stop(&mut self, cause: StopCause, times: StopTimes) -> Vec<LifeEffect> {
        self.stop.get_or_insert(cause);
        match self.phase {
            Phase::Working => self.wind_down(Some(times)),
            Phase::Winding { .. } => {
                let children = LifeEffect::StopChildren { times: Some(times) };
                let agent = self.agent_alive.then_some(LifeEffect::EndAgent { times: Some(times) });
                agent.into_iter().chain([children]).collect()
            }
            // The report may have been lost.
            Phase::Reported { .. } => self.report_again(),
        }
    }

    fn report_again(&self) -> Vec<LifeEffect> {
        match &self.phase {
            Phase::Reported { outcome } => vec![LifeEffect::Report { outcome: outcome.clone() }],
            _ => Vec::new(),
        }
    }
}
