//! The journal file: what it refuses to be opened as, who may own it, and what a reader sees.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rusqlite::Connection;
use treeward::env::Env;
use treeward::journal::verify::verify;
use treeward::journal::*;

use crate::journal_kit::*;

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, SqliteOptions::default())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn on_disk(path: &Path) -> Journal {
    journal(&Env::real(Some(1), None), open(path).unwrap()).await
}

#[test]
fn what_is_not_a_journal_is_refused_untouched() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text.db");
    std::fs::write(&text, "x".repeat(5000)).unwrap();
    let other = directory.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 1").unwrap();
    for path in [&text, &other] {
        let before = std::fs::read(path).unwrap();
        assert!(matches!(open(path), Err(StoreError::NotAJournal { .. })), "{}", path.display());
        assert!(matches!(Reader::open(path), Err(StoreError::NotAJournal { .. })), "{}", path.display());
        assert_eq!(std::fs::read(path).unwrap(), before);
    }
    assert!(matches!(open(directory.path()), Err(StoreError::NotAJournal { .. })));
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(open(&fifo), Err(StoreError::NotAJournal { .. })));
    assert!(matches!(Reader::open(&fifo), Err(StoreError::NotAJournal { .. })));
}

#[test]
fn a_newer_journal_is_left_to_a_newer_treeward() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.db");
    drop(open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(matches!(refused, StoreError::Newer { found: 99, known: 1, .. }), "{refused}");
    assert!(refused.to_string().contains("newer treeward"));
    assert!(matches!(Reader::open(&path), Err(StoreError::Newer { .. })));
}

#[test]
fn a_journal_that_is_not_there_can_be_written_and_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/journal.db");
    assert!(matches!(Reader::open(&path), Err(StoreError::Missing { .. })));
    drop(open(&path).unwrap());
    Reader::open(&path).unwrap();
}

#[test]
fn only_its_owner_can_look_into_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".treeward/journal.db");
    let store = open(&path).unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for file in ["journal.db", "journal.db-wal", "journal.db-shm", "journal.db.lock"] {
        assert_eq!(mode(&path.with_file_name(file)), 0o600, "{file}");
    }
    drop(store);
}

#[test]
fn a_link_in_its_place_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (target, link) = (directory.path().join("target.db"), directory.path().join("journal.db"));
    symlink(&target, &link).unwrap();
    assert!(matches!(open(&link), Err(StoreError::Link { .. })));
    assert!(!target.exists());
    drop(open(&target).unwrap());
    assert!(matches!(open(&link), Err(StoreError::Link { .. })));
    assert!(matches!(Reader::open(&link), Err(StoreError::Link { .. })));
    // A linked lock would let one overwrite another's file.
    let victim = directory.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    symlink(&victim, directory.path().join("fresh.db.lock")).unwrap();
    assert!(open(&directory.path().join("fresh.db")).is_err());
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_second_writer_is_told_who_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.db");
    let first = open(&path).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(matches!(&refused, StoreError::Owned { pid, .. } if *pid == std::process::id().to_string()), "{refused}");
    Reader::open(&path).unwrap();
    drop(first);
    open(&path).unwrap();
}

#[test]
fn where_nothing_can_be_written_it_says_so() {
    // As root no mode forbids writing; sysfs does.
    let path = Path::new("/sys/journal.db");
    let refused = open(path).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused}");
    assert!(refused.to_string().contains("--journal"));
}

#[tokio::test]
async fn a_full_journal_fails_clearly_and_keeps_what_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.db");
    let options = SqliteOptions { max_bytes: Some(256 << 10), ..SqliteOptions::default() };
    let journal = journal(&Env::real(Some(1), None), SqliteStore::open(&path, options).unwrap()).await;
    begin(&journal, tree(1));
    let mut acknowledged = 0;
    let error = loop {
        match soon(journal.append(main(tree(1), "0", said(&"x".repeat(10_000))))).await {
            Ok(committed) => acknowledged = committed.seq,
            Err(error) => break error.to_string(),
        }
        assert!(acknowledged < 1000, "it never filled up");
    };
    assert!(error.contains("no space left"), "{error}");
    assert!(soon(journal.finish()).await.is_err());
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.tip(tree(1)).unwrap().unwrap().seq, acknowledged);
    drop(reader);
    // With room again it goes on.
    let mut store = open(&path).unwrap();
    let recovered = recover::recover(&mut store, &Env::real(Some(1), None), Options::default().sizes).unwrap();
    assert_eq!((recovered.len(), recovered[0].endings), (1, 3));
}

#[tokio::test]
async fn a_reader_pages_through_everything_while_it_is_being_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.db");
    let journal = on_disk(&path).await;
    begin(&journal, tree(1));
    soon(journal.barrier()).await.unwrap();
    let reading = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || {
            let mut reader = Reader::open(&path).unwrap();
            let limit = Limit { records: 7, bytes: 100_000 };
            let mut next = 1;
            loop {
                let page = reader.read(tree(1), next, limit).unwrap();
                assert!(page.records.len() <= 7);
                for stored in page.records {
                    assert_eq!(stored.seq, next);
                    next += 1;
                    if stored.body.contains("tree_ended") {
                        return next - 1;
                    }
                }
                std::thread::yield_now();
            }
        })
    };
    for n in 0..3000 {
        drop(journal.append(main(tree(1), "0", said("more"))));
        if n % 100 == 0 {
            soon(journal.barrier()).await.unwrap();
        }
    }
    soon(end(&journal, tree(1))).await.unwrap();
    assert_eq!(soon(reading).await.unwrap(), 3005);
    // The journal's own readers see the same.
    assert_eq!(all(&journal, tree(1)).await.len(), 3005);
    assert_eq!(journal.read(tree(1), 3005, Limit::default()).await.unwrap().records.len(), 1);
    assert!(journal.read(tree(1), 3006, Limit::default()).await.unwrap().records.is_empty());
}

#[tokio::test]
async fn a_page_is_bounded_in_bytes_and_never_empty() {
    let directory = tempfile::tempdir().unwrap();
    let journal = on_disk(&directory.path().join("journal.db")).await;
    begin(&journal, tree(1));
    for _ in 0..4 {
        drop(journal.append(main(tree(1), "0", said(&"x".repeat(30_000)))));
    }
    soon(journal.barrier()).await.unwrap();
    let page = journal.read(tree(1), 3, Limit { records: 10, bytes: 70_000 }).await.unwrap();
    assert_eq!((page.records.len(), page.more), (2, true));
    let page = journal.read(tree(1), 3, Limit { records: 10, bytes: 1 }).await.unwrap();
    assert_eq!((page.records.len(), page.more), (1, true));
    let page = journal.read(tree(1), 6, Limit { records: 1, bytes: 1 }).await.unwrap();
    assert_eq!((page.records.len(), page.more), (1, false));
}

#[tokio::test]
async fn any_sqlite_tool_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.db");
    let journal = on_disk(&path).await;
    begin(&journal, tree(1));
    soon(end(&journal, tree(1))).await.unwrap();
    soon(journal.finish()).await.unwrap();
    assert!(!path.with_file_name("journal.db-wal").exists(), "closed in order, it is one file");
    let tool = Connection::open(&path).unwrap();
    let last: (String, i64, String) = tool
        .query_row("SELECT tree, seq, json_extract(body, '$.kind') FROM journal ORDER BY seq DESC LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(last, (tree(1).to_string(), 5, "tree_ended".into()));
}

#[tokio::test]
async fn a_flipped_byte_in_the_file_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.db");
    let journal = on_disk(&path).await;
    begin(&journal, tree(1));
    drop(journal.append(main(tree(1), "0", said("a word that stands out"))));
    soon(end(&journal, tree(1))).await.unwrap();
    soon(journal.finish()).await.unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let place = bytes.windows(6).position(|window| window == b"stands").unwrap();
    for byte in [b'S', 0xff] {
        bytes[place] = byte;
        std::fs::write(&path, &bytes).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let info = reader.trees(&Filter::default()).unwrap().remove(0);
        assert!(!verify(&mut reader, &info).unwrap().is_whole());
    }
}

#[tokio::test]
async fn a_tree_of_the_same_id_is_not_mixed_into_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.db");
    let first = on_disk(&path).await;
    begin(&first, tree(1));
    soon(end(&first, tree(1))).await.unwrap();
    soon(first.finish()).await.unwrap();
    let second = on_disk(&path).await;
    let error = soon(second.append(on_tree(tree(1), started()))).await.unwrap_err();
    assert!(error.to_string().contains("already in the journal"), "{error}");
    soon(second.finish()).await.unwrap_err();
    assert_eq!(Reader::open(&path).unwrap().tip(tree(1)).unwrap().unwrap().seq, 5);
}

#[tokio::test]
async fn pruning_in_the_file_deletes_the_tree_and_its_own_blobs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.db");
    let journal = on_disk(&path).await;
    let (shared, own) = ("s".repeat(70_000), "o".repeat(70_000));
    for n in 1..=2 {
        begin(&journal, tree(n));
        drop(journal.append(main(tree(n), "0", said(&shared))));
    }
    drop(journal.append(main(tree(1), "0", said(&own))));
    soon(end(&journal, tree(1))).await.unwrap();
    assert_eq!(journal.prune(Filter::default()).await.unwrap(), 1);
    let digest = |text: &str| treeward::ids::Digest::of(text.as_bytes());
    assert!(journal.blob(digest(&own)).await.unwrap().is_none());
    assert!(journal.blob(digest(&shared)).await.unwrap().is_some());
    assert_eq!(journal.trees(Filter::default()).await.unwrap().len(), 1);
    soon(journal.append(main(tree(2), "0", said("still here")))).await.unwrap();
    assert_eq!(all(&journal, tree(2)).await.len(), 4);
    journal.delete_blob(digest(&shared)).await.unwrap();
    soon(end(&journal, tree(2))).await.unwrap();
    let info = journal.trees(Filter::default()).await.unwrap().remove(0);
    let found = journal.query(move |source| verify(source, &info)).await.unwrap();
    assert!(found.is_whole(), "a blob can go without breaking the chain: {:?}", found.problems);
}

#[tokio::test]
async fn records_of_many_trees_are_whole_wherever_in_the_file_they_lie() {
    const TREES: u64 = 12;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.db");
    let journal = on_disk(&path).await;
    (0..TREES).for_each(|n| begin(&journal, tree(n)));
    for round in 0..300 {
        // A little of each, then much of one: scattered and dense batches take turns.
        for n in 0..TREES {
            drop(journal.append(main(tree(n), "0", said("a little"))));
        }
        let more = if round % 10 == 0 { 100 } else { 0 };
        for _ in 0..more {
            drop(journal.append(main(tree(round % TREES), "0", said("much"))));
        }
        soon(journal.barrier()).await.unwrap();
    }
    let limit = Limit { records: 50, bytes: usize::MAX };
    let mut reader = Reader::open(&path).unwrap();
    for n in 0..TREES {
        let mut next = 1;
        loop {
            let page = reader.read(tree(n), next, limit).unwrap();
            for stored in &page.records {
                assert_eq!(stored.seq, next);
                next += 1;
            }
            if !page.more {
                break;
            }
        }
        assert!(next > 302);
        assert_eq!(reader.tip(tree(n)).unwrap().unwrap().seq, next - 1);
        drop(end(&journal, tree(n)));
    }
    soon(journal.finish()).await.unwrap();
    drop(reader);
    // In two places before it is opened again, in one after it; nothing is lost or told twice.
    for _ in 0..2 {
        let mut reader = Reader::open(&path).unwrap();
        for info in reader.trees(&Filter::default()).unwrap() {
            let found = verify(&mut reader, &info).unwrap();
            assert!(found.is_whole() && found.ended, "{:?}", found.problems);
        }
        let tool = Connection::open(&path).unwrap();
        let shown: i64 = tool.query_row("SELECT count(*) FROM journal", [], |row| row.get(0)).unwrap();
        assert_eq!(shown, 12 * (300 + 5) + 30 * 100);
        drop(tool);
        drop(reader);
        drop(open(&path).unwrap());
    }
    let mut store = open(&path).unwrap();
    assert_eq!(prune(&mut store, &Filter::default()).unwrap(), 12);
    let left: i64 =
        Connection::open(&path).unwrap().query_row("SELECT count(*) FROM journal", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}
