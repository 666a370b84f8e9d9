//! What the fake harness is told to do.

use std::fmt::Write as _;
use std::time::Duration;

/// A child the fake harness leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// In its group, holding its standard output open.
    Holder,
    /// In its group.
    Plain,
    /// In a session of its own.
    Setsid,
    /// Orphaned by a parent that ends at once.
    Orphan,
    /// Orphaned, in a session of its own, twice over.
    DoubleSetsid,
}

/// One thing it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Reads its input to the end; an answer of `--echo` is what it read.
    Read,
    /// Writes this many bytes to its standard output.
    Emit(u64),
    /// Writes this many bytes to its standard error.
    Stderr(u64),
    /// Writes this line to its standard error.
    Complain(String),
    /// Writes lines of these lengths.
    Lines(Vec<u64>),
    /// Writes these bytes and a line end.
    Bytes(Vec<u8>),
    /// Writes a text, byte by byte.
    SplitUtf8,
    /// Writes lines that are not of its protocol.
    Noise,
    /// Says that it has a session.
    Session(String),
    /// Says a text.
    Text(String),
    /// Says its result.
    Result(String),
    /// Says what it read as its result.
    Echo,
    /// Says its result without a line end.
    ResultUnended(String),
    /// Says that its turn failed, of this kind.
    Failed(String),
    /// Writes half of a result and is killed.
    KillMidResult,
    /// Closes its standard output.
    CloseOutput,
    /// Does nothing for this long.
    Sleep(Duration),
    /// Does nothing, for ever.
    Hang,
    /// Writes a sign of life again and again, for ever.
    Heartbeat(Duration),
    /// Uses a processor, for ever.
    Spin,
    /// Stops itself with SIGSTOP.
    Sigstop,
    /// Leaves a child that lives this long.
    Child(Child, Duration),
    /// Goes into a session of its own.
    NewSession,
    /// Starts so many children that end at once, and never reaps them.
    ForkAndExit(u32),
    /// Starts children that start children, at most so many.
    ForkBomb(u32),
    /// Aborts.
    Abort,
    /// Is ended by SIGSEGV.
    Segv,
    /// Exits with this code.
    Exit(i32),
}

/// All of what it does, and how it takes signals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// In order; after the last it exits with 0.
    pub acts: Vec<Act>,
    /// It writes results as they are.
    pub plain: bool,
    /// SIGTERM does nothing.
    pub ignore_term: bool,
    /// SIGINT does nothing, nor does the protocol's interrupt.
    pub ignore_int: bool,
    /// It goes this long after SIGTERM.
    pub slow_death: Option<Duration>,
}

/// An option nobody knows, or with an argument that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {reason}; `treeward fake harness --help` lists them all")]
pub struct BadOption {
    /// The option.
    pub option: String,
    /// What is wrong.
    pub reason: String,
}

/// Every option: name, argument, meaning.
pub const OPTIONS: &[(&str, &str, &str)] = &[
    ("--plain", "", "write results as they are, as a command does; default: one JSON object a line"),
    ("--read", "", "read standard input to its end"),
    ("--wait-stdin-eof", "", "the same: nothing happens before its end"),
    ("--never-read-stdin", "", "do not read it (which is so unless --read is given)"),
    ("--emit", "SIZE", "write SIZE bytes to standard output (64KiB, 10MB, 1M, 17)"),
    ("--stderr", "SIZE", "write SIZE bytes to standard error"),
    ("--complain", "TEXT", "write a line to standard error"),
    ("--line", "SIZE,…", "write lines of these lengths"),
    ("--bytes", "HEX,…", "write each of these byte strings as a line"),
    ("--split-utf8", "", "write a text of many-byte characters one byte at a time"),
    ("--noise", "", "write lines that are not of the protocol"),
    ("--session", "ID", "say that it has a session"),
    ("--text", "TEXT", "say a text"),
    ("--result", "TEXT", "say the result"),
    ("--echo", "", "say what was read as the result"),
    ("--result-without-newline", "TEXT", "say the result and no line end"),
    ("--failed", "KIND", "say that the turn failed: auth, quota, max-turns, canceled, error or other"),
    ("--no-result", "", "say none (which is so unless --result is given)"),
    ("--kill-mid-result", "", "write half a result and be killed"),
    ("--close-stdout", "", "close standard output and go on"),
    ("--sleep", "TIME", "do nothing for TIME (200ms, 5s)"),
    ("--hang", "", "do nothing, for ever"),
    ("--hang-after-result", "", "say the result `done`, then do nothing, for ever"),
    ("--heartbeat-only", "TIME", "write a sign of life every TIME, for ever"),
    ("--spin", "", "use a processor, for ever"),
    ("--sigstop-self", "", "stop by SIGSTOP"),
    ("--ignore-term", "", "SIGTERM does nothing"),
    ("--ignore-int", "", "SIGINT and the protocol's interrupt do nothing"),
    ("--slow-death", "TIME", "go TIME after SIGTERM"),
    ("--bg-holder", "TIME", "leave a child that holds standard output open for TIME"),
    ("--spawn-child", "TIME", "leave a child in the same group for TIME"),
    ("--setsid-child", "TIME", "leave a child in a session of its own"),
    ("--double-fork", "TIME", "leave an orphan"),
    ("--double-setsid", "TIME", "leave an orphan in a session of its own, that left another before"),
    ("--new-session", "", "go into a session of its own (setsid)"),
    ("--fork-and-exit", "N", "start N children that end at once, and reap none"),
    ("--fork-bomb", "N", "children start children, N in all at most"),
    ("--abort", "", "abort (SIGABRT)"),
    ("--segv", "", "be ended by SIGSEGV"),
    ("--exit", "N", "exit with code N"),
];

/// The options as a page.
pub fn help() -> String {
    let mut page = String::new();
    for (name, argument, meaning) in OPTIONS {
        let _infallible = writeln!(page, "  {:<34} {meaning}", format!("{name} {argument}"));
    }
    page
}

impl Script {
    /// Reads options, in the order of what they make it do.
    pub fn parse<S: AsRef<str>>(options: impl IntoIterator<Item = S>) -> Result<Self, BadOption> {
        let mut script = Self::default();
        let mut options = options.into_iter();
        while let Some(option) = options.next() {
            let option = option.as_ref();
            let bad = |reason: &str| BadOption { option: option.chars().take(64).collect(), reason: reason.to_owned() };
            let Some((name, argument, _)) = OPTIONS.iter().find(|(name, ..)| *name == option) else {
                return Err(bad("no such option"));
            };
            let value = match *argument {
                "" => String::new(),
                kind => options.next().map(|v| v.as_ref().to_owned()).ok_or_else(|| bad(&format!("needs a {kind}")))?,
            };
            script.option(name, &value).map_err(|reason| bad(&reason))?;
        }
        Ok(script)
    }

    fn option(&mut self, name: &str, value: &str) -> Result<(), String> {
        let act = match name {
            "--plain" => return set(&mut self.plain),
            "--ignore-term" => return set(&mut self.ignore_term),
            "--ignore-int" => return set(&mut self.ignore_int),
            "--slow-death" => {
                self.slow_death = Some(time(value)?);
                return Ok(());
            }
            "--never-read-stdin" | "--no-result" => return Ok(()),
            "--read" | "--wait-stdin-eof" => Act::Read,
            "--emit" => Act::Emit(size(value)?),
            "--stderr" => Act::Stderr(size(value)?),
            "--complain" => Act::Complain(value.to_owned()),
            "--line" => Act::Lines(value.split(',').map(size).collect::<Result<_, _>>()?),
            "--bytes" => {
                for text in value.split(',') {
                    let bytes = hex::decode(text.replace(' ', "")).map_err(|bad| bad.to_string())?;
                    self.acts.push(Act::Bytes(bytes));
                }
                return Ok(());
            }
            "--split-utf8" => Act::SplitUtf8,
            "--noise" => Act::Noise,
            "--session" => Act::Session(value.to_owned()),
            "--text" => Act::Text(value.to_owned()),
            "--result" => Act::Result(value.to_owned()),
            "--echo" => Act::Echo,
            "--result-without-newline" => Act::ResultUnended(value.to_owned()),
            "--failed" => Act::Failed(value.to_owned()),
            "--kill-mid-result" => Act::KillMidResult,
            "--close-stdout" => Act::CloseOutput,
            "--sleep" => Act::Sleep(time(value)?),
            "--hang" => Act::Hang,
            "--hang-after-result" => {
                self.acts.push(Act::Result("done".to_owned()));
                Act::Hang
            }
            "--heartbeat-only" => Act::Heartbeat(time(value)?),
            "--spin" => Act::Spin,
            "--sigstop-self" => Act::Sigstop,
            "--bg-holder" => Act::Child(Child::Holder, time(value)?),
            "--spawn-child" => Act::Child(Child::Plain, time(value)?),
            "--setsid-child" => Act::Child(Child::Setsid, time(value)?),
            "--double-fork" => Act::Child(Child::Orphan, time(value)?),
            "--double-setsid" => Act::Child(Child::DoubleSetsid, time(value)?),
            "--new-session" => Act::NewSession,
            "--fork-and-exit" => Act::ForkAndExit(number(value)?),
            "--fork-bomb" => Act::ForkBomb(number(value)?),
            "--abort" => Act::Abort,
            "--segv" => Act::Segv,
            "--exit" => Act::Exit(value.parse().map_err(|_| format!("`{value}` is not an exit code"))?),
            other => return Err(format!("{other} is listed and does nothing")),
        };
        self.acts.push(act);
        Ok(())
    }
}

fn set(flag: &mut bool) -> Result<(), String> {
    *flag = true;
    Ok(())
}

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|bad| format!("`{text}` is not a time: {bad}"))
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

/// The most bytes one option writes.
const MOST: u64 = 4 << 30;

fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a size like 64KiB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "K" | "KiB" | "KB" => 1 << 10,
        "M" | "MiB" | "MB" => 1 << 20,
        "G" | "GiB" | "GB" => 1 << 30,
        _ => return Err(bad()),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(unit).filter(|size| *size <= MOST).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_that_is_listed_is_understood() {
        for (name, argument, _) in OPTIONS {
            let value = match *argument {
                "" => None,
                "SIZE" | "SIZE,…" => Some("64KiB"),
                "HEX,…" => Some("ff,c3 28"),
                "TIME" => Some("5s"),
                "N" => Some("3"),
                _ => Some("x"),
            };
            let options: Vec<&str> = [*name].into_iter().chain(value).collect();
            Script::parse(&options).unwrap_or_else(|bad| panic!("{bad}"));
            assert!(value.is_none() || Script::parse([name]).is_err());
            assert!(help().contains(name));
        }
        let kept = Script::parse(["--read", "--line", "1B,2K", "--ignore-term", "--hang-after-result"]).unwrap();
        let acts = vec![Act::Read, Act::Lines(vec![1, 2048]), Act::Result("done".into()), Act::Hang];
        assert_eq!(kept, Script { acts, ignore_term: true, ..Script::default() });
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for options in [&["--no"][..], &["--emit", "x"], &["--emit", "99999G"], &["--exit", "x"], &["--bytes", "f"]] {
            assert!(Script::parse(options).is_err(), "{options:?}");
        }
    }
}
