//! Names: of capsules, of tools, of the directories a session is lent.

/// How long a name may be.
const LONGEST: usize = 64;

/// A text that may not name a capsule, a tool or a directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a name: use a small letter, then up to 63 small letters, digits, `-` or `_`")]
pub struct BadCapsuleName {
    shown: String,
}

/// Refuses what is not `[a-z][a-z0-9_-]{0,63}`.
///
/// Names become file names, record fields and parts of terminal output: nothing that could be a path, a control
/// character or look like another name gets in.
pub fn check_name(name: &str) -> Result<(), BadCapsuleName> {
    let fits = name.len() <= LONGEST
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
    if fits { Ok(()) } else { Err(BadCapsuleName { shown: shown(name) }) }
}

/// Foreign text as it may be shown: escaped, and not much of it.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// The known word nearest to `word`, where one is near enough to have been meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance is quadratic in the length, which is whatever the file says.
    if word.len() > 2 * LONGEST {
        return None;
    }
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_small_names_pass() {
        for good in ["a", "reviewer", "a-b_c9", &"a".repeat(64)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "9a", "-a", "_a", "a.b", "a/b", "..", "a b", "é", "a\n", "a\0", &"a".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_shown_is_escaped_and_short() {
        assert_eq!(shown("a\u{1b}[2J\n"), "a\\u{1b}[2J\\n");
        assert!(shown(&"é".repeat(1000)).chars().count() <= LONGEST + 1);
    }

    #[test]
    fn a_slip_finds_its_word_and_nonsense_finds_none() {
        let known = ["stall", "deadline", "memory"];
        assert_eq!(nearest("stal", known), Some("stall"));
        assert_eq!(nearest("deadlien", known), Some("deadline"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"s".repeat(1 << 20), known), None);
    }
}
