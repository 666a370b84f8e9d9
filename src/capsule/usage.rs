//! What was spent, and what may be.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a session or a subtree has used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Model tokens.
    pub tokens: u64,
    /// Millionths of a US dollar: money is counted, not rounded.
    pub micro_usd: u64,
    /// Gated tool calls that were allowed.
    pub tool_calls: u64,
    /// Delegations made.
    pub delegations: u64,
}

/// Ceilings of a whole subtree. An absent one does not limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Model tokens, used up as they are spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Millionths of a US dollar, used up as they are spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Gated tool calls, used up as they are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Delegations, used up as they are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegations: Option<u64>,
    /// How many levels may stand below; inherited, one less at each level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// How long it may take by the clock; inherited.
    #[serde(rename = "wall_ms", with = "millis", skip_serializing_if = "Option::is_none")]
    pub wall: Option<Duration>,
}

mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
