//! The places where a fault can strike.

use std::fmt;
use std::str::FromStr;

use super::RuleError;
use super::Verb::{self, Delay, Drop, Duplicate, Error, Hang, Kill, Panic, Trap};
use super::error::nearest;

/// A named place where a fault can strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// A handler of the session's actor.
    Session,
    /// The spawning of a session, at the delegator's side; filtered by the path of the child.
    Start,
    /// What thinks in a session begins.
    Agent,
    /// A completion report on its way from a child to its parent.
    Report,
    /// The exit event of a child on its way to its supervisor.
    Exit,
    /// An agent delegates.
    Delegate,
    /// An agent waits for a delegation.
    Wait,
    /// An agent cancels a delegation.
    Cancel,
    /// A stop on its way to a child.
    Stop,
    /// An agent emits a text.
    Emit,
    /// An agent checkpoints.
    Checkpoint,
    /// An agent asks a person.
    Ask,
    /// The gate is asked about a call.
    Gate,
    /// A tool runs.
    Tool,
    /// A guest's HTTP request goes out.
    Http,
    /// A program is spawned.
    Spawn,
    /// The exit of a program, as its session learns of it.
    ExitStatus,
    /// A program runs.
    Harness,
    /// The warden, at the moment a program runs.
    Warden,
    /// A record goes to the store.
    Append,
    /// The store syncs.
    Sync,
}

/// Whose doing a point is: this decides what its rules count and can filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One attempt of one session.
    Session,
    /// The process's one writer.
    Journal,
}

impl Point {
    /// All of them, in the order they are listed in.
    pub const ALL: [Self; 21] = [
        Self::Session,
        Self::Start,
        Self::Agent,
        Self::Report,
        Self::Exit,
        Self::Delegate,
        Self::Wait,
        Self::Cancel,
        Self::Stop,
        Self::Emit,
        Self::Checkpoint,
        Self::Ask,
        Self::Gate,
        Self::Tool,
        Self::Http,
        Self::Spawn,
        Self::ExitStatus,
        Self::Harness,
        Self::Warden,
        Self::Append,
        Self::Sync,
    ];

    /// Name, meaning, actions and an example of each.
    fn row(self) -> (&'static str, &'static str, &'static [Verb], &'static str) {
        match self {
            Self::Session => ("session", "a handler of a session's actor", &[Panic, Kill], "session path=0.1 panic"),
            Self::Start => ("start", "a session is spawned", &[Error, Delay], "start path=0.1 attempt=1 error"),
            Self::Agent => (
                "agent",
                "what thinks in a session begins",
                &[Trap, Panic, Hang, Error, Delay],
                "agent capsule=reader p=0.1 trap",
            ),
            Self::Report => (
                "report",
                "a completion report on its way to the parent",
                &[Drop, Delay, Duplicate],
                "report path=0.2 delay=5s",
            ),
            Self::Exit => {
                ("exit", "a child's exit event on its way to its supervisor", &[Drop, Delay], "exit path=0.2 drop")
            }
            Self::Delegate => {
                ("delegate", "an agent delegates", &[Error, Drop, Delay, Hang], "delegate path=0 nth=3 error=no more")
            }
            Self::Wait => {
                ("wait", "an agent waits for a delegation", &[Error, Drop, Delay, Hang], "wait path=0 nth=2 delay=1s")
            }
            Self::Cancel => ("cancel", "an agent cancels a delegation", &[Drop, Delay], "cancel every=2 drop"),
            Self::Stop => ("stop", "a stop on its way to a child", &[Drop, Delay], "stop path=0.1 drop"),
            Self::Emit => ("emit", "an agent emits a text", &[Drop, Delay, Hang], "emit p=0.5 delay=200ms"),
            Self::Checkpoint => ("checkpoint", "an agent checkpoints", &[Drop, Delay, Hang], "checkpoint nth=1 hang"),
            Self::Ask => ("ask", "an agent asks a person", &[Error, Drop, Delay, Hang], "ask error"),
            Self::Gate => {
                ("gate", "the gate is asked about a call", &[Error, Drop, Delay, Hang], "gate tool=write hang")
            }
            Self::Tool => ("tool", "a tool runs", &[Error, Drop, Delay, Hang, Panic], "tool tool=grep error"),
            Self::Http => {
                ("http", "a guest's HTTP request goes out", &[Error, Drop, Delay, Hang], "http every=3 error=timed out")
            }
            Self::Spawn => ("spawn", "a program is spawned", &[Error, Delay], "spawn capsule=coder nth=1 error=EAGAIN"),
            Self::ExitStatus => {
                ("exit_status", "a program's exit, as its session learns of it", &[Drop, Delay], "exit_status delay=2s")
            }
            Self::Harness => {
                ("harness", "a program runs: SIGKILL or SIGSTOP", &[Kill, Hang], "harness path=0.1 attempt=1 kill")
            }
            Self::Warden => {
                ("warden", "the warden, when a program runs: SIGKILL or SIGSTOP", &[Kill, Hang], "warden path=0.2 kill")
            }
            Self::Append => ("append", "records go to the store", &[Error], "append nth=5 error"),
            Self::Sync => ("sync", "the store syncs", &[Error, Delay], "sync nth=3 error"),
        }
    }

    /// The word it is written with.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// What it is, in one line.
    pub fn meaning(self) -> &'static str {
        self.row().1
    }

    /// The actions that make sense there.
    pub fn takes(self) -> &'static [Verb] {
        self.row().2
    }

    /// A rule to try it with.
    pub fn example(self) -> &'static str {
        self.row().3
    }

    /// Whose doing it is.
    pub fn scope(self) -> Scope {
        match self {
            Self::Append | Self::Sync => Scope::Journal,
            _ => Scope::Session,
        }
    }

    /// Whether it knows a tool to filter by.
    pub fn has_tool(self) -> bool {
        matches!(self, Self::Gate | Self::Tool)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Point {
    type Err = RuleError;

    fn from_str(s: &str) -> Result<Self, RuleError> {
        Self::ALL.into_iter().find(|point| point.name() == s).ok_or_else(|| RuleError::Point {
            token: s.chars().take(64).collect(),
            nearest: nearest(s, Self::ALL.map(Self::name)),
        })
    }
}
