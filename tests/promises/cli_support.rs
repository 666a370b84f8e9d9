//! Runs the built `treeward` in a directory of its own.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// A process that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a capsule `script` in it, that does what its task says.
pub struct Place(TempDir);

/// What a command came to.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ran {
    pub fn out(&self) -> &str {
        std::str::from_utf8(&self.out).expect("text on standard output")
    }

    /// The lines of standard output as JSON.
    pub fn json(&self) -> Vec<serde_json::Value> {
        self.out().lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    #[track_caller]
    pub fn says(self, part: &str) -> Self {
        assert!(self.err.contains(part), "{part:?} is not in\n{}", self.err);
        self
    }
}

impl Place {
    pub fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        place.capsule("script", "delegate = [\"script\"]\n");
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a capsule with these grants around the scripted guest.
    pub fn capsule(&self, name: &str, grants: &str) {
        let directory = self.path(name);
        std::fs::create_dir(&directory).expect("a directory");
        let component = Path::new(REPOSITORY).join("tests/guests/script/script.wasm");
        std::fs::copy(component, directory.join("script.wasm")).expect("the component");
        let manifest =
            format!("name = \"{name}\"\n[run]\nguest = \"script.wasm\"\n[grants]\n{grants}[restart]\nrerun = \"no\"\n");
        std::fs::write(directory.join("capsule.toml"), manifest).expect("the manifest");
    }

    /// Starts `treeward`, its standard input empty.
    pub fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdin(Stdio::null()).spawn().expect("treeward starts")
    }

    #[expect(clippy::disallowed_methods, reason = "the command under test is a process of its own")]
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_treeward"));
        command.args(args).current_dir(self.0.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Compiled once for all tests.
        command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        // What others run on this machine is not seen.
        command.env("XDG_RUNTIME_DIR", self.0.path());
        command.env_remove("RUST_BACKTRACE").env_remove("NO_COLOR");
        command
    }

    /// Runs `treeward` to its end.
    pub fn treeward(&self, args: &[&str]) -> Ran {
        finish(self.start(args), PATIENCE)
    }

    /// Runs it with something on standard input.
    pub fn treeward_reading(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("treeward starts");
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        let input = input.to_owned();
        // What is longer than may be read is not read to its end.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let ran = finish(child, PATIENCE);
        writer.join().expect("the writer");
        ran
    }

    /// Runs the scripted capsule with these steps and further arguments.
    pub fn script(&self, steps: &str, args: &[&str]) -> Ran {
        self.treeward(&[&["run", "script", "--task", steps], args].concat())
    }
}

/// Waits for the end of a process, and kills it when it does not come.
pub fn finish(child: Child, patience: Duration) -> Ran {
    let pid = child.id();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(patience) else {
        send(pid, Signal::SIGKILL);
        panic!("treeward did not end within {patience:?}");
    };
    let output = output.expect("its output");
    let err = String::from_utf8(output.stderr).expect("text on standard error");
    Ran { code: output.status.code(), out: output.stdout, err }
}

/// Sends a signal.
pub fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).expect("the signal is sent");
}
