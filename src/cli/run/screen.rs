//! The tree as it grows, redrawn in place.

use std::io::Write;

use crate::cli::view::{Line, Space, Tree, draw};

/// A frame that stands on a terminal, to be drawn over by the next.
#[derive(Debug, Default)]
pub struct Screen {
    /// The columns of each line that stands there.
    standing: Vec<usize>,
    colour: bool,
}

/// A terminal's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

impl Size {
    /// Standard error's; of an ordinary terminal where it cannot be learned.
    pub fn of_stderr() -> Self {
        Self::of(std::io::stderr())
    }

    /// Standard output's.
    pub fn of_stdout() -> Self {
        Self::of(std::io::stdout())
    }

    fn of(terminal: impl std::os::fd::AsFd) -> Self {
        terminal_size::terminal_size_of(terminal).map_or(Self { columns: 80, rows: 24 }, |(columns, rows)| Self {
            columns: columns.0.into(),
            rows: rows.0.into(),
        })
    }
}

impl Screen {
    /// A screen with nothing on it yet.
    pub fn new(colour: bool) -> Self {
        Self { standing: Vec::new(), colour }
    }

    /// Draws the tree over the last frame, with `below` as its last line. `last`: it stays, so what is over is shown
    /// in full where there is room.
    pub fn show(
        &mut self,
        tree: &Tree,
        below: Option<&Line>,
        size: Size,
        last: bool,
        to: &mut impl Write,
    ) -> std::io::Result<()> {
        // The last column stays free, or a full line would wrap; the last row is the cursor's.
        let width = size.columns.saturating_sub(1).max(1);
        let rows = size.rows.saturating_sub(1 + usize::from(below.is_some())).max(1);
        let mut lines = draw(tree, Space { width: Some(width), rows: Some(rows), fold_ended: !last });
        lines.extend(below.cloned());
        let mut frame = self.back(size.columns);
        self.standing.clear();
        for line in &lines {
            self.standing.push(line.columns().min(width));
            frame.push_str(&line.show(Some(width), self.colour));
            frame.push_str("\u{1b}[K\r\n");
        }
        frame.push_str("\u{1b}[J");
        if last {
            self.standing.clear();
        }
        // One write: half a frame is never seen.
        to.write_all(frame.as_bytes())?;
        to.flush()
    }

    /// Moves to the first line of the last frame. A terminal that was made narrower has wrapped its lines since.
    fn back(&self, columns: usize) -> String {
        let rows: usize = self.standing.iter().map(|wide| wide.div_ceil(columns.max(1)).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\u{1b}[{rows}A\r") }
    }
}

#[cfg(test)]
mod tests {
    use treeward::journal::{Body, Kind};

    use super::*;
    use crate::cli::view::Style;

    fn tree(children: u32) -> Tree {
        let mut tree = Tree::default();
        for n in 0..children {
            let kind = Kind::Delegated {
                child: "0.0".parse().unwrap(),
                capsule: "reader".into(),
                task: "a\u{1b}[2Jb".into(),
                lent: vec![],
                deadline_ms: 1,
            };
            let strand = treeward::ids::Strand::Delegation(n);
            tree.apply(&Body { path: "0".parse().unwrap(), attempt: 1, strand, n: 1, kind }, 0);
        }
        tree
    }

    fn shown(screen: &mut Screen, tree: &Tree, size: Size, last: bool) -> String {
        let mut out = Vec::new();
        screen.show(tree, Some(&Line::new().with(Style::Dim, "stopping")), size, last, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_frame_is_drawn_over_the_last_and_never_larger_than_the_terminal() {
        let mut screen = Screen::new(false);
        let size = Size { columns: 30, rows: 8 };
        let first = shown(&mut screen, &tree(2), size, false);
        assert_eq!(first.matches("\r\n").count(), 4);
        assert!(!first.contains('A'), "nothing to go back over: {first:?}");
        let second = shown(&mut screen, &tree(100), size, false);
        assert!(second.starts_with("\u{1b}[4A\r"), "{second:?}");
        assert_eq!(second.matches("\r\n").count(), size.rows - 1);
        let third = shown(&mut screen, &tree(1), size, true);
        assert!(third.starts_with("\u{1b}[7A\r") && third.ends_with("\u{1b}[J"), "{third:?}");
        assert!(!shown(&mut screen, &tree(1), size, false).starts_with('\u{1b}'), "the last frame stays");
    }

    #[test]
    fn lines_that_wrapped_when_the_terminal_shrank_are_drawn_over_too() {
        let mut screen = Screen::new(false);
        shown(&mut screen, &tree(1), Size { columns: 40, rows: 8 }, false);
        let rows: usize = screen.standing.iter().map(|wide| wide.div_ceil(10)).sum();
        assert!(rows > 3);
        assert!(
            shown(&mut screen, &tree(1), Size { columns: 10, rows: 8 }, false).starts_with(&format!("\u{1b}[{rows}A"))
        );
    }

    #[test]
    fn the_only_escapes_are_its_own() {
        let frame = shown(&mut Screen::new(false), &tree(1), Size { columns: 60, rows: 8 }, false);
        let left = frame.replace("\u{1b}[K\r\n", "").replace("\u{1b}[J", "");
        assert!(!left.chars().any(char::is_control), "{left:?}");
        assert!(left.contains("a\\e[2Jb"));
        shown(&mut Screen::new(true), &tree(1), Size { columns: 0, rows: 0 }, false);
    }
}
