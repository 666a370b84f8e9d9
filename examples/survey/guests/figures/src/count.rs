//! Counting one file, fed in pieces of any size.

use miniserde::json;

/// The figures of a file, or the totals of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, miniserde::Serialize, miniserde::Deserialize)]
pub struct Figures {
    /// Newlines, as `wc -l`: a last line without one does not count.
    pub lines: u64,
    /// Runs of bytes between ASCII white space that hold at least one printable ASCII character, as GNU `wc -w` has it
    /// in the C locale (up to coreutils 9.4; a later one counts the other runs too).
    pub words: u64,
    /// Bytes, as `wc -c`.
    pub bytes: u64,
    /// Places where `TODO` stands, as `grep -ao TODO | wc -l`.
    pub todo: u64,
    /// Places where `FIXME` stands.
    pub fixme: u64,
    /// Bytes of the longest line, its newline not counted; a last line without one counts here.
    pub longest: u64,
}

impl Figures {
    /// Adds another file's figures; the longest line is the longer of the two.
    pub fn add(&mut self, other: &Self) {
        self.lines = self.lines.saturating_add(other.lines);
        self.words = self.words.saturating_add(other.words);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.todo = self.todo.saturating_add(other.todo);
        self.fixme = self.fixme.saturating_add(other.fixme);
        self.longest = self.longest.max(other.longest);
    }

    /// The figures as one line of JSON.
    pub fn to_json(&self) -> String {
        json::to_string(self)
    }

    /// Reads what [`Figures::to_json`] wrote.
    pub fn from_json(text: &str) -> Option<Self> {
        json::from_str(text).ok()
    }
}

/// Counts a file of which it holds nothing but where it stands in it.
#[derive(Default)]
pub struct Counter {
    figures: Figures,
    in_word: bool,
    line: u64,
    todo: Mark<4>,
    fixme: Mark<5>,
}

impl Counter {
    /// Counts the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        self.figures.bytes += piece.len() as u64;
        for &byte in piece {
            self.figures.todo += u64::from(self.todo.met(b"TODO", byte));
            self.figures.fixme += u64::from(self.fixme.met(b"FIXME", byte));
            match byte {
                b'\n' => {
                    self.figures.lines += 1;
                    self.end_line();
                    self.in_word = false;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {
                    self.line += 1;
                    self.in_word = false;
                }
                b'!'..=b'~' => {
                    self.line += 1;
                    self.figures.words += u64::from(!self.in_word);
                    self.in_word = true;
                }
                // Neither begins a word nor ends one.
                _ => self.line += 1,
            }
        }
    }

    /// The figures of all that was fed.
    pub fn finish(mut self) -> Figures {
        self.end_line();
        self.figures
    }

    fn end_line(&mut self) {
        self.figures.longest = self.figures.longest.max(self.line);
        self.line = 0;
    }
}

/// How much of a mark has been met. No mark begins again inside itself, so one number is enough.
#[derive(Default)]
struct Mark<const N: usize>(usize);

impl<const N: usize> Mark<N> {
    fn met(&mut self, mark: &[u8; N], byte: u8) -> bool {
        self.0 = if mark[self.0] == byte { self.0 + 1 } else { usize::from(mark[0] == byte) };
        let whole = self.0 == N;
        if whole {
            self.0 = 0;
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    fn count(text: &[u8]) -> Figures {
        let mut counter = Counter::default();
        counter.feed(text);
        counter.finish()
    }

    /// What a shell says of the same bytes.
    fn shell(script: &str, input: &[u8]) -> u64 {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut stdin = child.stdin.take().expect("piped");
        let bytes = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&bytes));
        let output = child.wait_with_output().expect("its output");
        writer.join().expect("no panic").expect("written");
        String::from_utf8(output.stdout).expect("a number").trim().parse().expect("a number")
    }

    /// The figures as `wc` and `grep` have them, whatever their version.
    fn tools(input: &[u8]) -> Figures {
        Figures {
            lines: shell("wc -l", input),
            words: shell(r"tr -d '\000-\010\016-\037\177-\377' | wc -w", input),
            bytes: shell("wc -c", input),
            todo: shell("grep -ao TODO | wc -l", input),
            fixme: shell("grep -ao FIXME | wc -l", input),
            longest: shell(r"tr '\000-\011\013-\377' x | wc -L", input),
        }
    }

    /// Numbers that look like chance and are the same in every run.
    fn noise(seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
    }

    #[test]
    fn it_agrees_with_wc_and_grep_on_hostile_bytes() {
        let every_byte: Vec<u8> = (0..=255).collect();
        let between: Vec<u8> = (0..=255).flat_map(|b| [b'a', b, b'a', b' ', b, b'\n']).collect();
        for input in [
            b"".as_slice(),
            b"\n",
            b"no newline",
            b"one\ntwo\n",
            b"\n\n  \t\x0b\x0c\r\n",
            b"a\x01b \x7f \x80 c\xff",
            "— ein Strich, Кириллица, \u{a0}NBSP\n".as_bytes(),
            b"TODOTODO TODO: TTODO TO\nDO TOTODO todo FIXMEFIXME FIFIXME FIX\nME \x00TODO\xffFIXME",
            b"\r\ntab\there\r\n",
            &every_byte,
            &between,
        ] {
            assert_eq!(count(input), tools(input), "{:?}", String::from_utf8_lossy(input));
        }
    }

    #[test]
    fn it_agrees_with_wc_and_grep_on_noise_rich_in_marks_and_white_space() {
        let words: [&[u8]; 12] =
            [b"TODO", b"FIXME", b"TO", b"FI", b" ", b"\n", b"\t", b"x", b"\x00", b"\x80", b"\x0c", b"long-word"];
        for seed in 1..=20 {
            let mut noise = noise(seed);
            let input: Vec<u8> = (0..400)
                .flat_map(|_| {
                    let n = noise.next().unwrap_or(0);
                    if n % 5 == 0 { vec![(n >> 8) as u8] } else { words[(n >> 8) as usize % words.len()].to_vec() }
                })
                .collect();
            assert_eq!(count(&input), tools(&input), "seed {seed}");
        }
    }

    #[test]
    fn where_a_file_is_cut_into_pieces_changes_nothing() {
        let text = b"a TODO here,\nFIXME there \xe2\x80\x94 and a long last line without its end: TODO";
        let whole = count(text);
        assert_eq!((whole.todo, whole.fixme, whole.lines), (2, 1, 1));
        for size in 1..text.len() {
            let mut counter = Counter::default();
            text.chunks(size).for_each(|piece| counter.feed(piece));
            assert_eq!(counter.finish(), whole, "pieces of {size}");
        }
    }

    #[test]
    fn adding_takes_the_longer_longest_line_and_never_overflows() {
        let mut total = Figures { lines: 1, words: 2, bytes: u64::MAX, todo: 0, fixme: 1, longest: 7 };
        total.add(&Figures { lines: 1, words: 1, bytes: 1, todo: 1, fixme: 1, longest: 5 });
        assert_eq!(total, Figures { lines: 2, words: 3, bytes: u64::MAX, todo: 1, fixme: 2, longest: 7 });
    }
}
