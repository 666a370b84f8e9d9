//! Runs what thinks in a session, as a task the session owns, and says how it ended.

use std::pin::Pin;
use std::sync::Arc;

use ractor::ActorRef;

use super::context::Thinker;
use super::life::LifeEvent;
use super::message::SessionMessage;
use super::owned::{Owned, contained, injected_panic};
use super::report::Outcome;
use super::session::SessionSeed;
use crate::agent::{Call, Credit, Port, Session, Task};
use crate::fault::Action;
use crate::journal::Ticket;
use crate::supervision::{ExitClass, StopTimes};

/// Sends an agent's calls to its session.
struct SessionPort(ActorRef<SessionMessage>);

impl Port for SessionPort {
    fn send(&self, call: Call, credit: Credit) -> Result<(), Box<Call>> {
        match self.0.cast(SessionMessage::Call { call, credit, delayed: false }) {
            Ok(()) => Ok(()),
            Err(ractor::MessagingErr::SendErr(SessionMessage::Call { call, .. })) => Err(Box::new(call)),
            // The mailbox is closed and kept the message: its replies are dropped with it.
            Err(_) => Ok(()),
        }
    }
}

/// Says how the agent ended when it is dropped, which is after the agent's future is: also when it was aborted.
struct Farewell {
    session: ActorRef<SessionMessage>,
    outcome: Option<Outcome>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| Outcome::stopped("it was stopped"));
        let _gone = self.session.cast(SessionMessage::Life(LifeEvent::AgentEnded { outcome }));
    }
}

/// A handle on the session, with a credit of its own.
pub(super) fn handle(seed: &SessionSeed, session: ActorRef<SessionMessage>) -> Session {
    let port: Arc<dyn Port> = Arc::new(SessionPort(session));
    Session::new(port, seed.path.clone(), seed.shared.limits.credit)
}

/// The agent of a session at work. Dropped, it is ended: at its next await, or, where it is a program, by force.
#[derive(Debug)]
pub(super) enum Mind {
    /// A task, aborted with its owner.
    Task(#[expect(dead_code, reason = "held for its drop")] Owned),
    /// A program, told to stop. Its task goes on until nothing of it is left.
    #[cfg(feature = "harness")]
    Program(super::commands::Stopper),
}

impl Mind {
    /// Stops it within `times`: what cannot be told to stop is ended at once. It says farewell when it is gone.
    pub(super) fn stop(self, times: StopTimes) -> Option<Self> {
        let _times = times;
        match self {
            Self::Task(_) => None,
            #[cfg(feature = "harness")]
            Self::Program(stopper) => {
                stopper.stop(times);
                Some(Self::Program(stopper))
            }
        }
    }
}

/// Starts the agent of a session, once `barrier` is committed. `fault`: what strikes it as it begins.
pub(super) fn start(
    seed: &SessionSeed,
    session: ActorRef<SessionMessage>,
    barrier: Option<Ticket>,
    fault: Option<Action>,
) -> Mind {
    let handle = handle(seed, session.clone());
    let pulse = seed.pulse.clone();
    // Made here, not in the task: one that is aborted before it first runs says farewell too.
    let farewell = Farewell { session, outcome: None };
    let (thought, stopper) = think(seed, handle, fault);
    let task = async move {
        // Dropped in reverse: the agent, then the pulse, then the farewell.
        let mut farewell = farewell;
        let _pulse = pulse;
        if let Some(barrier) = barrier
            && let Err(error) = barrier.await
        {
            farewell.outcome = Some(Outcome::broken(ExitClass::Retryable, Some(error.to_string()), false));
            return;
        }
        let outcome = contained(thought).await;
        farewell.outcome = Some(outcome.unwrap_or_else(|panic| Outcome::broken(ExitClass::Panic, Some(panic), false)));
    };
    match stopper {
        None => Mind::Task(Owned::spawn(task)),
        #[cfg(feature = "harness")]
        Some(stopper) => {
            Owned::spawn(task).leave();
            Mind::Program(stopper)
        }
    }
}

type Thought = Pin<Box<dyn Future<Output = Outcome> + Send>>;

#[cfg(feature = "harness")]
type Stopper = super::commands::Stopper;
/// Without programs nothing needs to be told to stop.
#[cfg(not(feature = "harness"))]
type Stopper = std::convert::Infallible;

fn think(seed: &SessionSeed, handle: Session, fault: Option<Action>) -> (Thought, Option<Stopper>) {
    let prepared = seed.prepared.clone();
    let task = Task { text: seed.task.to_string() };
    #[cfg(feature = "harness")]
    if let Thinker::Command(warden, spec) = &prepared.agent {
        let (stopper, stop) = Stopper::new();
        let stopped = stop.clone();
        let run = super::commands::run(seed, warden.clone(), (**spec).clone(), handle, task, stop);
        let thought = async move {
            match struck(fault, until_stopped(stopped)).await {
                Some(outcome) => outcome,
                None => run.await,
            }
        };
        return (Box::pin(thought), Some(stopper));
    }
    #[cfg(feature = "guest")]
    let confinement = super::guests::confinement(seed);
    let thought = async move {
        if let Some(outcome) = struck(fault, std::future::pending()).await {
            return outcome;
        }
        match &prepared.agent {
            Thinker::Native(agent) => {
                let result = agent.run(handle, task).await;
                Outcome::done(result.map(Arc::from))
            }
            #[cfg(feature = "guest")]
            Thinker::Guest(component) => super::guests::run(component, handle, task, confinement).await,
            #[cfg(feature = "harness")]
            Thinker::Command(..) => unreachable!("dealt with above"),
        }
    };
    (Box::pin(thought), None)
}

/// Waits until a program is told to stop: one that has not begun yet has nothing else to hear it.
#[cfg(feature = "harness")]
async fn until_stopped(mut stop: tokio::sync::watch::Receiver<Option<crate::harness::run::StopOrder>>) {
    let _told = stop.wait_for(Option::is_some).await;
}

/// What a fault makes of an agent that is about to begin, if anything.
async fn struck(fault: Option<Action>, stopped: impl Future<Output = ()>) -> Option<Outcome> {
    let (class, action) = match fault {
        Some(action @ Action::Panic) => injected_panic(&action),
        Some(Action::Delay(after)) => {
            tokio::select! {
                biased;
                () = stopped => return Some(Outcome::stopped("it was stopped")),
                () = tokio::time::sleep(after) => return None,
            }
        }
        Some(Action::Hang) => {
            stopped.await;
            return Some(Outcome::stopped("it was stopped"));
        }
        Some(action @ Action::Trap) => (ExitClass::Trap, action),
        Some(action @ Action::Error(_)) => (ExitClass::Retryable, action),
        _ => return None,
    };
    Some(Outcome::broken(class, Some(action.message().to_owned()), false))
}
