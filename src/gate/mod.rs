//! The session's decision point: may this call run?
//!
//! Deny by default. With rules alone the gate is a function; hooks and people come to it later. The rest of treeward
//! can run a call only by handing over a [`Permit`], which only this module makes, for one call and one input.

use sha2::{Digest as _, Sha256};

use crate::capsule::Grants;
use crate::ids::Digest;

/// What is asked to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// A tool of the capsule, and whether the capsule has it.
    Tool {
        /// Its name.
        name: &'a str,
        /// What it is called with.
        input: &'a str,
        /// Whether the capsule has such a tool.
        known: bool,
    },
    /// An outgoing HTTP request.
    Http {
        /// The method, upper case.
        method: &'a str,
        /// The whole URL.
        url: &'a str,
    },
}

impl Request<'_> {
    /// The name the request goes by in records and fault rules.
    pub fn tool(&self) -> &str {
        match self {
            Self::Tool { name, .. } => name,
            Self::Http { .. } => "http",
        }
    }

    /// What the call is called with, as records show it.
    pub fn input(&self) -> String {
        match self {
            Self::Tool { input, .. } => (*input).to_owned(),
            Self::Http { method, url } => format!("{method} {url}"),
        }
    }

    fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        let (tool, input) = match self {
            Self::Tool { name, input, .. } => (*name, [*input, ""]),
            Self::Http { method, url } => ("http", [*method, *url]),
        };
        for part in [tool, input[0], input[1]] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        Digest::from_bytes(hash.finalize().into())
    }
}

/// Leave to run one call once, with the very input it was asked for.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is not used lets nothing run"]
pub struct Permit {
    call: u32,
    input: Digest,
}

impl Permit {
    /// Spends the permit on `request` as call `call`. What was not asked for is refused and the permit is gone.
    pub fn spend(self, call: u32, request: &Request<'_>) -> Result<(), Mismatch> {
        if self.call == call && self.input == request.digest() { Ok(()) } else { Err(Mismatch) }
    }
}

/// A permit was presented for another call, or for another input, than it was given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the permit is for another call")]
pub struct Mismatch;

/// What the gate says.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Allow(Permit),
    /// It may not.
    Deny {
        /// Why, naming what would have to change.
        reason: String,
    },
}

/// Decides call `call` by the capsule's rules.
pub fn decide(call: u32, request: &Request<'_>, grants: &Grants) -> Verdict {
    match request {
        Request::Tool { name, known: false, .. } => {
            Verdict::Deny { reason: format!("the capsule has no tool `{name}`: it needs [tools.{name}]") }
        }
        Request::Http { url, .. } if !grants.allows_url(url) => {
            Verdict::Deny { reason: format!("grants.network does not list the host of {url}") }
        }
        _ => Verdict::Allow(Permit { call, input: request.digest() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool<'a>(name: &'a str, input: &'a str, known: bool) -> Request<'a> {
        Request::Tool { name, input, known }
    }

    #[test]
    fn what_is_not_granted_is_denied_and_the_reason_names_the_key() {
        let grants = Grants::default();
        let Verdict::Deny { reason } = decide(1, &tool("grep", "x", false), &grants) else { panic!("allowed") };
        assert!(reason.contains("[tools.grep]"), "{reason}");
        let request = Request::Http { method: "GET", url: "https://example.com/" };
        let Verdict::Deny { reason } = decide(1, &request, &grants) else { panic!("allowed") };
        assert!(reason.contains("grants.network"), "{reason}");
    }

    #[test]
    fn a_permit_lets_through_only_the_call_and_the_input_it_was_given_for() {
        let permit = || match decide(7, &tool("grep", "x", true), &Grants::default()) {
            Verdict::Allow(permit) => permit,
            Verdict::Deny { reason } => panic!("{reason}"),
        };
        assert_eq!(permit().spend(7, &tool("grep", "x", true)), Ok(()));
        assert_eq!(permit().spend(8, &tool("grep", "x", true)), Err(Mismatch));
        assert_eq!(permit().spend(7, &tool("grep", "y", true)), Err(Mismatch));
        assert_eq!(permit().spend(7, &tool("rm", "x", true)), Err(Mismatch));
    }

    #[test]
    fn two_inputs_that_only_join_alike_are_not_alike() {
        let a = Request::Http { method: "GET", url: "https://a" };
        let b = Request::Http { method: "GEThttps://", url: "a" };
        assert_ne!(a.digest(), b.digest());
    }
}
