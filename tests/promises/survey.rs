//! The survey of a real directory agrees with `find`, `wc` and `grep`.

use std::path::Path;

use treeward::capsule::Team;
use treeward::journal::CompletionStatus;
use treeward::{Runtime, Submission};

use crate::support::{plan, run};

fn team() -> Team {
    Team::load(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/survey"))).expect("the example loads")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_prints_a_table_of_a_real_directory() {
    let root = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(root.path().join("a/b")).expect("directories");
    std::fs::write(root.path().join("one.txt"), "one two\nthree\n").expect("a file");
    std::fs::write(root.path().join("a/two.txt"), "TODO x\n").expect("a file");
    std::fs::write(root.path().join("a/b/three.txt"), "no newline").expect("a file");
    let submission = Submission::new(team(), "").read("input", root.path());
    let ran = run(Runtime::builder().cache(None), submission).await;
    ran.check();
    let completion = ran.completion.as_ref().expect("a completion");
    println!("{}", completion.answer);
    assert_eq!(completion.status, CompletionStatus::Ok, "{completion:?}");
    assert!(completion.answer.contains("a/b/three.txt"), "{}", completion.answer);
    // Root, a, a/b and three readers.
    assert_eq!(ran.count("session_ended"), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_dies_takes_only_its_subtree_along() {
    let root = tempfile::tempdir().expect("a directory");
    for name in ["a", "b", "c"] {
        std::fs::create_dir(root.path().join(name)).expect("a directory");
        std::fs::write(root.path().join(name).join("file"), "x\n").expect("a file");
    }
    let submission = Submission::new(team(), "").read("input", root.path());
    let builder = Runtime::builder().cache(None).faults(plan(&["session path=0.1 panic"]));
    let ran = run(builder, submission).await;
    ran.check();
    let completion = ran.completion.as_ref().expect("a completion");
    println!("{}", completion.answer);
    assert_eq!(completion.status, CompletionStatus::Ok);
    assert!(completion.answer.contains("lost"), "{}", completion.answer);
}
