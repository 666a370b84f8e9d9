//! A journal in one SQLite file that any SQLite tool opens.

mod open;
mod read;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::Flock;
use rusqlite::{Connection, params};

use bytes::Bytes;

use crate::ids::{Digest, TreeId};

use super::store::{Batch, Durability, Filter, Limit, Opener, Page, Source, Store, StoreError, Tip, TreeInfo};

pub use read::Reader;

/// `PRAGMA application_id` of a journal: `trwd`.
const APPLICATION_ID: i64 = 0x7472_7764;

/// `PRAGMA user_version`: the layout of the tables.
const FORMAT: i64 = 1;

/// A record's key is its tree's number and its own, so that one tree's records lie together and a commit of one
/// record touches one page.
const SEQ_BITS: u32 = 32;

/// Records that wait in `tail` before they are moved to their trees' places. A reader looks through all of them.
const TAIL: usize = 2048;

/// A batch with fewer records for each tree than this is written to `tail`: a page for each record would cost more
/// than writing it twice.
const DENSE: usize = 8;

const LAYOUT: &str = "
CREATE TABLE trees (
    no INTEGER PRIMARY KEY,
    tree TEXT NOT NULL UNIQUE,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    labels TEXT NOT NULL
) STRICT;
CREATE TABLE records (
    id INTEGER PRIMARY KEY, -- trees.no << 32 | seq
    body TEXT NOT NULL,
    envelope TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE TABLE tail ( -- records not moved to their place yet, as they came
    pos INTEGER PRIMARY KEY,
    id INTEGER NOT NULL,
    body TEXT NOT NULL,
    envelope TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE TABLE blobs (
    digest BLOB PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;
CREATE TABLE blob_uses (
    no INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (no, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_users ON blob_uses (digest);
CREATE VIEW journal AS
    SELECT trees.tree AS tree, written.id & 4294967295 AS seq, body, envelope, lower(hex(hash)) AS hash
    FROM (SELECT id, body, envelope, hash FROM records UNION ALL SELECT id, body, envelope, hash FROM tail) AS written
    JOIN trees ON trees.no = written.id >> 32;
";

/// How a journal file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqliteOptions {
    /// When an append counts as done.
    pub durability: Durability,
    /// The file may not grow beyond this many bytes. `None`: as the disk allows.
    pub max_bytes: Option<u64>,
}

/// What is known of the file while it is written.
#[derive(Debug, Default)]
struct Writing {
    /// The numbers of the trees that are being written.
    numbers: BTreeMap<TreeId, i64>,
    /// How many records are in `tail`.
    tail: usize,
}

/// The journal file, owned for writing by this process until dropped.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
    state: Writing,
    /// The kernel gives it up when the process ends, however it ends.
    _lock: Flock<std::fs::File>,
}

impl SqliteStore {
    /// Opens the journal at `path` for writing, making it where there is none (the file 0600, a missing directory
    /// 0700). Blocks for as long as the disk takes.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        let (connection, path, lock) = open::for_writing(path, options)?;
        let mut store = Self { connection, path, state: Writing::default(), _lock: lock };
        // What the last owner left there.
        let path = store.path.clone();
        store.transaction(|connection, _| settle(connection).map_err(|error| open::explain(&path, error)))?;
        Ok(store)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn run<T>(&mut self, work: impl FnOnce(&mut Self) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let result = work(self);
        result.map_err(|error| open::explain(&self.path, error))
    }

    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Connection, &mut Writing) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { connection, path, state, .. } = self;
        let sql = |sql: &str| {
            let done = connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
            done.map_err(|error| open::explain(path, error))
        };
        sql("BEGIN IMMEDIATE")?;
        let result = work(connection, state).and_then(|value| sql("COMMIT").map(|_| value));
        if result.is_err() && !connection.is_autocommit() {
            let _failed_already = sql("ROLLBACK");
        }
        result
    }
}

fn number(connection: &Connection, state: &mut Writing, tree: TreeId) -> rusqlite::Result<i64> {
    if let Some(no) = state.numbers.get(&tree) {
        return Ok(*no);
    }
    let no = read::number(connection, tree)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    state.numbers.insert(tree, no);
    Ok(no)
}

fn key(no: i64, seq: u64) -> i64 {
    (no << SEQ_BITS) | i64::try_from(seq).unwrap_or(i64::MAX).min((1 << SEQ_BITS) - 1)
}

fn store(connection: &Connection, state: &mut Writing, batch: &Batch) -> rusqlite::Result<()> {
    for started in &batch.started {
        let labels = serde_json::to_string(&*started.labels).expect("labels are plain data");
        connection
            .prepare_cached("INSERT INTO trees (tree, started_at, labels) VALUES (?1, ?2, ?3)")?
            .execute(params![started.tree.to_string(), started.at.cast_signed(), labels])?;
        state.numbers.insert(started.tree, connection.last_insert_rowid());
    }
    for blob in &batch.blobs {
        let no = number(connection, state, blob.tree)?;
        connection
            .prepare_cached("INSERT INTO blobs (digest, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![&blob.digest.as_bytes()[..], &blob.bytes[..]])?;
        connection
            .prepare_cached("INSERT INTO blob_uses (no, digest) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![no, &blob.digest.as_bytes()[..]])?;
    }
    let scattered = is_scattered(batch);
    if scattered && state.tail >= TAIL {
        settle(connection)?;
        state.tail = 0;
    }
    let mut insert = connection.prepare_cached(if scattered {
        "INSERT INTO tail (id, body, envelope, hash) VALUES (?1, ?2, ?3, ?4)"
    } else {
        "INSERT INTO records (id, body, envelope, hash) VALUES (?1, ?2, ?3, ?4)"
    })?;
    for record in &batch.records {
        let no = number(connection, state, record.tree)?;
        insert.execute(params![key(no, record.seq), record.body, record.envelope, &record.hash[..]])?;
        state.tail += usize::from(scattered);
    }
    for (tree, at) in &batch.ended {
        let no = number(connection, state, *tree)?;
        connection
            .prepare_cached("UPDATE trees SET ended_at = ?2 WHERE no = ?1")?
            .execute(params![no, at.cast_signed()])?;
        state.numbers.remove(tree);
    }
    Ok(())
}

/// Whether a batch holds little of each of several trees.
fn is_scattered(batch: &Batch) -> bool {
    let runs = 1 + batch.records.windows(2).filter(|pair| pair[0].tree != pair[1].tree).count();
    runs > 2 && batch.records.len() < runs * DENSE
}

/// Moves what waits in `tail` to its place.
fn settle(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "INSERT INTO records (id, body, envelope, hash) SELECT id, body, envelope, hash FROM tail ORDER BY id";
    connection.prepare_cached(sql)?.execute([])?;
    connection.prepare_cached("DELETE FROM tail")?.execute([])?;
    Ok(())
}

impl Source for SqliteStore {
    fn read(&mut self, tree: TreeId, from: u64, limit: Limit) -> Result<Page, StoreError> {
        self.run(|store| read::page(&store.connection, tree, from, limit))
    }

    fn tip(&mut self, tree: TreeId) -> Result<Option<Tip>, StoreError> {
        self.run(|store| read::tip(&store.connection, tree))
    }

    fn trees(&mut self, filter: &Filter) -> Result<Vec<TreeInfo>, StoreError> {
        self.run(|store| read::trees(&store.connection, filter))
    }

    fn blob(&mut self, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        self.run(|store| read::blob(&store.connection, digest))
    }
}

impl Store for SqliteStore {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.transaction(|connection, state| {
            for started in &batch.started {
                let known = read::number(connection, started.tree).map_err(|error| open::explain(&path, error))?;
                if known.is_some() {
                    return Err(StoreError::TreeExists(started.tree));
                }
            }
            store(connection, state, batch).map_err(|error| open::explain(&path, error))
        })
    }

    fn opener(&self) -> Option<Opener> {
        let path = self.path.clone();
        Some(Arc::new(move || Ok(Box::new(Reader::open(&path)?) as Box<dyn Source>)))
    }

    fn delete_blob(&mut self, digest: Digest) -> Result<(), StoreError> {
        self.run(|store| {
            let mut delete = store.connection.prepare_cached("DELETE FROM blobs WHERE digest = ?1")?;
            delete.execute([&digest.as_bytes()[..]]).map(drop)
        })
    }

    fn prune(&mut self, tree: TreeId) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.transaction(|connection, state| {
            let explain = |error| open::explain(&path, error);
            let Some(no) = read::number(connection, tree).map_err(explain)? else { return Ok(()) };
            if !read::has_ended(connection, no).map_err(explain)? {
                return Err(StoreError::NotEnded(tree));
            }
            state.numbers.remove(&tree);
            prune(connection, no).map_err(explain)
        })
    }
}

fn prune(connection: &Connection, no: i64) -> rusqlite::Result<()> {
    for table in ["records", "tail"] {
        let sql = format!("DELETE FROM {table} WHERE id >= ?1 AND id <= ?2");
        connection.execute(&sql, [key(no, 0), key(no, u64::MAX)])?;
    }
    connection.execute(
        "DELETE FROM blobs WHERE digest IN (SELECT digest FROM blob_uses WHERE no = ?1)
         AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob_uses.digest = blobs.digest AND no <> ?1)",
        [no],
    )?;
    connection.execute("DELETE FROM blob_uses WHERE no = ?1", [no])?;
    connection.execute("DELETE FROM trees WHERE no = ?1", [no])?;
    Ok(())
}
