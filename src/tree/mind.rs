//! Runs what thinks in a session, as a task the session owns, and says how it ended.

use std::pin::Pin;
use std::sync::Arc;

use ractor::ActorRef;

use super::bounds::within;
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

/// What an agent does until it ends. Boxed, so that a session keeps room for its own kind of agent only, and once.
type Thought = Pin<Box<dyn Future<Output = Outcome> + Send>>;

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

#[cfg(feature = "harness")]
type Stopper = super::commands::Stopper;
/// Without programs nothing needs to be told to stop.
#[cfg(not(feature = "harness"))]
type Stopper = std::convert::Infallible;

fn think(seed: &SessionSeed, handle: Session, fault: Option<Action>) -> (Thought, Option<Stopper>) {
    let task = Task { text: seed.task.to_string() };
    let thought: Thought = match &seed.prepared.agent {
        Thinker::Native(agent) => {
            let agent = agent.clone();
            let shared = seed.shared.clone();
            Box::pin(async move {
                let result = agent.run(handle, task).await;
                Outcome::done(result.and_then(|answer| within(answer, &shared.limits)).map(Arc::from))
            })
        }
        #[cfg(feature = "guest")]
        Thinker::Guest(component) => {
            Box::pin(super::guests::run(component.clone(), handle, task, super::guests::confinement(seed)))
        }
        #[cfg(feature = "harness")]
        Thinker::Command(warden, spec) => {
            let (stopper, stop) = Stopper::new();
            let stopped = until_stopped(stop.clone());
            let run = super::commands::run(seed, warden.clone(), (**spec).clone(), handle, task, stop);
            return (unless_struck(Box::pin(run), fault, stopped), Some(stopper));
        }
    };
    (unless_struck(thought, fault, std::future::pending()), None)
}

/// `thought`, unless `fault` strikes it as it begins. What hangs or is late hears `stopped`.
fn unless_struck(
    thought: Thought,
    fault: Option<Action>,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> Thought {
    let Some(fault) = fault else { return thought };
    Box::pin(async move {
        match struck(fault, stopped).await {
            Some(outcome) => outcome,
            None => thought.await,
        }
    })
}

/// Waits until a program is told to stop: one that has not begun yet has nothing else to hear it.
#[cfg(feature = "harness")]
async fn until_stopped(mut stop: tokio::sync::watch::Receiver<Option<crate::harness::run::StopOrder>>) {
    let _told = stop.wait_for(Option::is_some).await;
}

/// What a fault makes of an agent that is about to begin, if anything.
async fn struck(fault: Action, stopped: impl Future<Output = ()>) -> Option<Outcome> {
    let (class, action) = match fault {
        action @ Action::Panic => injected_panic(&action),
        Action::Delay(after) => {
            tokio::select! {
                biased;
                () = stopped => return Some(Outcome::stopped("it was stopped")),
                () = tokio::time::sleep(after) => return None,
            }
        }
        Action::Hang => {
            stopped.await;
            return Some(Outcome::stopped("it was stopped"));
        }
        action @ Action::Trap => (ExitClass::Trap, action),
        action @ Action::Error(_) => (ExitClass::Retryable, action),
        _ => return None,
    };
    Some(Outcome::broken(class, Some(action.message().to_owned()), false))
}
