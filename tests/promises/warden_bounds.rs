//! What processes cost: no zombie, no descriptor, nothing that grows.

use std::sync::Mutex;

use treeward::harness::{ExitStatus, SpawnError};

use crate::warden_kit::*;

/// What is counted belongs to the whole process, so those who count do not run at once; each counts in a process of its own.
static COUNTING: Mutex<()> = Mutex::new(());
const ALONE: &str = "TREEWARD_TEST_ALONE";

/// Runs the test of this name in a process of its own, where nobody else opens anything.
#[expect(clippy::disallowed_methods, reason = "descriptors are counted by process")]
fn alone(name: &str, body: impl Future<Output = ()>) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if std::env::var_os(ALONE).is_some() {
        return runtime().block_on(body);
    }
    let _one_at_a_time = COUNTING.lock();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("warden_bounds::{name}"), "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    // The test was there, and ran.
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn a_thousand_spawns_leave_no_zombie_and_no_descriptor() {
    alone("a_thousand_spawns_leave_no_zombie_and_no_descriptor", async {
        let warden = warden().await;
        within(spawn(&warden, shell("true")).await.bury()).await;
        let before = open_descriptors();
        for round in 0..250 {
            // Some are buried, some dropped, some fail.
            let (a, b, c) = tokio::join!(
                warden.spawn(shell("true & exit 1")),
                warden.spawn(shell("exit 2")),
                warden.spawn(request(["/nowhere/at/all"])),
            );
            let (a, b) = (a.unwrap(), b.unwrap());
            assert!(matches!(c, Err(SpawnError::NotFound { .. })));
            assert_eq!(within(a.exited()).await, ExitStatus::Code(1), "round {round}");
            within(a.bury()).await;
            assert_eq!(within(b.exited()).await, ExitStatus::Code(2), "round {round}");
            drop(b);
            drop(warden.spawn(shell("exit 3")).await.unwrap());
        }
        within(spawn(&warden, shell("true")).await.bury()).await;
        let own = treeward::harness::Identity::of(std::process::id() as i32).unwrap();
        // The warden is all that is left, and has no child, dead or alive.
        assert!(comes_true(|| owned_by(&own).len() == 1).await, "{:?}", owned_by(&own));
        let left = owned_by(&own)[0];
        let children = std::fs::read_to_string(format!("/proc/{left}/task/{left}/children")).unwrap();
        assert_eq!(children.trim(), "", "children of the warden");
        let descriptors = std::fs::read_dir(format!("/proc/{left}/fd")).unwrap().count();
        assert!(descriptors <= 8, "{descriptors} descriptors in the warden");
        assert_eq!(own_children('Z'), 0);
        assert_eq!(open_descriptors(), before);
        within(warden.stop()).await;
        assert_eq!(own_children('Z') + own_children('S'), 0);
    });
}

#[test]
fn a_live_process_takes_four_descriptors() {
    alone("a_live_process_takes_four_descriptors", async {
        let warden = warden().await;
        let before = open_descriptors();
        let mut held = Vec::new();
        for _ in 0..50 {
            held.push(spawn(&warden, shell("read line")).await);
        }
        let each = (open_descriptors() - before) as f64 / 50.0;
        assert!(each <= 4.0, "{each} descriptors for each");
        for process in &mut held {
            drop(process.stdin.take());
            assert_eq!(within(process.exited()).await, ExitStatus::Code(1));
        }
        drop(held);
        assert!(comes_true(|| open_descriptors() == before).await);
        within(warden.stop()).await;
    });
}

#[test]
fn where_descriptors_run_out_a_spawn_says_so_and_the_next_one_works() {
    alone("where_descriptors_run_out_a_spawn_says_so_and_the_next_one_works", async {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let warden = warden().await;
        setrlimit(Resource::RLIMIT_NOFILE, 40, hard).unwrap();
        let mut held = Vec::new();
        let error = loop {
            match warden.spawn(shell("read line")).await {
                Ok(process) => held.push(process),
                Err(error) => break error,
            }
            assert!(held.len() < 40);
        };
        assert!(matches!(&error, SpawnError::NoDescriptor { program, .. } if program == "/bin/sh"), "{error}");
        held.truncate(2);
        assert!(comes_true(|| open_descriptors() < 30).await);
        let process = warden.spawn(shell("exit 6")).await.unwrap();
        assert_eq!(within(process.exited()).await, ExitStatus::Code(6));
        within(warden.stop()).await;
    });
}

#[test]
fn a_large_process_spawns_as_fast_as_a_small_one_and_is_not_copied() {
    alone("a_large_process_spawns_as_fast_as_a_small_one_and_is_not_copied", async {
        let warden = warden().await;
        // Touched after the warden was started: it knows nothing of it.
        let ballast = vec![1_u8; 300 << 20];
        let process = spawn(&warden, shell("read line")).await;
        let own = treeward::harness::Identity::of(std::process::id() as i32).unwrap();
        let resident = |pid: i32| {
            let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
            statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
        };
        let helpers = owned_by(&own);
        assert!(helpers.len() >= 3, "{helpers:?}");
        for pid in helpers {
            assert!(resident(pid) < 64 << 20, "{} bytes in a helper", resident(pid));
        }
        assert_eq!(ballast[ballast.len() - 1], 1);
        within(process.bury()).await;
        within(warden.stop()).await;
    });
}
