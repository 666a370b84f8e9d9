//! A process is spawned with exactly what it was given, and a spawn that fails says why.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use treeward::harness::{ExitStatus, Identity, ProcessLimits, Signal, SignalError, SpawnError, Whom};

use crate::warden_kit::*;

#[tokio::test]
async fn the_environment_is_what_was_given_and_the_tag_and_nothing_else() {
    for warden in wardens().await {
        let mut wanted = request(["/usr/bin/env"]);
        wanted.env = vec![("GIVEN".into(), "a b\nc".into()), ("TREEWARD_RUN".into(), "forged".into())];
        let tag = wanted.tag.clone();
        let mut process = spawn(&warden, wanted).await;
        assert_eq!(output(&mut process).await, format!("GIVEN=a b\nc\nTREEWARD_RUN={tag}\n"));
        assert_eq!(within(process.exited()).await, ExitStatus::Code(0));
        warden.stop().await;
    }
}

#[tokio::test]
async fn nothing_that_is_open_is_inherited() {
    // One that every child would inherit which does not close it.
    let open = std::fs::File::open("/dev/null").unwrap();
    nix::fcntl::fcntl(&open, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    for warden in wardens().await {
        let mut process = spawn(&warden, shell("ls /proc/self/fd; exec 2>&1; readlink /proc/self/fd/0")).await;
        let listed = output(&mut process).await;
        // 3 is the directory that ls reads.
        assert!(listed.starts_with("0\n1\n2\n3\npipe:"), "{listed}");
        warden.stop().await;
    }
}

#[tokio::test]
async fn it_runs_in_its_directory_with_its_arguments_and_signals_as_they_should_be() {
    for warden in wardens().await {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        let script = "pwd; printf '<%s>' \"$@\"; while read key value; do case $key in SigBlk:|SigIgn:) \
                      echo $key$value;; esac; done < /proc/$$/status";
        let mut wanted = request(["/bin/sh", "-c", script, "sh", "", "a b", "-x"]);
        wanted.cwd = place.clone();
        let mut process = spawn(&warden, wanted).await;
        let none = "0000000000000000";
        let signals = format!("SigBlk:{none}\nSigIgn:{none}\n");
        assert_eq!(output(&mut process).await, format!("{}\n<><a b><-x>{signals}", place.display()));
        warden.stop().await;
    }
}

#[tokio::test]
async fn it_leads_a_session_and_a_group_of_its_own() {
    for warden in wardens().await {
        let process = spawn(&warden, shell("read line")).await;
        let pid = nix::unistd::Pid::from_raw(process.identity.pid);
        assert_eq!(nix::unistd::getsid(Some(pid)), Ok(pid));
        assert_eq!(nix::unistd::getpgid(Some(pid)), Ok(pid));
        assert_ne!(nix::unistd::getpgrp(), pid);
        within(process.bury()).await;
        warden.stop().await;
    }
}

#[tokio::test]
async fn exits_are_told_apart() {
    for warden in wardens().await {
        for (script, status) in [
            ("exit 0", ExitStatus::Code(0)),
            ("exit 141", ExitStatus::Code(141)),
            ("kill -TERM $$", ExitStatus::Signal(15)),
            ("kill -KILL $$", ExitStatus::Signal(9)),
            ("kill -36 $$", ExitStatus::Signal(36)),
        ] {
            let process = spawn(&warden, shell(script)).await;
            assert_eq!(within(process.exited()).await, status, "{script}");
            // Any number of times.
            assert_eq!(within(process.exited()).await, status, "{script}");
            assert_eq!(within(process.bury()).await.exit, status, "{script}");
        }
        warden.stop().await;
    }
}

#[tokio::test]
async fn a_program_that_cannot_start_says_why_and_names_itself() {
    for warden in wardens().await {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str, mode| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let program = "treeward-no-such-program".to_owned();
        let mut absent = request([&program]);
        // Directories that may not be searched would make it a refusal of permission, as for a shell.
        absent.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
        assert_eq!(refused(&warden, absent).await, SpawnError::NotFound { program });

        let plain = file("plain", "#!/bin/sh\n", 0o644);
        let program = plain.display().to_string();
        assert_eq!(refused(&warden, request([&program])).await, SpawnError::PermissionDenied { program });

        let text = file("text", "not a program\n", 0o755);
        let error = refused(&warden, request([text])).await;
        assert!(error.to_string().contains("#!/bin/sh"), "{error}");

        let busy = file("busy", "", 0o755);
        std::fs::copy("/bin/true", &busy).unwrap();
        let mut writer = std::fs::OpenOptions::new().append(true).open(&busy).unwrap();
        writer.write_all(b"\0").unwrap();
        let program = busy.display().to_string();
        let error = refused(&warden, request([&program])).await;
        assert_eq!(error, SpawnError::TextFileBusy { program: program.clone() });
        drop(writer);
        assert_eq!(within(spawn(&warden, request([&program])).await.exited()).await, ExitStatus::Code(0));

        let mut nowhere = shell("true");
        nowhere.cwd = directory.path().join("nowhere");
        let error = refused(&warden, nowhere).await;
        assert!(matches!(&error, SpawnError::Directory { program, .. } if program == "/bin/sh"), "{error}");

        // The warden is none the worse for it.
        assert_eq!(within(spawn(&warden, shell("exit 7")).await.exited()).await, ExitStatus::Code(7));
        warden.stop().await;
    }
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_before_anything_happens() {
    let warden = warden().await;
    let why = |error: SpawnError| match error {
        SpawnError::Refused { reason, .. } => reason,
        other => panic!("{other}"),
    };
    assert!(why(refused(&warden, request::<&str>([])).await).contains("no program"));
    assert!(why(refused(&warden, shell("a\0b")).await).contains("NUL"));
    let mut relative = shell("true");
    relative.cwd = "somewhere".into();
    assert!(why(refused(&warden, relative).await).contains("not absolute"));
    for (key, value, says) in [("A=B", "", "name"), ("", "x", "name"), ("A", "\0", "NUL"), ("PATH", "x", "twice")] {
        let mut wanted = shell("true");
        wanted.env.push((key.into(), value.into()));
        let reason = why(refused(&warden, wanted).await);
        assert!(reason.contains(says), "{key:?} {reason}");
    }
    let huge = "x".repeat(3 << 20);
    assert!(why(refused(&warden, shell(&huge)).await).contains("the most"));
    // Longer than the system takes for one argument: the system's own refusal.
    let long = "x".repeat(1 << 20);
    assert!(why(refused(&warden, shell(&long)).await).contains("longer than the system takes"));
    // As long as it takes.
    let most = format!("exit 3; #{}", "x".repeat(120_000));
    assert_eq!(within(spawn(&warden, shell(&most)).await.exited()).await, ExitStatus::Code(3));
    warden.stop().await;
}

#[tokio::test]
async fn limits_reach_the_process() {
    for warden in wardens().await {
        let mut wanted = shell("ulimit -n; ulimit -t; ulimit -d; ulimit -c");
        wanted.limits = ProcessLimits {
            memory: Some(256 << 20),
            cpu_seconds: Some(77),
            open_files: Some(33),
            ..ProcessLimits::default()
        };
        let mut process = spawn(&warden, wanted).await;
        assert_eq!(output(&mut process).await, format!("33\n77\n{}\n0\n", 256 << 10));
        // Without them: treeward's own, not those the warden raised for itself.
        let mut process = spawn(&warden, shell("ulimit -n")).await;
        let own = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap().0;
        assert_eq!(output(&mut process).await, format!("{own}\n"));
        warden.stop().await;
    }
}

#[tokio::test]
async fn signals_reach_the_leader_or_its_group_and_nobody_who_was_buried() {
    for warden in wardens().await {
        let script = "trap 'echo leader; exit 5' TERM; \
                      sh -c 'trap \"echo member; exit\" TERM; echo ready; while :; do sleep 0.01; done' & \
                      while :; do wait; done";
        let mut process = spawn(&warden, shell(script)).await;
        assert_eq!(line(&mut process).await, "ready");
        process.signal(Signal::Terminate, Whom::Group).unwrap();
        assert_eq!(within(process.exited()).await, ExitStatus::Code(5));
        let mut said = output(&mut process).await.lines().map(str::to_owned).collect::<Vec<_>>();
        said.sort();
        assert_eq!(said, ["leader", "member"]);
        // Ended, not buried: it still has its pid, and a signal harms nobody.
        assert!(process.identity.holds());
        let identity = process.identity.clone();
        within(process.bury()).await;
        assert_eq!(process.signal(Signal::Kill, Whom::Leader), Err(SignalError::Gone));
        assert_eq!(process.signal(Signal::Kill, Whom::Group), Err(SignalError::Gone));
        assert!(!identity.holds() && Identity::of(identity.pid) != Some(identity));
        warden.stop().await;
    }
}
