//! What a task is made of.

use miniserde::json::Value;

/// One step. `do` says which; the others are what it needs, and an absent one has its default.
#[derive(Default, miniserde::Deserialize)]
#[allow(missing_docs)]
pub struct Step {
    #[serde(rename = "do")]
    pub what: String,
    pub times: Option<u64>,
    pub text: Option<String>,
    pub count: Option<u64>,
    pub ms: Option<u64>,
    // Delegations.
    pub capsule: Option<String>,
    pub task: Option<String>,
    pub script: Option<Value>,
    pub slice: Option<Slice>,
    pub lend: Option<Vec<Lend>>,
    pub deadline_ms: Option<u64>,
    pub of: Option<u64>,
    pub among: Option<Vec<u64>>,
    pub at_most_ms: Option<u64>,
    pub reason: Option<String>,
    pub depth: Option<u64>,
    pub width: Option<u64>,
    // Tools and checkpoints.
    pub name: Option<String>,
    pub input: Option<String>,
    pub label: Option<String>,
    // Files.
    pub dir: Option<String>,
    pub path: Option<String>,
}

/// What is set aside for a delegation.
#[derive(miniserde::Deserialize)]
#[allow(missing_docs)]
pub struct Slice {
    pub tokens: Option<u64>,
    pub micro_usd: Option<u64>,
    pub tool_calls: Option<u64>,
    pub delegations: Option<u64>,
    pub depth: Option<u32>,
    pub wall_ms: Option<u64>,
}

/// A directory lent to a child.
#[derive(miniserde::Deserialize)]
#[allow(missing_docs)]
pub struct Lend {
    pub directory: String,
    pub path: Option<String>,
    pub name: Option<String>,
    pub write: Option<bool>,
}
