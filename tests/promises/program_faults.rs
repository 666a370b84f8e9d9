//! What a fault does to a program is what its restart section says, and nothing of the program is left.

use std::time::Duration;

use treeward::capsule::Team;
use treeward::harness::Program;
use treeward::journal::CompletionStatus;
use treeward::{Runtime, Submission};

use crate::support::{Ran, plan, run};

const AGAIN: &str = "[restart]\nrerun = \"yes\"\nbackoff = { initial = \"1ms\", max = \"5ms\" }\n";

async fn shell(script: &str, extra: &str, rules: &[&str]) -> Ran {
    let place = tempfile::tempdir().expect("a directory");
    let manifest =
        format!("name = \"root\"\n[run]\ncommand = [\"sh\", \"-c\", \"{script}\"]\nunconfined = true\n{AGAIN}{extra}");
    std::fs::write(place.path().join("capsule.toml"), manifest).expect("a manifest");
    let program = Program::Path(env!("CARGO_BIN_EXE_treeward").into());
    let runtime = Runtime::builder().cache(None).warden(program).faults(plan(rules));
    let ran = run(runtime, Submission::new(Team::load(place.path()).expect("a team"), "the task")).await;
    ran.check();
    ran
}

fn ending(ran: &Ran) -> (CompletionStatus, &str) {
    let completion = ran.completion.as_ref().expect("a completion");
    (completion.status, &completion.answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spawn_that_may_work_later_is_tried_again() {
    for errno in ["EAGAIN", "EMFILE", "ETXTBSY"] {
        let ran = shell("echo done", "", &[&format!("spawn attempt=1 error={errno}")]).await;
        assert_eq!(ending(&ran), (CompletionStatus::Ok, "done\n"), "{errno}");
        assert_eq!((ran.count("harness_starting"), ran.count("harness_started")), (2, 1), "{errno}");
        assert_eq!(ran.count("fault_injected"), 1, "{errno}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spawn_that_cannot_work_is_not_tried_again() {
    for errno in ["ENOENT", "EACCES"] {
        let ran = shell("echo done", "", &[&format!("spawn error={errno}")]).await;
        assert_ne!(ending(&ran).0, CompletionStatus::Ok, "{errno}");
        assert_eq!((ran.count("harness_starting"), ran.count("harness_started")), (1, 0), "{errno}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_spawn_is_late_and_a_late_exit_too() {
    for rule in ["spawn delay=50ms", "exit_status delay=50ms"] {
        let ran = shell("echo done", "", &[rule]).await;
        assert_eq!(ending(&ran), (CompletionStatus::Ok, "done\n"), "{rule}");
        assert_eq!((ran.count("harness_started"), ran.count("harness_gone")), (1, 1), "{rule}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_program_is_run_again() {
    let ran = shell("sleep 1 & wait; echo done", "", &["harness attempt=1 kill"]).await;
    assert_eq!(ending(&ran), (CompletionStatus::Ok, "done\n"));
    assert_eq!((ran.count("harness_started"), ran.count("harness_gone")), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_program_and_one_whose_exit_is_lost_stall_and_are_ended() {
    let stall = "[limits]\nstall = \"2s\"\n";
    for rule in ["harness attempt=1 hang", "exit_status attempt=1 drop"] {
        let ran = tokio::time::timeout(Duration::from_secs(60), shell("echo done", stall, &[rule])).await;
        let ran = ran.unwrap_or_else(|_| panic!("{rule} was never ended"));
        // Its answer was whole where only its exit was lost.
        assert_eq!(ending(&ran), (CompletionStatus::Ok, "done\n"), "{rule}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_whose_warden_was_lost_is_gone_and_run_again() {
    let ran = shell("sleep 1 & wait; echo done", "", &["warden attempt=1 kill"]).await;
    assert_eq!(ending(&ran), (CompletionStatus::Ok, "done\n"));
    assert_eq!((ran.count("harness_started"), ran.count("harness_gone")), (2, 2));
}
