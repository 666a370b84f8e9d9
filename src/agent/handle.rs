//! The handles an agent holds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

use super::{AskError, Call, Completion, DelegationRequest, Info, Port, Question, Refusal, Status, ToolError};
use crate::capsule::Usage;
use crate::ids::SessionPath;

/// The session has ended; nothing asked of it will be answered any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct Gone;

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// A grant, a budget or a limit forbids it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The session has ended.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// The session an agent works in. Cheap to clone; every clone is the same session.
///
/// # Cancel safety
/// Every method is a message and a wait for its reply. Dropping the future before the reply abandons the reply, not
/// the request: a delegation made by an abandoned call is cancelled, a tool call runs to its end and is recorded.
/// # Restart
/// A handle belongs to one attempt. When the session restarts, calls on old handles answer [`Gone`].
#[derive(Clone)]
pub struct Session {
    port: Arc<dyn Port>,
    credit: Arc<Semaphore>,
    credit_limit: u32,
    path: SessionPath,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({})", self.path)
    }
}

/// What a record weighs beside the bytes an agent put into it.
const RECORD_OVERHEAD: usize = 512;

impl Session {
    /// A handle whose calls go to `port`, holding at most `credit_limit` bytes that are not yet committed.
    pub fn new(port: Arc<dyn Port>, path: SessionPath, credit_limit: u32) -> Self {
        Self { port, credit: Arc::new(Semaphore::new(credit_limit as usize)), credit_limit, path }
    }

    /// Where it stands in its tree.
    pub fn path(&self) -> &SessionPath {
        &self.path
    }

    /// Waits until the session may hold `bytes` more uncommitted bytes, then sends.
    async fn send(&self, bytes: usize, call: Call) -> Result<(), Gone> {
        let weight = u32::try_from(bytes.saturating_add(RECORD_OVERHEAD)).unwrap_or(u32::MAX).min(self.credit_limit);
        let credit = self.credit.clone().acquire_many_owned(weight).await.map_err(|_| Gone)?;
        self.port.send(call, Some(credit)).map_err(|_| Gone)
    }

    async fn ask_session<T>(&self, bytes: usize, call: impl FnOnce(oneshot::Sender<T>) -> Call) -> Result<T, Gone> {
        let (reply, answer) = oneshot::channel();
        self.send(bytes, call(reply)).await?;
        answer.await.map_err(|_| Gone)
    }

    /// What the session may know of itself.
    pub async fn info(&self) -> Result<Info, Gone> {
        let (reply, answer) = oneshot::channel();
        self.port.send(Call::Info { reply }, None).map_err(|_| Gone)?;
        answer.await.map_err(|_| Gone)
    }

    /// Emits a whole text: shown live, then recorded.
    pub async fn emit(&self, text: impl Into<String>) -> Result<(), Gone> {
        let text = text.into();
        self.ask_session(text.len(), |reply| Call::Emit { text, done: true, reply }).await
    }

    /// Calls a tool of the capsule, through the gate.
    pub async fn call_tool(
        &self,
        name: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<Result<String, ToolError>, Gone> {
        let (name, input) = (name.into(), input.into());
        self.ask_session(name.len() + input.len(), |reply| Call::Tool { name, input, reply }).await
    }

    /// Hands a task to a child capsule. The child starts at once, or is queued where the session is at its width.
    pub async fn delegate(&self, request: DelegationRequest) -> Result<Delegation, CallError> {
        let bytes = request.capsule.len() + request.task.len();
        // Owned by the reply's holder from the moment the session answers: if this future is dropped while the
        // answer is on its way, the session finds its reply refused and cancels the delegation itself.
        let index = self.ask_session(bytes, |reply| Call::Delegate { request, reply }).await??;
        Ok(Delegation { session: self.clone(), index, over: false })
    }

    /// Hands a task to a child capsule with nothing set aside and nothing lent.
    pub async fn delegate_to(
        &self,
        capsule: impl Into<String>,
        task: impl Into<String>,
    ) -> Result<Delegation, CallError> {
        self.delegate(DelegationRequest { capsule: capsule.into(), task: task.into(), ..DelegationRequest::default() })
            .await
    }

    /// The first of `among` to have ended, within `at_most` (for ever: until the session's own deadline).
    /// `None`: none did in time. Which one was returned is recorded.
    pub async fn wait_any(
        &self,
        among: &mut [&mut Delegation],
        at_most: Option<Duration>,
    ) -> Result<Option<Completion>, CallError> {
        let indices = among.iter().map(|d| d.index).collect();
        let completion = self.ask_session(0, |reply| Call::Wait { among: indices, at_most, reply }).await??;
        if let Some(completion) = &completion {
            among.iter_mut().filter(|d| d.index == completion.index).for_each(|d| d.over = true);
        }
        Ok(completion)
    }

    /// The same for delegations known by their indices only, whose holder lives elsewhere.
    #[cfg(feature = "harness")]
    pub(crate) async fn wait_among(
        &self,
        among: Vec<u32>,
        at_most: Option<Duration>,
    ) -> Result<Option<Completion>, CallError> {
        Ok(self.ask_session(0, |reply| Call::Wait { among, at_most, reply }).await??)
    }

    /// Where the delegation of that index stands.
    #[cfg(feature = "harness")]
    pub(crate) async fn status_of(&self, index: u32) -> Result<Status, CallError> {
        Ok(self.ask_session(0, |reply| Call::Status { index, reply }).await??)
    }

    /// Stops the delegation of that index.
    #[cfg(feature = "harness")]
    pub(crate) async fn cancel(&self, index: u32, reason: String) -> Result<(), Gone> {
        self.send(reason.len(), Call::Cancel { index, reason }).await
    }

    /// Records a state that a later attempt, or a reader of the journal, can go on from.
    pub async fn checkpoint(&self, label: impl Into<String>, state: Bytes) -> Result<(), Gone> {
        let label = label.into();
        self.ask_session(label.len() + state.len(), |reply| Call::Checkpoint { label, state, reply }).await
    }

    /// Asks a person.
    pub async fn ask(&self, question: Question) -> Result<Result<String, AskError>, Gone> {
        self.ask_session(question.text.len(), |reply| Call::Ask { question, reply }).await
    }

    /// Reports model usage: it is charged to the session and everything above it.
    pub async fn report_usage(&self, usage: Usage) -> Result<(), Gone> {
        self.send(0, Call::Usage { usage }).await
    }

    /// Asks the gate whether an HTTP request may go out.
    pub async fn http(&self, method: String, url: String) -> Result<Result<u32, Refusal>, Gone> {
        self.ask_session(url.len(), |reply| Call::Http { method, url, reply }).await
    }

    /// Says how the HTTP request `call` went.
    pub async fn http_ended(&self, call: u32, outcome: Result<u16, String>) -> Result<(), Gone> {
        self.send(0, Call::HttpEnded { call, outcome }).await
    }

    /// Says that work goes on, where nothing else shows it. Needs no credit and never waits.
    pub fn progress(&self) {
        let _gone = self.port.send(Call::Progress, None);
    }
}

/// A delegation its delegator holds. Dropping it before its completion was taken cancels it.
pub struct Delegation {
    session: Session,
    index: u32,
    over: bool,
}

impl std::fmt::Debug for Delegation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Delegation({}.{})", self.session.path, self.index)
    }
}

impl Delegation {
    /// Which of the session's delegations it is; its child's path is the session's path and this.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Leaves it to the session: it is not cancelled when nobody holds it, but when the session ends.
    #[cfg(feature = "harness")]
    pub(crate) fn leave(mut self) -> u32 {
        self.over = true;
        self.index
    }

    /// Where it stands.
    pub async fn status(&self) -> Result<Status, CallError> {
        let index = self.index;
        Ok(self.session.ask_session(0, |reply| Call::Status { index, reply }).await??)
    }

    /// Stops it. Its completion can still be waited for.
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<(), Gone> {
        let reason = reason.into();
        self.session.send(reason.len(), Call::Cancel { index: self.index, reason }).await
    }

    /// Its completion, once it has ended, within `at_most`. A completion is taken once: after it, waiting is refused.
    pub async fn wait_for(&mut self, at_most: Option<Duration>) -> Result<Option<Completion>, CallError> {
        let session = self.session.clone();
        session.wait_any(&mut [self], at_most).await
    }

    /// Its completion, however long it takes (never longer than its deadline).
    pub async fn wait(mut self) -> Result<Completion, CallError> {
        loop {
            if let Some(completion) = self.wait_for(None).await? {
                return Ok(completion);
            }
        }
    }
}

impl Drop for Delegation {
    fn drop(&mut self) {
        if !self.over {
            let _gone = self.session.port.send(Call::Dropped { index: self.index }, None);
        }
    }
}
