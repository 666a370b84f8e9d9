//! Whoever dies: the warden, treeward, or both at once: no process of a run is left, and what can go on goes on.

use std::io::BufRead as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use treeward::harness::{ExitStatus, Identity, Isolation, Signal, SignalError, SpawnError, Warden, WardenConfig, Whom};

use crate::warden_kit::*;

/// Says to the process that runs this test binary which isolation it should have.
const ROLE: &str = "TREEWARD_TEST_TREEWARD";

/// A run that does what it can to stay: a session of its own, a second one, and deaf ears.
const CLINGING: &str = "trap '' TERM INT HUP; (setsid sh -c 'setsid sleep 1000 & exec sleep 1000' &); echo ready; \
                        exec sleep 1000";

fn quick(at_most: Isolation) -> WardenConfig {
    WardenConfig { heartbeat: Duration::from_millis(20), silence: Duration::from_millis(400), ..config(at_most) }
}

async fn is_of_use(warden: &Warden) {
    // A spawn that meets the loss says so; the one behind it finds the new warden.
    let process = loop {
        match within(warden.spawn(shell("exit 3"))).await {
            Ok(process) => break process,
            Err(error) => assert!(matches!(error, SpawnError::WardenLost { .. }), "{error}"),
        }
    };
    assert!(matches!(within(process.exited()).await, ExitStatus::Code(3) | ExitStatus::Lost));
}

async fn the_warden_is_struck(signal: Signal) {
    for at_most in [Isolation::Subreaper, Isolation::UserPidNamespace, Isolation::PidNamespace] {
        let warden = within(Warden::start(quick(at_most))).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..5 {
            let request = shell(CLINGING);
            let tag = request.tag.clone();
            let mut process = spawn(&warden, request).await;
            assert_eq!(line(&mut process).await, "ready");
            held.push((process, tag));
        }
        warden.strike(signal).await;
        for (process, tag) in &held {
            let exit = within(process.exited()).await;
            assert!(matches!(exit, ExitStatus::Lost | ExitStatus::Signal(9)), "{exit}");
            let buried = within(process.bury()).await;
            assert_eq!(buried.exit, exit);
            assert_eq!(tagged(tag), Vec::<i32>::new(), "left behind with {at_most:?}");
            assert_eq!(process.signal(Signal::Kill, Whom::Group), Err(SignalError::Gone));
        }
        is_of_use(&warden).await;
        within(warden.stop()).await;
    }
}

#[tokio::test]
async fn a_killed_warden_takes_every_run_with_it_and_is_replaced() {
    the_warden_is_struck(Signal::Kill).await;
}

#[tokio::test]
async fn a_silent_warden_is_killed_and_replaced() {
    the_warden_is_struck(Signal::Stop).await;
}

#[tokio::test]
async fn a_program_that_is_no_warden_is_found_out() {
    for program in ["/bin/true", "/bin/cat"] {
        let config = WardenConfig {
            program: treeward::harness::Program::Path(program.into()),
            ..config(Isolation::PidNamespace)
        };
        let error = within(Warden::start(config)).await.unwrap_err().to_string();
        assert!(error.contains(program) && error.contains("warden_main_if_asked"), "{error}");
    }
    let config = WardenConfig {
        program: treeward::harness::Program::Path("/nowhere/treeward".into()),
        ..config(Isolation::PidNamespace)
    };
    let error = within(Warden::start(config)).await.unwrap_err().to_string();
    assert!(error.contains("/nowhere/treeward"), "{error}");
}

/// Run as a process of its own by the tests below: a treeward with three runs, until it is killed.
#[tokio::test]
async fn runs_until_killed() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let at_most = if role == "subreaper" { Isolation::Subreaper } else { Isolation::PidNamespace };
    let warden = Warden::start(config(at_most)).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut process = spawn(&warden, shell(CLINGING)).await;
        assert_eq!(line(&mut process).await, "ready");
        println!("leader {}", process.identity.pid);
        held.push(process);
    }
    println!("holding");
    std::future::pending().await
}

struct Treeward {
    child: Child,
    identity: Identity,
    leaders: Vec<Identity>,
}

impl Treeward {
    #[expect(clippy::disallowed_methods, reason = "only a process can be killed like one")]
    fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "warden_lost::runs_until_killed", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let identity = Identity::of(i32::try_from(child.id()).unwrap()).unwrap();
        let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        let said: Vec<String> = lines.map(Result::unwrap).take_while(|line| line != "holding").collect();
        let leaders: Vec<Identity> =
            said.iter().filter_map(|line| Identity::of(line.split_once("leader ")?.1.parse().ok()?)).collect();
        assert_eq!(leaders.len(), 3, "{said:?}");
        Self { child, identity, leaders }
    }

    /// Its warden: started under the tag that is no run's, and no fork of one.
    fn warden(&self) -> i32 {
        let named = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "treeward-warden\n")
        };
        owned_by(&self.identity).into_iter().find(named).expect("its warden")
    }

    fn signal(pid: i32, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    async fn nothing_is_left(&self) {
        assert!(comes_true(|| owned_by(&self.identity).is_empty()).await, "left: {:?}", owned_by(&self.identity));
        assert!(comes_true(|| !self.leaders.iter().any(Identity::holds)).await, "a leader was left");
    }
}

#[tokio::test]
async fn a_killed_treeward_leaves_no_process() {
    for role in ["subreaper", "best"] {
        let mut treeward = Treeward::start(role);
        treeward.kill();
        treeward.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_treeward_and_its_warden_killed_at_once_leave_no_process() {
    for role in ["subreaper", "best"] {
        let mut treeward = Treeward::start(role);
        let warden = treeward.warden();
        Treeward::signal(warden, nix::sys::signal::SIGKILL);
        treeward.kill();
        treeward.nothing_is_left().await;
    }
}

/// The worst there is: everybody who could end the runs is stopped, then killed.
async fn abandoned() -> Treeward {
    let mut treeward = Treeward::start("subreaper");
    let mut helpers: Vec<i32> = treeward.leaders.iter().map(|leader| parent(leader.pid)).collect();
    helpers.push(treeward.warden());
    for pid in &helpers {
        Treeward::signal(*pid, nix::sys::signal::SIGSTOP);
    }
    treeward.kill();
    for pid in &helpers {
        Treeward::signal(*pid, nix::sys::signal::SIGKILL);
    }
    // Their leaders died with the keepers; what left the sessions is there.
    assert!(comes_true(|| helpers.iter().all(|pid| state(*pid).is_none_or(|state| state == 'Z'))).await);
    treeward
}

#[tokio::test]
async fn what_outlives_everybody_is_swept_at_the_next_start() {
    // One with a tag of our making, whose treeward is alive: this one.
    let other = warden().await;
    let living = spawn(&other, shell("exec sleep 1000")).await;
    // Any treeward that starts on this machine meanwhile sweeps too, so that more than one attempt may be needed to see it
    // done by this one.
    let mut swept = 0;
    for _ in 0..10 {
        let treeward = abandoned().await;
        let next = within(warden()).await;
        treeward.nothing_is_left().await;
        swept = next.swept();
        within(next.stop()).await;
        if swept >= 6 {
            break;
        }
    }
    assert!(swept >= 6, "two of each run were to be swept, not {swept}");
    assert!(living.identity.holds() && state(living.identity.pid) != Some('Z'));
    within(other.stop()).await;
}

fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_stopped_warden_is_swept_with_its_runs_when_its_treeward_was_killed() {
    let mut treeward = Treeward::start("best");
    Treeward::signal(treeward.warden(), nix::sys::signal::SIGSTOP);
    treeward.kill();
    let next = within(warden()).await;
    treeward.nothing_is_left().await;
    within(next.stop()).await;
}

#[tokio::test]
async fn a_warden_that_is_stopped_or_dropped_leaves_nothing() {
    for warden in wardens().await {
        let request = shell(CLINGING);
        let tag = request.tag.clone();
        let mut process = spawn(&warden, request).await;
        assert_eq!(line(&mut process).await, "ready");
        let again = warden.clone();
        within(warden.stop()).await;
        assert_eq!(tagged(&tag), Vec::<i32>::new());
        assert_eq!(within(process.bury()).await.exit, ExitStatus::Signal(9));
        assert!(matches!(refused(&again, shell("true")).await, SpawnError::WardenStopped { .. }));
        within(again.stop()).await;
    }
}

#[test]
fn a_runtime_that_is_dropped_leaves_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (process, tag) = runtime.block_on(async {
        let warden = warden().await;
        let request = shell(CLINGING);
        let tag = request.tag.clone();
        let mut process = spawn(&warden, request).await;
        assert_eq!(line(&mut process).await, "ready");
        (process, tag)
    });
    drop(runtime);
    drop(process);
    let after = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(after.block_on(comes_true(|| tagged(&tag).is_empty())));
}
