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
    SELECT trees.tree AS tree, records.id & 4294967295 AS seq, records.body AS body,
           records.envelope AS envelope, lower(hex(records.hash)) AS hash
    FROM records JOIN trees ON trees.no = records.id >> 32;
";

/// How a journal file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqliteOptions {
    /// When an append counts as done.
    pub durability: Durability,
    /// The file may not grow beyond this many bytes. `None`: as the disk allows.
    pub max_bytes: Option<u64>,
}

/// The journal file, owned for writing by this process until dropped.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
    /// The numbers of the trees that are being written.
    open: BTreeMap<TreeId, i64>,
    /// The kernel gives it up when the process ends, however it ends.
    _lock: Flock<std::fs::File>,
}

impl SqliteStore {
    /// Opens the journal at `path` for writing, making it where there is none (the file 0600, a missing directory
    /// 0700). Blocks for as long as the disk takes.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        let (connection, path, lock) = open::for_writing(path, options)?;
        Ok(Self { connection, path, open: BTreeMap::new(), _lock: lock })
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
        work: impl FnOnce(&Connection, &mut BTreeMap<TreeId, i64>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { connection, path, open, .. } = self;
        let sql = |sql: &str| {
            let done = connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
            done.map_err(|error| open::explain(path, error))
        };
        sql("BEGIN IMMEDIATE")?;
        let result = work(connection, open).and_then(|value| sql("COMMIT").map(|_| value));
        if result.is_err() && !connection.is_autocommit() {
            let _failed_already = sql("ROLLBACK");
        }
        result
    }
}

fn number(connection: &Connection, open: &mut BTreeMap<TreeId, i64>, tree: TreeId) -> rusqlite::Result<i64> {
    if let Some(no) = open.get(&tree) {
        return Ok(*no);
    }
    let no = read::number(connection, tree)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    open.insert(tree, no);
    Ok(no)
}

fn key(no: i64, seq: u64) -> i64 {
    (no << SEQ_BITS) | i64::try_from(seq).unwrap_or(i64::MAX).min((1 << SEQ_BITS) - 1)
}

fn store(connection: &Connection, open: &mut BTreeMap<TreeId, i64>, batch: &Batch) -> rusqlite::Result<()> {
    for started in &batch.started {
        let labels = serde_json::to_string(&*started.labels).expect("labels are plain data");
        connection
            .prepare_cached("INSERT INTO trees (tree, started_at, labels) VALUES (?1, ?2, ?3)")?
            .execute(params![started.tree.to_string(), started.at.cast_signed(), labels])?;
        open.insert(started.tree, connection.last_insert_rowid());
    }
    for blob in &batch.blobs {
        let no = number(connection, open, blob.tree)?;
        connection
            .prepare_cached("INSERT INTO blobs (digest, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![&blob.digest.as_bytes()[..], &blob.bytes[..]])?;
        connection
            .prepare_cached("INSERT INTO blob_uses (no, digest) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![no, &blob.digest.as_bytes()[..]])?;
    }
    let mut insert =
        connection.prepare_cached("INSERT INTO records (id, body, envelope, hash) VALUES (?1, ?2, ?3, ?4)")?;
    for record in &batch.records {
        let no = number(connection, open, record.tree)?;
        insert.execute(params![key(no, record.seq), record.body, record.envelope, &record.hash[..]])?;
    }
    for (tree, at) in &batch.ended {
        let no = number(connection, open, *tree)?;
        connection
            .prepare_cached("UPDATE trees SET ended_at = ?2 WHERE no = ?1")?
            .execute(params![no, at.cast_signed()])?;
        open.remove(tree);
    }
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
        self.transaction(|connection, open| {
            for started in &batch.started {
                let known = read::number(connection, started.tree).map_err(|error| open::explain(&path, error))?;
                if known.is_some() {
                    return Err(StoreError::TreeExists(started.tree));
                }
            }
            store(connection, open, batch).map_err(|error| open::explain(&path, error))
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
        self.transaction(|connection, open| {
            let explain = |error| open::explain(&path, error);
            let Some(no) = read::number(connection, tree).map_err(explain)? else { return Ok(()) };
            if !read::has_ended(connection, no).map_err(explain)? {
                return Err(StoreError::NotEnded(tree));
            }
            open.remove(&tree);
            prune(connection, no).map_err(explain)
        })
    }
}

fn prune(connection: &Connection, no: i64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM records WHERE id >= ?1 AND id <= ?2", [key(no, 0), key(no, u64::MAX)])?;
    connection.execute(
        "DELETE FROM blobs WHERE digest IN (SELECT digest FROM blob_uses WHERE no = ?1)
         AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob_uses.digest = blobs.digest AND no <> ?1)",
        [no],
    )?;
    connection.execute("DELETE FROM blob_uses WHERE no = ?1", [no])?;
    connection.execute("DELETE FROM trees WHERE no = ?1", [no])?;
    Ok(())
}
