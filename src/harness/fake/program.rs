//! The fake harness as a program: the standard library and signals, no runtime.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use super::driver::{INTERRUPT, Line};
use super::options::{Act, Child, Script};

/// A text in which bytes and characters are far apart.
pub(super) const MANY_BYTES: &str = "grüße, 世界, 🦀, ½€";
/// Lines that are not of the protocol.
pub(super) const NOISE: &str = "Welcome to the fake harness!\n\n{\"half\":\n[1,2]\n\u{1b}[31mwarning\u{1b}[0m\n";

/// What a flood of errors is made of: lines.
pub(super) const ERRORS: [u8; 64] = {
    let mut line = [b'e'; 64];
    line[63] = b'\n';
    line
};

/// A line as it is written.
pub(super) fn line_text(line: &Line, plain: bool) -> String {
    match (plain, line) {
        (true, Line::Text { text } | Line::Result { text }) => text.clone(),
        (true, Line::Session { .. } | Line::Heartbeat {}) => ".\n".to_owned(),
        (true, Line::Failed { text, .. }) => format!("{text}\n"),
        // What is serialised here always can be.
        (false, line) => serde_json::to_string(line).unwrap_or_default() + "\n",
    }
}

/// Half of a result.
pub(super) fn cut_in_half(plain: bool) -> String {
    let whole = line_text(&Line::Result { text: "a result that was cut".to_owned() }, plain);
    whole[..whole.len() / 2].to_owned()
}

/// Does what `script` says in this process, and says with which code to exit. Some scripts never return.
pub fn perform(script: &Script) -> u8 {
    take_signals(script);
    let mut stage = Stage { plain: script.plain, ignore_int: script.ignore_int, read: String::new() };
    for act in &script.acts {
        if let Some(code) = stage.one(act) {
            return code;
        }
    }
    0
}

/// Ignored signals are blocked: so is everything this starts.
fn take_signals(script: &Script) {
    let mut blocked = SigSet::empty();
    if script.ignore_term || script.slow_death.is_some() {
        blocked.add(Signal::SIGTERM);
    }
    if script.ignore_int {
        blocked.add(Signal::SIGINT);
    }
    let _refused = blocked.thread_block();
    if let Some(after) = script.slow_death {
        let mut term = SigSet::empty();
        term.add(Signal::SIGTERM);
        std::thread::spawn(move || {
            if term.wait().is_ok() {
                pause(after);
                std::process::exit(143);
            }
        });
    }
}

/// Waits without a clock of its own.
fn pause(time: Duration) {
    let (_never, wait) = mpsc::channel::<()>();
    let _timeout = wait.recv_timeout(time);
}

fn for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

struct Stage {
    plain: bool,
    ignore_int: bool,
    read: String,
}

impl Stage {
    fn write(&self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        let _nobody = out.write_all(bytes).and_then(|()| out.flush());
    }

    fn say(&self, line: &Line) {
        self.write(line_text(line, self.plain).as_bytes());
    }

    fn flood(mut to: impl std::io::Write, mut size: u64, pattern: &[u8]) {
        let piece = pattern.repeat((64 << 10) / pattern.len());
        while size > 0 {
            let len = usize::try_from(size).unwrap_or(usize::MAX).min(piece.len());
            if to.write_all(&piece[..len]).is_err() {
                return;
            }
            size -= len as u64;
        }
        let _nobody = to.flush();
    }

    /// `Some`: it is over, with this exit code.
    fn one(&mut self, act: &Act) -> Option<u8> {
        match act {
            Act::Read => {
                let mut bytes = Vec::new();
                let _error = std::io::stdin().lock().read_to_end(&mut bytes);
                self.read = String::from_utf8_lossy(&bytes).into_owned();
            }
            Act::Emit(size) => Self::flood(std::io::stdout().lock(), *size, b"x"),
            Act::Stderr(size) => Self::flood(std::io::stderr().lock(), *size, &ERRORS),
            Act::Complain(text) => {
                let _nobody = writeln!(std::io::stderr().lock(), "{text}");
            }
            Act::Lines(sizes) => {
                for size in sizes {
                    Self::flood(std::io::stdout().lock(), *size, b"x");
                    self.write(b"\n");
                }
            }
            Act::Bytes(bytes) => self.write(&[bytes.as_slice(), b"\n"].concat()),
            Act::SplitUtf8 => {
                let text = line_text(&Line::Text { text: MANY_BYTES.to_owned() }, self.plain);
                text.bytes().for_each(|byte| self.write(&[byte]));
            }
            Act::Noise => self.write(NOISE.as_bytes()),
            Act::Session(id) => self.say(&Line::Session { id: id.clone() }),
            Act::Text(text) => self.say(&Line::Text { text: text.clone() }),
            Act::Result(text) => self.say(&Line::Result { text: text.clone() }),
            Act::Echo => self.say(&Line::Result { text: self.read.clone() }),
            Act::ResultUnended(text) => {
                let line = line_text(&Line::Result { text: text.clone() }, self.plain);
                self.write(line.trim_end_matches('\n').as_bytes());
            }
            Act::Failed(why) => self.say(&Line::Failed { why: why.clone(), text: format!("failed: {why}") }),
            Act::KillMidResult => {
                self.write(cut_in_half(self.plain).as_bytes());
                die_of(Signal::SIGKILL);
            }
            Act::CloseOutput => close_output(),
            Act::Sleep(time) => pause(*time),
            Act::Hang => return self.hang(),
            Act::Heartbeat(period) => loop {
                self.say(&Line::Heartbeat {});
                pause(*period);
            },
            Act::Spin => loop {
                std::hint::spin_loop();
            },
            Act::Sigstop => {
                let _refused = kill(Pid::this(), Signal::SIGSTOP);
            }
            Act::Child(child, time) => leave(*child, *time),
            Act::NewSession => {
                let _already = nix::unistd::setsid();
            }
            Act::ForkAndExit(count) => {
                let children: Vec<_> = (0..*count).filter_map(|_| start(&["--exit", "0"], false)).collect();
                // Nobody waits for them: they stay zombies for as long as this lives.
                children.into_iter().for_each(std::mem::forget);
            }
            Act::ForkBomb(most) => bomb(*most),
            Act::Abort => std::process::abort(),
            Act::Segv => die_of(Signal::SIGSEGV),
            Act::Exit(code) => return Some(u8::try_from(*code & 0xff).unwrap_or(1)),
        }
        None
    }

    /// Hangs until it is interrupted, where it speaks a protocol that can.
    fn hang(&self) -> Option<u8> {
        if self.plain || self.ignore_int {
            for_ever();
        }
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if line.contains(INTERRUPT) {
                self.say(&Line::Failed { why: "canceled".to_owned(), text: "interrupted".to_owned() });
                return Some(0);
            }
        }
        for_ever();
    }
}

/// Ends by this signal, whatever handler there is.
fn die_of(signal: Signal) -> ! {
    loop {
        let _sent = kill(Pid::this(), signal);
    }
}

/// Closes standard output for good, by putting nothing in its place.
fn close_output() {
    let _flushed = std::io::stdout().lock().flush();
    if let Ok(nothing) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _refused = nix::unistd::dup2_stdout(nothing);
    }
}

/// Starts this program again as a fake harness.
#[expect(
    clippy::disallowed_methods,
    reason = "the fake harness plays programs that start others, in a process of its own"
)]
fn start(options: &[&str], holds_output: bool) -> Option<std::process::Child> {
    let null = Stdio::null;
    let own = std::env::current_exe().ok()?;
    let stdout = if holds_output { Stdio::inherit() } else { null() };
    Command::new(own).args(["fake", "harness"]).args(options).stdin(null()).stdout(stdout).stderr(null()).spawn().ok()
}

fn leave(child: Child, time: Duration) {
    let time = format!("{}ms", time.as_millis().max(1));
    match child {
        Child::Holder => drop(start(&["--sleep", &time], true)),
        Child::Plain => drop(start(&["--sleep", &time], false)),
        Child::Setsid => drop(start(&["--new-session", "--sleep", &time], false)),
        // Waited for, so that what it left is an orphan when this goes on.
        Child::Orphan => wait(start(&["--spawn-child", &time], false)),
        Child::DoubleSetsid => wait(start(&["--new-session", "--setsid-child", &time], false)),
    }
}

fn wait(child: Option<std::process::Child>) {
    if let Some(mut child) = child {
        let _status = child.wait();
    }
}

/// Two children that do the same with half of what is left.
fn bomb(most: u32) {
    if most > 0 {
        let left = ((most - 1) / 2).to_string();
        for _ in 0..2.min(most) {
            drop(start(&["--fork-bomb", &left, "--hang"], false));
        }
    }
}
