//! The end of what a process wrote as errors.

use std::collections::VecDeque;

use super::lines::{Lines, Piece};

/// How many lines are kept.
const LINES: usize = 20;
/// How many bytes of a line are kept.
const LINE: usize = 2_000;

/// The last lines of a stream, at most 20 of at most 2 000 bytes.
#[derive(Debug)]
pub struct Tail {
    lines: Lines,
    last: VecDeque<String>,
    /// How many sequences were not UTF-8.
    replaced: u64,
    bytes: u64,
}

impl Default for Tail {
    fn default() -> Self {
        Self { lines: Lines::new(LINE), last: VecDeque::new(), replaced: 0, bytes: 0 }
    }
}

impl Tail {
    /// Takes some bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        let Self { lines, last, replaced, .. } = self;
        lines.feed(bytes, |piece| keep(last, replaced, piece));
    }

    /// How many bytes there were in all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The kept lines, at most `limit` bytes of them, the last ones; and how many sequences were not UTF-8.
    pub fn finish(mut self, limit: usize) -> (String, u64) {
        if let Some(piece) = self.lines.finish() {
            keep(&mut self.last, &mut self.replaced, piece);
        }
        let text = Vec::from(self.last).join("\n");
        let mut from = text.len().saturating_sub(limit);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        (text[from..].to_owned(), self.replaced)
    }
}

fn keep(last: &mut VecDeque<String>, count: &mut u64, piece: Piece) {
    let text = match piece {
        Piece::Line { text, replaced, .. } => {
            *count += u64::from(replaced);
            text
        }
        Piece::Skipped { len } => format!("(a line of {len} bytes)"),
    };
    if last.len() == LINES {
        last.pop_front();
    }
    last.push_back(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_20_lines_within_the_limit() {
        let mut tail = Tail::default();
        for n in 0..100 {
            tail.push(format!("line {n}\n").as_bytes());
        }
        tail.push(b"no newline");
        let (text, replaced) = tail.finish(2_000);
        assert_eq!(text.lines().count(), 20);
        assert!(text.starts_with("line 81\n") && text.ends_with("\nno newline"), "{text}");
        assert_eq!(replaced, 0);
    }

    #[test]
    fn ten_mebibytes_of_anything_stay_small() {
        let mut tail = Tail::default();
        (0..160).for_each(|_| tail.push(&[0xff; 64 << 10]));
        assert_eq!(tail.bytes(), 10 << 20);
        let (text, _) = tail.finish(2_000);
        assert_eq!(text, "(a line of 10485760 bytes)");
        let mut tail = Tail::default();
        (0..100).for_each(|_| tail.push("ü\u{fffd}".repeat(300).as_bytes()));
        (0..100).for_each(|_| tail.push(b"\xc3\n"));
        let (text, replaced) = tail.finish(10);
        assert!(text.len() <= 10 && replaced == 100, "{text:?} {replaced}");
    }
}
