//! Text that is safe to show, and lines made of nothing else.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// Whether a character may not reach a terminal as it is: controls move the cursor or start an escape sequence, and
/// the bidirectional ones make a line read as something it is not.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{1b}' => out.push_str("\\e"),
        c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
    }
}

/// A text of several lines, safe to show: line ends and tabs stay, what else steers a terminal is spelled out.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let steers = |c: char| is_unsafe(c) && c != '\n' && c != '\t';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) { push_escaped(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// At most `width` columns of a text, on one line: blanks are run together, what steers a terminal is spelled out, and
/// `…` says that there was more. Looks at no more of the text than it needs.
pub fn one_line(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut blank = false;
    // A text of blanks alone, or of characters without width, must not make it look for ever.
    for (seen, c) in text.chars().enumerate() {
        if out.len() > 4 * width + 16 || seen > 16 * width + 256 {
            out.push('…');
            break;
        }
        if c.is_whitespace() {
            blank = !out.is_empty();
            continue;
        }
        if std::mem::take(&mut blank) {
            out.push(' ');
        }
        if is_unsafe(c) { push_escaped(&mut out, c) } else { out.push(c) }
    }
    if columns(&out) <= width {
        return out;
    }
    let kept = head(&out, width.saturating_sub(1)).0.trim_end().len();
    out.truncate(kept);
    if width > 0 {
        out.push('…');
    }
    out
}

/// How many columns a safe text takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The part of a safe text that takes at most `width` columns, and whether that is all of it.
fn head(text: &str, width: usize) -> (&str, bool) {
    let mut left = width;
    for (at, c) in text.char_indices() {
        match left.checked_sub(c.width().unwrap_or(0)) {
            Some(rest) => left = rest,
            None => return (&text[..at], false),
        }
    }
    (text, true)
}

/// A line of JSON for a terminal: the same JSON, with the controls that JSON lets stand (DEL, C1) written as `\u….`
pub fn json_for_terminal(json: &str) -> Cow<'_, str> {
    if !json.contains(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        // In valid JSON these stand inside strings only, and all are in the basic plane.
        if is_unsafe(c) { out.push_str(&format!("\\u{:04x}", u32::from(c))) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// How a part of a line stands out, where colour is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Dim,
    Strong,
    Good,
    Bad,
    Warn,
    Busy,
}

impl Style {
    fn sgr(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Dim => Some("2"),
            Self::Strong => Some("1"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Warn => Some("33"),
            Self::Busy => Some("36"),
        }
    }
}

/// A line for a screen. Its texts are escaped as they are added: nothing else can be in it.
#[derive(Clone, Debug, Default)]
pub struct Line(Vec<(Style, String)>);

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text that stays on its line, whatever is in it.
    #[must_use]
    pub fn with(mut self, style: Style, text: &str) -> Self {
        self.push(style, text);
        self
    }

    /// Adds a text that stays on its line, whatever is in it.
    pub fn push(&mut self, style: Style, text: &str) {
        if text.is_empty() {
            return;
        }
        if !text.contains(is_unsafe) {
            return self.0.push((style, text.to_owned()));
        }
        let mut safe = String::with_capacity(text.len() + 16);
        for c in text.chars() {
            if is_unsafe(c) { push_escaped(&mut safe, c) } else { safe.push(c) }
        }
        self.0.push((style, safe));
    }

    /// This line with `other` behind it.
    #[must_use]
    pub fn append(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// How many columns it takes.
    pub fn columns(&self) -> usize {
        self.0.iter().map(|(_, text)| columns(text)).sum()
    }

    /// The line, at most `width` columns of it (the last a `…` where it was cut), without a line end.
    pub fn show(&self, width: Option<usize>, colour: bool) -> String {
        let full = self.columns();
        let fits = width.is_none_or(|width| full <= width);
        let mut left = if fits { full } else { width.unwrap_or(full).saturating_sub(1) };
        let mut out = String::new();
        for (style, text) in &self.0 {
            let (shown, whole) = head(text, left);
            left -= columns(shown);
            match style.sgr().filter(|_| colour && !shown.is_empty()) {
                Some(sgr) => out.push_str(&format!("\u{1b}[{sgr}m{shown}\u{1b}[0m")),
                None => out.push_str(shown),
            }
            if !whole {
                break;
            }
        }
        if !fits && width != Some(0) {
            out.push('…');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a hostile agent would answer to own the terminal it is shown on.
    const ATTACKS: [&str; 8] = [
        "\u{1b}]0;owned\u{7}",
        "\u{1b}[2J\u{1b}[H",
        "ok\rcrashed",
        "\u{9b}31m",
        "\u{8}\u{8}\u{7f}",
        "\u{202e}gnp.exe",
        "a\u{2028}b\u{85}c",
        "\u{1b}P+q\u{1b}\\",
    ];

    fn steers(text: &str) -> bool {
        text.chars().any(|c| c != '\n' && c != '\t' && is_unsafe(c))
    }

    #[test]
    fn nothing_an_agent_writes_steers_the_terminal() {
        for attack in ATTACKS {
            assert!(steers(attack));
            assert!(!steers(&escaped(attack)), "{attack:?}");
            assert!(!steers(&one_line(attack, 80)), "{attack:?}");
            assert!(!steers(&Line::new().with(Style::Plain, attack).show(None, false)), "{attack:?}");
            let json = serde_json::to_string(attack).unwrap();
            let shown = json_for_terminal(&json);
            assert!(!steers(&shown), "{attack:?}");
            assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), attack, "still the same JSON");
        }
        assert_eq!(escaped("\u{1b}]0;x\u{7}\r\n\ty"), "\\e]0;x\\u{7}\\r\n\ty");
        assert_eq!(Line::new().with(Style::Bad, "a\nb").show(None, false), "a\\nb");
    }

    #[test]
    fn a_text_is_made_one_line_and_cut_where_columns_end() {
        assert_eq!(one_line("  count the\n\tlines  ", 80), "count the lines");
        assert_eq!(one_line("count the lines", 9), "count th…");
        assert_eq!(one_line("count the lines", 7), "count…");
        assert_eq!(one_line("日本語のテキスト", 7), "日本語…");
        assert_eq!(one_line("abc", 0), "");
        assert_eq!(one_line(&"\u{301}".repeat(1 << 20), 10).len(), 2 * 29 + "…".len(), "no width, no end");
        assert!(one_line(&" ".repeat(1 << 20), 10).len() < 10);
        assert!(one_line(&"x".repeat(1 << 20), 10).len() < 20);
    }

    #[test]
    fn a_line_keeps_its_colours_to_itself() {
        let line = Line::new().with(Style::Plain, "a ").with(Style::Bad, "crashed").with(Style::Dim, " at once");
        assert_eq!(line.show(None, false), "a crashed at once");
        assert_eq!(line.show(Some(6), false), "a cra…");
        assert_eq!(line.show(Some(9), true), "a \u{1b}[31mcrashe\u{1b}[0m…");
        assert_eq!(line.show(Some(10), true), "a \u{1b}[31mcrashed\u{1b}[0m…");
        assert_eq!(line.show(Some(0), true), "");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_asked_nor_steers(parts in prop::collection::vec(any::<String>(), 0..5), width in 0_usize..40) {
            let line = parts.iter().fold(Line::new(), |line, part| line.with(Style::Plain, part));
            let shown = line.show(Some(width), false);
            prop_assert!(columns(&shown) <= width, "{shown:?}");
            prop_assert!(!shown.chars().any(is_unsafe));
            for part in &parts {
                let short = one_line(part, width);
                prop_assert!(columns(&short) <= width && !short.chars().any(is_unsafe), "{short:?}");
            }
        }
    }
}
