//! What is wrong with a manifest, and where.

use std::fmt;
use std::path::PathBuf;

/// A manifest that is refused: the file, the line, the section, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The file, as it was named.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// The section (`limits`, `capsules.leaf.run`); empty outside any.
    pub section: String,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file.display(), self.line)?;
        if !self.section.is_empty() {
            write!(f, "[{}] ", self.section)?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for ManifestError {}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing in it.
    #[error("the file is empty; a capsule needs at least `name` and `[run]` (`treeward new` writes one to start from)")]
    Empty,
    /// Bytes that are no text.
    #[error("not UTF-8: the byte at offset {offset} belongs to no character; save the file as UTF-8")]
    NotUtf8 {
        /// Where the first such byte is, from 0.
        offset: usize,
    },
    /// Longer than a manifest may be.
    #[error("longer than {limit} bytes, the most a manifest may have; put long texts into files of their own")]
    TooLong {
        /// The most bytes.
        limit: usize,
    },
    /// Not TOML.
    #[error("not TOML: {message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// A key that does not exist there.
    #[error("unknown key `{key}`; {}", meant(*.nearest, .known))]
    UnknownKey {
        /// The key.
        key: String,
        /// The known key that may have been meant.
        nearest: Option<&'static str>,
        /// Every key that is known there.
        known: Vec<&'static str>,
    },
    /// A key that must be there.
    #[error("`{key}` is missing; {hint}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What to write.
        hint: &'static str,
    },
    /// A value of another type.
    #[error("`{key}` must be {expected}, not {found}")]
    WrongType {
        /// The key.
        key: String,
        /// What belongs there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A value that is refused.
    #[error("`{key}`: {reason}")]
    Value {
        /// The key.
        key: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Not exactly one thing that thinks.
    #[error("exactly one of `guest`, `harness` and `command` must be there, not {0}")]
    RunNotOne(String),
    /// Understood, and nothing can carry it out yet.
    #[error("`{key}` is not in this version; {instead}")]
    NotInThisVersion {
        /// The key.
        key: &'static str,
        /// What can be used.
        instead: &'static str,
    },
}

fn meant(nearest: Option<&str>, known: &[&str]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}
