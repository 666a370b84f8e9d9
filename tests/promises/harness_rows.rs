//! What people complain about in every tool that runs agent CLIs, a row each, with a scripted harness under paused time.
//! The numbers are those of the collection the behaviours come from.

use std::time::Duration;

use treeward::driver::Event;
use treeward::harness::SpawnError;
use treeward::harness::fake::{FakeDriver, FakeLauncher, Fate, Script};
use treeward::harness::run::Graces;
use treeward::journal::Kind;
use treeward::supervision::ExitClass;

use super::harness_support::{MS, Run, SECOND, Seen};

const HOUR: Duration = Duration::from_secs(3600);
const WHOLE: [&str; 4] = ["harness_starting", "harness_started", "harness_exited", "harness_gone"];

#[tokio::test(start_paused = true)]
async fn a_plain_command_answers_what_it_wrote() {
    let ended = Run::command().task("the task").of(&["--plain", "--read", "--echo"]).await;
    assert_eq!(ended.answer(), "the task");
    assert_eq!((ended.report.class, ended.report.survivors), (ExitClass::Done, 0));
    assert_eq!(ended.records(), WHOLE);
    assert_eq!(ended.notes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn row_1_and_3_children_left_behind_are_killed_after_a_clean_exit_too() {
    for child in ["--spawn-child", "--double-fork", "--setsid-child", "--double-setsid"] {
        let ended = Run::command().of(&["--plain", child, "1h", "--result", "done"]).await;
        assert_eq!((ended.answer(), ended.report.survivors), ("done", 1), "{child}");
        assert!(ended.took < 2 * SECOND, "{child}: {:?}", ended.took);
    }
}

#[tokio::test(start_paused = true)]
async fn row_6_a_stop_ends_it_in_each_phase() {
    // While it is being spawned, while it works, when it lingers, and when it is being interrupted.
    for (options, fate, at, kills) in [
        (&["--hang"][..], Fate { slow_spawn: 3 * SECOND, ..Fate::default() }, SECOND, "SIGTERM"),
        (&["--text", "x", "--hang"], Fate::default(), SECOND, "SIGTERM"),
        (&["--hang-after-result"], Fate::default(), SECOND, "SIGTERM"),
        (&["--ignore-term", "--ignore-int", "--text", "x", "--hang"], Fate::default(), SECOND, "SIGKILL"),
    ] {
        let run = Run::new(FakeDriver::new(vec!["fake".into()]).interrupted_by_signal());
        let ended = run.stop(at, 10 * SECOND, 20 * SECOND).with(options, fate).await;
        assert!(ended.took <= 12 * SECOND, "{options:?}: {:?}", ended.took);
        let signals: Vec<String> = ended.signals().into_iter().map(|(signal, _)| signal).collect();
        assert!(
            signals.is_empty() || signals.last().unwrap() == kills || kills == "SIGTERM",
            "{options:?}: {signals:?}"
        );
        let class = ended.report.class;
        assert!(
            matches!(class, ExitClass::Canceled | ExitClass::KilledByUs | ExitClass::Done),
            "{options:?}: {class:?}"
        );
        assert_eq!(ended.records().last(), Some(&"harness_gone"));
    }
}

#[tokio::test(start_paused = true)]
async fn row_6_a_stop_before_the_start_starts_nothing() {
    let launcher = FakeLauncher::new(Script::default());
    let ended = Run::command().stop(Duration::ZERO, SECOND, SECOND).on(&launcher).await;
    assert_eq!((launcher.most(), ended.report.spawned, ended.seen.len()), (0, false, 0));
    assert_eq!(ended.report.class, ExitClass::Canceled);
}

#[tokio::test(start_paused = true)]
async fn row_10_stdout_held_open_by_a_descendant_delays_nothing() {
    let ended = Run::command().of(&["--plain", "--result", "done", "--bg-holder", "60s"]).await;
    assert_eq!(ended.answer(), "done");
    assert!(ended.after_exit() <= 50 * MS, "{:?}", ended.after_exit());
    assert!(ended.took < SECOND);
}

#[tokio::test(start_paused = true)]
async fn row_20_a_holder_that_is_slow_to_bury_does_not_delay_the_reading() {
    let fate = Fate { slow_burial: 3 * SECOND, ..Fate::default() };
    let ended = Run::fake().with(&["--read", "--result", "done", "--bg-holder", "60s"], fate).await;
    assert_eq!(ended.answer(), "done");
    assert!(ended.took < 4 * SECOND, "{:?}", ended.took);
}

#[tokio::test(start_paused = true)]
async fn row_12_the_kill_comes_at_exactly_its_time() {
    let ended = Run::command().stop(SECOND, 5 * SECOND, 9 * SECOND).of(&["--ignore-term", "--hang", "--plain"]).await;
    assert_eq!(ended.signals(), [("SIGTERM".to_owned(), SECOND), ("SIGKILL".to_owned(), 5 * SECOND)]);
    assert_eq!(ended.report.class, ExitClass::KilledByUs);
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_inside_the_grace_tightens() {
    let run = Run::command().stop(SECOND, 60 * SECOND, 90 * SECOND).stop(2 * SECOND, 3 * SECOND, 4 * SECOND);
    let ended = run.of(&["--ignore-term", "--hang", "--plain"]).await;
    assert_eq!(ended.signals(), [("SIGTERM".to_owned(), SECOND), ("SIGKILL".to_owned(), 3 * SECOND)]);
    assert!(ended.took < 4 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn row_16_gone_is_told_when_it_is_gone_and_not_before() {
    let slow =
        Run::command().stop(SECOND, 60 * SECOND, 90 * SECOND).of(&["--plain", "--slow-death", "3s", "--hang"]).await;
    assert!(slow.took >= 4 * SECOND && slow.took < 5 * SECOND, "{:?}", slow.took);
    let fate = Fate { slow_burial: 30 * SECOND, ..Fate::default() };
    let buried = Run::command().stop(SECOND, 2 * SECOND, 3 * SECOND).with(&["--plain", "--hang"], fate).await;
    assert!(buried.took >= 31 * SECOND, "an unconfirmed burial is not an ending: {:?}", buried.took);
}

#[tokio::test(start_paused = true)]
async fn row_17_a_lost_exit_is_found_by_the_burial() {
    let fate = Fate { lost_exit: true, ..Fate::default() };
    let ended = Run::command().stop(SECOND, 2 * SECOND, 5 * SECOND).with(&["--plain", "--hang"], fate).await;
    assert_eq!(ended.report.class, ExitClass::KilledByUs);
    assert!(ended.took < 5 * SECOND);
    let late = Fate { late_exit: 5 * SECOND, ..Fate::default() };
    let ended = Run::command().with(&["--plain", "--result", "x"], late).await;
    assert_eq!(ended.answer(), "x");
}

#[tokio::test(start_paused = true)]
async fn row_18_output_before_input_is_read_and_a_stop_comes_through_while_writing() {
    let task = "t".repeat(128 << 10);
    let ended = Run::command().task(task.clone()).of(&["--plain", "--emit", "128K", "--read", "--echo"]).await;
    assert_eq!(ended.answer().len(), 256 << 10);
    let never = Run::command().task("t".repeat(1 << 20)).stop(SECOND, 2 * SECOND, 3 * SECOND);
    let ended = never.of(&["--plain", "--never-read-stdin", "--hang"]).await;
    assert_eq!(ended.report.class, ExitClass::Canceled);
    assert!(ended.took < 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn row_19_ten_megabytes_of_errors_block_nothing_and_stay_small() {
    let ended = Run::command().of(&["--plain", "--stderr", "10MB", "--complain", "at last", "--exit", "3"]).await;
    assert_eq!(ended.report.class, ExitClass::Retryable);
    let detail = ended.report.detail.as_deref().unwrap();
    assert!(detail.len() <= 2_000 && detail.starts_with("exit code 3\n") && detail.ends_with("at last"), "{detail}");
    assert_eq!(ended.notes(), ["stderr"]);
}

#[tokio::test(start_paused = true)]
async fn row_21_to_24_a_line_over_the_limit_costs_a_note_and_the_result_after_it_counts() {
    let sizes = "1B,65535,65536,65537,1M,16M,300M";
    let ended = Run::fake().of(&["--session", "s", "--line", sizes, "--result", "kept"]).await;
    assert_eq!(ended.answer(), "kept");
    let notes = ended.notes();
    assert_eq!(notes.iter().filter(|key| *key == "line_too_long").count(), 2, "{notes:?}");
    assert_eq!(notes.iter().filter(|key| *key == "noise").count(), 5);
}

#[tokio::test(start_paused = true)]
async fn row_25_what_was_written_just_before_the_exit_is_read() {
    let ended = Run::command().of(&["--plain", "--emit", "1M", "--exit", "0"]).await;
    assert_eq!(ended.answer().len(), 1 << 20);
    let late = Run::fake().of(&["--emit", "63K", "--result-without-newline", "x"]).await;
    assert_eq!(late.report.result, None, "the flood and the result are one line: {:?}", late.report);
    let unended = Run::fake().of(&["--text", "a", "--result-without-newline", "x"]).await;
    assert_eq!(unended.answer(), "x");
}

#[tokio::test(start_paused = true)]
async fn row_26_and_27_bytes_that_are_no_text_and_text_in_single_bytes() {
    let ended = Run::fake().of(&["--bytes", "ff,c3 28,eda080,00", "--split-utf8", "--result", "x"]).await;
    assert_eq!(ended.texts(), ["grüße, 世界, 🦀, ½€"]);
    assert_eq!(ended.answer(), "x");
    assert_eq!(ended.notes().iter().filter(|key| *key == "not_utf8").count(), 3);
    let plain = Run::command().of(&["--plain", "--bytes", "ff", "--split-utf8"]).await;
    assert_eq!(plain.answer(), "\u{fffd}\ngrüße, 世界, 🦀, ½€");
    assert_eq!(plain.notes(), ["not_utf8"]);
}

#[tokio::test(start_paused = true)]
async fn row_28_and_31_noise_before_between_and_after_is_noted_and_capped() {
    let mut options = vec!["--noise", "--text", "a", "--noise", "--text", "b", "--result", "x", "--noise"];
    let ended = Run::fake().of(&options).await;
    assert_eq!((ended.texts(), ended.answer()), (vec!["a".to_owned(), "b".to_owned()], "x"));
    options.splice(0..0, std::iter::repeat_n("--noise", 100));
    let flooded = Run::fake().of(&options).await;
    assert_eq!(flooded.answer(), "x");
    assert_eq!(flooded.notes().len(), 64);
    assert_eq!(flooded.notes().last().unwrap(), "notes");
}

#[tokio::test(start_paused = true)]
async fn row_32_its_input_is_closed_after_the_task() {
    for run in [Run::command(), Run::fake()] {
        let plain = if run.driver.describe().name == "command" { "--plain" } else { "--no-result" };
        let ended = run.of(&[plain, "--session", "s", "--wait-stdin-eof", "--result", "x"]).await;
        assert!(ended.answer().ends_with('x'));
    }
}

#[tokio::test(start_paused = true)]
async fn row_34_what_never_exits_after_its_result_is_killed_and_its_result_counts() {
    let one = || Run::fake().of(&["--ignore-int", "--ignore-term", "--hang-after-result"]);
    // Twelve of them, six at once.
    for _ in 0..2 {
        let six = tokio::join!(one(), one(), one(), one(), one(), one());
        for ended in [six.0, six.1, six.2, six.3, six.4, six.5] {
            assert_eq!((ended.answer(), ended.report.class), ("done", ExitClass::Done));
            assert_eq!(ended.notes(), ["result_and_exit"]);
            assert!(ended.took <= 6 * SECOND, "{:?}", ended.took);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn row_35_no_result_is_an_outcome() {
    let ended = Run::fake().of(&["--session", "s", "--read", "--no-result", "--exit", "0"]).await;
    assert_eq!((ended.report.class, &ended.report.result), (ExitClass::Retryable, &None));
    assert_eq!(ended.report.detail.as_deref(), Some("it exited well and said no result"));
}

#[tokio::test(start_paused = true)]
async fn row_36_a_heartbeat_is_no_progress() {
    let run = Run::fake().stop(600 * SECOND, 601 * SECOND, 602 * SECOND);
    let ended = run.of(&["--session", "s", "--heartbeat-only", "1s"]).await;
    let progress: Vec<_> = ended.seen.iter().filter(|(_, seen)| *seen == Seen::Progress).collect();
    // Saying that it has a session is; nothing after it.
    assert_eq!(progress.len(), 1);
    assert_eq!(ended.notes().len(), 64, "a heartbeat an hour long is not a record a second");
}

#[tokio::test(start_paused = true)]
async fn row_38_stopped_before_its_first_word_it_is_killed() {
    let ended = Run::fake().of(&["--sigstop-self"]).await;
    assert_eq!(ended.report.class, ExitClass::Stalled);
    let greeting = Graces::default().greeting;
    assert_eq!(ended.signals()[0], ("SIGTERM".to_owned(), greeting));
    assert_eq!(ended.signals()[1].0, "SIGKILL");
    assert!(ended.took < greeting + 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn row_47_a_result_cut_in_half_is_none() {
    let ended = Run::fake().of(&["--session", "s", "--kill-mid-result"]).await;
    assert_eq!((ended.report.class, &ended.report.result), (ExitClass::Signal { number: 9 }, &None));
    let plain = Run::command().of(&["--plain", "--kill-mid-result"]).await;
    assert_eq!((plain.report.class, &plain.report.result), (ExitClass::Signal { number: 9 }, &None));
}

#[tokio::test(start_paused = true)]
async fn row_49_what_was_said_before_an_interrupt_is_kept() {
    let run = Run::new(FakeDriver::new(vec!["fake".into()])).stop(SECOND, 10 * SECOND, 20 * SECOND);
    let ended = run.of(&["--session", "s", "--text", "partly", "--hang"]).await;
    assert_eq!(ended.texts(), ["partly"]);
    assert_eq!(ended.report.class, ExitClass::Canceled);
    assert!(ended.records().contains(&"harness_interrupted"));
    assert!(ended.signals().is_empty(), "the interrupt was enough: {:?}", ended.signals());
}

#[tokio::test(start_paused = true)]
async fn row_50_every_way_down_has_one_ending() {
    for (options, class) in [
        (&["--abort"][..], ExitClass::Signal { number: 6 }),
        (&["--segv"], ExitClass::Signal { number: 11 }),
        (&["--exit", "3"], ExitClass::Retryable),
    ] {
        let ended = Run::fake().of(options).await;
        assert_eq!(ended.report.class, class);
        let gone = ended.records().iter().filter(|name| **name == "harness_gone").count();
        assert_eq!(gone, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn row_52_a_success_that_was_said_stands() {
    for (options, odd) in [
        (&["--result", "x", "--failed", "other"][..], true),
        (&["--failed", "other", "--result", "x"], true),
        (&["--result", "x", "--exit", "141"], true),
        (&["--result", "x", "--segv"], true),
        (&["--result", "x"], false),
    ] {
        let ended = Run::fake().of(&[&["--read"], options].concat()).await;
        assert_eq!((ended.answer(), ended.report.class), ("x", ExitClass::Done), "{options:?}");
        assert_eq!(ended.notes().contains(&"result_and_exit".to_owned()), odd, "{options:?}");
    }
    for (kind, class, result) in [
        ("auth", ExitClass::Refused, None),
        ("quota", ExitClass::Throttled { lifts_ms: 60_000 }, None),
        ("error", ExitClass::Retryable, None),
        ("other", ExitClass::Done, Some(Err("failed: other".to_owned()))),
        ("max-turns", ExitClass::Done, Some(Err("failed: max-turns".to_owned()))),
    ] {
        let ended = Run::fake().of(&["--read", "--failed", kind]).await;
        assert_eq!((ended.report.class, ended.report.result), (class, result), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn row_65_a_fork_bomb_goes_with_its_run() {
    let launcher = FakeLauncher::new(Script::parse(["--plain", "--fork-bomb", "500", "--hang"]).unwrap());
    let ended = Run::command().stop(SECOND, 2 * SECOND, 3 * SECOND).on(&launcher).await;
    assert_eq!((launcher.most(), launcher.alive(), ended.report.survivors), (501, 0, 500));
}

#[tokio::test(start_paused = true)]
async fn a_program_that_cannot_be_started_is_said_and_retried_only_where_that_can_help() {
    let program = || "agent".to_owned();
    for (error, class) in [
        (SpawnError::NotFound { program: program() }, ExitClass::Refused),
        (SpawnError::PermissionDenied { program: program() }, ExitClass::Refused),
        (SpawnError::TextFileBusy { program: program() }, ExitClass::Retryable),
        (SpawnError::WardenLost { program: program() }, ExitClass::Retryable),
    ] {
        let fate = Fate { spawn_fails: Some(error), ..Fate::default() };
        let ended = Run::command().with(&["--plain"], fate).await;
        assert_eq!(ended.report.class, class);
        assert!(!ended.report.spawned && ended.report.detail.unwrap().contains("agent"));
        assert!(ended.seen.iter().any(|(_, seen)| matches!(seen, Seen::Record(Kind::HarnessGone { .. }))));
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_is_read_than_is_taken() {
    // A session that takes an event a second: a harness cannot run ahead of it by more than the pumps hold.
    let options = ["--text", "a", "--text", "b", "--text", "c", "--result", "x"];
    let mut run = Run::fake();
    run.slow = SECOND;
    let ended = run.of(&options).await;
    assert_eq!((ended.texts().len(), ended.answer()), (3, "x"), "{:?}", ended.seen);
    // One that never takes anything does not keep a stop from ending the run.
    let mut run = Run::fake().stop(10 * SECOND, 11 * SECOND, 12 * SECOND);
    run.slow = HOUR;
    let ended = run.of(&["--text", "a", "--emit", "64M", "--hang"]).await;
    assert!(ended.took < 13 * SECOND, "{:?}", ended.took);
    let said = ended.seen.iter().filter(|(_, seen)| matches!(seen, Seen::Event(Event::Text { .. }))).count();
    assert_eq!(said, 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_the_limit_is_an_error_that_says_so() {
    let ended = Run::command().of(&["--plain", "--emit", "64M"]).await;
    let Some(Err(why)) = &ended.report.result else { panic!("{:?}", ended.report) };
    assert!(why.contains("67108864 bytes") && why.contains("limits.answer_whole"), "{why}");
}
