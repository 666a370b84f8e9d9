//! A journal is held to its promises from its bytes alone; what a killed process left open, recovery ends.

use treeward::env::Env;
use treeward::ids::{Strand, TreeId};
use treeward::journal::verify::{Problem, Verified, verify};
use treeward::journal::*;

use crate::journal_kit::*;

/// A store that was written, for tampering.
async fn written(ended: bool) -> Vec<Stored> {
    let (journal, tree) = (in_memory().await, tree(1));
    begin(&journal, tree);
    drop(journal.append(entry(tree, "0", 1, Strand::Delegation(0), delegated("0.0"))));
    drop(journal.append(main(tree, "0.0", session(true))));
    drop(journal.append(main(tree, "0.0", said("hello"))));
    if ended {
        drop(journal.close_subtree(tree, path("0"), closing(Reporter::Supervisor)));
        drop(journal.append(on_tree(tree, tree_ended())));
    }
    soon(journal.barrier()).await.unwrap();
    all(&journal, tree).await
}

fn store(records: Vec<Stored>, ended: bool) -> MemoryStore {
    let mut store = MemoryStore::new();
    let tree = tree(1);
    let ended = if ended { vec![(tree, 9)] } else { Vec::new() };
    let started = vec![Started { tree, at: 1, labels: Labels::default() }];
    store.append(&Batch { started, records, ended, blobs: Vec::new() }).unwrap();
    store
}

fn verified(store: &mut MemoryStore) -> Verified {
    let info = store.trees(&Filter::default()).unwrap().remove(0);
    verify(store, &info).unwrap()
}

#[tokio::test]
async fn an_untouched_tree_is_whole() {
    let found = verified(&mut store(written(true).await, true));
    assert!(found.is_whole(), "{:?}", found.problems);
    assert!(found.ended && found.open.is_empty());
    assert_eq!(found.records, 11);
    assert_eq!(found.head.unwrap().seq, 11);
}

#[tokio::test]
async fn every_flipped_byte_is_seen() {
    let records = written(true).await;
    for index in 0..records.len() {
        for field in 0..3 {
            let mut touched = records.clone();
            let record = &mut touched[index];
            match field {
                0 => record.body = record.body.replacen('0', "1", 1),
                1 => record.envelope = record.envelope.replacen("\"at\":1", "\"at\":2", 1),
                _ => record.hash[31] ^= 1,
            }
            assert_ne!(touched, records);
            let found = verified(&mut store(touched, true));
            assert!(!found.is_whole(), "record {index} field {field}");
        }
    }
}

#[tokio::test]
async fn a_record_removed_swapped_or_repeated_is_seen() {
    let records = written(true).await;
    for index in 0..records.len() - 1 {
        let mut gone = records.clone();
        gone.remove(index);
        let found = verified(&mut store(gone, true));
        assert!(found.problems.iter().any(|p| matches!(p, Problem::Gap { .. })), "{index}");
        let mut swapped = records.clone();
        swapped.swap(index, index + 1);
        assert!(!verified(&mut store(swapped, true)).is_whole(), "{index}");
        let mut twice = records.clone();
        twice.insert(index, records[index].clone());
        assert!(!verified(&mut store(twice, true)).is_whole(), "{index}");
    }
}

#[tokio::test]
async fn a_cut_tail_is_an_ending_not_seen() {
    let mut records = written(true).await;
    records.truncate(5);
    let found = verified(&mut store(records.clone(), true));
    assert_eq!(found.problems, [Problem::EndingMissing]);
    let found = verified(&mut store(records, false));
    assert!(found.is_whole() && !found.ended);
    assert_eq!(found.open.sessions, [path("0"), path("0.0")]);
    assert_eq!(found.open.delegations, [path("0.0")]);
}

#[tokio::test]
async fn a_forged_chain_still_has_to_make_sense() {
    // Whoever can write can hash: the second ending is then what does not fit.
    let mut records = written(true).await;
    let (mut fold, mut seals) = (0, String::new());
    for stored in &records {
        fold += 1;
        seals.push_str(&stored.body);
    }
    assert!(fold > 0 && seals.contains("session_ended"));
    let second = records[5].clone();
    records.insert(6, second);
    let found = verified(&mut store(rehashed(records), true));
    assert!(found.problems.iter().any(|p| matches!(p, Problem::Refused { seq: 7, .. })), "{:?}", found.problems);
}

/// Numbers and hashes the records as if they had been written like this.
fn rehashed(records: Vec<Stored>) -> Vec<Stored> {
    use sha2::{Digest as _, Sha256};
    let mut previous = [0; 32];
    let reseal = |(index, mut stored): (usize, Stored)| {
        let mut envelope: Envelope = serde_json::from_str(&stored.envelope).unwrap();
        envelope.seq = index as u64 + 1;
        stored.seq = envelope.seq;
        stored.envelope = serde_json::to_string(&envelope).unwrap();
        let mut hash = Sha256::new();
        hash.update(previous);
        for part in [&stored.body, &stored.envelope] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        stored.hash = hash.finalize().into();
        previous = stored.hash;
        stored
    };
    records.into_iter().enumerate().map(reseal).collect()
}

#[tokio::test]
async fn recovery_ends_what_was_left_open_once() {
    let env = Env::real(Some(1), None);
    let mut store = store(written(false).await, false);
    let recovered = recover::recover(&mut store, &env, Options::default().sizes).unwrap();
    assert_eq!(recovered.len(), 1);
    assert_eq!((recovered[0].records, recovered[0].endings), (5, 6));
    assert_eq!(recovered[0].status, CompletionStatus::Unknown, "the child could write");
    assert_eq!(recovered[0].problem, None);
    let found = verified(&mut store);
    assert!(found.is_whole() && found.ended, "{:?}", found.problems);
    let last = store.read(tree(1), 6, Limit::default()).unwrap().records;
    assert!(last.iter().any(|stored| stored.body.contains("\"by\":\"recovery\"")));
    assert!(recover::recover(&mut store, &env, Options::default().sizes).unwrap().is_empty());
}

#[tokio::test]
async fn recovery_killed_in_the_middle_is_simply_run_again() {
    let env = Env::real(Some(1), None);
    let mut whole = store(written(false).await, false);
    recover::recover(&mut whole, &env, Options::default().sizes).unwrap();
    let records = whole.read(tree(1), 1, Limit::default()).unwrap().records;
    for written in 5..records.len() {
        let mut store = store(records[..written].to_vec(), false);
        let recovered = recover::recover(&mut store, &env, Options::default().sizes).unwrap();
        assert_eq!(recovered[0].endings, records.len() - written);
        let found = verified(&mut store);
        assert!(found.is_whole() && found.ended, "{written}: {:?}", found.problems);
    }
}

#[tokio::test]
async fn recovery_of_a_damaged_tree_says_so_and_is_not_met_again() {
    let env = Env::real(Some(1), None);
    let mut records = written(false).await;
    records[0].body = "not json".into();
    let mut store = store(records, false);
    let recovered = recover::recover(&mut store, &env, Options::default().sizes).unwrap();
    assert!(recovered[0].problem.is_some());
    assert!(recover::recover(&mut store, &env, Options::default().sizes).unwrap().is_empty());
    assert!(!verified(&mut store).is_whole());
}

/// A tree whose two children speak in the order given.
async fn two_children(order: &[&str], last: &str) -> (MemoryStore, TreeId) {
    let (journal, tree) = (in_memory().await, tree(1));
    begin(&journal, tree);
    for (index, child) in ["0.0", "0.1"].into_iter().enumerate() {
        drop(journal.append(entry(tree, "0", 1, Strand::Delegation(index as u32), delegated(child))));
        drop(journal.append(main(tree, child, session(false))));
    }
    for child in order {
        drop(journal.append(main(tree, child, said("x"))));
    }
    drop(journal.append(main(tree, "0.1", said(last))));
    soon(journal.barrier()).await.unwrap();
    (store(all(&journal, tree).await, false), tree)
}

#[tokio::test]
async fn trees_are_compared_strand_by_strand() {
    let (mut a, tree) = two_children(&["0.0", "0.1"], "y").await;
    let (mut b, _) = two_children(&["0.1", "0.0"], "y").await;
    let (mut c, _) = two_children(&["0.0", "0.1"], "z").await;
    let (mut d, _) = two_children(&["0.0"], "x").await;

    let same = diff::diff((&mut a, tree), (&mut b, tree)).unwrap();
    assert_eq!((same.first, same.same_order, same.equal), (None, false, 9));
    let (mut again, _) = two_children(&["0.0", "0.1"], "y").await;
    assert!(diff::diff((&mut a, tree), (&mut again, tree)).unwrap().same_order);

    let other = diff::diff((&mut a, tree), (&mut c, tree)).unwrap().first.unwrap();
    assert_eq!((other.path.as_str(), other.strand.as_str(), other.n), ("0.1", "main", 3));
    assert!(other.left.unwrap().1.contains("\"y\"") && other.right.unwrap().1.contains("\"z\""));

    let shorter = diff::diff((&mut a, tree), (&mut d, tree)).unwrap().first.unwrap();
    assert_eq!((shorter.path.as_str(), shorter.n, shorter.right), ("0.1", 3, None));
    let longer = diff::diff((&mut d, tree), (&mut a, tree)).unwrap().first.unwrap();
    assert_eq!((longer.left, longer.n), (None, 3));
}

#[tokio::test]
async fn pruning_forgets_ended_trees_by_age_and_label_and_the_blobs_nobody_else_names() {
    let journal = in_memory().await;
    let (shared, own) = ("s".repeat(70_000), "o".repeat(70_000));
    for n in 1..=3 {
        begin_with(&journal, tree(n), labels(&[("tenant", if n == 3 { "b" } else { "a" })]));
        drop(journal.append(main(tree(n), "0", said(&shared))));
    }
    drop(journal.append(main(tree(1), "0", said(&own))));
    let _open = journal.append(main(tree(2), "0", said("still at it")));
    drop(end(&journal, tree(1)));
    soon(end(&journal, tree(3))).await.unwrap();
    let digest = |text: &str| treeward::ids::Digest::of(text.as_bytes());

    let of_a = Filter { labels: (*labels(&[("tenant", "a")])).clone(), ..Filter::default() };
    let too_young = Filter { ended_before: Some(0), ..of_a.clone() };
    assert_eq!(journal.prune(too_young).await.unwrap(), 0);
    assert_eq!(journal.prune(of_a).await.unwrap(), 1, "the other one has not ended");
    assert!(all(&journal, tree(1)).await.is_empty());
    assert!(journal.blob(digest(&own)).await.unwrap().is_none());
    assert!(journal.blob(digest(&shared)).await.unwrap().is_some());
    assert_eq!(journal.trees(Filter::default()).await.unwrap().len(), 2);
}
