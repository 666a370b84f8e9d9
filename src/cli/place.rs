//! Where the journal is.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The journal a command works with, as `--journal` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: gone with the process.
    Memory,
    /// In this file.
    File(PathBuf),
}

/// The file used where nothing else is asked for, in the current directory.
pub const DEFAULT: &str = ".treeward/journal.db";

impl FromStr for Place {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "memory" { Self::Memory } else { Self::File(text.into()) })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Place {
    /// What must be added to a command so that it reads this journal; starts with a blank where it is not empty.
    pub fn option(&self) -> String {
        match self {
            Self::File(path) if path == Path::new(DEFAULT) => String::new(),
            other => format!(" --journal {}", quoted(&other.to_string())),
        }
    }
}

/// A word as a POSIX shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_a_word_and_everything_else_a_file() {
        assert_eq!("memory".parse::<Place>().unwrap(), Place::Memory);
        assert_eq!("./memory".parse::<Place>().unwrap(), Place::File("./memory".into()));
    }

    #[test]
    fn the_next_command_reads_the_same_journal() {
        assert_eq!(Place::File(DEFAULT.into()).option(), "");
        assert_eq!(Place::File("/tmp/j.db".into()).option(), " --journal /tmp/j.db");
        assert_eq!(Place::File("my journal's.db".into()).option(), r" --journal 'my journal'\''s.db'");
    }
}
