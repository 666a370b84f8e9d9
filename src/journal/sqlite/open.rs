//! Opening a journal file: what is checked before it is trusted, and what is said when it cannot be used.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};

use crate::journal::store::{Durability, StoreError};

use super::{APPLICATION_ID, FORMAT, LAYOUT, SqliteOptions};

/// How long one connection waits for another's short exclusive moments.
const BUSY: Duration = Duration::from_secs(5);

/// Pages in the log before they are moved to the main file.
const CHECKPOINT: u32 = 2048;

pub(super) fn for_writing(
    path: &Path,
    options: SqliteOptions,
) -> Result<(Connection, PathBuf, Flock<File>), StoreError> {
    let path = place(path, true)?;
    let lock = lock(&path)?;
    create(&path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let explain = |error| explain(&path, error);
    let connection = Connection::open_with_flags(&path, flags).map_err(explain)?;
    connection.busy_timeout(BUSY).map_err(explain)?;
    let fresh = identify(&connection, &path)?;
    connection.pragma_update(None, "journal_mode", "wal").map_err(explain)?;
    let synchronous = match options.durability {
        Durability::Sync => "full",
        Durability::Os => "normal",
        Durability::Memory => "off",
    };
    connection.pragma_update(None, "synchronous", synchronous).map_err(explain)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT).map_err(explain)?;
    if let Some(bytes) = options.max_bytes {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(explain)?;
        let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1);
        // The pragma answers with the limit it took.
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).map_err(explain)?;
    }
    if fresh {
        let layout = format!(
            "BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; {LAYOUT} COMMIT;"
        );
        connection.execute_batch(&layout).map_err(explain)?;
    }
    connection.set_prepared_statement_cache_capacity(32);
    Ok((connection, path, lock))
}

pub(super) fn for_reading(path: &Path) -> Result<(Connection, PathBuf), StoreError> {
    let path = place(path, false)?;
    match std::fs::symlink_metadata(&path) {
        Ok(found) if found.is_symlink() => return Err(StoreError::Link { path }),
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(StoreError::NotAJournal { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(StoreError::Missing { path }),
        Err(error) => return Err(StoreError::Other(format!("{}: {error}", path.display()))),
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(&path, flags).map_err(|error| explain(&path, error))?;
    connection.busy_timeout(BUSY).map_err(|error| explain(&path, error))?;
    let connection = match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
        Ok(()) => connection,
        Err(error) if needs_a_writable_directory(&error) => {
            let pending = std::fs::metadata(beside(&path, "-wal")).is_ok_and(|wal| wal.len() > 0);
            if pending {
                return Err(StoreError::NeedsWritable { path });
            }
            // Nothing is pending and nobody can write here: the file is what it is.
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(immutable(&path), flags).map_err(|error| explain(&path, error))?
        }
        Err(error) => return Err(explain(&path, error)),
    };
    if identify(&connection, &path)? {
        return Err(StoreError::NotAJournal { path });
    }
    Ok((connection, path))
}

/// Whether the file is empty and may become a journal; an error where it is something else.
fn identify(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    let explain = |error| explain(path, error);
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(explain);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(explain)?;
    match (pragma("application_id")?, pragma("user_version")?, tables) {
        (0, 0, 0) => Ok(true),
        (APPLICATION_ID, FORMAT, _) => Ok(false),
        (APPLICATION_ID, found, _) if found > FORMAT => {
            Err(StoreError::Newer { path: path.to_owned(), found, known: FORMAT })
        }
        _ => Err(StoreError::NotAJournal { path: path.to_owned() }),
    }
}

/// The path with its directory resolved, so that only a link in the file's own place is one.
fn place(path: &Path, make: bool) -> Result<PathBuf, StoreError> {
    let Some(name) = path.file_name() else {
        return Err(StoreError::Other(format!("{}: is a directory; name a file in it", path.display())));
    };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if make && !directory.exists() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| unwritable(path, &error))?;
    }
    match directory.canonicalize() {
        Ok(directory) => Ok(directory.join(name)),
        Err(_) if !make => Err(StoreError::Missing { path: path.to_owned() }),
        Err(error) => Err(unwritable(path, &error)),
    }
}

/// Takes the lock that says who writes. It holds as long as the file is open, which a killed process's is not.
fn lock(path: &Path) -> Result<Flock<File>, StoreError> {
    let file = private().open(beside(path, ".lock")).map_err(|error| unwritable(path, &error))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            let noted = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
            noted.map_err(|error| unwritable(path, &error))?;
            Ok(lock)
        }
        Err((mut file, _)) => {
            let mut pid = String::new();
            let _unknown = file.rewind().and_then(|()| io::Read::take(&mut file, 20).read_to_string(&mut pid));
            let known = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
            let pid = if known { pid } else { "unknown".to_owned() };
            Err(StoreError::Owned { path: path.to_owned(), pid })
        }
    }
}

/// Makes the file, or finds it, without following a link and with nobody else reading along.
fn create(path: &Path) -> Result<(), StoreError> {
    let file = match private().open(path) {
        Ok(file) => file,
        Err(_) if path.is_symlink() => return Err(StoreError::Link { path: path.to_owned() }),
        Err(_) if path.is_dir() => return Err(StoreError::NotAJournal { path: path.to_owned() }),
        Err(error) => return Err(unwritable(path, &error)),
    };
    let found = file.metadata().map_err(|error| unwritable(path, &error))?;
    if found.is_file() { Ok(()) } else { Err(StoreError::NotAJournal { path: path.to_owned() }) }
}

/// Created 0600, never through a link, never waiting for the other end of a FIFO.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC | nix::libc::O_NONBLOCK);
    options
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn immutable(path: &Path) -> String {
    let escaped: String = path
        .to_string_lossy()
        .chars()
        .map(|c| match c {
            '%' => "%25".to_owned(),
            '?' => "%3f".to_owned(),
            '#' => "%23".to_owned(),
            c => c.to_string(),
        })
        .collect();
    format!("file:{escaped}?immutable=1")
}

fn needs_a_writable_directory(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn unwritable(path: &Path, error: &io::Error) -> StoreError {
    StoreError::ReadOnly { path: path.to_owned(), reason: error.to_string() }
}

/// What a SQLite error means for whoever meant this file to be a journal.
pub(super) fn explain(path: &Path, error: Error) -> StoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::NotAJournal { path },
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path, reason: error.to_string() },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, reason: error.to_string() },
        _ => StoreError::Other(format!("{}: {error}", path.display())),
    }
}
