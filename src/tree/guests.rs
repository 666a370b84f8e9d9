//! What a session lends its guests, and how a guest's exit becomes the session's outcome.

use std::sync::Arc;

use super::report::Outcome;
use super::session::SessionSeed;
use crate::agent::{Call, Credit, Port, Session, Task};
use crate::env::Chance;
use crate::guest::{AgentComponent, Confinement, Exit, ToolComponent};
use crate::ids::Strand;

/// What the agent of a session is lent.
pub(super) fn confinement(seed: &SessionSeed) -> Confinement {
    lent(seed, seed.shared.env.chance(&seed.path, seed.attempt, Strand::Main))
}

/// What a tool of a session is lent: the same, with a chance of its own.
pub(super) fn tool_confinement(seed: &SessionSeed, call: u32) -> Confinement {
    lent(seed, seed.shared.env.chance(&seed.path, seed.attempt, Strand::Call(call)))
}

fn lent(seed: &SessionSeed, chance: Chance) -> Confinement {
    let capsule = &seed.prepared.capsule;
    let (limits, own) = (&seed.shared.limits, capsule.limits());
    Confinement {
        directories: seed.directories.to_vec(),
        variables: seed.shared.variables(capsule.grants()),
        hosts: capsule.grants().network.clone(),
        memory: own.memory.unwrap_or(limits.guest_memory),
        running: own.running.unwrap_or(limits.guest_running),
        env: seed.shared.env.clone(),
        chance,
        lane: seed.tree.lane.clone(),
    }
}

/// Runs the agent of a session.
pub(super) async fn run(component: AgentComponent, session: Session, task: Task, confinement: Confinement) -> Outcome {
    match component.run(session, task, confinement, None).await {
        Exit::Answered(result) => Outcome::done(result.map(Arc::from)),
        exit => Outcome::broken(exit.class(), exit.detail(), false),
    }
}

/// Runs one call of a tool.
pub(super) async fn call(
    component: &ToolComponent,
    session: Session,
    name: &str,
    input: &str,
    confinement: Confinement,
) -> Result<String, String> {
    match component.call(session, name, input, confinement, None).await {
        Exit::Answered(result) => result,
        exit => Err(exit.detail().unwrap_or_else(|| "the tool ended without an answer".to_owned())),
    }
}

/// A session nobody is behind: for a tool that is only asked what it offers.
pub(super) struct Nobody;

impl Port for Nobody {
    fn send(&self, call: Call, _credit: Credit) -> Result<(), Box<Call>> {
        Err(Box::new(call))
    }
}
