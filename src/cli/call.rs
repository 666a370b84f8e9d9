//! `treeward call`: what a program asks of the session it is the agent of.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};
use treeward::harness::call::{CallFailure, Frame, LONGEST_FRAME, Reply, SOCKET, TOKEN, Trouble};

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::out::Out;

/// Asks something of the session this program is the agent of. Only inside a capsule with `command`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The answer is one line of JSON on standard output; where there is none, {\"error\": {\"trouble\", \"key\", \"reason\"}}.
The session is found by TREEWARD_SOCKET and TREEWARD_TOKEN. A text of `-` is read from standard input.

Exit codes:
  0    answered
  1    the tool ran and failed
  2    bad input
  3    the session has ended, or there is none
  4    refused: a grant, a budget, a limit, the gate
  5    nothing ended, or nobody answered, in time

Examples:
  treeward call delegate reader 'count the lines' --lend input/src
  treeward call wait 0
  treeward call wait-any 0 1 2 --at-most 30s
  echo '{\"capsule\": \"reader\", \"task\": \"count\"}' | treeward call delegate -
  treeward call grep '{\"pattern\": \"TODO\"}'")]
pub struct Args {
    #[command(subcommand)]
    call: Call,
}

#[derive(Debug, clap::Subcommand)]
enum Call {
    /// What the session may know of itself: path, budget left, deadline, directories
    Info,
    /// Hands a task to another capsule; answers its index
    Delegate {
        /// The capsule, by its name in grants.delegate; or `-`, and the whole request as JSON on standard input
        capsule: String,
        /// The task
        task: Option<String>,
        /// Lend a directory read-only: NAME, NAME/PATH below it, or NAME/PATH=NAME for the child
        #[arg(long, value_name = "DIRECTORY")]
        lend: Vec<String>,
        /// The same, writable
        #[arg(long, value_name = "DIRECTORY")]
        lend_write: Vec<String>,
        /// How long it may take
        #[arg(long, value_parser = humantime::parse_duration)]
        deadline: Option<Duration>,
        /// What is set aside for it: a budget as JSON, like {"tool_calls": 10}
        #[arg(long, value_name = "JSON")]
        slice: Option<String>,
    },
    /// The completion of a delegation, once it has ended; a completion is taken once
    Wait {
        /// Its index
        index: u32,
        /// How long to wait; exit code 5 where it did not end in time
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        at_most: Option<Duration>,
    },
    /// The completion of the first of these to end
    WaitAny {
        /// Their indices
        #[arg(required = true)]
        among: Vec<u32>,
        /// How long to wait; exit code 5 where none ended in time
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        at_most: Option<Duration>,
    },
    /// Where a delegation stands: queued, running or ended
    Status {
        /// Its index
        index: u32,
    },
    /// Stops a delegation; its completion can still be waited for
    Cancel {
        /// Its index
        index: u32,
        /// Why
        #[arg(default_value = "")]
        reason: String,
    },
    /// Asks a person
    Ask {
        /// The question
        question: String,
        /// How long the answer may take
        #[arg(long, value_parser = humantime::parse_duration)]
        deadline: Option<Duration>,
    },
    /// Says a text: shown live, and recorded
    Emit {
        /// The text
        text: String,
    },
    /// Records a state to go on from
    Checkpoint {
        /// What it is called
        label: String,
        /// The state
        #[arg(default_value = "")]
        state: String,
    },
    /// Calls a tool of the capsule, also one that is called like a command here
    Tool {
        /// Its name
        name: String,
        /// Its input
        #[arg(default_value = "")]
        input: String,
    },
    /// Calls a tool of the capsule: TOOL [INPUT]
    #[command(external_subcommand)]
    Named(Vec<String>),
}

/// Asks, and prints the answer.
pub fn run(args: &Args) -> Outcome {
    let (call, input) = asked(&args.call)?;
    let waits = call == "wait";
    let reply = ask(call, input)?;
    let mut out = Out::stdout();
    let exit = match &reply {
        Reply::Ok(value) => {
            out.json(&value.to_string())?;
            if waits && value.is_null() { Exit::Terminated } else { Exit::Ok }
        }
        Reply::Error(failure) => {
            out.json(&json!({ "error": failure }).to_string())?;
            out.finish()?;
            return Err(Failure::new(exit_of(failure), failure));
        }
    };
    out.finish()?;
    Ok(exit)
}

fn exit_of(failure: &CallFailure) -> Exit {
    match failure.trouble {
        Trouble::BadCall => Exit::Usage,
        Trouble::Failed => Exit::Failed,
        Trouble::Gone => Exit::Crashed,
        Trouble::Expired => Exit::Terminated,
        Trouble::Unauthorized | Trouble::Refused | Trouble::Busy => Exit::Refused,
    }
}

/// A text argument, or standard input for `-`.
fn text(argument: &str) -> Result<String, Failure> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    let read = std::io::stdin().lock().take(LONGEST_FRAME as u64).read_to_string(&mut text);
    read.map(|_| text).map_err(|error| Failure::new(Exit::Usage, format!("standard input: {error}")))
}

fn json_text(what: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|bad| Failure::new(Exit::Usage, format!("{what} is not JSON: {bad}")))
}

fn millis(time: Option<Duration>) -> Option<u64> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// `NAME/PATH=CHILD` as a request has it.
fn lent(text: &str, write: bool) -> Value {
    let (from, name) = text.split_once('=').map_or((text, None), |(from, name)| (from, Some(name)));
    let (directory, path) = from.split_once('/').unwrap_or((from, ""));
    json!({ "directory": directory, "path": path, "name": name, "write": write })
}

fn asked(call: &Call) -> Result<(&'static str, Value), Failure> {
    Ok(match call {
        Call::Info => ("info", Value::Null),
        Call::Delegate { capsule, task: None, .. } if capsule == "-" => {
            ("delegate", json_text("the request", &text(capsule)?)?)
        }
        Call::Delegate { task: None, .. } => {
            return Err(Failure::new(Exit::Usage, "a task is missing: treeward call delegate CAPSULE TASK"));
        }
        Call::Delegate { capsule, task: Some(task), lend, lend_write, deadline, slice } => {
            let slice = slice.as_deref().map(|slice| json_text("--slice", slice)).transpose()?;
            let lend = lend.iter().map(|l| lent(l, false)).chain(lend_write.iter().map(|l| lent(l, true)));
            let request = json!({
                "capsule": capsule, "task": text(task)?, "slice": slice, "lend": lend.collect::<Vec<_>>(),
                "deadline_ms": millis(*deadline),
            });
            ("delegate", request)
        }
        Call::Wait { index, at_most } => ("wait", json!({ "among": [index], "at_most_ms": millis(*at_most) })),
        Call::WaitAny { among, at_most } => ("wait", json!({ "among": among, "at_most_ms": millis(*at_most) })),
        Call::Status { index } => ("status", json!({ "index": index })),
        Call::Cancel { index, reason } => ("cancel", json!({ "index": index, "reason": reason })),
        Call::Ask { question, deadline } => {
            ("ask", json!({ "question": text(question)?, "deadline_ms": millis(*deadline) }))
        }
        Call::Emit { text: said } => ("emit", json!({ "text": text(said)? })),
        Call::Checkpoint { label, state } => ("checkpoint", json!({ "label": label, "state": text(state)? })),
        Call::Tool { name, input } => ("tool", json!({ "name": name, "input": text(input)? })),
        Call::Named(words) => match words.as_slice() {
            [name] => ("tool", json!({ "name": name, "input": "" })),
            [name, input] => ("tool", json!({ "name": name, "input": text(input)? })),
            _ => return Err(Failure::new(Exit::Usage, "a tool takes one input: treeward call TOOL INPUT")),
        },
    })
}

/// One call over the session's socket. Waits for as long as the session lets it.
fn ask(call: &str, input: Value) -> Result<Reply, Failure> {
    let variable = |name: &str| {
        std::env::var(name).map_err(|_| {
            Failure::new(Exit::Crashed, format!("{name} is not set: there is no session here"))
                .help("`treeward call` works inside a capsule with `command`; `treeward run` starts one")
        })
    };
    let (socket, token) = (variable(SOCKET)?, variable(TOKEN)?);
    let gone = |error: std::io::Error| Failure::new(Exit::Crashed, format!("the session has ended ({error})"));
    let mut stream = UnixStream::connect(&socket).map_err(gone)?;
    let frame = Frame { token, call: call.to_owned(), input };
    let mut line = serde_json::to_vec(&frame).map_err(|error| Failure::new(Exit::Usage, error))?;
    line.push(b'\n');
    // Refused while it is being written, it says why all the same.
    let written = stream.write_all(&line);
    let mut reply = String::new();
    // An answer of 64 KiB, every byte of it escaped, or a tool's whole output.
    BufReader::new(stream).take(64 << 20).read_line(&mut reply).map_err(gone)?;
    if reply.is_empty() {
        return Err(written.err().map_or_else(|| Failure::new(Exit::Crashed, "the session has ended"), gone));
    }
    serde_json::from_str(&reply).map_err(|bad| Failure::new(Exit::Crashed, format!("the answer is cut: {bad}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_spelled_as_it_is_asked() {
        let lend = |text| lent(text, false);
        assert_eq!(lend("input"), json!({"directory": "input", "path": "", "name": null, "write": false}));
        assert_eq!(lend("input/a/b=c"), json!({"directory": "input", "path": "a/b", "name": "c", "write": false}));
    }

    #[test]
    fn every_trouble_has_the_exit_code_the_help_says() {
        for (trouble, code) in [
            (Trouble::BadCall, 2),
            (Trouble::Unauthorized, 4),
            (Trouble::Refused, 4),
            (Trouble::Busy, 4),
            (Trouble::Failed, 1),
            (Trouble::Expired, 5),
            (Trouble::Gone, 3),
        ] {
            assert_eq!(exit_of(&CallFailure::new(trouble, "x")).code(), code);
        }
    }
}
