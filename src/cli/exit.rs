//! How a command ends: what the shell is told.

use std::process::ExitCode;

use treeward::journal::CompletionStatus;

/// The exit codes, the same for every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It answered; nothing is wrong.
    Ok,
    /// The agent said that it could not; a verification failed; two journals differ.
    Failed,
    /// What was given is wrong: arguments, the manifest, the task.
    Usage,
    /// The session crashed, or ended without anybody knowing what it did.
    Crashed,
    /// Not allowed: a grant, a budget, a limit.
    Refused,
    /// Stopped at its deadline.
    Terminated,
    /// The journal cannot be opened, or failed.
    Journal,
    /// Ctrl-C, or SIGTERM.
    Interrupted,
}

/// What `--help` says of them.
pub const HELP: &str = "\
Exit codes:
  0    it answered
  1    it answered that it could not (verify: damaged; diff: different; soak: left over)
  2    bad input: arguments, manifest, task
  3    it crashed, or nobody knows how it ended
  4    refused: a grant, the budget, a limit
  5    terminated: its deadline passed
  6    the journal cannot be opened, or failed
  130  interrupted (Ctrl-C)";

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Crashed => 3,
            Self::Refused => 4,
            Self::Terminated => 5,
            Self::Journal => 6,
            Self::Interrupted => 130,
        }
    }

    /// How a run ended whose root session ended like this. An interrupt explains a termination, not a crash.
    pub fn of(status: CompletionStatus, interrupted: bool) -> Self {
        match status {
            CompletionStatus::Ok => Self::Ok,
            CompletionStatus::Error => Self::Failed,
            CompletionStatus::Terminated if interrupted => Self::Interrupted,
            CompletionStatus::Terminated => Self::Terminated,
            CompletionStatus::Crashed | CompletionStatus::Unknown => Self::Crashed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Exit; 8] = [
        Exit::Ok,
        Exit::Failed,
        Exit::Usage,
        Exit::Crashed,
        Exit::Refused,
        Exit::Terminated,
        Exit::Journal,
        Exit::Interrupted,
    ];

    #[test]
    fn every_code_is_its_own_and_in_the_help() {
        let mut codes: Vec<u8> = ALL.iter().map(|exit| exit.code()).collect();
        for code in &codes {
            let listed = HELP.lines().any(|line| line.split_whitespace().next() == Some(&code.to_string()));
            assert!(listed, "{code} is not in the help");
        }
        codes.dedup();
        assert_eq!(codes.len(), ALL.len());
        assert_eq!(HELP.lines().count(), ALL.len() + 1);
    }

    #[test]
    fn every_ending_of_a_run_has_a_code() {
        for (status, exit) in [
            (CompletionStatus::Ok, Exit::Ok),
            (CompletionStatus::Error, Exit::Failed),
            (CompletionStatus::Crashed, Exit::Crashed),
            (CompletionStatus::Unknown, Exit::Crashed),
            (CompletionStatus::Terminated, Exit::Terminated),
        ] {
            assert_eq!(Exit::of(status, false), exit);
        }
        assert_eq!(Exit::of(CompletionStatus::Terminated, true), Exit::Interrupted);
        assert_eq!(Exit::of(CompletionStatus::Ok, true), Exit::Ok, "it answered before the interrupt reached it");
        assert_eq!(Exit::of(CompletionStatus::Crashed, true), Exit::Crashed);
    }
}
