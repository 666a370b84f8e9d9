//! The fake harness's own protocol: one JSON object a line, in both directions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::driver::{
    Description, Driver, Ending, Event, Failure, Framing, Interrupt, LaunchError, Output, Plan, Reports, Request, Seen,
    Step, Turn,
};

/// What the fake harness says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    Session { id: String },
    Text { text: String },
    Heartbeat {},
    Result { text: String },
    Failed { why: String, text: String },
}

/// What it is told. Written on its standard input to interrupt it.
pub(super) const INTERRUPT: &str = r#"{"type":"interrupt"}"#;

/// Drives the fake harness, where it speaks its own protocol.
#[derive(Debug)]
pub struct FakeDriver {
    argv: Vec<String>,
    interrupt: Interrupt,
    close_input: bool,
    turns: Vec<Turn>,
    texts: u64,
}

impl FakeDriver {
    /// A driver for the fake harness at `argv` (`treeward fake harness …`).
    pub fn new(argv: Vec<String>) -> Self {
        Self { argv, interrupt: Interrupt::Protocol, close_input: false, turns: Vec::new(), texts: 0 }
    }

    /// Interrupted by a signal instead of the protocol.
    #[must_use]
    pub fn interrupted_by_signal(self) -> Self {
        Self { interrupt: Interrupt::Signal, ..self }
    }

    /// Its input is closed once the task is written, as for a harness that waits for that.
    #[must_use]
    pub fn closing_input(self) -> Self {
        Self { close_input: true, ..self }
    }

    fn turn(&mut self, turn: Turn) {
        // The first success and the first failure decide: more of them say nothing new.
        if self.turns.len() < 4 {
            self.turns.push(turn);
        }
    }

    fn said(&mut self, line: Line) -> Event {
        match line {
            Line::Session { id } => Event::SessionStarted { id },
            Line::Text { text } => {
                self.texts += 1;
                Event::Text { item: self.texts.to_string(), text }
            }
            Line::Heartbeat {} => Event::Note { key: "heartbeat".to_owned(), text: String::new() },
            Line::Result { text } => {
                self.turn(Turn::Ended(text.clone()));
                Event::TurnEnded { answer: text }
            }
            Line::Failed { why, text } => {
                let failure = match why.as_str() {
                    "auth" => Failure::Auth,
                    "quota" => Failure::Quota { lifts: None },
                    "max-turns" => Failure::MaxTurns,
                    "canceled" => Failure::Canceled,
                    "error" => Failure::HarnessError,
                    _ => Failure::Other,
                };
                self.turn(Turn::Failed(failure, text.clone()));
                Event::TurnFailed { failure, message: text }
            }
        }
    }
}

impl Driver for FakeDriver {
    fn describe(&self) -> Description {
        Description {
            name: "fake".to_owned(),
            version_probe: Vec::new(),
            framing: Framing::Lines,
            interrupt: self.interrupt,
            reports: Reports { turns: true, session: true, usage: false, greets: true },
        }
    }

    fn launch(&mut self, request: &Request) -> Result<Plan, LaunchError> {
        Ok(Plan {
            argv: self.argv.clone(),
            env: BTreeMap::new(),
            files: Vec::new(),
            input: format!("{}\n", request.task).into_bytes(),
            close_input: self.close_input,
        })
    }

    fn feed(&mut self, output: Output<'_>) -> Vec<Step> {
        let Output::Line { text, .. } = output else { return Vec::new() };
        if text.trim().is_empty() {
            return Vec::new();
        }
        let event = match serde_json::from_str::<Line>(text) {
            Ok(line) => self.said(line),
            Err(_) => {
                let shown: String = text.chars().take(200).collect();
                Event::Note { key: "noise".to_owned(), text: shown }
            }
        };
        vec![Step::Event(event)]
    }

    fn interrupt(&mut self) -> Vec<Step> {
        match self.interrupt {
            Interrupt::Protocol => vec![Step::Write(format!("{INTERRUPT}\n").into_bytes())],
            Interrupt::None | Interrupt::Signal => Vec::new(),
        }
    }

    fn classify_exit(&mut self, _seen: Seen<'_>) -> Ending {
        Ending { turns: std::mem::take(&mut self.turns), notes: Vec::new() }
    }
}
