//! Seven ways in which a harness outlives or hangs the best of what runs capsules today, through the command line: one
//! capsule, one command, seven right outcomes.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::Instant;
use treeward::harness::Identity;

use crate::warden_kit::{comes_true, owned_by};

const BIN: &str = env!("CARGO_BIN_EXE_treeward");

/// One capsule whose task is a shell script, and a run of it.
struct Case {
    place: tempfile::TempDir,
    run: Child,
    who: Identity,
    start: Instant,
}

#[expect(clippy::disallowed_methods, reason = "the command line is what is tested, from outside and by the wall clock")]
fn treeward(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(BIN);
    command.args(arguments).current_dir(place).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn case(script: &str) -> Case {
    case_on(script, "")
}

fn case_on(script: &str, task: &str) -> Case {
    let place = tempfile::tempdir().expect("a directory");
    let manifest = format!(
        "name = \"seven\"\n[run]\ncommand = [\"bash\", \"-c\", '''{script}''']\nunconfined = true\n[grants]\nwrite = [\"work\"]\n\
         [restart]\ntype = \"temporary\"\n"
    );
    std::fs::write(place.path().join("seven.toml"), manifest).expect("a manifest");
    std::fs::write(place.path().join("task"), task).expect("a task");
    std::fs::create_dir(place.path().join("work")).expect("a directory");
    let arguments = ["run", "seven.toml", "--work", "work", "--task-file", "task", "--quiet"];
    let run = treeward(place.path(), &arguments).spawn().expect("treeward");
    let who = Identity::of(i32::try_from(run.id()).expect("a pid")).expect("treeward is there");
    Case { place, run, who, start: Instant::now() }
}

impl Case {
    /// Waits until the script has said that it is there, by making this file.
    async fn up(&self) {
        self.has("up").await;
    }

    async fn has(&self, file: &str) {
        let file = self.place.path().join("work").join(file);
        assert!(comes_true(|| file.exists()).await, "the script never made {}", file.display());
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.who.pid), signal).expect("treeward is there");
    }

    /// Its end: its exit, its answer, how long it took. Nothing of it is left.
    async fn end(mut self) -> (ExitStatus, String, Duration, tempfile::TempDir) {
        let mut status = None;
        assert!(
            comes_true(|| {
                status = self.run.try_wait().expect("a child");
                status.is_some()
            })
            .await,
            "it hangs"
        );
        let took = self.start.elapsed();
        let who = self.who.clone();
        assert!(comes_true(|| owned_by(&who).is_empty()).await, "left: {:?}", owned_by(&who));
        let output = self.run.wait_with_output().expect("its output");
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        (status.expect("a status"), answer, took, self.place)
    }
}

#[tokio::test]
async fn one_a_grandchild_that_holds_stdout_delays_nothing() {
    let (status, answer, took, _) = case("cat; (sleep 25) & echo answer").end().await;
    assert_eq!((status.code(), answer.as_str()), (Some(0), "answer\n"));
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test]
async fn two_a_background_process_does_not_outlive_the_run() {
    let script = "cat; setsid nohup sleep 1000 > /dev/null 2>&1 & echo $! > $TREEWARD_DIR_WORK/pid; echo answer";
    let (status, answer, _, place) = case(script).end().await;
    assert_eq!((status.code(), answer.as_str()), (Some(0), "answer\n"));
    let pid = std::fs::read_to_string(place.path().join("work/pid")).expect("a pid");
    assert!(!pid.trim().is_empty());
}

#[tokio::test]
async fn three_a_second_sigterm_inside_the_grace_leaves_nothing() {
    let script =
        "trap 'touch $TREEWARD_DIR_WORK/told' TERM INT; touch $TREEWARD_DIR_WORK/up; while :; do sleep 0.1; done";
    let case = case(script);
    case.up().await;
    case.signal(Signal::SIGTERM);
    case.has("told").await;
    case.signal(Signal::SIGTERM);
    let (status, _, took, _) = case.end().await;
    assert_ne!(status.code(), Some(0));
    assert!(took < Duration::from_secs(8), "the first alone takes ten: {took:?}");
}

#[tokio::test]
async fn four_sigkill_of_treeward_takes_its_harness_along_and_the_journal_says_so() {
    let case = case("setsid sleep 1000 & touch $TREEWARD_DIR_WORK/up; sleep 1000");
    case.up().await;
    assert!(owned_by(&case.who).len() >= 3);
    case.signal(Signal::SIGKILL);
    let (status, _, _, place) = case.end().await;
    assert_eq!(status.code(), None);
    let trace = treeward(place.path(), &["trace", "--json"]).output().expect("a trace");
    let trace = String::from_utf8_lossy(&trace.stdout).into_owned();
    assert!(trace.contains("harness_started") && !trace.contains("harness_gone"), "{trace}");
    let verified = treeward(place.path(), &["verify"]).output().expect("a verification");
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[tokio::test]
async fn five_a_task_that_is_never_read_hinders_no_stop() {
    let case = case_on("touch $TREEWARD_DIR_WORK/up; exec sleep 1000", &"t".repeat(1 << 20));
    case.up().await;
    case.signal(Signal::SIGTERM);
    let (status, _, took, _) = case.end().await;
    assert_ne!(status.code(), Some(0));
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[tokio::test]
async fn six_bytes_that_are_no_text_are_survived_on_stderr_and_stdout() {
    let script = "cat; printf '\\xff\\xfe\\n' >&2; printf '\\xc3\\x28'; echo answer";
    let (status, answer, _, _) = case(script).end().await;
    assert_eq!((status.code(), answer.as_str()), (Some(0), "\u{fffd}(answer\n"));
}

#[tokio::test]
async fn seven_a_request_without_end_costs_its_connection_only() {
    let script = "python3 - <<'END'
import os, socket
s = socket.socket(socket.AF_UNIX); s.connect(os.environ['TREEWARD_SOCKET'])
try:
    for _ in range(1000): s.sendall(b'x' * 1048576)
except OSError: pass
END
\"$TREEWARD\" call info > /dev/null && echo answer";
    let (status, answer, _, _) = case(script).end().await;
    assert_eq!((status.code(), answer.as_str()), (Some(0), "answer\n"));
}
