//! The end of what a process wrote as errors.

use std::collections::VecDeque;

/// How many lines are kept.
const LINES: usize = 20;
/// How many bytes of a line are kept.
const LINE: usize = 2_000;

/// The last lines of a stream, at most 20 of at most 2 000 bytes.
#[derive(Debug, Default)]
pub struct Tail {
    last: VecDeque<String>,
    /// The beginning of the line that is being read, and how many bytes it has by now.
    line: Vec<u8>,
    len: u64,
    /// How many sequences were not UTF-8.
    replaced: u64,
    bytes: u64,
}

impl Tail {
    /// Takes some bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.take(&bytes[..end]);
            self.cut();
            bytes = &bytes[end + 1..];
        }
        self.take(bytes);
    }

    /// How many bytes there were in all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The kept lines, at most `limit` bytes of them, the last ones; and how many sequences were not UTF-8.
    pub fn finish(mut self, limit: usize) -> (String, u64) {
        if self.len > 0 {
            self.cut();
        }
        let text = Vec::from(self.last).join("\n");
        let mut from = text.len().saturating_sub(limit);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        (text[from..].to_owned(), self.replaced)
    }

    fn take(&mut self, bytes: &[u8]) {
        let room = LINE.saturating_sub(self.line.len()).min(bytes.len());
        self.line.extend_from_slice(&bytes[..room]);
        self.len += bytes.len() as u64;
    }

    fn cut(&mut self) {
        let cut = self.len > self.line.len() as u64;
        let mut text = String::new();
        for chunk in self.line.utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                self.replaced += 1;
            }
        }
        if cut {
            text.push_str(&format!("… ({} bytes)", self.len));
        }
        self.line.clear();
        self.len = 0;
        if self.last.len() == LINES {
            self.last.pop_front();
        }
        self.last.push_back(text);
    }
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
        assert!(text.len() <= 2_000 && text.ends_with("… (10485760 bytes)"), "{text}");
        let mut tail = Tail::default();
        (0..100).for_each(|_| tail.push("ü\u{fffd}".repeat(300).as_bytes()));
        tail.push(b"\n");
        (0..100).for_each(|_| tail.push(b"\xc3\n"));
        let (text, replaced) = tail.finish(10);
        assert!(text.len() <= 10 && replaced == 100, "{text:?} {replaced}");
    }
}
