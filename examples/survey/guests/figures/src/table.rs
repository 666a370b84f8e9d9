//! The report as a person reads it.

use std::fmt::Write;

use crate::{Figures, Report};

const HEAD: [&str; 6] = ["bytes", "lines", "words", "TODO", "FIXME", "longest"];

/// The report as a table: the largest files, the totals, then what the figures do not hold.
pub fn table(report: &Report) -> String {
    let total = row(&report.total);
    // No column of a file is wider than that of the total.
    let width: Vec<usize> = (0..HEAD.len()).map(|i| HEAD[i].len().max(total[i].len())).collect();
    let mut text = String::new();
    let mut line = |cells: [&str; 6], last: &str| {
        for (cell, width) in cells.iter().zip(&width) {
            // Writing to a String does not fail.
            let _ = write!(text, "{cell:>width$}  ");
        }
        text.push_str(last);
        text.push('\n');
    };
    line(HEAD, &title(report));
    for file in &report.largest {
        let cells = row(&file.figures);
        line(cells.each_ref().map(String::as_str), &printable(&file.path));
    }
    let files = plural(report.files, "file", "files");
    let directories = plural(report.directories, "directory", "directories");
    line(total.each_ref().map(String::as_str), &format!("total: {files} in {directories}"));
    text.push_str(&rest(report));
    text
}

fn row(figures: &Figures) -> [String; 6] {
    let Figures { lines, words, bytes, todo, fixme, longest } = *figures;
    [bytes, lines, words, todo, fixme, longest].map(|n| n.to_string())
}

fn title(report: &Report) -> String {
    let shown = report.largest.len() as u64;
    if shown < report.files { format!("the {shown} largest files") } else { "file".into() }
}

/// What the figures do not hold, and why.
fn rest(report: &Report) -> String {
    let mut text = String::new();
    for (count, what) in [
        (report.left_out, "left out: .git, .treeward, or holds a CACHEDIR.TAG"),
        (report.links, "not followed: symbolic link"),
        (report.special, "not opened: FIFO, socket or device"),
        (report.unnamed, "not surveyed: name is not UTF-8"),
        (report.unreadable, "not readable"),
        (report.not_surveyed, "not surveyed: a budget or a limit was reached"),
        (report.lost, "LOST, with everything below it"),
        (report.unranked, "too long a path to be named among the largest"),
    ] {
        if count > 0 {
            let _ = write!(text, "\n{count:>6}  {what}");
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        let path = if note.path.is_empty() { "." } else { &note.path };
        let _ = writeln!(text, "{}: {}", printable(path), printable(&note.what));
    }
    if report.more_notes > 0 {
        let _ = writeln!(text, "… and {} more", report.more_notes);
    }
    text
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A name as it can be shown: one that holds a newline or an escape sequence forges nothing.
fn printable(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len()), |mut text, c| {
        if c.is_control() {
            text.extend(c.escape_default())
        } else {
            text.push(c)
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;

    fn file(bytes: u64, longest: u64) -> Figures {
        Figures { bytes, lines: 2, words: 3, todo: 1, fixme: 0, longest }
    }

    #[test]
    fn a_table_lines_up_and_ends_in_totals() {
        let mut report = Report::of_directory();
        report.add_file("small", file(7, 3));
        report.add_file("large", file(1_234_567, 80));
        assert_eq!(
            table(&report),
            "  bytes  lines  words  TODO  FIXME  longest  file\n\
             1234567      2      3     1      0       80  large\n\
             \u{20}     7      2      3     1      0        3  small\n\
             1234574      4      6     2      0       80  total: 2 files in 1 directory\n"
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut report = Report::of_directory();
        report.add_outcome("a", Outcome::Lost, Some("subtree lost (crashed: a panic)".into()));
        report.add_outcome("b", Outcome::Link, None);
        report.add_outcome("", Outcome::Unnamed, Some("1 name that is not UTF-8".into()));
        report.more_notes = 3;
        let text = table(&report);
        for line in [
            "     1  LOST, with everything below it",
            "     1  not followed: symbolic link",
            ".: 1 name that is not UTF-8",
            "a: subtree lost (crashed: a panic)",
            "… and 3 more",
        ] {
            assert!(text.lines().any(|l| l == line), "`{line}` is not in\n{text}");
        }
        assert!(!text.contains("not opened"), "{text}");
    }

    #[test]
    fn a_name_cannot_forge_a_line_or_move_the_cursor() {
        let mut report = Report::of_directory();
        report.add_file("x\ntotal: 9 files\u{1b}[2J", file(1, 1));
        let text = table(&report);
        assert_eq!(text.lines().count(), 3);
        assert!(!text.contains('\u{1b}'));
        assert!(text.contains(r"x\ntotal: 9 files\u{1b}[2J"));
    }

    #[test]
    fn with_more_files_than_rows_the_title_says_so() {
        let mut report = Report::of_directory();
        (0..25).for_each(|i| report.add_file(&format!("{i}"), file(i, 1)));
        assert!(table(&report).lines().next().unwrap().ends_with("the 20 largest files"));
        assert_eq!(table(&report).lines().count(), 22);
    }
}
