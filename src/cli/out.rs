//! Standard output and standard error.

use std::io::{self, ErrorKind, IsTerminal as _, Write};

use super::exit::Exit;
use super::failure::Failure;
use super::view::{Line, escaped, json_for_terminal};

/// Where the result of a command goes. Buffered; [`finish`](Self::finish) says whether it got there.
pub struct Out {
    to: io::BufWriter<io::Stdout>,
    terminal: bool,
    colour: bool,
}

/// Whether colours are wanted where a terminal is: not with `NO_COLOR`, and not on a dumb one.
pub fn wants_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

impl Out {
    /// Standard output.
    pub fn stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        Self { to: io::BufWriter::new(io::stdout()), terminal, colour: terminal && wants_colour() }
    }

    /// The width lines are cut to: a terminal's, where it is one.
    pub fn width(&self) -> Option<usize> {
        self.terminal
            .then(|| terminal_size::terminal_size_of(io::stdout()))
            .flatten()
            .map(|(width, _)| usize::from(width.0))
    }

    /// A line made for people.
    pub fn line(&mut self, line: &Line) -> Result<(), Failure> {
        let shown = line.show(None, self.colour);
        writeln!(self.to, "{shown}").map_err(lost)
    }

    /// A line made for people, cut to the terminal's width.
    pub fn cut_line(&mut self, line: &Line) -> Result<(), Failure> {
        let shown = line.show(self.width(), self.colour);
        writeln!(self.to, "{shown}").map_err(lost)
    }

    /// A text of treeward's own.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        writeln!(self.to, "{}", escaped(text)).map_err(lost)
    }

    /// A line of JSON.
    pub fn json(&mut self, json: &str) -> Result<(), Failure> {
        let shown = if self.terminal { json_for_terminal(json) } else { json.into() };
        writeln!(self.to, "{shown}").map_err(lost)
    }

    /// An agent's answer: as it is for a pipe or a file, escaped for a terminal. Ends in a line end.
    pub fn answer(&mut self, answer: &str) -> Result<(), Failure> {
        self.to.write_all(answer_for(answer, self.terminal).as_bytes()).map_err(lost)
    }

    /// Sends what was printed so far.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.to.flush().map_err(lost)
    }

    /// Sends what was printed, and says whether it got there.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.to.flush().map_err(lost)
    }
}

/// What is written of an answer.
fn answer_for(answer: &str, terminal: bool) -> String {
    let mut shown = if terminal { escaped(answer).into_owned() } else { answer.to_owned() };
    if !shown.is_empty() && !shown.ends_with('\n') {
        shown.push('\n');
    }
    shown
}

/// A reader that has gone (`| head`) is no failure; a full disk is.
fn lost(error: io::Error) -> Failure {
    if error.kind() == ErrorKind::BrokenPipe {
        return Failure::unheard();
    }
    Failure::new(Exit::Usage, format!("standard output: {error}")).help("what was printed is not complete")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reaches_a_pipe_as_it_is_and_a_terminal_escaped() {
        let hostile = "\u{1b}]0;owned\u{7}fine\r\u{9b}2J";
        assert_eq!(answer_for(hostile, false), format!("{hostile}\n"));
        assert_eq!(answer_for(hostile, true), "\\e]0;owned\\u{7}fine\\r\\u{9b}2J\n");
        assert_eq!(answer_for("a\tb\nc\n", true), "a\tb\nc\n");
        assert_eq!(answer_for("", true), "");
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        assert_eq!(lost(ErrorKind::BrokenPipe.into()).exit(), Exit::Ok);
        assert!(lost(ErrorKind::StorageFull.into()).lines().contains("not complete"));
    }
}
