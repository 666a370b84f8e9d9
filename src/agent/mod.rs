//! The interface lent to whatever thinks: guests, native agents and (later) harnesses use the same one.
//!
//! An agent holds a [`Session`]: it asks, and the session's actor decides. The handle knows neither actors nor
//! the journal; it sends [`Call`]s through a [`Port`] and waits for their replies.

mod handle;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::capsule::{Budget, Usage};
use crate::ids::SessionPath;
use crate::journal::CompletionStatus;

pub use handle::{CallError, Delegation, Gone, Session};

/// What an agent is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The task's text.
    pub text: String,
}

impl<T: Into<String>> From<T> for Task {
    fn from(text: T) -> Self {
        Self { text: text.into() }
    }
}

/// Something that thinks, as Rust. Trusted code: it can block a thread or leak what it likes.
///
/// # Cancel safety
/// When its session is stopped the future is dropped at its next await point.
/// # Restart
/// `run` is called once an attempt; nothing is kept between attempts but what [`Session::checkpoint`] recorded.
pub trait Agent: Send + Sync + 'static {
    /// Works on `task` and answers, or says why it cannot.
    fn run(&self, session: Session, task: Task) -> Running;
}

/// What [`Agent::run`] returns.
pub type Running = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

impl<F, R> Agent for F
where
    F: Fn(Session, Task) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, String>> + Send + 'static,
{
    fn run(&self, session: Session, task: Task) -> Running {
        Box::pin(self(session, task))
    }
}

/// Asks for a child session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelegationRequest {
    /// The capsule, by the name it has in the delegator's grants.
    pub capsule: String,
    /// The task's text.
    pub task: String,
    /// What is set aside for it. `None`: it draws from what its parent has left.
    pub slice: Option<Budget>,
    /// Directories lent, each a granted one of the delegator plus a relative path.
    pub lend: Vec<Lend>,
    /// How long it may take; never longer than the delegator itself may. `None`: the child's manifest says.
    pub deadline: Option<Duration>,
}

/// Lends one directory to a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lend {
    /// The delegator's name for the granted directory (`input`).
    pub directory: String,
    /// A path below it; empty for all of it. No `..`, no absolute path, no link that leads out.
    pub path: String,
    /// The child's name for it.
    pub name: String,
    /// Whether the child may write there; only where the delegator may.
    pub write: bool,
}

/// What the delegator gets when a delegation has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which of the session's delegations.
    pub index: u32,
    /// How it ended.
    pub status: CompletionStatus,
    /// The answer, at most 64 KiB of it. Untrusted text. Empty unless it answered.
    pub answer: String,
    /// How long the whole answer is, in bytes; more than `answer.len()` where it was cut.
    pub answer_len: u64,
    /// Why, where it did not answer.
    pub detail: Option<String>,
    /// What its subtree spent.
    pub spent: Usage,
}

/// Why a request was not granted. Nothing was started and nothing is set aside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct Refusal {
    /// The manifest key, budget or limit that forbids it (`grants.delegate`, `budget.depth`, `limits.live_children`).
    pub key: String,
    /// What was asked and what is allowed.
    pub reason: String,
}

/// Why a tool call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The gate said no; the tool did not run.
    #[error("denied: {0}")]
    Denied(String),
    /// The tool ran and failed.
    #[error("{0}")]
    Failed(String),
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub text: String,
    /// How long the answer may take; at most one hour and the session's own deadline.
    pub deadline: Option<Duration>,
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// There is nobody who could answer.
    #[error("nobody can answer here")]
    Denied,
    /// Nobody answered in time.
    #[error("nobody answered in time")]
    Expired,
}

/// What a session may know of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its place in the tree.
    pub path: SessionPath,
    /// How many levels it may still delegate down.
    pub depth_left: u32,
    /// What is left of its budget, where a ceiling holds.
    pub left: Budget,
    /// How long until its deadline.
    pub deadline: Duration,
    /// Which incarnation this is, from 1.
    pub attempt: u32,
}

/// Where a delegation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Waiting for a place.
    Queued,
    /// Its session is live.
    Running,
    /// It has ended.
    Ended(CompletionStatus),
}

/// One thing an agent asks of its session. A reply dropped unanswered means the session is gone.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of the handle's methods, and a reply to each")]
pub enum Call {
    /// What a session may know of itself.
    Info { reply: oneshot::Sender<Info> },
    /// Live text. `done` ends the item: the complete text becomes a record.
    Emit { text: String, done: bool, reply: oneshot::Sender<()> },
    /// A tool of the capsule.
    Tool { name: String, input: String, reply: oneshot::Sender<Result<String, ToolError>> },
    /// A child session. The reply is its index.
    Delegate { request: DelegationRequest, reply: oneshot::Sender<Result<u32, Refusal>> },
    /// The first of these delegations to end, within `at_most`. `None`: none did. Takes the completion.
    /// `record` says that the choice among several is itself an input and is recorded.
    Wait { among: Vec<u32>, at_most: Option<Duration>, reply: oneshot::Sender<Result<Option<Completion>, Refusal>> },
    /// Where a delegation stands.
    Status { index: u32, reply: oneshot::Sender<Result<Status, Refusal>> },
    /// Stops a delegation; its completion can still be waited for.
    Cancel { index: u32, reason: String },
    /// Nobody will wait for this delegation any more.
    Dropped { index: u32 },
    /// Records a state to go on from.
    Checkpoint { label: String, state: Bytes, reply: oneshot::Sender<()> },
    /// Asks a person.
    Ask { question: Question, reply: oneshot::Sender<Result<String, AskError>> },
    /// May an HTTP request go out? `Ok` is the number of the call, to be ended with [`Call::HttpEnded`].
    Http { method: String, url: String, reply: oneshot::Sender<Result<u32, Refusal>> },
    /// The HTTP request has its response head (a status) or failed.
    HttpEnded { call: u32, outcome: Result<u16, String> },
    /// Model usage, to be added to what was spent.
    Usage { usage: Usage },
    /// A sign of progress without content (a guest used its running time).
    Progress,
}

/// Where an agent's calls go. Implemented by the tree.
pub trait Port: Send + Sync {
    /// Delivers `call`, with the uncommitted bytes it was granted; gives it back when the session is gone.
    fn send(&self, call: Call, credit: Credit) -> Result<(), Box<Call>>;
}

/// A share of a session's uncommitted bytes; returned when the record made of it is committed.
pub type Credit = Option<tokio::sync::OwnedSemaphorePermit>;
