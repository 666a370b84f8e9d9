//! Compiled components on disk, so that a component is compiled once.
//!
//! Compiled code is native code: whoever can write it can run anything as this user. So the directory is the owner's
//! alone and checked each time it is opened, a file is only read through that open directory, and its digest is checked
//! before a byte of it is used. What does not hold is compiled again, never trusted.
#![allow(unsafe_code)]

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use nix::fcntl::OFlag;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::ids::Digest;

/// Compiled components kept; the oldest go first.
const KEPT: usize = 256;
/// What the names of our files end with; those of drafts go on.
const ENDING: &str = ".compiled";
/// Bytes of the digest that ends a file.
const SEAL: usize = 32;
/// A compiled component is at most this large, or it is not kept.
const LARGEST: u64 = 1 << 30;

/// The directory cannot be used; components are compiled each time.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It cannot be made or opened.
    #[error("cannot use {path} to keep compiled components: {why}")]
    Open {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// Somebody else could put code there.
    #[error("{path} is not used to keep compiled components: {why}; run `chmod 700 {path}` as its owner, or remove it")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// An open, checked directory of compiled components.
pub(super) struct Cache {
    dir: Dir,
    settings: u64,
}

impl Cache {
    /// The usual place: `$XDG_CACHE_HOME/treeward`, else `~/.cache/treeward`.
    pub(super) fn usual_place() -> Option<PathBuf> {
        let absolute = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(base.join("treeward"))
    }

    /// Opens `path`, making it where it is missing, and checks that it is the owner's alone.
    pub(super) fn open(path: &Path, engine: &Engine) -> Result<Self, CacheError> {
        let open = |why| CacheError::Open { path: path.to_owned(), why };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(open)?;
        let dir = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits())
            .open(path)
            .map_err(open)?;
        if let Some(why) = fault(&dir.metadata().map_err(open)?) {
            return Err(CacheError::Unsafe { path: path.to_owned(), why });
        }
        let mut settings = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut settings);
        Ok(Self { dir: Dir::from_std_file(dir), settings: settings.finish() })
    }

    fn file_name(&self, component: Digest) -> String {
        format!("{component}-{:016x}{ENDING}", self.settings)
    }

    /// The compiled form of the component with this digest, where a whole and own one is kept.
    pub(super) fn load(&self, engine: &Engine, component: Digest) -> Option<Component> {
        let code = match self.read(&self.file_name(component)) {
            Ok(code) => code?,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(%component, %error, "a kept component cannot be read: compiling it again");
                }
                return None;
            }
        };
        // SAFETY: the bytes are what `store` wrote: their digest stands behind them, and they were read through a
        // directory and out of a regular file that belong to this user and that nobody else may write. Whoever could
        // forge them could as well replace this program. Another version's or engine's code is refused by wasmtime.
        match unsafe { Component::deserialize(engine, &code) } {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(%component, %error, "a kept component does not fit: compiling it again");
                None
            }
        }
    }

    /// The sealed bytes of a file; `None` where it is not whole or somebody else could have written it.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        if !self.dir.symlink_metadata(name)?.is_file() {
            return Ok(None);
        }
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let file = self.dir.open_with(name, OpenOptions::new().read(true).custom_flags(flags))?.into_std();
        let meta = file.metadata()?;
        if !meta.is_file() || fault(&meta).is_some() || meta.len() > LARGEST {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or_default());
        // The length is a bound, not a promise: another process of this user may be writing it anew.
        file.take(LARGEST).read_to_end(&mut bytes)?;
        let Some(split) = bytes.len().checked_sub(SEAL) else { return Ok(None) };
        let whole = Digest::of(&bytes[..split]).as_bytes() == &bytes[split..];
        bytes.truncate(split);
        Ok(whole.then_some(bytes))
    }

    /// Keeps a compiled component. Failing to is no failure of the run; the next one compiles again.
    pub(super) fn store(&self, component: Digest, compiled: &Component) {
        let kept = compiled.serialize().map_err(|error| error.to_string());
        let kept = kept.and_then(|code| self.write(&self.file_name(component), &code).map_err(|e| e.to_string()));
        if let Err(error) = kept {
            tracing::warn!(%component, error, "a compiled component is not kept");
        }
    }

    fn write(&self, name: &str, code: &[u8]) -> io::Result<()> {
        self.make_room()?;
        // The same component may be written by several at once: each has a file of its own until it is whole.
        static DRAFTS: AtomicU64 = AtomicU64::new(0);
        let draft = format!("{name}.{}.{}", std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed));
        // Left over from a process of the same number that was killed.
        let _stale = self.dir.remove_file(&draft);
        let written = self.draft(&draft, code).and_then(|()| self.dir.rename(&draft, &self.dir, name));
        if written.is_err() {
            let _gone = self.dir.remove_file(&draft);
        }
        written
    }

    fn draft(&self, name: &str, code: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file: File = self.dir.open_with(name, &options)?.into_std();
        file.write_all(code)?;
        file.write_all(Digest::of(code).as_bytes())?;
        // Not synced: a file cut short by a crash fails its digest.
        file.flush()
    }

    fn make_room(&self) -> io::Result<()> {
        let mut kept = Vec::new();
        for entry in self.dir.entries()? {
            let entry = entry?;
            // Whatever else somebody keeps here is not ours to remove.
            if !entry.file_name().to_string_lossy().contains(ENDING) {
                continue;
            }
            let used = entry.metadata().and_then(|meta| meta.modified());
            kept.push((used.ok().map(|at| at.into_std()), entry.file_name()));
        }
        kept.sort();
        for (_, name) in kept.iter().take(kept.len().saturating_sub(KEPT - 1)) {
            let _other_did = self.dir.remove_file(name);
        }
        Ok(())
    }
}

/// What makes a file or directory not ours alone.
fn fault(meta: &std::fs::Metadata) -> Option<&'static str> {
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        Some("it belongs to another user")
    } else if meta.mode() & 0o022 != 0 {
        Some("others may write to it")
    } else {
        None
    }
}
