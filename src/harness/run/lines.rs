//! Cuts bytes into lines, whatever the bytes are and however they come.

/// How many bytes a line may have, its line end not counted.
pub const LONGEST_LINE: usize = crate::limits::PROGRAM_LINE;

/// What came of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A line, without its line end (`\n` or `\r\n`).
    Line {
        /// Its text; what was not UTF-8 is replaced by U+FFFD.
        text: String,
        /// How many sequences were replaced.
        replaced: u32,
        /// Whether there was a line end.
        ended: bool,
    },
    /// A line that was longer than it may be, and was skipped.
    Skipped {
        /// How many bytes it had.
        len: u64,
    },
}

/// Cuts bytes into lines. Holds at most one line of the limit; a longer one costs one [`Piece::Skipped`], not the stream.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    line: Vec<u8>,
    /// How many bytes of a line over the limit were skipped so far.
    skipped: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(LONGEST_LINE)
    }
}

impl Lines {
    /// Lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), skipped: 0 }
    }

    /// Takes some bytes; `take` is given every line that ends in them.
    pub fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(Piece)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.push(&bytes[..end]);
            bytes = &bytes[end + 1..];
            take(self.cut(true));
        }
        self.push(bytes);
    }

    /// Nothing more comes: what stands behind the last line end, where something does.
    pub fn finish(&mut self) -> Option<Piece> {
        (self.skipped > 0 || !self.line.is_empty()).then(|| self.cut(false))
    }

    fn push(&mut self, bytes: &[u8]) {
        // One more than the limit is held: a `\r` before the line end does not count.
        if self.skipped == 0 && self.line.len() + bytes.len() <= self.limit + 1 {
            self.line.extend_from_slice(bytes);
            return;
        }
        self.skipped += (self.line.len() + bytes.len()) as u64;
        self.line = Vec::new();
    }

    fn cut(&mut self, ended: bool) -> Piece {
        if self.skipped > 0 {
            let len = std::mem::take(&mut self.skipped);
            return Piece::Skipped { len };
        }
        let line = std::mem::take(&mut self.line);
        let line = match line.strip_suffix(b"\r") {
            Some(shorter) if ended => shorter,
            _ => &line,
        };
        if line.len() > self.limit {
            return Piece::Skipped { len: line.len() as u64 };
        }
        let mut text = String::with_capacity(line.len());
        let mut replaced = 0;
        for chunk in line.utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                replaced += 1;
            }
        }
        Piece::Line { text, replaced, ended }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(limit: usize, pieces: &[&[u8]]) -> Vec<Piece> {
        let mut lines = Lines::new(limit);
        let mut all = Vec::new();
        for piece in pieces {
            lines.feed(piece, |piece| all.push(piece));
        }
        all.extend(lines.finish());
        all
    }

    fn line(text: &str) -> Piece {
        Piece::Line { text: text.into(), replaced: 0, ended: true }
    }

    #[test]
    fn lines_end_in_all_the_ways_lines_end() {
        assert_eq!(cut(9, &[b"a\nb\r\n\n"]), [line("a"), line("b"), line("")]);
        assert_eq!(cut(9, &[b"a\nlast"])[1], Piece::Line { text: "last".into(), replaced: 0, ended: false });
        assert_eq!(cut(9, &[b"a\0b\n"]), [line("a\0b")]);
        assert_eq!(cut(9, &[b"a\rb\n"]), [line("a\rb")]);
        assert_eq!(cut(9, &[b""]), []);
    }

    #[test]
    fn a_line_over_the_limit_costs_one_marker_and_the_next_is_whole() {
        for (len, kept) in [(1, true), (65_535, true), (65_536, true), (65_537, false), (1 << 20, false)] {
            let mut bytes = vec![b'x'; len];
            bytes.extend(b"\nresult\n");
            let all = cut(65_536, &[&bytes]);
            match &all[0] {
                Piece::Line { text, .. } => assert!(kept && text.len() == len),
                Piece::Skipped { len: skipped } => assert!(!kept && *skipped == len as u64),
            }
            assert_eq!(all[1], line("result"));
        }
        assert_eq!(cut(4, &[b"abcd\r\nabcde\r\n"]), [line("abcd"), Piece::Skipped { len: 6 }]);
        assert_eq!(cut(4, &[b"abcdef"]), [Piece::Skipped { len: 6 }]);
    }

    #[test]
    fn a_line_of_300_mib_is_never_held() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1 << 20];
        let mut all = Vec::new();
        for _ in 0..300 {
            lines.feed(&piece, |piece| all.push(piece));
            assert!(lines.line.capacity() <= 2 * LONGEST_LINE);
        }
        lines.feed(b"\nresult\n", |piece| all.push(piece));
        assert_eq!(all, [Piece::Skipped { len: 300 << 20 }, line("result")]);
    }

    #[test]
    fn what_is_not_utf8_is_replaced_and_counted() {
        for (bytes, replaced) in [(b"\xff".as_slice(), 1), (b"\xc3\x28", 1), (b"\xed\xa0\x80", 3), ("ü".as_bytes(), 0)]
        {
            let all = cut(99, &[bytes, b"\n"]);
            assert!(matches!(&all[0], Piece::Line { replaced: n, .. } if *n == replaced), "{bytes:?}: {all:?}");
        }
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_changes_nothing(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0xc3), Just(0xbc), any::<u8>()], 0..200),
            cuts in prop::collection::vec(0_usize..200, 0..12), limit in 0_usize..40,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let all = cut(limit, &pieces);
            prop_assert_eq!(&all, &cut(limit, &[&bytes]));
            // Every line end makes one piece, and no byte is lost sight of.
            let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
            let rest = usize::from(!bytes.is_empty() && bytes.last() != Some(&b'\n'));
            prop_assert_eq!(all.len(), ends + rest);
        }
    }
}
