//! What is shown while a tree runs.

use std::io::Write as _;

use treeward::journal::Stored;

use super::screen::{Screen, Size};
use crate::cli::failure::Failure;
use crate::cli::out::Out;
use crate::cli::records::{Record, json};
use crate::cli::view::{Detail, Line, Style, Tree, event};

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The tree, redrawn in place on standard error.
    Screen,
    /// A line per event on standard error.
    Lines,
    /// Every record as a line of JSON on standard output.
    Json,
    /// Nothing but the answer.
    Quiet,
}

impl Mode {
    /// The mode that was asked for, else what suits standard error.
    pub fn choose(json: bool, quiet: bool, stderr_is_terminal: bool) -> Self {
        match (json, quiet, stderr_is_terminal) {
            (true, ..) => Self::Json,
            (_, true, _) => Self::Quiet,
            (_, _, true) => Self::Screen,
            _ => Self::Lines,
        }
    }
}

/// Takes the records of a tree and shows them.
pub struct Reporter {
    mode: Mode,
    tree: Tree,
    screen: Screen,
    colour: bool,
    /// What is said below the tree.
    notice: Option<Line>,
    /// Whether something came since it was last shown.
    stale: bool,
}

impl Reporter {
    /// A reporter that has shown nothing yet.
    pub fn new(mode: Mode, colour: bool) -> Self {
        Self { mode, tree: Tree::default(), screen: Screen::new(colour), colour, notice: None, stale: false }
    }

    /// The tree as far as it was told.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Whether there is something new to be shown by [`show`](Self::show).
    pub fn is_stale(&self) -> bool {
        self.stale && self.mode == Mode::Screen
    }

    /// Takes the next record in.
    pub fn record(&mut self, stored: &Stored, out: &mut Out) -> Result<(), Failure> {
        let record = Record::read(stored)?;
        self.tree.apply(&record.body, record.envelope.at);
        self.stale = true;
        match self.mode {
            Mode::Json => out.json(&json(stored))?,
            Mode::Lines => {
                let start = self.tree.span.map_or(record.envelope.at, |(start, _)| start);
                if let Some(line) = event(&record.body, stored.seq, record.envelope.at, start, Detail::Watching) {
                    self.say(&line);
                }
            }
            Mode::Screen | Mode::Quiet => {}
        }
        Ok(())
    }

    /// Says something to the person who watches.
    pub fn notice(&mut self, text: &str) {
        let line = Line::new().with(Style::Warn, text);
        match self.mode {
            Mode::Screen => {
                self.notice = Some(line);
                self.show(false);
            }
            Mode::Lines | Mode::Json | Mode::Quiet => self.say(&line),
        }
    }

    /// Shows the tree as it is now, where it is shown as a tree.
    pub fn show(&mut self, last: bool) {
        self.stale = false;
        if self.mode != Mode::Screen {
            return;
        }
        let below = if last { None } else { self.notice.as_ref() };
        // A terminal that is gone shows nothing; the run goes on and its answer still comes.
        let _gone = self.screen.show(&self.tree, below, Size::of_stderr(), last, &mut std::io::stderr());
    }

    /// A line on standard error.
    pub fn say(&self, line: &Line) {
        let _gone = writeln!(std::io::stderr(), "{}", line.show(None, self.colour));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_wins_over_what_suits() {
        assert_eq!(Mode::choose(true, false, true), Mode::Json);
        assert_eq!(Mode::choose(false, true, true), Mode::Quiet);
        assert_eq!(Mode::choose(false, false, true), Mode::Screen);
        assert_eq!(Mode::choose(false, false, false), Mode::Lines);
    }
}
