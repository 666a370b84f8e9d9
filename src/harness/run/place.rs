//! A run's private directory: its socket, its private files, its temporary files.

use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::driver::PrivateFile;
use crate::ids::RunId;

/// A directory of mode 0700 that is removed, with all that is in it, when this is dropped.
#[derive(Debug)]
pub(super) struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes it below `base`, and `tmp` in it.
    pub(super) fn new(base: &Path, run: RunId) -> io::Result<Self> {
        // Short, since a socket's path may have 107 bytes.
        let path = base.join(format!("treeward-{}-{}", std::process::id(), &hex::encode(run.bytes())[..16]));
        DirBuilder::new().mode(0o700).create(&path)?;
        let this = Self { path };
        DirBuilder::new().mode(0o700).create(this.tmp())?;
        Ok(this)
    }

    /// Where the socket is.
    pub(super) fn socket(&self) -> PathBuf {
        self.path.join("s")
    }

    /// Where temporary files go.
    pub(super) fn tmp(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Where private files lie.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a private file.
    pub(super) fn write(&self, file: &PrivateFile) -> io::Result<()> {
        if file.name.is_empty() || file.name.contains('/') || matches!(file.name.as_str(), "." | ".." | "s" | "tmp") {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{}` cannot name a private file", file.name),
            ));
        }
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(self.path.join(&file.name))?.write_all(&file.contents)
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // What a program made unreadable in it stays: nothing of ours does.
        let _rest = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_private_and_goes_with_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let base = tempfile::tempdir().unwrap();
        let run = RunId::new(uuid::Builder::from_random_bytes([7; 16]).into_uuid());
        let place = RunDirectory::new(base.path(), run).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(place.path()), 0o700);
        assert!(RunDirectory::new(base.path(), run).is_err(), "an existing one is never taken over");
        place.write(&PrivateFile { name: "key".into(), contents: b"x".to_vec() }).unwrap();
        assert_eq!(mode(&place.path().join("key")), 0o600);
        for name in ["", "..", "a/b", "s"] {
            assert!(place.write(&PrivateFile { name: name.into(), contents: Vec::new() }).is_err());
        }
        drop(place);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }
}
