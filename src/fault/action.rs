//! What a fault does where it strikes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::RuleError;

/// What a fault does. Which points take which is said by [`Point::takes`](super::Point::takes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Rust code panics.
    Panic,
    /// The actor or process is killed: nothing of it runs again.
    Kill,
    /// What thinks ends as a guest does that trapped.
    Trap,
    /// It never answers and never ends by itself; only a stop or a deadline ends it.
    Hang,
    /// It fails with the error answer it has, saying this text.
    Error(Option<Arc<str>>),
    /// The message is lost.
    Drop,
    /// It happens this much later; whole milliseconds.
    Delay(Duration),
    /// The message arrives twice.
    Duplicate,
}

/// An action without its argument: the word it is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// [`Action::Panic`]
    Panic,
    /// [`Action::Kill`]
    Kill,
    /// [`Action::Trap`]
    Trap,
    /// [`Action::Hang`]
    Hang,
    /// [`Action::Error`]
    Error,
    /// [`Action::Drop`]
    Drop,
    /// [`Action::Delay`]
    Delay,
    /// [`Action::Duplicate`]
    Duplicate,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Panic, Self::Kill, Self::Trap, Self::Hang, Self::Error, Self::Drop, Self::Delay, Self::Duplicate];

    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Kill => "kill",
            Self::Trap => "trap",
            Self::Hang => "hang",
            Self::Error => "error",
            Self::Drop => "drop",
            Self::Delay => "delay",
            Self::Duplicate => "duplicate",
        }
    }

    /// How it is written, with its argument.
    pub fn usage(self) -> &'static str {
        match self {
            Self::Error => "error[=TEXT]",
            Self::Delay => "delay=TIME",
            other => other.name(),
        }
    }

    /// What it does, in one line.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Panic => "Rust code panics",
            Self::Kill => "the actor or process is killed: nothing of it runs again",
            Self::Trap => "what thinks ends as a guest does that trapped",
            Self::Hang => "no answer and no end, until a stop or a deadline",
            Self::Error => "it fails with the error answer it has (TEXT is all that follows the `=`)",
            Self::Drop => "the message is lost",
            Self::Delay => "it happens TIME later (`200ms`, `5s`)",
            Self::Duplicate => "the message arrives twice",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Action {
    /// The longest delay a rule may ask for.
    pub const MAX_DELAY: Duration = Duration::from_secs(3600);
    /// The longest text of an injected error, in bytes.
    pub const MAX_TEXT: usize = 256;

    /// The action without its argument.
    pub fn verb(&self) -> Verb {
        match self {
            Self::Panic => Verb::Panic,
            Self::Kill => Verb::Kill,
            Self::Trap => Verb::Trap,
            Self::Hang => Verb::Hang,
            Self::Error(_) => Verb::Error,
            Self::Drop => Verb::Drop,
            Self::Delay(_) => Verb::Delay,
            Self::Duplicate => Verb::Duplicate,
        }
    }

    /// What whatever fails should say: the rule's text, else that a fault was injected.
    pub fn message(&self) -> &str {
        match self {
            Self::Error(Some(text)) => text,
            _ => "a fault was injected here",
        }
    }

    /// Whether its argument is one that can be written down and read back.
    pub(super) fn validate(&self) -> Result<(), RuleError> {
        match self {
            Self::Delay(delay) => {
                let whole = delay.subsec_nanos().is_multiple_of(1_000_000);
                if !whole || delay.is_zero() || *delay > Self::MAX_DELAY {
                    return Err(RuleError::Delay { token: format!("delay={}", humantime::format_duration(*delay)) });
                }
            }
            Self::Error(Some(text)) => {
                let plain = !text.is_empty() && text.trim() == &**text && !text.chars().any(char::is_control);
                if !plain || text.len() > Self::MAX_TEXT {
                    return Err(RuleError::Text { limit: Self::MAX_TEXT });
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(Some(text)) => write!(f, "error={text}"),
            Self::Delay(delay) if delay.subsec_nanos() == 0 => write!(f, "delay={}s", delay.as_secs()),
            Self::Delay(delay) => write!(f, "delay={}ms", delay.as_millis()),
            other => f.write_str(other.verb().name()),
        }
    }
}
