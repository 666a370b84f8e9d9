//! What the promises about subprocesses are tested with.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use treeward::harness::{
    Identity, Isolation, Process, ProcessLimits, Program, RunTag, SpawnError, SpawnRequest, Warden, WardenConfig,
};

/// A bound on what must not take long. Nothing waits for it when all is well.
pub const BOUND: Duration = Duration::from_secs(30);

pub fn config(at_most: Isolation) -> WardenConfig {
    WardenConfig { program: Program::Path(env!("CARGO_BIN_EXE_treeward").into()), at_most, ..WardenConfig::default() }
}

pub async fn warden() -> Warden {
    Warden::start(config(Isolation::PidNamespace)).await.expect("a warden")
}

/// A warden for each isolation that works on this machine. The weakest works everywhere.
pub async fn wardens() -> Vec<Warden> {
    let mut wardens = Vec::new();
    for at_most in [Isolation::Subreaper, Isolation::UserPidNamespace, Isolation::PidNamespace] {
        let warden = Warden::start(config(at_most)).await.expect("a warden");
        if warden.containment().isolation == at_most {
            wardens.push(warden);
        } else {
            eprintln!("not tested here: {at_most:?}: {}", warden.containment());
            warden.stop().await;
        }
    }
    wardens
}

/// A tag that no other run has.
pub fn tag() -> RunTag {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut unique = [0; 16];
    unique[8..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    RunTag::new(unique)
}

pub fn request<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> SpawnRequest {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    SpawnRequest {
        argv: argv.into_iter().map(Into::into).collect(),
        cwd: "/".into(),
        env: vec![("PATH".into(), path)],
        tag: tag(),
        limits: ProcessLimits::default(),
    }
}

pub fn shell(script: &str) -> SpawnRequest {
    request(["/bin/sh", "-c", script])
}

/// A Python program. The test fails, and says why, where there is no Python.
pub fn python(script: &str) -> SpawnRequest {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|directory| directory.join("python3").is_file());
    assert!(found, "this test needs python3 on the PATH");
    request(["python3", "-c", script])
}

pub async fn spawn(warden: &Warden, request: SpawnRequest) -> Process {
    within(warden.spawn(request)).await.expect("a process")
}

pub async fn refused(warden: &Warden, request: SpawnRequest) -> SpawnError {
    within(warden.spawn(request)).await.expect_err("a refusal")
}

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("within the bound")
}

/// One line of its standard output.
pub async fn line(process: &mut Process) -> String {
    let stdout = process.stdout.as_mut().expect("standard output");
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        match within(stdout.read_u8()).await {
            Ok(byte) => line.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(line).expect("text").trim_end().to_owned()
}

/// All of its standard output.
pub async fn output(process: &mut Process) -> String {
    let mut text = String::new();
    within(process.stdout.take().expect("standard output").read_to_string(&mut text)).await.expect("output");
    text
}

/// The processes that carry this tag.
pub fn tagged(tag: &RunTag) -> Vec<i32> {
    let wanted = format!("TREEWARD_RUN={tag}");
    pids().filter(|pid| environ(*pid).split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())).collect()
}

/// The processes that belong to this treeward process: its wardens, their keepers, their runs.
pub fn owned_by(owner: &Identity) -> Vec<i32> {
    let part = format!(":{}:{}:", owner.pid, owner.start_ticks);
    let is_owned =
        |entry: &[u8]| entry.starts_with(b"TREEWARD_RUN=treeward-1:") && String::from_utf8_lossy(entry).contains(&part);
    pids().filter(|pid| environ(*pid).split(|byte| *byte == 0).any(is_owned)).collect()
}

fn environ(pid: i32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

fn pids() -> impl Iterator<Item = i32> {
    std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The state in `/proc/PID/stat`; `None` when there is no such process.
pub fn state(pid: i32) -> Option<char> {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?.rsplit_once(')')?.1.trim().chars().next()
}

/// The zombies of this machine, by pid.
pub fn zombies() -> std::collections::BTreeSet<i32> {
    pids().filter(|&pid| state(pid) == Some('Z')).collect()
}

/// The children of this process in that state.
pub fn own_children(state: char) -> usize {
    let own = std::process::id().to_string();
    pids()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok())
        .filter(|stat| {
            let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
            fields.next() == Some(&state.to_string()) && fields.next() == Some(&own)
        })
        .count()
}

pub fn open_descriptors() -> usize {
    std::fs::read_dir(Path::new("/proc/self/fd")).expect("descriptors").count()
}

/// Whether it holds within the bound. For what other processes do and nobody is told of.
pub async fn comes_true(mut holds: impl FnMut() -> bool) -> bool {
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    tokio::time::timeout(BOUND, async {
        while !holds() {
            looks.tick().await;
        }
    })
    .await
    .is_ok()
}
