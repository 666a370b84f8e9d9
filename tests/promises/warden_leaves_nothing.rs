//! Nothing of a run is left when it is buried, whatever it did to get away; and its exit is known at once.

use std::time::Duration;

use treeward::harness::{ExitStatus, Process, ProcessLimits, Signal, Warden, Whom};

use crate::warden_kit::*;

const DEEP: &str = "import os, sys, time
def child(depth):
    if os.fork() == 0:
        os.setsid()
        if depth: child(depth - 1)
        signal_all()
        while True: time.sleep(60)
def signal_all():
    import signal
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
";

async fn nothing_is_left(process: &Process, request_tag: &treeward::harness::RunTag) {
    let leader = process.identity.clone();
    within(process.bury()).await;
    assert_eq!(tagged(request_tag), Vec::<i32>::new(), "left behind");
    assert!(!leader.holds(), "the leader was not reaped");
}

async fn run(warden: &Warden, request: treeward::harness::SpawnRequest, says: &str) {
    let tag = request.tag.clone();
    let mut process = spawn(warden, request).await;
    assert_eq!(line(&mut process).await, says);
    nothing_is_left(&process, &tag).await;
}

#[tokio::test]
async fn grandchildren_double_forks_and_sessions_within_sessions() {
    for warden in wardens().await {
        run(&warden, shell("sleep 1000 & sleep 1000 & echo ready; wait"), "ready").await;
        run(
            &warden,
            shell("(setsid sleep 1000 &) ; (setsid sh -c 'setsid sleep 1000 & sleep 1000' &); echo ready; sleep 1000"),
            "ready",
        )
        .await;
        run(
            &warden,
            python(&format!("{DEEP}child(6); print('ready', flush=True)\nwhile True: time.sleep(60)")),
            "ready",
        )
        .await;
        // Those that drop the tag are found too.
        let mut cleared = shell("setsid env -i sh -c 'echo $$; exec sleep 1000' & exec sleep 1000");
        cleared.limits = ProcessLimits::default();
        let process_tag = cleared.tag.clone();
        let mut process = spawn(&warden, cleared).await;
        let inner: i32 = line(&mut process).await.parse().unwrap();
        nothing_is_left(&process, &process_tag).await;
        if warden.containment().isolation == treeward::harness::Isolation::Subreaper {
            assert_eq!(state(inner), None, "the one without a tag is left");
        }
        warden.stop().await;
    }
}

#[tokio::test]
async fn survivors_of_a_clean_exit_are_counted_and_killed() {
    for warden in wardens().await {
        let request = shell("(setsid sleep 1000 >/dev/null 2>&1 &); (setsid sleep 1000 >/dev/null 2>&1 &); echo bye");
        let tag = request.tag.clone();
        let mut process = spawn(&warden, request).await;
        assert_eq!(output(&mut process).await, "bye\n");
        assert_eq!(within(process.exited()).await, ExitStatus::Code(0));
        let buried = within(process.bury()).await;
        assert_eq!((buried.exit, buried.survivors), (ExitStatus::Code(0), 2));
        assert_eq!(tagged(&tag), Vec::<i32>::new());
        // Asked again it says the same.
        assert_eq!(within(process.bury()).await, buried);
        warden.stop().await;
    }
}

#[tokio::test]
async fn an_exit_is_known_at_once_while_a_grandchild_holds_the_output_open() {
    for warden in wardens().await {
        let mut process = spawn(&warden, shell("(setsid sleep 1000 &); echo done; exit 4")).await;
        assert_eq!(within(process.exited()).await, ExitStatus::Code(4));
        assert_eq!(line(&mut process).await, "done");
        // No end of the output: somebody holds it.
        let stdout = process.stdout.as_mut().unwrap();
        let mut byte = [0];
        assert_eq!(stdout.try_read(&mut byte).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        within(process.bury()).await;
        assert_eq!(output(&mut process).await, "");
        warden.stop().await;
    }
}

#[tokio::test]
async fn one_that_is_stopped_or_ignores_everything_is_buried_too() {
    for warden in wardens().await {
        let script = "trap '' TERM INT HUP QUIT; echo ready; while :; do sleep 1000; done";
        run(&warden, shell(script), "ready").await;
        run(&warden, shell("echo ready; kill -STOP $$"), "ready").await;
        let request = shell("sleep 1000 & echo ready; exec sleep 1000");
        let tag = request.tag.clone();
        let mut process = spawn(&warden, request).await;
        assert_eq!(line(&mut process).await, "ready");
        process.signal(Signal::Stop, Whom::Group).unwrap();
        assert!(comes_true(|| state(process.identity.pid) == Some('T')).await);
        nothing_is_left(&process, &tag).await;
        warden.stop().await;
    }
}

#[tokio::test]
async fn one_that_is_dropped_or_never_waited_for_is_buried_in_the_background() {
    for warden in wardens().await {
        let request = shell("(setsid sleep 1000 &); echo ready; sleep 1000");
        let tag = request.tag.clone();
        let mut process = spawn(&warden, request).await;
        assert_eq!(line(&mut process).await, "ready");
        drop(process);
        assert!(comes_true(|| tagged(&tag).is_empty()).await);

        // The spawn itself given up, at every moment from the first.
        for polls in 0..6 {
            let request = shell("sleep 1000");
            let tag = request.tag.clone();
            let mut spawning = Box::pin(warden.spawn(request));
            for _ in 0..polls {
                // Dropped as it is, or as the process that it became.
                if poll_once(spawning.as_mut()).await {
                    break;
                }
            }
            drop(spawning);
            // One behind it, so that it was heard.
            within(spawn(&warden, shell("true")).await.bury()).await;
            assert!(comes_true(|| tagged(&tag).is_empty()).await);
        }
        warden.stop().await;
    }
}

/// Polls once, then lets others go on.
async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    let ready = std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_ready())).await;
    tokio::task::yield_now().await;
    ready
}

#[tokio::test]
async fn a_burial_that_nobody_waits_for_any_more_goes_on() {
    for warden in wardens().await {
        let request = shell("trap '' TERM; (setsid sleep 1000 &); echo ready; sleep 1000");
        let tag = request.tag.clone();
        let mut process = spawn(&warden, request).await;
        assert_eq!(line(&mut process).await, "ready");
        let given_up = tokio::time::timeout(Duration::ZERO, process.bury()).await;
        assert!(given_up.is_err());
        assert_eq!(within(process.exited()).await, ExitStatus::Signal(9));
        within(process.bury()).await;
        assert_eq!(tagged(&tag), Vec::<i32>::new());
        warden.stop().await;
    }
}

#[tokio::test]
async fn a_keeper_that_is_killed_or_stopped_takes_its_run_with_it() {
    for warden in wardens().await {
        for signal in ["KILL", "STOP"] {
            // Where there is a PID namespace the keeper is not to be seen from inside, so it is found from here.
            let request = shell("(setsid sleep 1000 &); echo ready; sleep 1000");
            let tag = request.tag.clone();
            let mut process = spawn(&warden, request).await;
            assert_eq!(line(&mut process).await, "ready");
            let keeper = parent(process.identity.pid);
            let number = if signal == "KILL" { nix::sys::signal::SIGKILL } else { nix::sys::signal::SIGSTOP };
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper), number).unwrap();
            if signal == "STOP" {
                nothing_is_left(&process, &tag).await;
            } else {
                assert_eq!(within(process.exited()).await, ExitStatus::Signal(9));
                within(process.bury()).await;
                assert_eq!(tagged(&tag), Vec::<i32>::new());
            }
        }
        // Other runs never notice, and the warden goes on.
        run(&warden, shell("echo ready; sleep 1000"), "ready").await;
        warden.stop().await;
    }
}

fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_fork_bomb_stays_within_its_limit_and_is_buried() {
    for warden in wardens().await {
        let containment = warden.containment();
        if !containment.limits_processes {
            eprintln!("not tested here: {containment}");
            warden.stop().await;
            continue;
        }
        let bomb = "import os, sys
print('ready', flush=True)
while True:
    try:
        if os.fork() == 0 and os.getpid() % 2: os.setsid()
    except OSError:
        pass
";
        let mut request = python(bomb);
        request.limits.processes = Some(20);
        let tag = request.tag.clone();
        let mut process = spawn(&warden, request).await;
        assert_eq!(line(&mut process).await, "ready");
        assert!(comes_true(|| tagged(&tag).len() == 20).await);
        let most = (0..10).map(|_| tagged(&tag).len()).max().unwrap();
        assert!(most <= 20, "{most} processes");
        nothing_is_left(&process, &tag).await;
        warden.stop().await;
    }
}
