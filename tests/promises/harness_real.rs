//! The rows of `harness_rows` that a kernel can show: the same scripts, as processes, under the warden.

use std::time::Duration;

use treeward::harness::fake::FakeDriver;
use treeward::harness::run::Graces;
use treeward::supervision::ExitClass;

use crate::harness_support::{Ended, MS, Run, SECOND};
use crate::warden_kit::{comes_true, warden, zombies};

/// Graces short enough to be waited for.
fn quick(mut run: Run) -> Run {
    let short =
        Graces { greeting: SECOND, interrupt: SECOND, linger: 200 * MS, terminate: 200 * MS, ..Graces::default() };
    run.graces = short;
    run
}

fn same(run: Run) -> Run {
    run
}

fn is_signal(ended: &Ended, number: i32) -> bool {
    ended.report.class == ExitClass::Signal { number }
}

#[tokio::test]
async fn a_command_answers_what_it_was_told() {
    let warden = warden().await;
    let task = "ü".repeat(512 << 10);
    let ended = Run::real(&warden, &["--plain", "--read", "--echo"], |run| run.task(task.clone())).await;
    assert_eq!(ended.answer(), task);
    assert_eq!(ended.records(), ["harness_starting", "harness_started", "harness_exited", "harness_gone"]);
    warden.stop().await;
}

#[tokio::test]
async fn rows_1_3_10_20_descendants_of_every_kind_go_and_delay_nothing() {
    let warden = warden().await;
    for child in ["--spawn-child", "--setsid-child", "--double-fork", "--double-setsid", "--bg-holder"] {
        let ended = Run::real(&warden, &["--plain", "--result", "done", child, "1h"], same).await;
        assert_eq!(ended.answer(), "done", "{child}");
        assert!(ended.report.survivors >= 1, "{child}");
        assert!(ended.after_exit() < SECOND, "{child}: {:?}", ended.after_exit());
    }
    warden.stop().await;
}

#[tokio::test]
async fn row_5_no_zombie_is_left() {
    let warden = warden().await;
    let before = zombies();
    let ended = Run::real(&warden, &["--plain", "--fork-and-exit", "50", "--result", "done"], same).await;
    assert_eq!(ended.answer(), "done");
    // Other tests have children too: each zombie that is new, whosever it is, is gone in the end.
    let new: Vec<i32> = zombies().difference(&before).copied().collect();
    assert!(comes_true(|| new.iter().all(|pid| !zombies().contains(pid))).await, "{new:?}");
    warden.stop().await;
}

#[tokio::test]
async fn rows_12_16_what_ignores_everything_but_sigkill_gets_it_in_time() {
    let warden = warden().await;
    let stop = |run: Run| run.stop(500 * MS, SECOND, 2 * SECOND);
    let ended =
        Run::real(&warden, &["--plain", "--ignore-term", "--ignore-int", "--setsid-child", "1h", "--hang"], stop).await;
    assert_eq!(ended.report.class, ExitClass::KilledByUs);
    let signals: Vec<String> = ended.signals().into_iter().map(|(signal, _)| signal).collect();
    assert_eq!(signals, ["SIGTERM", "SIGKILL"]);
    assert!(ended.took < 2 * SECOND, "{:?}", ended.took);
    let slow = |run: Run| run.stop(300 * MS, 20 * SECOND, 30 * SECOND);
    let ended = Run::real(&warden, &["--plain", "--slow-death", "300ms", "--hang"], slow).await;
    assert_eq!(ended.report.class, ExitClass::Canceled);
    assert!(ended.took >= 600 * MS && ended.took < 10 * SECOND, "{:?}", ended.took);
    warden.stop().await;
}

#[tokio::test]
async fn a_second_stop_inside_the_interrupt_grace_kills() {
    let warden = warden().await;
    let options = ["--session", "s", "--ignore-int", "--ignore-term", "--hang"];
    let twice = |run: Run| run.stop(500 * MS, 60 * SECOND, 90 * SECOND).stop(800 * MS, 800 * MS, SECOND);
    let ended = Run::real(&warden, &options, twice).await;
    assert!(ended.records().contains(&"harness_interrupted"));
    assert!(ended.took < 5 * SECOND, "{:?}", ended.took);
    warden.stop().await;
}

#[tokio::test]
async fn row_18_19_floods_in_every_direction() {
    let warden = warden().await;
    let task = "t".repeat(1 << 20);
    let ended =
        Run::real(&warden, &["--plain", "--emit", "1M", "--stderr", "10MB", "--read", "--echo"], |run| run.task(task))
            .await;
    assert_eq!(ended.answer().len(), 2 << 20);
    let never = |run: Run| run.task("t".repeat(1 << 20)).stop(300 * MS, 5 * SECOND, 6 * SECOND);
    let ended = Run::real(&warden, &["--plain", "--never-read-stdin", "--hang"], never).await;
    assert_eq!(ended.report.class, ExitClass::Canceled);
    assert!(ended.took < 4 * SECOND, "{:?}", ended.took);
    warden.stop().await;
}

#[tokio::test]
async fn rows_21_to_28_lines_of_every_length_and_bytes_of_every_kind() {
    let warden = warden().await;
    let options = [
        "--session",
        "s",
        "--line",
        "1B,65535,65536,65537,1M,16M",
        "--bytes",
        "ff,c3 28,eda080,00",
        "--noise",
        "--split-utf8",
        "--stderr",
        "1M",
        "--result-without-newline",
        "kept",
    ];
    let ended = Run::real(&warden, &options, same).await;
    assert_eq!(ended.answer(), "kept");
    assert_eq!(ended.texts(), ["grüße, 世界, 🦀, ½€"]);
    assert!(ended.notes().contains(&"line_too_long".to_owned()), "{:?}", ended.notes());
    warden.stop().await;
}

#[tokio::test]
async fn row_25_what_was_written_just_before_the_exit_is_all_read() {
    let warden = warden().await;
    // A pipe full of bytes, an exit at once, and somebody who holds the pipe open.
    for _ in 0..5 {
        let ended = Run::real(&warden, &["--plain", "--bg-holder", "1h", "--emit", "60K", "--exit", "0"], same).await;
        assert_eq!(ended.answer().len(), 60 << 10);
    }
    let big = Run::real(&warden, &["--plain", "--emit", "3M"], same).await;
    assert_eq!(big.answer().len(), 3 << 20);
    warden.stop().await;
}

#[tokio::test]
async fn row_34_a_result_and_no_exit_twelve_times_six_at_once() {
    let warden = warden().await;
    for _ in 0..2 {
        let one = || Run::real(&warden, &["--ignore-int", "--ignore-term", "--hang-after-result"], quick);
        let six = tokio::join!(one(), one(), one(), one(), one(), one());
        for ended in [six.0, six.1, six.2, six.3, six.4, six.5] {
            assert_eq!((ended.answer(), ended.report.class), ("done", ExitClass::Done));
        }
    }
    warden.stop().await;
}

#[tokio::test]
async fn row_38_a_process_that_stopped_itself_is_killed() {
    let warden = warden().await;
    let ended = Run::real(&warden, &["--sigstop-self"], quick).await;
    assert_eq!(ended.report.class, ExitClass::Stalled);
    let stopped = |run: Run| run.stop(300 * MS, 600 * MS, SECOND);
    let ended = Run::real(&warden, &["--plain", "--sigstop-self"], stopped).await;
    assert_eq!(ended.report.class, ExitClass::KilledByUs);
    warden.stop().await;
}

#[tokio::test]
async fn rows_47_50_every_way_down() {
    let warden = warden().await;
    assert!(is_signal(&Run::real(&warden, &["--abort"], same).await, 6));
    assert!(is_signal(&Run::real(&warden, &["--segv"], same).await, 11));
    assert!(is_signal(&Run::real(&warden, &["--session", "s", "--kill-mid-result"], same).await, 9));
    assert!(is_signal(&Run::real(&warden, &["--plain", "--kill-mid-result"], same).await, 9));
    let failed = Run::real(&warden, &["--plain", "--complain", "no luck", "--exit", "3"], same).await;
    assert_eq!(failed.report.detail.as_deref(), Some("exit code 3\nno luck"));
    let cannot = Run::real(&warden, &["--plain", "--complain", "not mine to do", "--exit", "65"], same).await;
    assert_eq!(cannot.report.result, Some(Err("not mine to do".to_owned())));
    warden.stop().await;
}

#[tokio::test]
async fn row_49_an_interrupt_by_its_protocol_is_enough() {
    let warden = warden().await;
    let ended = Run::real(&warden, &["--session", "s", "--text", "partly", "--hang"], |run| {
        run.stop(500 * MS, 20 * SECOND, 30 * SECOND)
    })
    .await;
    assert_eq!((ended.report.class, ended.texts()), (ExitClass::Canceled, vec!["partly".to_owned()]));
    assert!(ended.signals().is_empty(), "{:?}", ended.signals());
    warden.stop().await;
}

#[tokio::test]
async fn row_65_a_fork_bomb_goes_with_its_run() {
    let warden = warden().await;
    let ended = Run::real(&warden, &["--plain", "--fork-bomb", "30", "--hang"], |mut run| {
        run.limits.processes = Some(4_000);
        // Time to multiply, also on a machine that is busy with other tests.
        run.stop(3 * SECOND, 3 * SECOND, 4 * SECOND)
    })
    .await;
    assert!(ended.report.survivors > 0, "{:?}", ended.report);
    warden.stop().await;
}

#[tokio::test]
async fn a_stop_in_each_phase_leaves_nothing() {
    let warden = warden().await;
    // From before the first instruction to long after the result.
    for at in [1, 20, 60, 150, 400] {
        let after = Duration::from_millis(at);
        for options in [
            &["--session", "s", "--setsid-child", "1h", "--hang-after-result"][..],
            &["--plain", "--double-setsid", "1h", "--sleep", "100ms", "--result", "x"],
            &["--plain", "--ignore-term", "--spin"],
        ] {
            let stop = |run: Run| run.stop(after, after + 100 * MS, after + 300 * MS);
            let ended = Run::real(&warden, options, stop).await;
            assert!(ended.took < after + 3 * SECOND, "{options:?} at {at}: {:?}", ended.took);
        }
    }
    warden.stop().await;
}

#[tokio::test]
async fn what_is_not_there_is_refused_and_says_so() {
    let warden = warden().await;
    let run = Run::new(FakeDriver::new(vec!["no-such-program-anywhere".to_owned()]));
    let ended = run.on(&warden).await;
    assert_eq!((ended.report.class, ended.report.spawned), (ExitClass::Refused, false));
    assert!(ended.report.detail.unwrap().contains("`no-such-program-anywhere` was not found"));
    warden.stop().await;
}
