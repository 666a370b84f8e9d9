//! The machine: a place on its disk, and this program again as a process measured from outside.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A runtime as `treeward` itself has it.
pub fn tokio() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a tokio runtime")
}

/// A directory on the real disk, below `target/tmp`: the system's own temporary directory may be memory.
pub fn disk() -> TempDir {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(&place).expect("target/tmp");
    TempDir::new_in(place).expect("a directory in target/tmp")
}

/// Runs this program as `part` and takes the numbers it prints.
pub fn run_part(part: &[&str]) -> Vec<f64> {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).arg("--part").args(part).output().expect("this program runs again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{part:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    text.split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

/// What this program does as a part.
pub fn part(arguments: &[String]) -> ExitCode {
    let number = |at: usize| arguments[at].parse().expect("a number");
    let numbers = match arguments[0].as_str() {
        "guests" => crate::population::guests(number(1)),
        "natives" => crate::population::natives(number(1)),
        "idle" => crate::idle::part(number(1) as u64),
        other => panic!("no part {other}"),
    };
    let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
    println!("{}", numbers.join(" "));
    ExitCode::SUCCESS
}

/// Bytes of this process that are in memory.
pub fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096.0
}

/// Time this process has run on a core, over all its threads.
pub fn running() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").expect("/proc");
    let nanos = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Waits until this process has hardly anything to do.
pub async fn settled() {
    const LOOK: Duration = Duration::from_millis(300);
    loop {
        let before = running();
        tokio::time::sleep(LOOK).await;
        if running() - before < LOOK / 20 {
            return;
        }
    }
}
