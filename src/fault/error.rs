//! Why a rule was not understood.

use super::{Point, Verb};

/// Why a text is not a rule. Each names the token that is wrong and what could stand there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Nothing, or only blanks.
    #[error("a fault rule is `POINT [path=…] [capsule=…] [tool=…] [attempt=N] [nth=N|every=N|p=F] ACTION`, not empty")]
    Empty,
    /// The first word is no fault point.
    #[error("`{token}` is not a fault point{}", hint(.nearest))]
    Point {
        /// What was written.
        token: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// A `key=` that no rule has.
    #[error("`{token}` is neither a filter nor an action{}", hint(.nearest))]
    Word {
        /// What was written.
        token: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// A value that its key does not take.
    #[error("`{token}`: {expected}")]
    Value {
        /// What was written.
        token: String,
        /// What could stand there.
        expected: &'static str,
    },
    /// A key written twice, or two of `nth`, `every` and `p`.
    #[error("`{token}` says again what was already said; a rule has each filter once, and one of nth, every and p")]
    Twice {
        /// The second of them.
        token: String,
    },
    /// Something behind the action.
    #[error("`{token}` stands behind the action, which comes last (a text for `error` is written `error=TEXT`)")]
    Behind {
        /// The first word behind it.
        token: String,
    },
    /// No action.
    #[error("the rule for `{point}` has no action; it takes {}", listed(.point.takes()))]
    NoAction {
        /// The point.
        point: Point,
    },
    /// An action that makes no sense there.
    #[error("`{point}` does not take `{verb}`; it takes {}", listed(.point.takes()))]
    Unsupported {
        /// The point.
        point: Point,
        /// The action.
        verb: Verb,
    },
    /// A filter on something that the point does not know.
    #[error("`{point}` cannot be filtered by `{key}=`: {why}")]
    Filter {
        /// The point.
        point: Point,
        /// The filter.
        key: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// A delay that is none, too long or not in whole milliseconds.
    #[error("`{token}`: a delay is 1ms to 1h, in whole milliseconds")]
    Delay {
        /// What was written.
        token: String,
    },
    /// An error's text that cannot be shown.
    #[error("the text of `error=` is 1 to {limit} bytes on one line, without control characters")]
    Text {
        /// The longest text, in bytes.
        limit: usize,
    },
}

fn hint(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(
        || "; `treeward faults` lists what there is".to_owned(),
        |word| format!("; did you mean `{word}`?"),
    )
}

fn listed(verbs: &[Verb]) -> String {
    verbs.iter().map(|verb| verb.usage()).collect::<Vec<_>>().join(", ")
}

/// The known word that `word` was most likely meant to be.
pub(super) fn nearest(word: &str, known: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    // The distance is quadratic in the length.
    if word.len() > 64 {
        return None;
    }
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1.max(candidate.len() / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
