//! What is known of a directory and everything below it: small enough to hand to a parent, however large the tree.

use miniserde::json;

use crate::Figures;

/// How many of the largest files a report names.
pub const LARGEST: usize = 20;

/// How many notes a report keeps; the others are counted.
pub const NOTES: usize = 40;

/// Bytes a report may take as JSON: less than the 64 KiB of an answer that a parent is handed.
pub const ROOM: usize = 60 << 10;

/// A file and its figures.
#[derive(Clone, Debug, PartialEq, Eq, miniserde::Serialize, miniserde::Deserialize)]
pub struct Ranked {
    /// Where it is, below the directory reported on.
    pub path: String,
    /// What was counted in it.
    pub figures: Figures,
}

/// Something a reader of the report should know of one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, miniserde::Serialize, miniserde::Deserialize)]
pub struct Note {
    /// Where, below the directory reported on; empty for that directory itself.
    pub path: String,
    /// What happened there.
    pub what: String,
}

/// What became of one thing in a directory that was not surveyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `.git`, `.treeward`, or a directory that says of itself that it is a cache.
    LeftOut,
    /// A symbolic link, not followed.
    Link,
    /// A FIFO, a socket or a device, not opened.
    Special,
    /// Its name is not UTF-8, so no guest can say it.
    Unnamed,
    /// It could not be read.
    Unreadable,
    /// Whoever was at it crashed, ran out of time or answered nonsense: nothing below it is in the figures.
    Lost,
    /// Nobody could be sent: a budget or a limit was reached.
    NotSurveyed,
}

/// What is known of a directory and everything below it.
///
/// Merging is independent of order: the same directory gives the same report whichever child answers first.
#[derive(Clone, Debug, Default, PartialEq, Eq, miniserde::Serialize, miniserde::Deserialize)]
pub struct Report {
    /// Regular files that were counted.
    pub files: u64,
    /// Directories that were surveyed.
    pub directories: u64,
    /// The figures of all files together.
    pub total: Figures,
    /// The largest files, by bytes, then by path.
    pub largest: Vec<Ranked>,
    /// See [`Outcome::LeftOut`].
    pub left_out: u64,
    /// See [`Outcome::Link`].
    pub links: u64,
    /// See [`Outcome::Special`].
    pub special: u64,
    /// See [`Outcome::Unnamed`].
    pub unnamed: u64,
    /// See [`Outcome::Unreadable`].
    pub unreadable: u64,
    /// See [`Outcome::Lost`].
    pub lost: u64,
    /// See [`Outcome::NotSurveyed`].
    pub not_surveyed: u64,
    /// The first notes by path.
    pub notes: Vec<Note>,
    /// How many notes there was no room for.
    pub more_notes: u64,
    /// How many files were among the largest and had a path too long to name.
    pub unranked: u64,
}

impl Report {
    /// Of a directory of which nothing is known yet.
    pub fn of_directory() -> Self {
        Self { directories: 1, ..Self::default() }
    }

    /// Adds a file of this directory.
    pub fn add_file(&mut self, name: &str, figures: Figures) {
        self.files = self.files.saturating_add(1);
        self.total.add(&figures);
        self.largest.push(Ranked { path: name.into(), figures });
        self.rank();
    }

    /// Adds what a sub-directory reported.
    pub fn add_directory(&mut self, name: &str, below: Self) {
        for (mine, theirs) in [
            (&mut self.files, below.files),
            (&mut self.directories, below.directories),
            (&mut self.left_out, below.left_out),
            (&mut self.links, below.links),
            (&mut self.special, below.special),
            (&mut self.unnamed, below.unnamed),
            (&mut self.unreadable, below.unreadable),
            (&mut self.lost, below.lost),
            (&mut self.not_surveyed, below.not_surveyed),
            (&mut self.more_notes, below.more_notes),
            (&mut self.unranked, below.unranked),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        self.total.add(&below.total);
        self.largest.extend(below.largest.into_iter().map(|file| Ranked { path: join(name, &file.path), ..file }));
        self.rank();
        self.notes.extend(below.notes.into_iter().map(|note| Note { path: join(name, &note.path), ..note }));
        self.keep_first_notes();
    }

    /// Adds something that was not surveyed.
    pub fn add_outcome(&mut self, name: &str, outcome: Outcome, what: Option<String>) {
        let count = match outcome {
            Outcome::LeftOut => &mut self.left_out,
            Outcome::Link => &mut self.links,
            Outcome::Special => &mut self.special,
            Outcome::Unnamed => &mut self.unnamed,
            Outcome::Unreadable => &mut self.unreadable,
            Outcome::Lost => &mut self.lost,
            Outcome::NotSurveyed => &mut self.not_surveyed,
        };
        *count = count.saturating_add(1);
        if let Some(what) = what {
            self.note(name, what);
        }
    }

    /// Adds a note.
    pub fn note(&mut self, name: &str, what: String) {
        self.notes.push(Note { path: name.into(), what });
        self.keep_first_notes();
    }

    /// The report as one line of JSON, at most [`ROOM`] bytes: notes, then files, that there is no room for are counted.
    pub fn to_json(mut self) -> String {
        loop {
            let text = json::to_string(&self);
            if text.len() <= ROOM {
                return text;
            }
            // Half at a time, so that the worst case takes a few rounds.
            if !self.notes.is_empty() {
                let kept = self.notes.len() / 2;
                self.more_notes = self.more_notes.saturating_add((self.notes.len() - kept) as u64);
                self.notes.truncate(kept);
            } else if let Some(longest) = self.longest_path() {
                self.largest.remove(longest);
                self.unranked = self.unranked.saturating_add(1);
            } else {
                return text;
            }
        }
    }

    /// Reads what [`Report::to_json`] wrote.
    pub fn from_json(text: &str) -> Option<Self> {
        json::from_str(text).ok()
    }

    fn longest_path(&self) -> Option<usize> {
        (0..self.largest.len()).max_by_key(|&i| self.largest[i].path.len())
    }

    fn rank(&mut self) {
        self.largest.sort_by(|a, b| b.figures.bytes.cmp(&a.figures.bytes).then_with(|| a.path.cmp(&b.path)));
        self.largest.truncate(LARGEST);
    }

    fn keep_first_notes(&mut self) {
        self.notes.sort();
        if self.notes.len() > NOTES {
            self.more_notes = self.more_notes.saturating_add((self.notes.len() - NOTES) as u64);
            self.notes.truncate(NOTES);
        }
    }
}

fn join(directory: &str, path: &str) -> String {
    if path.is_empty() { directory.into() } else { format!("{directory}/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> Figures {
        Figures { bytes, lines: 1, ..Figures::default() }
    }

    #[test]
    fn paths_grow_from_the_leaf_up_and_counts_add() {
        let mut leaf = Report::of_directory();
        leaf.add_file("x", file(5));
        leaf.add_outcome("secret", Outcome::Unreadable, Some("permission denied".into()));
        leaf.add_outcome("", Outcome::Unnamed, None);
        let mut middle = Report::of_directory();
        middle.add_directory("leaf", leaf);
        middle.add_outcome("gone", Outcome::Lost, Some("crashed: panic".into()));
        let mut root = Report::of_directory();
        root.add_directory("middle", middle);
        root.add_file("y", file(3));
        assert_eq!((root.files, root.directories, root.total.bytes, root.total.lines), (2, 3, 8, 2));
        assert_eq!((root.unreadable, root.unnamed, root.lost), (1, 1, 1));
        let paths: Vec<_> = root.largest.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, ["middle/leaf/x", "y"]);
        let notes: Vec<_> = root.notes.iter().map(|n| n.path.as_str()).collect();
        assert_eq!(notes, ["middle/gone", "middle/leaf/secret"]);
    }

    #[test]
    fn a_note_on_a_directory_itself_takes_its_name() {
        let mut below = Report::default();
        below.add_outcome("", Outcome::LeftOut, Some("CACHEDIR.TAG".into()));
        let mut root = Report::of_directory();
        root.add_directory("target", below);
        assert_eq!(root.notes, [Note { path: "target".into(), what: "CACHEDIR.TAG".into() }]);
        assert_eq!((root.directories, root.left_out), (1, 1));
    }

    #[test]
    fn the_order_of_answers_does_not_show() {
        let mut children: Vec<(String, Report)> = (0..30)
            .map(|i| {
                let mut report = Report::of_directory();
                report.add_file("a", file(i % 7));
                report.note("a", format!("note {i}"));
                report.note("b", format!("note {i}"));
                (format!("d{i}"), report)
            })
            .collect();
        let merge = |children: &[(String, Report)]| {
            let mut root = Report::of_directory();
            children.iter().for_each(|(name, report)| root.add_directory(name, report.clone()));
            root.to_json()
        };
        let first = merge(&children);
        children.reverse();
        assert_eq!(merge(&children), first);
        children.rotate_left(11);
        assert_eq!(merge(&children), first);
    }

    #[test]
    fn only_the_largest_are_kept_and_equals_rank_by_path() {
        let mut root = Report::of_directory();
        for i in 0..10_000 {
            root.add_file(&format!("f{i:05}"), file(i / 3));
        }
        assert_eq!((root.files, root.largest.len()), (10_000, LARGEST));
        assert_eq!((root.largest[0].path.as_str(), root.largest[1].path.as_str()), ("f09999", "f09996"));
        assert_eq!(root.largest[2].path, "f09997");
    }

    #[test]
    fn a_report_fits_its_room_whatever_the_names_and_says_what_it_dropped() {
        let long = "\u{1}".repeat(255);
        let path = vec![long; 16].join("/");
        let mut root = Report::of_directory();
        for i in 0..LARGEST as u64 {
            root.add_file(&format!("{path}/{i}"), file(i));
        }
        for i in 0..1_000 {
            root.add_outcome(&format!("{path}/{i}"), Outcome::Lost, Some("x".repeat(2_000)));
        }
        let text = root.to_json();
        assert!(text.len() <= ROOM, "{}", text.len());
        let back = Report::from_json(&text).expect("its own JSON");
        assert_eq!((back.files, back.lost), (LARGEST as u64, 1_000));
        assert_eq!(back.notes.len() as u64 + back.more_notes, 1_000);
        assert_eq!(back.largest.len() as u64 + back.unranked, LARGEST as u64);
    }

    #[test]
    fn a_report_reads_back_as_written_and_nonsense_does_not() {
        let mut report = Report::of_directory();
        report.add_file("ä \"quoted\"\n", file(u64::MAX));
        report.note("x", "y".into());
        assert_eq!(Report::from_json(&report.clone().to_json()), Some(report));
        for bad in ["", "{}", "[]", "null", "{\"files\":1}", "{\"files\":-1}"] {
            assert_eq!(Report::from_json(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_child_that_lies_cannot_make_its_parent_overflow_or_grow() {
        let lie = Report {
            files: u64::MAX,
            largest: vec![Ranked { path: "x".into(), figures: file(u64::MAX) }; 1_000],
            notes: vec![Note { path: "x".into(), what: "y".into() }; 1_000],
            more_notes: u64::MAX,
            ..Report::default()
        };
        let mut root = Report::of_directory();
        root.add_directory("a", lie.clone());
        root.add_directory("b", lie);
        assert_eq!((root.files, root.more_notes), (u64::MAX, u64::MAX));
        assert_eq!((root.largest.len(), root.notes.len()), (LARGEST, NOTES));
    }
}
