//! The host side of the `session` interface: each function is one call on [`agent::Session`].
//!
//! Nothing is decided here. What a guest hands over is bounded before it goes further, and a session that has ended
//! traps the guest, since no call of it will be answered any more.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use wasmtime::component::{Resource, ResourceTable};

use super::bindings::treeward::agent::{session, types};
use super::stop::Stop;
use crate::agent::{self, CallError, Gone, Session};
use crate::capsule::{Budget, Usage};
use crate::journal::CompletionStatus;
use crate::limits::Limits;

/// A delegation a guest holds; empty while it is being waited for.
pub struct Held {
    delegation: Option<agent::Delegation>,
    taken: bool,
}

/// What the `session` interface of one guest stands on.
pub(super) struct Lent {
    session: Session,
    held: ResourceTable,
    limits: Limits,
}

impl Lent {
    pub(super) fn new(session: Session, limits: Limits) -> Self {
        let mut held = ResourceTable::new();
        held.set_max_capacity(limits.live_children.saturating_add(limits.queued_children) as usize);
        Self { session, held, limits }
    }

    fn bounded(&self, what: &'static str, bytes: usize) -> Result<(), Stop> {
        let most = self.limits.body;
        if bytes > most { Err(Stop::TooLarge { what, bytes, limit: "body", most }) } else { Ok(()) }
    }

    /// Waits for the first of those delegations whose completion was not taken yet.
    async fn first_of(
        &mut self,
        among: &BTreeSet<u32>,
        at_most: Option<u64>,
    ) -> wasmtime::Result<Option<types::Completion>> {
        let mut waited: Vec<(u32, agent::Delegation)> = Vec::new();
        for &rep in among {
            let held: &mut Held = self.held.get_mut(&Resource::new_borrow(rep))?;
            if !held.taken
                && let Some(delegation) = held.delegation.take()
            {
                waited.push((rep, delegation));
            }
        }
        if waited.is_empty() {
            return Ok(None);
        }
        // Dropped in the middle, the handles go with the guest and cancel their delegations: as they should.
        let mut handles: Vec<&mut agent::Delegation> = waited.iter_mut().map(|(_, delegation)| delegation).collect();
        let ended = self.session.wait_any(&mut handles, at_most.map(Duration::from_millis)).await;
        for (rep, delegation) in waited {
            let held: &mut Held = self.held.get_mut(&Resource::new_borrow(rep))?;
            if let Ok(Some(completion)) = &ended
                && completion.index == delegation.index()
            {
                held.taken = true;
            }
            held.delegation = Some(delegation);
        }
        Ok(ended.map_err(refused)?.map(Into::into))
    }
}

fn gone(Gone: Gone) -> Stop {
    Stop::SessionEnded
}

/// For calls whose interface has no refusal: only a broken promise of ours is refused there.
fn refused(error: CallError) -> Stop {
    match error {
        CallError::Gone(Gone) => Stop::SessionEnded,
        CallError::Refused(refusal) => Stop::Refused(refusal),
    }
}

fn refusal(limit: &str, reason: String) -> types::Refusal {
    types::Refusal { key: format!("limits.{limit}"), reason }
}

impl session::Host for Lent {
    async fn info(&mut self) -> wasmtime::Result<types::SessionInfo> {
        let info = self.session.info().await.map_err(gone)?;
        Ok(types::SessionInfo {
            depth: info.path.depth(),
            path: info.path.to_string(),
            depth_left: info.depth_left,
            left: info.left.into(),
            deadline: millis(info.deadline),
            attempt: info.attempt,
        })
    }

    async fn emit(&mut self, text: String) -> wasmtime::Result<()> {
        self.bounded("an emitted text", text.len())?;
        Ok(self.session.emit(text).await.map_err(gone)?)
    }

    async fn call_tool(&mut self, name: String, input: String) -> wasmtime::Result<Result<String, types::ToolError>> {
        if let Err(stop) = self.bounded("a tool's name and input", name.len() + input.len()) {
            return Ok(Err(types::ToolError::Denied(stop.to_string())));
        }
        let result = self.session.call_tool(name, input).await.map_err(gone)?;
        Ok(result.map_err(|error| match error {
            agent::ToolError::Denied(reason) => types::ToolError::Denied(reason),
            agent::ToolError::Failed(why) => types::ToolError::Failed(why),
        }))
    }

    async fn delegate(
        &mut self,
        request: types::DelegationRequest,
    ) -> wasmtime::Result<Result<Resource<Held>, types::Refusal>> {
        let most = self.limits.task;
        if request.task.len() > most {
            return Ok(Err(refusal(
                "task",
                format!("the task has {} bytes, at most {most} are taken", request.task.len()),
            )));
        }
        let lent: usize = request.lend.iter().map(|l| l.directory.len() + l.path.len() + l.name.len()).sum();
        let rest = request.capsule.len() + lent;
        if let Err(stop) = self.bounded("a request's names and paths", rest) {
            return Ok(Err(refusal("body", stop.to_string())));
        }
        // The place is taken first: a delegation that was made and cannot be held would be cancelled at once.
        let Ok(held) = self.held.push(Held { delegation: None, taken: false }) else {
            let most = self.held.max_capacity();
            return Ok(Err(refusal("queued_children", format!("{most} delegations are held already; drop some"))));
        };
        match self.session.delegate(request.into()).await {
            Ok(delegation) => {
                self.held.get_mut(&held)?.delegation = Some(delegation);
                Ok(Ok(held))
            }
            Err(error) => {
                self.held.delete(held)?;
                match error {
                    CallError::Refused(refusal) => Ok(Err(refusal.into())),
                    CallError::Gone(Gone) => Err(Stop::SessionEnded.into()),
                }
            }
        }
    }

    async fn wait_any(
        &mut self,
        among: Vec<Resource<Held>>,
        at_most: Option<u64>,
    ) -> wasmtime::Result<Option<types::Completion>> {
        // A set: naming one twice means the same as naming it once.
        let among = among.iter().map(Resource::rep).collect();
        self.first_of(&among, at_most).await
    }

    async fn checkpoint(&mut self, label: String, state: Vec<u8>) -> wasmtime::Result<()> {
        self.bounded("a checkpoint", label.len() + state.len())?;
        Ok(self.session.checkpoint(label, Bytes::from(state)).await.map_err(gone)?)
    }

    async fn ask(&mut self, question: types::Question) -> wasmtime::Result<Result<String, types::AskError>> {
        self.bounded("a question", question.text.len())?;
        let question = agent::Question { text: question.text, deadline: question.deadline.map(Duration::from_millis) };
        Ok(self.session.ask(question).await.map_err(gone)?.map_err(|error| match error {
            agent::AskError::Denied => types::AskError::Denied,
            agent::AskError::Expired => types::AskError::Expired,
        }))
    }
}

impl session::HostDelegation for Lent {
    async fn index(&mut self, held: Resource<Held>) -> wasmtime::Result<u32> {
        Ok(self.held.get(&held)?.handle()?.index())
    }

    async fn status(&mut self, held: Resource<Held>) -> wasmtime::Result<types::Status> {
        Ok(self.held.get(&held)?.handle()?.status().await.map_err(refused)?.into())
    }

    async fn cancel(&mut self, held: Resource<Held>, reason: String) -> wasmtime::Result<()> {
        self.bounded("a reason", reason.len())?;
        Ok(self.held.get(&held)?.handle()?.cancel(reason).await.map_err(gone)?)
    }

    async fn wait(
        &mut self,
        held: Resource<Held>,
        at_most: Option<u64>,
    ) -> wasmtime::Result<Option<types::Completion>> {
        self.first_of(&BTreeSet::from([held.rep()]), at_most).await
    }

    async fn drop(&mut self, held: Resource<Held>) -> wasmtime::Result<()> {
        self.held.delete(held)?;
        Ok(())
    }
}

impl types::Host for Lent {}

impl Held {
    fn handle(&self) -> Result<&agent::Delegation, Stop> {
        // Empty only during a wait, and a guest that waits makes no other call.
        self.delegation.as_ref().ok_or(Stop::SessionEnded)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl From<types::DelegationRequest> for agent::DelegationRequest {
    fn from(request: types::DelegationRequest) -> Self {
        let types::DelegationRequest { capsule, task, slice, lend, deadline } = request;
        let lend = lend.into_iter().map(|types::Lend { directory, path, name, write }| agent::Lend {
            directory,
            path,
            name,
            write,
        });
        Self {
            capsule,
            task,
            slice: slice.map(Into::into),
            lend: lend.collect(),
            deadline: deadline.map(Duration::from_millis),
        }
    }
}

impl From<types::Budget> for Budget {
    fn from(budget: types::Budget) -> Self {
        let types::Budget { tokens, micro_usd, tool_calls, delegations, depth, wall } = budget;
        Self { tokens, micro_usd, tool_calls, delegations, depth, wall: wall.map(Duration::from_millis) }
    }
}

impl From<Budget> for types::Budget {
    fn from(budget: Budget) -> Self {
        let Budget { tokens, micro_usd, tool_calls, delegations, depth, wall } = budget;
        Self { tokens, micro_usd, tool_calls, delegations, depth, wall: wall.map(millis) }
    }
}

impl From<Usage> for types::Usage {
    fn from(usage: Usage) -> Self {
        let Usage { tokens, micro_usd, tool_calls, delegations } = usage;
        Self { tokens, micro_usd, tool_calls, delegations }
    }
}

impl From<agent::Refusal> for types::Refusal {
    fn from(refusal: agent::Refusal) -> Self {
        Self { key: refusal.key, reason: refusal.reason }
    }
}

impl From<CompletionStatus> for types::CompletionStatus {
    fn from(status: CompletionStatus) -> Self {
        match status {
            CompletionStatus::Ok => Self::Ok,
            CompletionStatus::Error => Self::Error,
            CompletionStatus::Crashed => Self::Crashed,
            CompletionStatus::Terminated => Self::Terminated,
            CompletionStatus::Unknown => Self::Unknown,
        }
    }
}

impl From<agent::Status> for types::Status {
    fn from(status: agent::Status) -> Self {
        match status {
            agent::Status::Queued => Self::Queued,
            agent::Status::Running => Self::Running,
            agent::Status::Ended(status) => Self::Ended(status.into()),
        }
    }
}

impl From<agent::Completion> for types::Completion {
    fn from(completion: agent::Completion) -> Self {
        let agent::Completion { index, status, answer, answer_len, detail, spent } = completion;
        Self { index, status: status.into(), answer, answer_len, detail, spent: spent.into() }
    }
}
