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
    /// What its subtree spent.
    pub spent: Usage,
}

impl Outcome {
    /// It finished.
    pub fn done(result: Result<Arc<str>, String>) -> Self {
        Self { class: ExitClass::Done, result: Some(result), detail: None, changed_world: false, spent: Usage::default() }
    }

    /// It was stopped.
    pub fn stopped(why: impl Into<String>) -> Self {
        Self::broken(ExitClass::Canceled, Some(why.into()), false)
    }

    /// It ended without finishing.
    pub fn broken(class: ExitClass, detail: Option<String>, changed_world: bool) -> Self {
        Self { class, result: None, detail, changed_world, spent: Usage::default() }
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
