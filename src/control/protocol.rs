//! What is asked and answered on the socket: a line of JSON each, of at most [`REQUEST`](super::REQUEST) bytes where it is
//! asked. A request names the version it is written in.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{SessionPath, TreeId};
use crate::journal::Stored;
use crate::tree::{Sessions, Stopped};

/// The version of this protocol.
pub const VERSION: u64 = 1;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// What lives: everything, or one tree.
    Sessions {
        /// The only tree that is meant.
        #[serde(default)]
        tree: Option<TreeId>,
    },
    /// The committed records of a tree from one on, as they come, until it has ended.
    Follow {
        /// The tree.
        tree: TreeId,
        /// The first record wanted, from 1.
        from: u64,
    },
    /// Stops a session with everything below it; the root's path stops the tree.
    Stop {
        /// The tree.
        tree: TreeId,
        /// The session.
        path: SessionPath,
        /// How long it may take, in milliseconds; the runtime's usual grace where it is not said.
        #[serde(default)]
        grace_ms: Option<u64>,
    },
    /// The metrics as Prometheus reads them.
    Metrics {},
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// What lives.
    Sessions {
        /// The process.
        pid: u32,
        /// What it saw.
        seen: Sessions,
    },
    /// One record of a followed tree: exactly the stored bytes.
    Record {
        /// Its number.
        seq: u64,
        /// The body's JSON.
        body: String,
        /// The envelope's JSON.
        envelope: String,
        /// The chain up to here, in hexadecimal.
        hash: String,
    },
    /// A followed tree says no more.
    Over {
        /// Whether it has ended; otherwise the process is ending.
        ended: bool,
    },
    /// What came of a stop.
    Stop {
        /// What.
        stopped: Stopped,
        /// The last record committed before it.
        seq: u64,
        /// How long it may take, in milliseconds.
        grace_ms: u64,
    },
    /// The metrics.
    Metrics {
        /// As Prometheus reads them.
        text: String,
    },
    /// The request was not taken.
    Refused {
        /// Why.
        why: String,
    },
}

impl Ask {
    /// As a line, with its end.
    pub fn line(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(object) = &mut value {
            object.insert("v".into(), VERSION.into());
        }
        format!("{value}\n")
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it, for whoever wrote it.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| format!("not a request: {error}");
        let mut value: Value = serde_json::from_slice(line).map_err(wrong)?;
        let version = value.as_object_mut().and_then(|object| object.remove("v"));
        match version.as_ref().and_then(Value::as_u64) {
            Some(VERSION) => serde_json::from_value(value).map_err(wrong),
            Some(other) => Err(format!("version {other} of the protocol is not spoken here, {VERSION} is")),
            None => Err(format!("a request names its version: \"v\":{VERSION}")),
        }
    }
}

impl Answer {
    /// As a line, with its end.
    pub fn line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    pub(super) fn record(stored: &Stored) -> Self {
        Self::Record {
            seq: stored.seq,
            body: stored.body.clone(),
            envelope: stored.envelope.clone(),
            hash: hex::encode(stored.hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_asked_is_read_back() {
        let tree = TreeId::nobody();
        for ask in [
            Ask::Sessions { tree: None },
            Ask::Follow { tree, from: 3 },
            Ask::Stop { tree, path: "0.1".parse().unwrap(), grace_ms: Some(5) },
            Ask::Metrics {},
        ] {
            assert_eq!(Ask::read(ask.line().as_bytes()).unwrap(), ask);
            assert_eq!(ask.line().matches('\n').count(), 1);
        }
        assert_eq!(Ask::read(br#"{"v":1,"ask":"sessions"}"#).unwrap(), Ask::Sessions { tree: None });
    }

    #[test]
    fn another_version_and_an_unknown_field_are_named() {
        let said = |line: &str| Ask::read(line.as_bytes()).unwrap_err();
        assert!(said(r#"{"v":2,"ask":"metrics"}"#).contains("version 2"));
        assert!(said(r#"{"ask":"metrics"}"#).contains("names its version"));
        assert!(said(r#"{"v":1,"ask":"stop","tree":"x","path":"0"}"#).contains("not a request"));
        assert!(said(r#"{"v":1,"ask":"sessions","all":true}"#).contains("all"));
        assert!(said(r#"{"v":1,"ask":"format_disk"}"#).contains("format_disk"));
        assert!(said("[1]").contains("version"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(Ask::read(&bytes).is_err());
        }
    }
}
