//! How an attempt went, and what status that makes.

use std::sync::Arc;

use crate::capsule::Usage;
use crate::journal::CompletionStatus;
use crate::supervision::ExitClass;

/// How one attempt of a session went.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// Its exit class.
    pub class: ExitClass,
    /// What it answered, or that it could not; `None` where it ended otherwise.
    pub result: Option<Result<Arc<str>, String>>,
    /// Why, where it did not answer.
    pub detail: Option<String>,
    /// Whether it, or anything below it, may have changed the world.
    pub changed_world: bool,
    /// What its subtree spent; `None` where that was lost with it.
    pub spent: Option<Usage>,
}

impl Outcome {
    /// It finished.
    pub fn done(result: Result<Arc<str>, String>) -> Self {
        Self { class: ExitClass::Done, result: Some(result), detail: None, changed_world: false, spent: None }
    }

    /// It was stopped.
    pub fn stopped(why: impl Into<String>) -> Self {
        Self::broken(ExitClass::Canceled, Some(why.into()), false)
    }

    /// It ended without finishing.
    pub fn broken(class: ExitClass, detail: Option<String>, changed_world: bool) -> Self {
        Self { class, result: None, detail, changed_world, spent: None }
    }

    /// Why it did not answer, in words.
    pub fn why(&self) -> Option<String> {
        match (&self.result, &self.detail) {
            (Some(Ok(_)), _) => None,
            (Some(Err(error)), _) => Some(error.clone()),
            (None, Some(detail)) => Some(detail.clone()),
            (None, None) => Some(format!("{:?}", self.class).to_lowercase()),
        }
    }
}

/// What an outcome that is not retried makes of its delegation. What was asked to stop and had not finished was
/// terminated, however it went down.
pub fn status_of(outcome: &Outcome, stopped: bool) -> CompletionStatus {
    match (&outcome.result, outcome.class) {
        (Some(Ok(_)), _) => CompletionStatus::Ok,
        (Some(Err(_)), _) | (None, ExitClass::Refused) => CompletionStatus::Error,
        (None, ExitClass::Canceled) => CompletionStatus::Terminated,
        (None, _) if outcome.changed_world => CompletionStatus::Unknown,
        (None, _) if stopped => CompletionStatus::Terminated,
        (None, _) => CompletionStatus::Crashed,
    }
}

/// The first bytes of `text`, at most `limit` of them, cut between characters.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `text`, where it is longer than `limit` bytes cut and marked as cut.
pub(crate) fn bounded(text: &str, limit: usize) -> String {
    const MARK: &str = "…";
    match text.len() <= limit {
        true => text.to_owned(),
        false => format!("{}{MARK}", cut(text, limit.saturating_sub(MARK.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        assert_eq!(bounded("short", 5), "short");
        assert_eq!(bounded("größer", 6), "gr…");
        assert_eq!(cut("größer", 3), "gr");
        assert!(bounded(&"ü".repeat(5_000), 2_000).len() <= 2_000);
    }

    #[test]
    fn what_was_stopped_is_terminated_and_what_fell_over_is_not() {
        let broken = |changed| Outcome::broken(ExitClass::Trap, None, changed);
        assert_eq!(status_of(&broken(false), false), CompletionStatus::Crashed);
        assert_eq!(status_of(&broken(false), true), CompletionStatus::Terminated);
        assert_eq!(status_of(&broken(true), false), CompletionStatus::Unknown);
        assert_eq!(status_of(&broken(true), true), CompletionStatus::Unknown);
        assert_eq!(status_of(&Outcome::done(Ok("x".into())), true), CompletionStatus::Ok);
        assert_eq!(status_of(&Outcome::stopped("deadline"), true), CompletionStatus::Terminated);
    }
}
