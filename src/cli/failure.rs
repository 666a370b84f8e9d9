//! Why a command did not do what it was asked, for a person to read.

use std::fmt::Display;

use super::exit::Exit;
use super::view::escaped;

/// What went wrong and what to do next. Shown as `error: …` and `help: …`.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    help: Option<String>,
}

/// What a command comes to.
pub type Outcome = Result<Exit, Failure>;

impl Failure {
    /// A failure that ends the process with `exit`.
    pub fn new(exit: Exit, message: impl Display) -> Self {
        Self { exit, message: message.to_string(), help: None }
    }

    /// The reader of what is printed went away: nothing is wrong, and nothing is left to say.
    pub fn unheard() -> Self {
        Self::new(Exit::Ok, "")
    }

    /// With what to do next.
    #[must_use]
    pub fn help(mut self, help: impl Display) -> Self {
        self.help = Some(help.to_string());
        self
    }

    /// The exit code that goes with it.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// The lines for standard error. Messages quote files and agents, so they are escaped.
    pub fn lines(&self) -> String {
        if self.message.is_empty() {
            return String::new();
        }
        let mut lines = format!("error: {}\n", escaped(&self.message));
        if let Some(help) = &self.help {
            lines.push_str(&format!("help: {}\n", escaped(help)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_two_lines_and_steers_no_terminal() {
        let failure = Failure::new(Exit::Usage, "a\u{1b}[2Jb: unknown key").help("write it\ras `name`");
        assert_eq!(failure.lines(), "error: a\\e[2Jb: unknown key\nhelp: write it\\ras `name`\n");
        assert_eq!(Failure::unheard().lines(), "");
    }
}
