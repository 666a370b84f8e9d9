//! The examples say what their pages promise: a race with a winner, ten thousand children, a thousand levels.

use std::path::Path;

use treeward::capsule::Team;
use treeward::journal::CompletionStatus;
use treeward::{Runtime, Submission};

use crate::support::{Ran, run};

async fn example(name: &str, task: &str) -> Ran {
    let team = Team::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)).expect("it loads");
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    let ran = run(Runtime::builder().cache(Some(cache)), Submission::new(team, task)).await;
    ran.check();
    ran
}

fn answer(ran: &Ran) -> &str {
    let completion = ran.completion.as_ref().expect("committed");
    assert_eq!(completion.status, CompletionStatus::Ok, "{:?}", completion.detail);
    &completion.answer
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_good_answer_wins_the_race_and_the_losers_are_cancelled() {
    let ran = example("race", "").await;
    let said = answer(&ran);
    assert!(said.starts_with("4611686181636145867 = 2147483659 x 2147483713, found by "), "{said}");
    // Trying every divisor takes two thousand million steps: it never wins, and it is stopped.
    assert!(said.contains("cancelled: trial"), "{said}");
    assert_eq!(ran.count("session_started"), 4);
    assert!(ran.count("stop_requested") >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_good_wins_nothing() {
    // A prime: one way finds no divisor, one finds only 1, one finds only the number itself.
    let ran = example("race", "1009").await;
    let completion = ran.completion.as_ref().expect("committed");
    assert_eq!(completion.status, CompletionStatus::Error);
    let why = completion.detail.as_deref().unwrap_or_default();
    assert!(why.starts_with("no way had a good answer for 1009") && why.contains("trial: "), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_children_of_one_session_are_joined() {
    let ran = example("wide", "").await;
    assert_eq!(answer(&ran), "664579 primes below 10000000, counted by 10000 sessions");
    assert_eq!(ran.count("session_ended"), 10_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_levels_down_and_back() {
    let ran = example("deep", "").await;
    assert_eq!(answer(&ran), "1000 levels below this one, and back");
    assert_eq!(ran.count("session_ended"), 1_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_more_than_the_manifest_allows_is_refused_by_its_key() {
    let ran = example("deep", "1001").await;
    let completion = ran.completion.as_ref().expect("committed");
    assert_eq!(completion.status, CompletionStatus::Error);
    assert!(completion.detail.as_deref().unwrap_or_default().contains("budget.depth"), "{completion:?}");
}
