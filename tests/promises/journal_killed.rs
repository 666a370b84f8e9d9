//! Killed at any moment: the journal opens, verifies, and holds everything that was acknowledged.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use treeward::env::Env;
use treeward::journal::verify::verify;
use treeward::journal::*;

use crate::journal_kit::*;

const PLACE: &str = "TREEWARD_TEST_JOURNAL";

/// Opens what was left, and checks that it is a whole prefix of at least `acknowledged` records, which recovery ends.
fn is_sound(path: &Path, acknowledged: u64) {
    let mut reader = Reader::open(path).unwrap();
    for info in reader.trees(&Filter::default()).unwrap() {
        let found = verify(&mut reader, &info).unwrap();
        assert!(found.is_whole(), "{:?}", found.problems);
    }
    let head = reader.tip(tree(1)).unwrap().map_or(0, |tip| tip.seq);
    assert!(head >= acknowledged, "{acknowledged} were acknowledged, {head} are there");
    drop(reader);
    let mut store = SqliteStore::open(path, SqliteOptions::default()).unwrap();
    recover::recover(&mut store, &Env::real(Some(1), None), Options::default().sizes).unwrap();
    for info in store.trees(&Filter::default()).unwrap() {
        let found = verify(&mut store, &info).unwrap();
        assert!(found.is_whole() && found.ended && found.open.is_empty(), "{found:?}");
    }
}

/// Run as a process of its own by the test below: writes, and says what is acknowledged, until it is killed.
#[tokio::test]
async fn writes_until_killed() {
    let Some(path) = std::env::var_os(PLACE) else { return };
    let store = SqliteStore::open(Path::new(&path), SqliteOptions::default()).unwrap();
    let journal = journal(&Env::real(Some(1), None), store).await;
    begin(&journal, tree(1));
    loop {
        for _ in 0..20 {
            drop(journal.append(main(tree(1), "0", said("on and on"))));
        }
        let committed = journal.append(main(tree(1), "0", said("and on"))).await.unwrap();
        println!("acknowledged {}", committed.seq);
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "only a process can be killed like one")]
async fn a_writer_killed_by_the_kernel_loses_nothing_it_acknowledged() {
    for rounds in [1, 7, 40] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.db");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "journal_killed::writes_until_killed", "--nocapture"])
            .env(PLACE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.map_while(Result::ok).filter_map(|line| {
            let (_, seq) = line.split_once("acknowledged ")?;
            seq.parse::<u64>().ok()
        });
        let acknowledged = said.take(rounds).last().unwrap();
        let owned = SqliteStore::open(&path, SqliteOptions::default()).unwrap_err();
        assert!(owned.to_string().contains(&format!("process {}", child.id())), "{owned}");
        child.kill().unwrap();
        child.wait().unwrap();
        is_sound(&path, acknowledged);
    }
}

/// A journal as it lies on the disk with its owner gone: the file and its log.
async fn left_behind(directory: &Path) -> (Vec<u8>, Vec<u8>) {
    let path = directory.join("journal.db");
    let journal = journal(&Env::real(Some(1), None), SqliteStore::open(&path, SqliteOptions::default()).unwrap()).await;
    begin(&journal, tree(1));
    for _ in 0..30 {
        soon(journal.append(main(tree(1), "0", said("one by one")))).await.unwrap();
    }
    let files = (std::fs::read(&path).unwrap(), std::fs::read(directory.join("journal.db-wal")).unwrap());
    soon(journal.finish()).await.unwrap();
    files
}

fn lay_out(directory: &Path, file: &[u8], log: &[u8]) -> std::path::PathBuf {
    let path = directory.join("journal.db");
    std::fs::write(&path, file).unwrap();
    std::fs::write(directory.join("journal.db-wal"), log).unwrap();
    path
}

#[test]
fn a_log_torn_anywhere_still_holds_a_whole_prefix() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (file, log) = runtime.block_on(left_behind(directory.path()));
    proptest!(ProptestConfig::with_cases(40), |(cut in 0..log.len(), garbage in any::<bool>())| {
        let directory = tempfile::tempdir().unwrap();
        let mut torn = log[..cut].to_vec();
        if garbage {
            torn.extend_from_slice(&[0xa5; 3000]);
        }
        let path = lay_out(directory.path(), &file, &torn);
        match Reader::open(&path) {
            // Cut before the tables were there: an empty file, which a writer makes a journal of.
            Err(error) => prop_assert!(matches!(error, StoreError::NotAJournal { .. }), "{error}"),
            Ok(_) => is_sound(&path, 0),
        }
        let mut store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
        let unended = store.trees(&Filter { ended: Some(false), ..Filter::default() }).unwrap();
        prop_assert!(unended.is_empty());
    });
    let directory = tempfile::tempdir().unwrap();
    is_sound(&lay_out(directory.path(), &file, &log), 32);
}
