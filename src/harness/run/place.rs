//! A run's private directory: its socket, its private files, its temporary files.

use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::driver::PrivateFile;
use crate::harness::{Identity, RunTag};
use crate::ids::RunId;

/// A directory of mode 0700 that is removed, with all that is in it, when this is dropped.
#[derive(Debug)]
pub(super) struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes it below `base`, and `tmp` in it. The first time in a process, those that a killed one left there go.
    pub(super) fn new(base: &Path, run: RunId) -> io::Result<Self> {
        static SWEPT: std::sync::Once = std::sync::Once::new();
        SWEPT.call_once(|| sweep(base));
        let path = base.join(name(RunTag::new(run.bytes()).as_str()));
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

const PREFIX: &str = "treeward-";

/// What a run's directory is called: who owns it, as its tag says, and the half of what tells it from others. Short, since
/// a socket's path may have 107 bytes.
fn name(tag: &str) -> String {
    let owner: Vec<&str> = tag.split(':').skip(1).collect();
    let mut name = format!("{PREFIX}{}", owner.join("-"));
    name.truncate(name.len().saturating_sub(16));
    name
}

/// Removes the directories of processes that are gone. Of another PID namespace nothing can be said.
fn sweep(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    let own = name(RunTag::new([0; 16]).as_str());
    let namespace = own.trim_start_matches(PREFIX).split('-').next().unwrap_or_default();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let [of, pid, start, _] = rest.split('-').collect::<Vec<_>>()[..] else { continue };
        let (Ok(pid), Ok(start)) = (pid.parse::<i32>(), start.parse::<u64>()) else { continue };
        let is_there = Identity::of(pid).is_some_and(|identity| identity.start_ticks == start);
        if of == namespace && !is_there {
            // What belongs to somebody else stays; a link is not followed.
            let _theirs = std::fs::remove_dir_all(entry.path());
        }
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
    fn what_a_killed_process_left_is_swept_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let own = name(RunTag::new([7; 16]).as_str());
        let mut parts: Vec<&str> = own.split('-').collect();
        assert_eq!(parts.len(), 5, "{own}");
        let started = (parts[3].parse::<u64>().unwrap() + 1).to_string();
        parts[3] = &started;
        let reused = parts.join("-");
        parts[1] = "1";
        let elsewhere = parts.join("-");
        for name in [&own, &reused, &elsewhere, "treeward-cache", "treeward-1-2", "other"] {
            std::fs::create_dir_all(base.path().join(name).join("tmp")).unwrap();
        }
        sweep(base.path());
        let left = |name: &str| base.path().join(name).exists();
        assert!(left(&own) && left(&elsewhere) && left("treeward-cache") && left("treeward-1-2") && left("other"));
        assert!(!left(&reused), "its pid is another process's now");
    }

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
