//! What a harness says, in the same words for every driver.

use std::time::Duration;

/// One thing a harness said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has a session, which a later run can resume by this id.
    SessionStarted {
        /// The harness's own id.
        id: String,
    },
    /// A fragment of a text: shown live, never recorded.
    TextDelta {
        /// Which text.
        item: String,
        /// What is added.
        text: String,
    },
    /// A whole text; it replaces its fragments.
    Text {
        /// Which text.
        item: String,
        /// All of it.
        text: String,
    },
    /// A fragment of its thinking: shown live, never recorded.
    ThinkingDelta {
        /// Which item.
        item: String,
        /// What is added.
        text: String,
    },
    /// All of one item of its thinking.
    Thinking {
        /// Which item.
        item: String,
        /// All of it.
        text: String,
    },
    /// It began to write a tool call, whose input is not complete.
    ToolCallStarted {
        /// The harness's id of the call.
        call: String,
        /// The tool, by the harness's name for it.
        tool: String,
    },
    /// A running tool call goes on.
    ToolCallProgress {
        /// The harness's id of the call.
        call: String,
        /// What it says of it; may be empty.
        text: String,
    },
    /// It called a tool.
    ToolCall {
        /// The harness's id of the call.
        call: String,
        /// The tool, by the harness's name for it.
        tool: String,
        /// The input, as JSON text.
        input: String,
    },
    /// A tool call has its result.
    ToolResult {
        /// The harness's id of the call.
        call: String,
        /// What came of it.
        outcome: Result<String, String>,
    },
    /// It asks whether it may do something, and waits; see [`Driver::answer`](super::Driver::answer).
    PermissionAsked {
        /// The harness's id of the question.
        id: String,
        /// The tool it wants to use.
        tool: String,
        /// With which input, as JSON text.
        input: String,
    },
    /// It tries something again.
    Retry {
        /// Which try, where it says so.
        attempt: Option<u32>,
        /// How long it waits first, where it says so.
        after: Option<Duration>,
        /// Why.
        reason: String,
    },
    /// What was used since its session began.
    Usage(UsageReport),
    /// Its turn is over and this is the answer.
    TurnEnded {
        /// The answer.
        answer: String,
    },
    /// Its turn is over without an answer.
    TurnFailed {
        /// Of what kind.
        failure: Failure,
        /// In its words.
        message: String,
    },
    /// Anything else worth keeping: noise on its output, a line over the limit, a warning.
    Note {
        /// What it is about.
        key: String,
        /// What there is to say.
        text: String,
    },
}

impl Event {
    /// Whether it shows that work goes on. A note does not: a heartbeat is no progress.
    pub fn is_progress(&self) -> bool {
        !matches!(self, Self::Note { .. })
    }
}

/// Cumulative usage. What a harness does not say is `None`, which is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// Tokens read, those from a cache included.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Millionths of a dollar.
    pub micro_usd: Option<u64>,
}

/// Of what kind a failed turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Credentials are missing or refused.
    Auth,
    /// A quota is used up; it lifts after this long, where that was said.
    Quota {
        /// How long.
        lifts: Option<Duration>,
    },
    /// It used all turns it may take.
    MaxTurns,
    /// It was interrupted.
    Canceled,
    /// The harness itself, or what it talks to, failed.
    HarnessError,
    /// It says that it cannot.
    Other,
}
