//! Where the sockets are, whose they are, and which of them are left over.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The directory for sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It cannot be made or read.
    #[error("{path}: {why}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// Others could put a socket there, or reach ours.
    #[error("{path} {why}: remove it, or set XDG_RUNTIME_DIR to a directory of your own")]
    NotPrivate {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A Unix socket's path is short.
    #[error("{path} is too long for a socket: set XDG_RUNTIME_DIR to a shorter directory")]
    TooLong {
        /// Which.
        path: PathBuf,
    },
}

/// Bytes of a Unix socket's path, with the NUL that ends it.
const LONGEST: usize = 108;

/// `$XDG_RUNTIME_DIR/treeward`, or `/tmp/treeward-UID` where there is no such directory.
pub fn usual_place() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    match runtime.filter(|path| path.is_dir()) {
        Some(path) => path.join("treeward"),
        None => PathBuf::from(format!("/tmp/treeward-{}", own_uid())),
    }
}

/// The user this process acts as.
pub(super) fn own_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> PlaceError {
    let path = path.to_owned();
    move |why| PlaceError::Io { path, why }
}

/// Makes the directory where it is not there.
pub(super) fn prepare(path: &Path) -> Result<(), PlaceError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(why) => return Err(PlaceError::Io { path: path.to_owned(), why }),
    }
    check(path)
}

/// Whether the directory is the user's own and closed to others. What another user made is never trusted.
pub(super) fn check(path: &Path) -> Result<(), PlaceError> {
    let about = fs::symlink_metadata(path).map_err(failed(path))?;
    let why = if about.file_type().is_symlink() {
        "is a symbolic link"
    } else if !about.is_dir() {
        "is not a directory"
    } else if about.uid() != own_uid() {
        "belongs to another user"
    } else if about.mode() & 0o077 != 0 {
        "is open to others"
    } else {
        return Ok(());
    };
    Err(PlaceError::NotPrivate { path: path.to_owned(), why })
}

/// Whose socket a file is: a process by number and start, never by number alone, and which of its runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since the machine did.
    pub start: u64,
    /// Which of its runtimes.
    pub runtime: u32,
}

impl Owner {
    /// A runtime of this process.
    pub(super) fn own(runtime: u32) -> Self {
        let pid = std::process::id();
        Self { pid, start: started(pid).unwrap_or(0), runtime }
    }

    /// Whether that very process lives.
    pub(super) fn lives(self) -> bool {
        started(self.pid) == Some(self.start)
    }

    pub(super) fn file(self) -> String {
        format!("{}-{}-{}.sock", self.pid, self.start, self.runtime)
    }

    fn of(file: &str) -> Option<Self> {
        let mut parts = file.strip_suffix(".sock")?.splitn(3, '-');
        let mut part = || parts.next().filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        Some(Self { pid: part()?.parse().ok()?, start: part()?.parse().ok()?, runtime: part()?.parse().ok()? })
    }
}

/// The socket's path, where it is short enough for one.
pub(super) fn socket(directory: &Path, owner: Owner) -> Result<PathBuf, PlaceError> {
    let path = directory.join(owner.file());
    if path.as_os_str().len() >= LONGEST { Err(PlaceError::TooLong { path }) } else { Ok(path) }
}

/// When a process started, in ticks since the machine did; `None` where there is none.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold anything, also parentheses.
    let rest = &stat[stat.rfind(')')? + 1..];
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Files looked at in one directory, whoever put them there.
const MOST_FILES: usize = 4096;

/// The sockets there, in order of their owners.
pub(super) fn sockets(directory: &Path) -> Result<Vec<(Owner, PathBuf)>, PlaceError> {
    match check(directory) {
        Err(PlaceError::Io { why, .. }) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed(directory))?.take(MOST_FILES) {
        let entry = entry.map_err(failed(directory))?;
        let owner = entry.file_name().to_str().and_then(Owner::of);
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        found.extend(owner.filter(|_| is_socket).map(|owner| (owner, entry.path())));
    }
    found.sort();
    Ok(found)
}

/// Removes the sockets of processes that are gone. One that still answers is left alone, also where its process cannot
/// be seen from here.
pub(super) fn sweep(directory: &Path) -> Result<(), PlaceError> {
    for (owner, path) in sockets(directory)? {
        let refused = || UnixStream::connect(&path).is_err_and(|why| why.kind() == io::ErrorKind::ConnectionRefused);
        if !owner.lives() && refused() {
            // Another process may sweep too.
            let _gone = fs::remove_file(&path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_name_is_read_back_and_nothing_else_is_a_name() {
        let owner = Owner { pid: 7, start: 123, runtime: 2 };
        assert_eq!(Owner::of(&owner.file()), Some(owner));
        for file in
            ["7-123.sock", "7-123-2", "7--2.sock", "-7-1-2.sock", "7-1-2-3.sock", "+7-1-2.sock", ".sock", "7-1-x.sock"]
        {
            assert_eq!(Owner::of(file), None, "{file}");
        }
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let own = Owner::own(0);
        assert!(own.start > 0 && own.lives());
        assert!(!Owner { start: own.start + 1, ..own }.lives(), "a reused number is another process");
        assert!(!Owner { pid: u32::MAX, ..own }.lives());
    }

    #[test]
    fn a_directory_that_others_can_enter_or_made_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let of = |name: &str| place.path().join(name);
        prepare(&of("fresh")).unwrap();
        assert_eq!(fs::metadata(of("fresh")).unwrap().mode() & 0o777, 0o700);
        prepare(&of("fresh")).unwrap();
        fs::set_permissions(of("fresh"), fs::Permissions::from_mode(0o750)).unwrap();
        assert!(prepare(&of("fresh")).unwrap_err().to_string().contains("open to others"));
        fs::set_permissions(of("fresh"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink(of("fresh"), of("link")).unwrap();
        assert!(prepare(&of("link")).unwrap_err().to_string().contains("symbolic link"));
        fs::write(of("file"), "").unwrap();
        assert!(prepare(&of("file")).unwrap_err().to_string().contains("not a directory"));
        assert!(matches!(prepare(&of("no/such")), Err(PlaceError::Io { .. })));
        assert!(matches!(socket(&of(&"x".repeat(90)), Owner::own(0)), Err(PlaceError::TooLong { .. })));
    }

    #[test]
    fn only_what_is_dead_and_deaf_is_swept() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("sockets");
        prepare(&directory).unwrap();
        let dead = |runtime| directory.join(Owner { pid: u32::MAX, start: 1, runtime }.file());
        drop(UnixListener::bind(dead(0)).unwrap());
        // Its process cannot be seen, but somebody answers.
        let _hidden = UnixListener::bind(dead(1)).unwrap();
        // It lives and does not listen yet.
        let own = directory.join(Owner::own(9).file());
        drop(UnixListener::bind(&own).unwrap());
        fs::write(directory.join(Owner { pid: u32::MAX, start: 1, runtime: 2 }.file()), "a file").unwrap();
        sweep(&directory).unwrap();
        assert!(!dead(0).exists() && dead(1).exists() && own.exists() && dead(2).exists());
        assert!(sockets(&place.path().join("none")).unwrap().is_empty());
    }
}
