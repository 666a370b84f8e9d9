//! The two lines of a call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The variable that holds the socket's path.
pub const SOCKET: &str = "TREEWARD_SOCKET";
/// The variable that holds the token.
pub const TOKEN: &str = "TREEWARD_TOKEN";
/// How many bytes a line may have: a task of 1 MiB, every byte of it escaped.
pub const LONGEST_FRAME: usize = crate::limits::PROGRAM_CALL;

/// What a program asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// The session's token.
    pub token: String,
    /// `info`, `emit`, `delegate`, `wait`, `status`, `cancel`, `checkpoint`, `ask` or `tool`.
    pub call: String,
    /// What that call takes.
    #[serde(default)]
    pub input: Value,
}

/// What it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// What came of it.
    Ok(Value),
    /// Why nothing did.
    Error(CallFailure),
}

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields)]
#[error("{}{reason}", .key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
pub struct CallFailure {
    /// Of which kind.
    pub trouble: Trouble,
    /// The manifest key, budget or limit that forbids it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Why, in words.
    pub reason: String,
}

/// Of which kind a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The call itself makes no sense.
    BadCall,
    /// The token is not this session's.
    Unauthorized,
    /// A grant, a budget, a limit or the gate forbids it.
    Refused,
    /// A tool ran and failed.
    Failed,
    /// A person did not answer in time.
    Expired,
    /// Too many calls at once.
    Busy,
    /// The session has ended.
    Gone,
}

impl CallFailure {
    /// A failure without a key.
    pub fn new(trouble: Trouble, reason: impl Into<String>) -> Self {
        Self { trouble, key: None, reason: reason.into() }
    }
}
