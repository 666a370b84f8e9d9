//! The session's side of `treeward call`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::protocol::{CallFailure, Frame, LONGEST_FRAME, Reply, Trouble};
use crate::agent::{
    AskError, CallError, Completion, DelegationRequest, Gone, Lend, Question, Refusal, Session, Status, ToolError,
};
use crate::capsule::{Budget, Usage};
use crate::journal::CompletionStatus;
use crate::tree::owned::Owned;

/// Connections of one session at once; the next one waits.
const CONNECTIONS: usize = 64;
/// How long a connection may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A directory the session was lent, as its program finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirectoryInfo {
    /// The name it was lent by.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it may be written.
    pub write: bool,
}

/// Answers the calls of one session's program until it is dropped, or the session is to stop. Delegations are the
/// session's: a connection that is dropped cancels none, the session's ending does.
#[derive(Debug)]
pub struct CallServer {
    path: PathBuf,
    _task: Owned,
}

impl CallServer {
    /// Listens at `path`, which must not exist and lies in a directory of mode 0700. When `stopping` becomes true, new
    /// calls are refused and running ones ended.
    pub fn start(
        path: PathBuf,
        token: &str,
        session: Session,
        directories: Vec<DirectoryInfo>,
        stopping: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let listener = UnixListener::bind(&path)?;
        let shared = Arc::new(Shared { token: Sha256::digest(token).into(), session, directories });
        let task = Owned::spawn(accept(listener, shared, stopping));
        Ok(Self { path, _task: task })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for CallServer {
    fn drop(&mut self) {
        // The directory it lies in goes too; this is for those who look in between.
        let _gone = std::fs::remove_file(&self.path);
    }
}

struct Shared {
    token: [u8; 32],
    session: Session,
    directories: Vec<DirectoryInfo>,
}

async fn accept(listener: UnixListener, shared: Arc<Shared>, mut stopping: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stopping) => return,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, shared.clone()))),
                // Out of descriptors, say: an event, not the end.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Nobody left who could say so says the same.
    let _said = stopping.wait_for(|stopping| *stopping).await.is_ok();
}

async fn serve(stream: UnixStream, shared: Arc<Shared>) {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    let reply = match timeout(PATIENCE, read_frame(&mut from)).await {
        Ok(Ok(frame)) => match shared.carry_out(frame, &mut from).await {
            Some(Ok(value)) => Reply::Ok(value),
            Some(Err(failure)) => Reply::Error(failure),
            // Nobody is there to be answered.
            None => return,
        },
        Ok(Err(failure)) => Reply::Error(failure),
        Err(_) => Reply::Error(CallFailure::new(Trouble::BadCall, "nothing was asked within 10 s")),
    };
    let _late = timeout(PATIENCE, write_reply(&mut to, &reply)).await;
}

async fn read_frame(from: &mut (impl AsyncBufRead + Unpin)) -> Result<Frame, CallFailure> {
    let bad = |reason: String| CallFailure::new(Trouble::BadCall, reason);
    let mut line = Vec::new();
    let read = from.take(LONGEST_FRAME as u64 + 1).read_until(b'\n', &mut line).await;
    read.map_err(|error| bad(format!("cannot be read: {error}")))?;
    if line.len() > LONGEST_FRAME {
        return Err(bad(format!("longer than {LONGEST_FRAME} bytes, the most a call may have")));
    }
    serde_json::from_slice(&line).map_err(|error| bad(format!("not a call: {error}")))
}

async fn write_reply(to: &mut (impl AsyncWrite + Unpin), reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    to.write_all(&line).await?;
    to.shutdown().await
}

/// Resolves when the other side has hung up, whatever it still sends.
async fn hung_up(from: &mut (impl AsyncRead + Unpin)) {
    let mut more = [0; 256];
    while !matches!(from.read(&mut more).await, Ok(0) | Err(_)) {}
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delegate {
    capsule: String,
    task: String,
    #[serde(default)]
    slice: Option<Budget>,
    #[serde(default)]
    lend: Vec<LendOf>,
    #[serde(default)]
    deadline_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LendOf {
    directory: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    write: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    among: Vec<u32>,
    #[serde(default)]
    at_most_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    index: u32,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    question: String,
    #[serde(default)]
    deadline_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Emit {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Checkpoint {
    label: String,
    #[serde(default)]
    state: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    #[serde(default)]
    input: String,
}

#[derive(Serialize)]
struct Completed {
    index: u32,
    status: CompletionStatus,
    answer: String,
    answer_len: u64,
    detail: Option<String>,
    spent: Usage,
}

impl From<Completion> for Completed {
    fn from(completion: Completion) -> Self {
        let Completion { index, status, answer, answer_len, detail, spent } = completion;
        Self { index, status, answer, answer_len, detail, spent }
    }
}

impl From<Gone> for CallFailure {
    fn from(gone: Gone) -> Self {
        Self::new(Trouble::Gone, gone.to_string())
    }
}

impl From<Refusal> for CallFailure {
    fn from(refusal: Refusal) -> Self {
        Self { trouble: Trouble::Refused, key: Some(refusal.key), reason: refusal.reason }
    }
}

impl From<CallError> for CallFailure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => refusal.into(),
            CallError::Gone(gone) => gone.into(),
        }
    }
}

fn of<T: for<'de> Deserialize<'de>>(call: &str, input: Value) -> Result<T, CallFailure> {
    let input = if input.is_null() { json!({}) } else { input };
    serde_json::from_value(input).map_err(|bad| CallFailure::new(Trouble::BadCall, format!("{call}: {bad}")))
}

impl Shared {
    /// `None`: whoever asked has gone and took nothing with them.
    async fn carry_out(&self, frame: Frame, from: &mut (impl AsyncRead + Unpin)) -> Option<Result<Value, CallFailure>> {
        if !self.knows(&frame.token) {
            return Some(Err(CallFailure::new(Trouble::Unauthorized, "the token is not this session's")));
        }
        let Frame { call, input, .. } = frame;
        if call != "wait" {
            return Some(self.call(&call, input).await);
        }
        let Wait { among, at_most_ms } = match of(&call, input) {
            Ok(wait) => wait,
            Err(failure) => return Some(Err(failure)),
        };
        // A completion is taken once: whoever has hung up is not to take one.
        tokio::select! {
            biased;
            () = hung_up(from) => None,
            waited = self.session.wait_among(among, at_most_ms.map(Duration::from_millis)) => {
                Some(waited.map(|done| json!(done.map(Completed::from))).map_err(CallFailure::from))
            }
        }
    }

    /// Whether it is the token, in a time that does not tell how much of it.
    fn knows(&self, token: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(token).into();
        given.iter().zip(&self.token).fold(0, |different, (a, b)| different | (a ^ b)) == 0
    }

    async fn call(&self, call: &str, input: Value) -> Result<Value, CallFailure> {
        let session = &self.session;
        match call {
            "info" => {
                let info = session.info().await?;
                Ok(json!({
                    "path": info.path, "attempt": info.attempt, "depth_left": info.depth_left, "left": info.left,
                    "deadline_ms": u64::try_from(info.deadline.as_millis()).unwrap_or(u64::MAX),
                    "directories": self.directories,
                }))
            }
            "emit" => {
                let Emit { text } = of(call, input)?;
                session.emit(text).await?;
                Ok(Value::Null)
            }
            "delegate" => {
                let Delegate { capsule, task, slice, lend, deadline_ms } = of(call, input)?;
                let lend = lend.into_iter().map(|lend| Lend {
                    name: lend.name.unwrap_or_else(|| lend.directory.clone()),
                    directory: lend.directory,
                    path: lend.path,
                    write: lend.write,
                });
                let deadline = deadline_ms.map(Duration::from_millis);
                let request = DelegationRequest { capsule, task, slice, lend: lend.collect(), deadline };
                let index = session.delegate(request).await?.leave();
                Ok(json!({ "index": index, "path": session.path().child(index) }))
            }
            "status" => {
                let Index { index, .. } = of(call, input)?;
                Ok(match session.status_of(index).await? {
                    Status::Queued => json!({ "index": index, "status": "queued" }),
                    Status::Running => json!({ "index": index, "status": "running" }),
                    Status::Ended(ended) => json!({ "index": index, "status": "ended", "ended": ended }),
                })
            }
            "cancel" => {
                let Index { index, reason } = of(call, input)?;
                session.cancel(index, reason).await?;
                Ok(Value::Null)
            }
            "checkpoint" => {
                let Checkpoint { label, state } = of(call, input)?;
                session.checkpoint(label, state.into()).await?;
                Ok(Value::Null)
            }
            "ask" => {
                let Ask { question, deadline_ms } = of(call, input)?;
                let question = Question { text: question, deadline: deadline_ms.map(Duration::from_millis) };
                match session.ask(question).await? {
                    Ok(answer) => Ok(json!({ "answer": answer })),
                    Err(error @ AskError::Denied) => Err(CallFailure::new(Trouble::Refused, error.to_string())),
                    Err(error @ AskError::Expired) => Err(CallFailure::new(Trouble::Expired, error.to_string())),
                }
            }
            "tool" => {
                let Tool { name, input } = of(call, input)?;
                match session.call_tool(name, input).await? {
                    Ok(output) => Ok(json!({ "output": output })),
                    Err(ToolError::Denied(reason)) => Err(CallFailure::new(Trouble::Refused, reason)),
                    Err(ToolError::Failed(reason)) => Err(CallFailure::new(Trouble::Failed, reason)),
                }
            }
            other => {
                let other: String = other.chars().take(64).collect();
                Err(CallFailure::new(Trouble::BadCall, format!("`{other}` is not a call")))
            }
        }
    }
}
