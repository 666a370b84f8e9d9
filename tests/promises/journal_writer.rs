//! The one writer: an ending is said once, nobody waits for a store that failed, nobody's flood delays another.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use treeward::env::Env;
use treeward::ids::{Digest, SessionPath, Strand, TreeId};
use treeward::journal::*;

use crate::journal_kit::*;

fn why(outcome: Result<Committed, AppendError>) -> Why {
    match outcome {
        Err(AppendError::Refused(refused)) => refused.why,
        other => panic!("{other:?}"),
    }
}

fn is_poisoned<T: std::fmt::Debug>(outcome: Result<T, AppendError>) -> bool {
    matches!(outcome, Err(AppendError::Poisoned(_)))
}

#[tokio::test]
async fn a_second_ending_is_refused_and_counted_in_the_trees_own() {
    let (journal, tree) = (in_memory().await, tree(1));
    begin(&journal, tree);
    drop(journal.append(main(tree, "0", attempt_ended())));
    assert_eq!(why(soon(journal.append(main(tree, "0", attempt_ended()))).await), Why::AlreadyEnded);
    drop(journal.append(main(tree, "0", session_ended())));
    assert_eq!(why(soon(journal.append(main(tree, "0", session_ended()))).await), Why::AlreadyEnded);
    assert_eq!(why(soon(journal.append(main(tree, "0", said("late")))).await), Why::AlreadyEnded);
    // The appender's own count is not believed.
    let lie = Kind::TreeEnded { status: CompletionStatus::Ok, refused: 77 };
    assert_eq!(soon(journal.append(on_tree(tree, lie))).await, Ok(Committed { seq: 5 }));
    assert!(matches!(body(&all(&journal, tree).await[4]).kind, Kind::TreeEnded { refused: 3, .. }));
    assert_eq!(why(soon(journal.append(on_tree(tree, tree_ended()))).await), Why::UnknownTree);
    assert_eq!(all(&journal, tree).await.len(), 5);
}

#[tokio::test]
async fn a_record_for_a_tree_nobody_started_is_refused() {
    let journal = in_memory().await;
    assert_eq!(why(soon(journal.append(main(tree(1), "0", session(false)))).await), Why::UnknownTree);
}

#[tokio::test]
async fn a_start_that_is_refused_leaves_no_tree_behind() {
    let (journal, tree) = (in_memory().await, tree(1));
    let misplaced = journal.append(main(tree, "0", started()));
    assert_eq!(why(soon(misplaced).await), Why::NotStarted);
    assert_eq!(why(soon(journal.append(main(tree, "0", session(false)))).await), Why::UnknownTree);
    begin(&journal, tree);
    soon(end(&journal, tree)).await.unwrap();
}

#[tokio::test]
async fn closing_a_subtree_twice_appends_its_endings_once() {
    let (journal, tree) = (in_memory().await, tree(1));
    begin(&journal, tree);
    drop(journal.append(entry(tree, "0", 1, Strand::Delegation(0), delegated("0.0"))));
    drop(journal.append(main(tree, "0.0", session(true))));
    let first = journal.close_subtree(tree, path("0.0"), closing(Reporter::Supervisor));
    let second = journal.close_subtree(tree, path("0.0"), closing(Reporter::Supervisor));
    let closed = soon(first.folded).await.unwrap();
    assert_eq!((closed.endings, closed.changed_world, closed.attempt), (2, true, 1));
    assert_eq!(soon(second.folded).await.unwrap(), Closed::default());
    soon(first.committed).await.unwrap();
    soon(second.committed).await.unwrap();
    // The child's own report comes too late, and its parent may now say how the delegation ended.
    assert_eq!(why(soon(journal.append(main(tree, "0.0", attempt_ended()))).await), Why::AlreadyEnded);
    soon(journal.append(entry(tree, "0", 1, Strand::Delegation(0), delegation_ended()))).await.unwrap();
    let whole = journal.close_subtree(tree, SessionPath::root(), closing(Reporter::Supervisor));
    soon(whole.committed).await.unwrap();
    soon(journal.append(on_tree(tree, tree_ended()))).await.unwrap();
    let bodies: Vec<Body> = all(&journal, tree).await.iter().map(body).collect();
    let endings = bodies.iter().filter(|body| matches!(body.kind, Kind::SessionEnded { .. })).count();
    assert_eq!(endings, 2);
}

/// The ways a store breaks.
async fn poisoned_by(order: Order) {
    let (store, mut boss) = obeying();
    let (journal, tree) = (journal(&Env::real(Some(1), None), store).await, tree(1));
    let mut health = journal.health();
    let credit = Arc::new(Semaphore::new(1));
    let mut opening = on_tree(tree, started());
    opening.credit = Some(credit.clone().try_acquire_owned().unwrap());
    let first = journal.open_tree(opening, Labels::default());
    boss.asked().await.unwrap();
    // Appended while the store is still at it.
    let pending = journal.append(main(tree, "0", session(false)));
    let barrier = journal.barrier();
    boss.orders.send(order).unwrap();
    assert!(is_poisoned(soon(first).await));
    assert!(is_poisoned(soon(pending).await));
    assert!(is_poisoned(soon(barrier).await));
    soon(health.wait_for(|health| matches!(health, Health::Poisoned(_)))).await.unwrap();
    assert_eq!(credit.available_permits(), 1);

    // Later ones fail at once; endings are still said once.
    assert!(is_poisoned(soon(journal.append(main(tree, "0", attempt_ended()))).await));
    assert_eq!(why(soon(journal.append(main(tree, "0", attempt_ended()))).await), Why::AlreadyEnded);
    let closed = journal.close_subtree(tree, SessionPath::root(), closing(Reporter::Supervisor));
    assert_eq!(soon(closed.folded).await.unwrap().endings, 1);
    assert!(is_poisoned(soon(closed.committed).await));
    assert!(is_poisoned(soon(journal.barrier()).await));
    assert!(is_poisoned(soon(journal.finish()).await));
    // The store was asked once: a failed sync is never tried again.
    assert_eq!(boss.asked().await, None);
    assert_eq!(soon(journal.append(on_tree(tree, tree_ended()))).await, Err(AppendError::Gone));
}

#[tokio::test]
async fn a_store_that_fails_poisons_the_journal() {
    poisoned_by(Order::Fail).await;
}

#[tokio::test]
async fn a_store_that_panics_poisons_the_journal() {
    poisoned_by(Order::Panic).await;
}

/// Strikes one record, or the sync of one batch.
struct Strikes {
    append: Option<(String, StoreFault)>,
    sync: Option<StoreFault>,
}

impl StoreFaults for Strikes {
    fn append(&mut self, _: TreeId, path: &SessionPath, _: Strand) -> Option<StoreFault> {
        self.append.take_if(|(at, _)| *at == path.to_string()).map(|(_, fault)| fault)
    }

    fn sync(&mut self) -> Option<StoreFault> {
        self.sync.take()
    }
}

async fn struck(env: &Env, strikes: Strikes) -> Journal {
    let store = Box::new(MemoryStore::new());
    Journal::start(env, store, Options::default(), Some(Box::new(strikes)), None).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_failed_append_stores_nothing_and_a_failed_sync_is_not_believed() {
    for simulated in [true, false] {
        let env = if simulated { Env::simulated(1, None) } else { Env::real(Some(1), None) };
        let tree = tree(1);
        let fault = || StoreFault::Error("injected".into());
        let journal = struck(&env, Strikes { append: Some(("0".into(), fault())), sync: None }).await;
        assert!(is_poisoned(journal.append(on_tree(tree, started())).await));
        assert!(all(&journal, tree).await.is_empty());

        let journal = struck(&env, Strikes { append: None, sync: Some(fault()) }).await;
        assert!(is_poisoned(journal.append(on_tree(tree, started())).await));
        // It may or may not be there: whoever waited was told that it is not known.
        assert_eq!(all(&journal, tree).await.len(), 1);
        assert!(is_poisoned(journal.append(main(tree, "0", session(false))).await));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_sync_delays_the_commit_and_not_the_appending() {
    let slow = Duration::from_secs(60);
    let journal = struck(&Env::simulated(1, None), Strikes { append: None, sync: Some(StoreFault::Delay(slow)) }).await;
    let begin = tokio::time::Instant::now();
    let first = journal.append(on_tree(tree(1), started()));
    let closed = journal.close_subtree(tree(1), SessionPath::root(), closing(Reporter::Supervisor));
    closed.folded.await.unwrap();
    assert!(begin.elapsed() < slow);
    first.await.unwrap();
    assert!(begin.elapsed() >= slow);
}

#[tokio::test]
async fn credit_comes_back_with_the_commit_also_where_nobody_waits_for_it() {
    let (store, mut boss) = obeying();
    let (journal, tree) = (journal(&Env::real(Some(1), None), store).await, tree(1));
    let credit = Arc::new(Semaphore::new(2));
    let lent = || Some(credit.clone().try_acquire_owned().unwrap());
    drop(journal.append(Entry { credit: lent(), ..on_tree(tree, started()) }));
    boss.asked().await.unwrap();
    // A refused record gives its credit back though the store stands still.
    let refused = journal.append(Entry { credit: lent(), ..on_tree(tree, started()) });
    assert_eq!(why(soon(refused).await), Why::AlreadyStarted);
    assert_eq!(credit.available_permits(), 1);
    boss.orders.send(Order::Store).unwrap();
    let _permits = soon(credit.acquire_many(2)).await.unwrap();
}

#[tokio::test]
async fn a_flood_in_one_tree_delays_another_by_one_batch_at_most() {
    let (store, mut boss) = obeying();
    let options = Options { batch: Share { records: 200, bytes: 1 << 20 }, ..Options::default() };
    let journal = Journal::start(&Env::real(Some(1), None), Box::new(store), options, None, None).await.unwrap();
    let (flood, quiet) = (tree(1), tree(2));
    begin(&journal, flood);
    boss.asked().await.unwrap();
    for _ in 0..10_000 {
        drop(journal.append(main(flood, "0", said("more"))));
    }
    let heard = journal.append(on_tree(quiet, started()));
    let barrier = journal.barrier_of(quiet);
    // Folded behind the flood, so everything is queued when the store goes on.
    soon(journal.close_subtree(quiet, path("0"), closing(Reporter::Supervisor)).folded).await.unwrap();
    boss.orders.send(Order::Store).unwrap();
    boss.orders.send(Order::Store).unwrap();
    soon(heard).await.unwrap();
    soon(barrier).await.unwrap();
    let mut flooded = journal.subscribe(flood);
    let head = soon(flooded.wait_for(|head| head.seq > 0)).await.unwrap().seq;
    assert!(head < 300, "{head} of the flood went first");
    drop(boss);
    soon(journal.barrier()).await.unwrap();
    assert_eq!(flooded.borrow_and_update().seq, 10_002);
}

#[tokio::test]
async fn what_waits_is_stored_together() {
    let (store, mut boss) = obeying();
    let (journal, tree) = (journal(&Env::real(Some(1), None), store).await, tree(1));
    drop(journal.append(on_tree(tree, started())));
    assert_eq!(boss.asked().await, Some(1));
    drop(journal.append(main(tree, "0", session(false))));
    for _ in 0..99 {
        drop(journal.append(main(tree, "0", said("x"))));
    }
    soon(journal.close_subtree(tree, path("0.9"), closing(Reporter::Supervisor)).folded).await.unwrap();
    boss.orders.send(Order::Store).unwrap();
    assert_eq!(boss.asked().await, Some(100));
}

#[tokio::test]
async fn a_barrier_waits_for_what_came_before_it_and_nothing_else() {
    let (store, mut boss) = obeying();
    let journal = journal(&Env::real(Some(1), None), store).await;
    soon(journal.barrier()).await.unwrap();
    drop(journal.append(on_tree(tree(1), started())));
    boss.asked().await.unwrap();
    let mut barrier = journal.barrier();
    soon(journal.close_subtree(tree(9), path("0"), closing(Reporter::Supervisor)).folded).await.unwrap();
    assert!(look_at(&mut barrier).is_none(), "its record is still with the store");
    boss.orders.send(Order::Store).unwrap();
    soon(barrier).await.unwrap();
}

/// One look at a future that must not be waited for.
fn look_at<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_subscriber_sees_every_head_and_the_ending() {
    let (journal, tree) = (in_memory().await, tree(1));
    begin(&journal, tree);
    let mut heads = journal.subscribe(tree);
    soon(heads.wait_for(|head| head.seq == 2)).await.unwrap();
    let mut other = journal.subscribe(tree);
    drop(end(&journal, tree));
    assert_eq!(*soon(heads.wait_for(|head| head.ended)).await.unwrap(), Head { seq: 5, ended: true });
    assert_eq!(*soon(other.wait_for(|head| head.ended)).await.unwrap(), Head { seq: 5, ended: true });
    assert!(soon(heads.changed()).await.is_err(), "nothing comes behind the ending");
    // Subscribing later tells the same.
    let mut late = journal.subscribe(tree);
    assert_eq!(*soon(late.wait_for(|head| head.ended)).await.unwrap(), Head { seq: 5, ended: true });
}

#[tokio::test]
async fn a_long_text_goes_to_the_blob_store_and_a_huge_body_is_refused() {
    let (journal, tree) = (in_memory().await, tree(1));
    begin(&journal, tree);
    let long = "ä".repeat(40_000);
    soon(journal.append(main(tree, "0", said(&long)))).await.unwrap();
    let state = Bytes::from_static(b"state");
    let digest = Digest::of(&state);
    let kind = Kind::Checkpoint { label: "half".into(), state: Blob { blob: digest, len: 5 } };
    let checkpoint = Entry { blob: Some(state.clone()), ..main(tree, "0", kind) };
    soon(journal.append(checkpoint)).await.unwrap();
    let records = all(&journal, tree).await;
    let Kind::Text { text: Text::Blob(blob) } = body(&records[2]).kind else { panic!("{}", records[2].body) };
    assert_eq!(blob, Blob { blob: Digest::of(long.as_bytes()), len: 80_000 });
    assert_eq!(journal.blob(blob.blob).await.unwrap().unwrap(), long.as_bytes());
    assert_eq!(journal.blob(digest).await.unwrap().unwrap(), state);

    let huge = Kind::StopRequested { reason: "x".repeat(2 << 20) };
    assert_eq!(why(soon(journal.append(main(tree, "0", huge))).await), Why::TooLarge);
    assert_eq!(soon(journal.append(main(tree, "0", said("next")))).await, Ok(Committed { seq: 5 }));
    assert_eq!(body(&all(&journal, tree).await[4]).n, 4, "a refused record leaves no hole");
}

#[tokio::test]
async fn labels_ride_in_every_envelope_of_their_tree() {
    let journal = in_memory().await;
    begin_with(&journal, tree(1), labels(&[("tenant", "a")]));
    begin(&journal, tree(2));
    soon(journal.barrier()).await.unwrap();
    for stored in all(&journal, tree(1)).await {
        let envelope: Envelope = serde_json::from_str(&stored.envelope).unwrap();
        assert_eq!(envelope.labels, labels(&[("tenant", "a")]));
    }
    assert!(all(&journal, tree(2)).await.iter().all(|stored| !stored.envelope.contains("labels")));
    let mine = Filter { labels: (*labels(&[("tenant", "a")])).clone(), ..Filter::default() };
    assert_eq!(journal.trees(mine).await.unwrap().len(), 1);
}

#[tokio::test]
async fn finishing_stores_what_waits_first() {
    let (store, boss) = obeying();
    let journal = journal(&Env::real(Some(1), None), store).await;
    begin(&journal, tree(1));
    let last = end(&journal, tree(1));
    let (mut finished, mut again) = (Box::pin(journal.finish()), Box::pin(journal.finish()));
    assert!(look_at(&mut finished).is_none() && look_at(&mut again).is_none());
    // Behind the end, and possibly before the store is closed.
    let late = journal.append(on_tree(tree(2), started()));
    drop(boss);
    soon(finished).await.unwrap();
    soon(again).await.unwrap();
    soon(last).await.unwrap();
    assert!(matches!(soon(late).await, Ok(_) | Err(AppendError::Gone)));
    assert_eq!(*journal.health().borrow(), Health::Good);
    assert_eq!(soon(journal.append(on_tree(tree(2), started()))).await, Err(AppendError::Gone));
}

/// Two trees whose records interleave; what was stored, in order.
async fn simulated_run() -> Vec<(String, String)> {
    let journal = journal(&Env::simulated(7, None), MemoryStore::new()).await;
    for n in [1, 2] {
        begin(&journal, tree(n));
    }
    for _ in 0..50 {
        drop(journal.append(main(tree(1), "0", said("one"))));
        soon(journal.append(main(tree(2), "0", said("two")))).await.unwrap();
    }
    drop(end(&journal, tree(1)));
    soon(end(&journal, tree(2))).await.unwrap();
    let records = [all(&journal, tree(1)).await, all(&journal, tree(2)).await].concat();
    records.into_iter().map(|stored| (stored.body, stored.envelope)).collect()
}

#[test]
fn two_simulated_runs_store_the_same_bytes() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(simulated_run())
    };
    assert_eq!(run(), run());
}
