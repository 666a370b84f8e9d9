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

/// What is counted and used up. The order is the one refusals are looked for in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// Model tokens.
    Tokens,
    /// Millionths of a US dollar.
    MicroUsd,
    /// Gated tool calls.
    ToolCalls,
    /// Delegations.
    Delegations,
}

impl Axis {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tokens, Self::MicroUsd, Self::ToolCalls, Self::Delegations];

    /// The manifest key of its ceiling.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tokens => "budget.tokens",
            Self::MicroUsd => "budget.usd",
            Self::ToolCalls => "budget.tool_calls",
            Self::Delegations => "budget.delegations",
        }
    }
}

impl Usage {
    /// How much of one axis.
    pub fn get(&self, axis: Axis) -> u64 {
        match axis {
            Axis::Tokens => self.tokens,
            Axis::MicroUsd => self.micro_usd,
            Axis::ToolCalls => self.tool_calls,
            Axis::Delegations => self.delegations,
        }
    }

    /// One axis, to be changed.
    pub fn get_mut(&mut self, axis: Axis) -> &mut u64 {
        match axis {
            Axis::Tokens => &mut self.tokens,
            Axis::MicroUsd => &mut self.micro_usd,
            Axis::ToolCalls => &mut self.tool_calls,
            Axis::Delegations => &mut self.delegations,
        }
    }

    /// This much on every axis.
    pub fn by_axis(mut amount: impl FnMut(Axis) -> u64) -> Self {
        Self {
            tokens: amount(Axis::Tokens),
            micro_usd: amount(Axis::MicroUsd),
            tool_calls: amount(Axis::ToolCalls),
            delegations: amount(Axis::Delegations),
        }
    }

    /// Both together; what cannot be counted any more stays at the most that can.
    pub fn plus(&self, other: &Self) -> Self {
        Self::by_axis(|axis| self.get(axis).saturating_add(other.get(axis)))
    }

    /// What remains of this once `other` is taken from it; nothing where `other` is more.
    pub fn minus(&self, other: &Self) -> Self {
        Self::by_axis(|axis| self.get(axis).saturating_sub(other.get(axis)))
    }

    /// Whether nothing was used.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl Budget {
    /// The ceiling of one axis.
    pub fn get(&self, axis: Axis) -> Option<u64> {
        match axis {
            Axis::Tokens => self.tokens,
            Axis::MicroUsd => self.micro_usd,
            Axis::ToolCalls => self.tool_calls,
            Axis::Delegations => self.delegations,
        }
    }

    /// The ceiling of one axis, to be changed.
    pub fn get_mut(&mut self, axis: Axis) -> &mut Option<u64> {
        match axis {
            Axis::Tokens => &mut self.tokens,
            Axis::MicroUsd => &mut self.micro_usd,
            Axis::ToolCalls => &mut self.tool_calls,
            Axis::Delegations => &mut self.delegations,
        }
    }

    /// What both allow: of every ceiling the lower one.
    pub fn lesser(&self, other: &Self) -> Self {
        let mut both = Self { depth: least(self.depth, other.depth), wall: least(self.wall, other.wall), ..*self };
        for axis in Axis::ALL {
            *both.get_mut(axis) = least(self.get(axis), other.get(axis));
        }
        both
    }

    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// The lower of two ceilings, an absent one being no ceiling.
pub(crate) fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
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
