//! Stored records as the commands use them.

use treeward::journal::{Body, Envelope, Stored};

use super::exit::Exit;
use super::failure::Failure;

/// A record, read.
pub struct Record {
    pub body: Body,
    pub envelope: Envelope,
}

impl Record {
    /// Reads a stored record.
    pub fn read(stored: &Stored) -> Result<Self, Failure> {
        let unreadable = |error: serde_json::Error| {
            Failure::new(Exit::Journal, format!("{} record {}: {error}", stored.tree, stored.seq))
                .help(format!("`treeward verify {}` says whether the journal is whole", stored.tree))
        };
        Ok(Self {
            body: serde_json::from_str(&stored.body).map_err(unreadable)?,
            envelope: serde_json::from_str(&stored.envelope).map_err(unreadable)?,
        })
    }
}

/// A record as JSON: its stored bytes, not written anew.
pub fn json(stored: &Stored) -> String {
    format!(r#"{{"body":{},"envelope":{},"hash":"{}"}}"#, stored.body, stored.envelope, hex::encode(stored.hash))
}
