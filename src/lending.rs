//! Lending directories: a capability that can be passed down a tree, made smaller, and never larger.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

/// A directory a session holds, under the name it was lent by. Cheap to clone; every clone is the same directory.
///
/// What is held is the open directory, not its path: renaming it or replacing its path changes nothing.
#[derive(Clone, Debug)]
pub struct Directory {
    name: String,
    write: bool,
    dir: Arc<Dir>,
}

/// The directory of a root session cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot lend the directory {path}: {why}; name a directory that exists and can be read")]
pub struct OpenError {
    path: PathBuf,
    why: io::Error,
}

/// Why a directory is not lent on.
#[derive(Debug, thiserror::Error)]
pub enum LendError {
    /// The path could lead out.
    #[error("`{path}` may not be lent out of `{directory}`: {why}")]
    Path {
        /// The directory it was asked of.
        directory: String,
        /// What was asked.
        path: String,
        /// Which rule forbids it.
        why: &'static str,
    },
    /// The lender itself may only read.
    #[error(
        "`{directory}` is lent read-only: it cannot be lent on for writing; ask without `write`, or grant it under grants.write"
    )]
    ReadOnly {
        /// The directory it was asked of.
        directory: String,
    },
    /// The name is not one.
    #[error(
        "`{name}` cannot name a lent directory: use letters, digits, `-`, `_` and `.`, at most 64, not starting with `.`"
    )]
    Name {
        /// What was asked.
        name: String,
    },
    /// It is not there, is no directory, or a link leads out on the way.
    #[error("cannot open `{path}` in `{directory}`: {why}")]
    Open {
        /// The directory it was asked of.
        directory: String,
        /// What was asked.
        path: String,
        /// What the system says.
        why: io::Error,
    },
}

/// At most this much of a path somebody made up is shown.
const SHOWN: usize = 128;

impl Directory {
    /// Opens a directory of this machine, with the authority of the process: for root sessions only.
    ///
    /// Blocks on the file system: call it where blocking is allowed.
    pub fn open(name: impl Into<String>, path: impl AsRef<Path>, write: bool) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let dir =
            Dir::open_ambient_dir(path, ambient_authority()).map_err(|why| OpenError { path: path.to_owned(), why })?;
        Ok(Self { name: name.into(), write, dir: Arc::new(dir) })
    }

    /// The name its holder knows it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its holder may write there.
    pub fn may_write(&self) -> bool {
        self.write
    }

    /// The open directory.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Lends it, or a directory below it, on under a new name. Links are followed only while they stay inside.
    ///
    /// Blocks on the file system: call it where blocking is allowed.
    pub fn lend(&self, relative: &str, name: &str, write: bool) -> Result<Self, LendError> {
        if write && !self.write {
            return Err(LendError::ReadOnly { directory: self.name.clone() });
        }
        if !is_name(name) {
            return Err(LendError::Name { name: shown(name) });
        }
        let path = checked(relative).map_err(|why| LendError::Path {
            directory: self.name.clone(),
            path: shown(relative),
            why,
        })?;
        let dir = match path {
            None => self.dir.clone(),
            Some(path) => Arc::new(self.dir.open_dir(path).map_err(|why| LendError::Open {
                directory: self.name.clone(),
                path: shown(relative),
                why,
            })?),
        };
        Ok(Self { name: name.to_owned(), write, dir })
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// A name is one ordinary path component, so that a guest finds the directory under it and nowhere else.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// The path to open; `None` for the directory itself.
fn checked(relative: &str) -> Result<Option<&Path>, &'static str> {
    if relative.len() > 4096 {
        return Err("a path is at most 4096 bytes");
    }
    if relative.contains('\0') {
        return Err("a path has no NUL");
    }
    let path = Path::new(relative);
    let mut itself = true;
    for component in path.components() {
        match component {
            Component::Normal(_) => itself = false,
            Component::CurDir => {}
            Component::ParentDir => return Err("a path has no `..`"),
            Component::RootDir | Component::Prefix(_) => return Err("a path is relative to the directory"),
        }
    }
    Ok((!itself).then_some(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, Directory) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir_all(place.path().join("outside")).unwrap();
        std::fs::write(root.join("file"), "x").unwrap();
        std::fs::write(root.join("a/b/leaf"), "leaf").unwrap();
        symlink("../../outside", root.join("a/out")).unwrap();
        symlink("/etc", root.join("a/etc")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("a/b", root.join("inside")).unwrap();
        let directory = Directory::open("input", &root, true).unwrap();
        (place, directory)
    }

    #[test]
    fn what_leads_out_is_not_lent() {
        let (_place, directory) = tree();
        for path in
            ["..", "a/../..", "/", "/etc", "a/../a", "a/out", "a/etc", "loop", "a/out/.", "a\0b", "absent", "file"]
        {
            assert!(directory.lend(path, "sub", false).is_err(), "{path}");
        }
        assert!(directory.lend(&"a/".repeat(5000), "sub", false).is_err());
        for name in ["", ".", "..", "a/b", "/", "a\0", "ä", &"n".repeat(65)] {
            assert!(matches!(directory.lend("a", name, false), Err(LendError::Name { .. })), "{name}");
        }
    }

    #[test]
    fn a_directory_below_and_a_link_that_stays_inside_are_lent() {
        let (_place, directory) = tree();
        for path in ["a/b", "./a/b/", "inside"] {
            let lent = directory.lend(path, "sub", false).unwrap();
            assert_eq!(lent.dir().read_to_string("leaf").unwrap(), "leaf");
            assert_eq!((lent.name(), lent.may_write()), ("sub", false));
        }
        for path in ["", "."] {
            assert!(directory.lend(path, "all", true).unwrap().may_write());
        }
    }

    #[test]
    fn writing_is_never_gained() {
        let (_place, directory) = tree();
        let reader = directory.lend("a", "sub", false).unwrap();
        assert!(matches!(reader.lend("b", "sub", true), Err(LendError::ReadOnly { .. })));
        assert!(matches!(reader.lend("", "sub", true), Err(LendError::ReadOnly { .. })));
    }

    #[test]
    fn a_lent_directory_stays_the_one_that_was_opened() {
        let (place, directory) = tree();
        let lent = directory.lend("a/b", "sub", false).unwrap();
        std::fs::rename(place.path().join("root/a"), place.path().join("moved")).unwrap();
        symlink("/etc", place.path().join("root/a")).unwrap();
        assert_eq!(lent.dir().read_to_string("leaf").unwrap(), "leaf");
        assert!(directory.lend("a", "sub", false).is_err());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let message = Directory::open("input", "/no/such/place", false).unwrap_err().to_string();
        assert!(message.contains("/no/such/place"), "{message}");
    }
}
