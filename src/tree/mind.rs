//! Runs what thinks in a session, as a task the session owns, and says how it ended.

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
use crate::supervision::ExitClass;

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

/// Starts the agent of a session, once `barrier` is committed. `fault`: what strikes it as it begins.
pub(super) fn start(
    seed: &SessionSeed,
    session: ActorRef<SessionMessage>,
    barrier: Option<Ticket>,
    fault: Option<Action>,
) -> Owned {
    let handle = handle(seed, session.clone());
    let pulse = seed.pulse.clone();
    let thought = think(seed, handle, fault);
    // Made here, not in the task: one that is aborted before it first runs says farewell too.
    let farewell = Farewell { session, outcome: None };
    Owned::spawn(async move {
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
    })
}

fn think(seed: &SessionSeed, handle: Session, fault: Option<Action>) -> impl Future<Output = Outcome> + Send + 'static {
    let prepared = seed.prepared.clone();
    let task = Task { text: seed.task.to_string() };
    #[cfg(feature = "guest")]
    let confinement = super::guests::confinement(seed);
    async move {
        match fault {
            Some(Action::Delay(after)) => tokio::time::sleep(after).await,
            Some(Action::Hang) => std::future::pending().await,
            Some(action @ Action::Panic) => injected_panic(&action),
            Some(action @ Action::Trap) => return broken(ExitClass::Trap, &action),
            Some(action @ Action::Error(_)) => return broken(ExitClass::Retryable, &action),
            _ => {}
        }
        match &prepared.agent {
            Thinker::Native(agent) => {
                let result = agent.run(handle, task).await;
                Outcome::done(result.map(Arc::from))
            }
            #[cfg(feature = "guest")]
            Thinker::Guest(component) => super::guests::run(component, handle, task, confinement).await,
        }
    }
}

fn broken(class: ExitClass, action: &Action) -> Outcome {
    Outcome::broken(class, Some(action.message().to_owned()), false)
}
