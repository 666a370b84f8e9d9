//! Reading a journal file, also while another process writes to it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::ids::{Digest, TreeId};
use crate::journal::chain::Hash;
use crate::journal::store::{Filter, Limit, Page, Source, StoreError, Stored, Tip, TreeInfo};

use super::{SEQ_BITS, key, open};

/// A journal file opened for reading. Any number of them, whoever writes.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
    path: PathBuf,
}

impl Reader {
    /// Opens the journal at `path`. Works while a writer lives and after one was killed; on a read-only file system
    /// it works unless the last writer was killed there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (connection, path) = open::for_reading(path)?;
        Ok(Self { connection, path })
    }

    fn run<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work(&self.connection).map_err(|error| open::explain(&self.path, error))
    }
}

impl Source for Reader {
    fn read(&mut self, tree: TreeId, from: u64, limit: Limit) -> Result<Page, StoreError> {
        self.run(|connection| page(connection, tree, from, limit))
    }

    fn tip(&mut self, tree: TreeId) -> Result<Option<Tip>, StoreError> {
        self.run(|connection| tip(connection, tree))
    }

    fn trees(&mut self, filter: &Filter) -> Result<Vec<TreeInfo>, StoreError> {
        self.run(|connection| trees(connection, filter))
    }

    fn blob(&mut self, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        self.run(|connection| blob(connection, digest))
    }
}

/// A tree's records, in their place and still in the tail.
macro_rules! written {
    () => {
        "SELECT id, body, envelope, hash FROM records WHERE id >= ?1 AND id <= ?2
         UNION ALL SELECT id, body, envelope, hash FROM tail WHERE id >= ?1 AND id <= ?2"
    };
}

pub(super) fn number(connection: &Connection, tree: TreeId) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT no FROM trees WHERE tree = ?1")?;
    statement.query_row([tree.to_string()], |row| row.get(0)).optional()
}

pub(super) fn has_ended(connection: &Connection, no: i64) -> rusqlite::Result<bool> {
    connection.query_row("SELECT ended_at IS NOT NULL FROM trees WHERE no = ?1", [no], |row| row.get(0))
}

pub(super) fn page(connection: &Connection, tree: TreeId, from: u64, limit: Limit) -> rusqlite::Result<Page> {
    let mut page = Page::default();
    let Some(no) = number(connection, tree)? else { return Ok(page) };
    let mut statement = connection.prepare_cached(concat!(written!(), " ORDER BY id"))?;
    let mut rows = statement.query(params![key(no, from), key(no, u64::MAX)])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let stored = stored(tree, row)?;
        bytes += stored.size();
        if !page.records.is_empty() && (page.records.len() >= limit.records || bytes > limit.bytes) {
            page.more = true;
            break;
        }
        page.records.push(stored);
    }
    Ok(page)
}

fn stored(tree: TreeId, row: &Row<'_>) -> rusqlite::Result<Stored> {
    let id: i64 = row.get(0)?;
    Ok(Stored {
        tree,
        seq: (id & ((1 << SEQ_BITS) - 1)).cast_unsigned(),
        body: text(row.get_ref(1)?),
        envelope: text(row.get_ref(2)?),
        hash: hash(row.get_ref(3)?),
    })
}

/// Damaged text is read as well as it can be: then its hash does not fit, which is where damage is told.
fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

fn hash(value: ValueRef<'_>) -> Hash {
    value.as_blob().ok().and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
}

pub(super) fn tip(connection: &Connection, tree: TreeId) -> rusqlite::Result<Option<Tip>> {
    let Some(no) = number(connection, tree)? else { return Ok(None) };
    let mut statement = connection.prepare_cached(concat!(written!(), " ORDER BY id DESC LIMIT 1"))?;
    let last = statement.query_row(params![key(no, 0), key(no, u64::MAX)], |row| stored(tree, row)).optional()?;
    Ok(last.map(|last| Tip { seq: last.seq, hash: last.hash }))
}

pub(super) fn trees(connection: &Connection, filter: &Filter) -> rusqlite::Result<Vec<TreeInfo>> {
    let mut statement = connection.prepare_cached(
        "SELECT tree, started_at, ended_at, labels FROM trees
         WHERE ?1 IS NULL OR (ended_at IS NOT NULL) = ?1 ORDER BY no DESC",
    )?;
    let mut rows = statement.query(params![filter.ended])?;
    let mut found = Vec::new();
    while found.len() < filter.newest.unwrap_or(usize::MAX)
        && let Some(row) = rows.next()?
    {
        let info = info(row)?;
        if filter.admits(&info) {
            found.push(info);
        }
    }
    Ok(found)
}

fn info(row: &Row<'_>) -> rusqlite::Result<TreeInfo> {
    let damaged = |column, error: Box<dyn std::error::Error + Send + Sync>| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error)
    };
    let (tree, labels): (String, String) = (row.get(0)?, row.get(3)?);
    Ok(TreeInfo {
        tree: tree.parse().map_err(|error| damaged(0, Box::new(error)))?,
        started_at: row.get::<_, i64>(1)?.cast_unsigned(),
        ended_at: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
        labels: serde_json::from_str(&labels).map_err(|error| damaged(3, Box::new(error)))?,
    })
}

pub(super) fn blob(connection: &Connection, digest: Digest) -> rusqlite::Result<Option<Bytes>> {
    let mut statement = connection.prepare_cached("SELECT bytes FROM blobs WHERE digest = ?1")?;
    let bytes: Option<Vec<u8>> = statement.query_row([&digest.as_bytes()[..]], |row| row.get(0)).optional()?;
    Ok(bytes.map(Bytes::from))
}
