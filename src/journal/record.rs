//! One entry of the journal: a body that two runs of one seed share, and an envelope that they do not.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::capsule::{Budget, Usage};
use crate::env::Timestamp;
use crate::ids::{DelegationId, Digest, RunId, SessionId, SessionPath, Strand, TaskId, TreeId};
use crate::supervision::ExitClass;

/// The version of the record schema; every tree names the one it was written in.
pub const SCHEMA: u32 = 1;

/// What happened, without clock, random id, pid or duration. Its key order is fixed by this declaration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Body {
    /// The session it happened in.
    pub path: SessionPath,
    /// Which incarnation of that session; 0 for the tree itself.
    pub attempt: u32,
    /// The line of the session's doing.
    pub strand: Strand,
    /// 1, 2, 3, … within the strand; given by the writer.
    pub n: u32,
    /// What kind of thing happened.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What differs between two runs of the same seed. `hash` is kept beside it, since the hash covers these bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The tree.
    pub tree: TreeId,
    /// 1, 2, 3, … within the tree; given by the writer.
    pub seq: u64,
    /// When the writer took it, in microseconds since the Unix epoch.
    pub at: Timestamp,
    /// The ids it concerns.
    #[serde(default, skip_serializing_if = "Ids::is_empty")]
    pub ids: Ids,
    /// The submitter's labels (tenant, request).
    #[serde(default, skip_serializing_if = "no_labels")]
    pub labels: Labels,
    /// The process that wrote it.
    pub pid: u32,
}

/// Names and values a submitter attached to a tree. Shared, since they ride in every envelope of it.
pub type Labels = Arc<BTreeMap<String, String>>;

fn no_labels(labels: &Labels) -> bool {
    labels.is_empty()
}

/// The random ids a record concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ids {
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The delegation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation: Option<DelegationId>,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The run of a harness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
}

impl Ids {
    fn is_empty(&self) -> bool {
        self.session.is_none() && self.delegation.is_none() && self.task.is_none() && self.run.is_none()
    }
}

/// A text of a record: itself, or where it went when it was longer than a field may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// In the body.
    Inline(String),
    /// In the blob store.
    Blob(Blob),
}

impl Default for Text {
    fn default() -> Self {
        Self::Inline(String::new())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Inline(text)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::Inline(text.to_owned())
    }
}

/// Bytes kept outside the record: their digest and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blob {
    /// SHA-256 of the bytes.
    pub blob: Digest,
    /// How many bytes.
    pub len: u64,
}

/// How a delegation, a session or a tree ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionStatus {
    /// It answered.
    Ok,
    /// It answered that it could not.
    Error,
    /// It ended without answering and changed nothing outside.
    Crashed,
    /// It was stopped: cancelled, or past its deadline.
    Terminated,
    /// It ended without answering and may have changed the world.
    Unknown,
}

/// Who said how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reporter {
    /// The child's own report.
    Child,
    /// Its supervisor, in its place.
    Supervisor,
    /// Recovery, after the process that ran it was killed.
    Recovery,
}

/// A directory lent to a session: the name it has there, and whether it may be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LentDirectory {
    /// The name the session knows it by (`input`, `work`).
    pub name: String,
    /// Below which directory of the parent, as `name/relative/path`; absent for a root session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether it may be written.
    pub write: bool,
}

/// What a gated call was answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// It ran and answered.
    Ok,
    /// It ran and failed.
    Error,
    /// The gate said no; it did not run.
    Denied,
    /// It was ended before it answered.
    Ended,
}

/// Whether a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

/// What happened to a question put to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionOutcome {
    /// A person answered.
    Answered,
    /// There is nobody who could.
    Denied,
    /// Its deadline passed.
    Expired,
    /// Whoever asked is gone.
    Withdrawn,
}

/// The kinds of record. Unknown fields are refused within a schema version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "the fields of a record are described in docs/schema.md, which a test holds to this enum"
)]
pub enum Kind {
    TreeStarted {
        schema: u32,
        capsule: String,
        seed: u64,
        budget: Budget,
    },
    TreeEnded {
        status: CompletionStatus,
        refused: u64,
    },
    SessionStarted {
        capsule: String,
        digest: Digest,
        agent: AgentKind,
        lent: Vec<LentDirectory>,
        changes_world: bool,
    },
    AttemptEnded {
        class: ExitClass,
        detail: Option<String>,
        changed_world: bool,
    },
    Restarted {
        class: ExitClass,
        after_ms: u64,
    },
    SessionEnded {
        status: CompletionStatus,
        by: Reporter,
    },
    TaskSubmitted {
        task: Text,
    },
    TaskStarted {},
    TaskEnded {
        status: CompletionStatus,
        answer: Option<Text>,
        detail: Option<String>,
    },
    Text {
        text: Text,
    },
    ToolCalled {
        tool: String,
        input: Text,
        changes_world: bool,
    },
    ToolReturned {
        outcome: CallOutcome,
        output: Text,
    },
    GateAsked {
        tool: String,
    },
    GateDecided {
        decision: Decision,
        by: String,
        reason: Option<String>,
    },
    QuestionAsked {
        question: Text,
    },
    QuestionAnswered {
        outcome: QuestionOutcome,
        answer: Option<Text>,
    },
    Delegated {
        child: SessionPath,
        capsule: String,
        task: Text,
        lent: Vec<LentDirectory>,
        deadline_ms: u64,
    },
    Queued {
        limit: String,
    },
    BudgetReserved {
        slice: Budget,
    },
    BudgetCapped {
        cap: Budget,
    },
    BudgetSettled {
        spent: Usage,
        estimated: bool,
    },
    BudgetExhausted {
        key: String,
        asked: u64,
        left: u64,
    },
    UsageReported {
        usage: Usage,
    },
    DelegationEnded {
        status: CompletionStatus,
        by: Reporter,
        attempts: u32,
        answer: Option<Text>,
        detail: Option<String>,
        spent: Usage,
    },
    DelegationTaken {},
    Escalated {
        why: String,
    },
    StopRequested {
        reason: String,
    },
    FaultInjected {
        point: String,
        action: String,
        nth: u64,
    },
    Checkpoint {
        label: String,
        state: Blob,
    },
    Chosen {
        among: Vec<u32>,
        chosen: Option<u32>,
    },
    HarnessStarting {
        driver: String,
        program: String,
    },
    HarnessStarted {},
    HarnessReady {
        session: Option<String>,
    },
    HarnessInterrupted {
        by: String,
    },
    HarnessKilled {
        signal: String,
    },
    HarnessExited {
        exit: String,
    },
    HarnessGone {
        survivors: u32,
    },
    Note {
        key: String,
        text: Text,
    },
}

impl Kind {
    /// Its name in a body.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TreeStarted { .. } => "tree_started",
            Self::TreeEnded { .. } => "tree_ended",
            Self::SessionStarted { .. } => "session_started",
            Self::AttemptEnded { .. } => "attempt_ended",
            Self::Restarted { .. } => "restarted",
            Self::SessionEnded { .. } => "session_ended",
            Self::TaskSubmitted { .. } => "task_submitted",
            Self::TaskStarted { .. } => "task_started",
            Self::TaskEnded { .. } => "task_ended",
            Self::Text { .. } => "text",
            Self::ToolCalled { .. } => "tool_called",
            Self::ToolReturned { .. } => "tool_returned",
            Self::GateAsked { .. } => "gate_asked",
            Self::GateDecided { .. } => "gate_decided",
            Self::QuestionAsked { .. } => "question_asked",
            Self::QuestionAnswered { .. } => "question_answered",
            Self::Delegated { .. } => "delegated",
            Self::Queued { .. } => "queued",
            Self::BudgetReserved { .. } => "budget_reserved",
            Self::BudgetCapped { .. } => "budget_capped",
            Self::BudgetSettled { .. } => "budget_settled",
            Self::BudgetExhausted { .. } => "budget_exhausted",
            Self::UsageReported { .. } => "usage_reported",
            Self::DelegationEnded { .. } => "delegation_ended",
            Self::DelegationTaken { .. } => "delegation_taken",
            Self::Escalated { .. } => "escalated",
            Self::StopRequested { .. } => "stop_requested",
            Self::FaultInjected { .. } => "fault_injected",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Chosen { .. } => "chosen",
            Self::HarnessStarting { .. } => "harness_starting",
            Self::HarnessStarted { .. } => "harness_started",
            Self::HarnessReady { .. } => "harness_ready",
            Self::HarnessInterrupted { .. } => "harness_interrupted",
            Self::HarnessKilled { .. } => "harness_killed",
            Self::HarnessExited { .. } => "harness_exited",
            Self::HarnessGone { .. } => "harness_gone",
            Self::Note { .. } => "note",
        }
    }

    /// The one text a record may carry, which goes to the blob store when it is longer than a field may be.
    pub fn text_mut(&mut self) -> Option<&mut Text> {
        match self {
            Self::TaskSubmitted { task: text }
            | Self::Text { text }
            | Self::ToolCalled { input: text, .. }
            | Self::ToolReturned { output: text, .. }
            | Self::QuestionAsked { question: text }
            | Self::Delegated { task: text, .. }
            | Self::Note { text, .. } => Some(text),
            Self::TaskEnded { answer, .. }
            | Self::QuestionAnswered { answer, .. }
            | Self::DelegationEnded { answer, .. } => answer.as_mut(),
            _ => None,
        }
    }

    /// The blob a record names, in its text or as a checkpoint's state.
    pub fn blob(&self) -> Option<Blob> {
        let text = match self {
            Self::Checkpoint { state, .. } => return Some(*state),
            Self::TaskSubmitted { task: text }
            | Self::Text { text }
            | Self::ToolCalled { input: text, .. }
            | Self::ToolReturned { output: text, .. }
            | Self::QuestionAsked { question: text }
            | Self::Delegated { task: text, .. }
            | Self::Note { text, .. } => text,
            Self::TaskEnded { answer: Some(text), .. }
            | Self::QuestionAnswered { answer: Some(text), .. }
            | Self::DelegationEnded { answer: Some(text), .. } => text,
            _ => return None,
        };
        match text {
            Text::Blob(blob) => Some(*blob),
            Text::Inline(_) => None,
        }
    }
}

/// What thinks in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    /// A WebAssembly component.
    Guest,
    /// A Rust function of the embedder.
    Native,
    /// A program, as a subprocess.
    Command,
}
