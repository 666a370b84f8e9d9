//! Reading tables of a TOML file so that nothing in them goes unread, and every complaint has its line.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ManifestError, Problem};
use crate::capsule::name::{nearest, shown};

/// A file's text and where its lines begin.
pub(super) struct Source<'a> {
    file: &'a Path,
    line_starts: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a Path, text: &str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { file, line_starts: [0].into_iter().chain(starts).collect() }
    }

    /// The line that holds the byte at `offset`, from 1.
    pub(super) fn line(&self, offset: usize) -> u32 {
        u32::try_from(self.line_starts.partition_point(|start| *start <= offset)).unwrap_or(u32::MAX)
    }

    pub(super) fn error(&self, line: u32, section: &str, problem: Problem) -> ManifestError {
        ManifestError { file: self.file.to_owned(), line, section: section.to_owned(), problem }
    }
}

/// A value with the key it stands under and the line it stands in.
pub(super) struct Entry<'i> {
    pub(super) key: String,
    pub(super) line: u32,
    pub(super) value: DeValue<'i>,
    span: Range<usize>,
}

/// A list of strings.
pub(super) struct Strings {
    /// The line of its key.
    pub(super) line: u32,
    /// Each, with its own line.
    pub(super) of: Vec<(String, u32)>,
}

/// One table. Keys are taken out of it one by one; what is left at the end is unknown.
pub(super) struct Section<'s, 'i> {
    pub(super) source: &'s Source<'s>,
    /// `limits`, `capsules.leaf.run`; empty outside any.
    pub(super) name: String,
    pub(super) line: u32,
    table: DeTable<'i>,
    known: Vec<&'static str>,
}

type Result<T> = std::result::Result<T, ManifestError>;

impl<'s, 'i> Section<'s, 'i> {
    pub(super) fn root(source: &'s Source<'s>, table: DeTable<'i>) -> Self {
        Self { source, name: String::new(), line: 1, table, known: Vec::new() }
    }

    pub(super) fn error(&self, line: u32, problem: Problem) -> ManifestError {
        self.source.error(line, &self.name, problem)
    }

    /// Refuses the value of an entry.
    pub(super) fn refuse(&self, entry: &Entry<'_>, reason: impl ToString) -> ManifestError {
        self.error(entry.line, Problem::Value { key: entry.key.clone(), reason: reason.to_string() })
    }

    pub(super) fn wrong_type(&self, entry: &Entry<'_>, expected: &'static str) -> ManifestError {
        let found = match &entry.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        self.error(entry.line, Problem::WrongType { key: entry.key.clone(), expected, found })
    }

    /// The value under a key, where it is there. The key is known from now on.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Entry<'i>> {
        self.known.push(key);
        let (key, value) = self.table.remove_entry(key)?;
        Some(self.entry(key.get_ref(), key.span(), value))
    }

    fn entry(&self, key: &str, key_span: Range<usize>, value: Spanned<DeValue<'i>>) -> Entry<'i> {
        let span = value.span();
        Entry { key: key.to_owned(), line: self.source.line(key_span.start), value: value.into_inner(), span }
    }

    /// All that is there under names the author chose, in order of the names.
    pub(super) fn take_all(&mut self) -> Vec<Entry<'i>> {
        std::mem::take(&mut self.table)
            .into_iter()
            .map(|(key, value)| self.entry(key.get_ref(), key.span(), value))
            .collect()
    }

    /// The table under a key.
    pub(super) fn section(&mut self, key: &'static str) -> Result<Option<Self>> {
        match self.take(key) {
            Some(entry) => self.open(entry).map(Some),
            None => Ok(None),
        }
    }

    /// An entry of this section as a section of its own.
    pub(super) fn open(&self, entry: Entry<'i>) -> Result<Self> {
        let Entry { key, line, value: DeValue::Table(table), span } = entry else {
            return Err(self.wrong_type(&entry, "a table"));
        };
        // A `[header]` table's span starts at its header, an inline one's at its brace; dotted keys have none of theirs.
        let line = if span.is_empty() { line } else { self.source.line(span.start).min(line).max(1) };
        let shown = shown(&key);
        let name = if self.name.is_empty() { shown } else { format!("{}.{shown}", self.name) };
        Ok(Self { source: self.source, name, line, table, known: Vec::new() })
    }

    /// Where a key stands, where it does.
    pub(super) fn line_of(&self, key: &str) -> Option<u32> {
        self.table.get_key_value(key).map(|(key, _)| self.source.line(key.span().start))
    }

    /// Refuses an entry for the name its author chose.
    pub(super) fn refuse_name(&self, entry: &Entry<'_>, reason: impl ToString) -> ManifestError {
        let problem = Problem::Value { key: shown(&entry.key), reason: reason.to_string() };
        self.error(entry.line, problem)
    }

    /// Refuses the first key, in order of the file, that nobody took.
    pub(super) fn finish(&self) -> Result<()> {
        let Some(unknown) = self.table.keys().min_by_key(|key| key.span().start) else { return Ok(()) };
        let key = unknown.get_ref();
        let nearest = nearest(key, self.known.iter().copied());
        let problem = Problem::UnknownKey { key: shown(key), nearest, known: self.known.clone() };
        Err(self.error(self.source.line(unknown.span().start), problem))
    }

    pub(super) fn text(&self, entry: Entry<'i>, expected: &'static str) -> Result<String> {
        match entry.value {
            DeValue::String(text) => Ok(text.into_owned()),
            _ => Err(self.wrong_type(&entry, expected)),
        }
    }

    pub(super) fn boolean(&mut self, key: &'static str) -> Result<Option<bool>> {
        self.take(key)
            .map(|entry| match entry.value {
                DeValue::Boolean(value) => Ok(value),
                _ => Err(self.wrong_type(&entry, "`true` or `false`")),
            })
            .transpose()
    }

    /// A whole number from 0 to `most`.
    pub(super) fn number(&mut self, key: &'static str, most: u64) -> Result<Option<u64>> {
        self.take(key)
            .map(|entry| {
                let DeValue::Integer(integer) = &entry.value else {
                    return Err(self.wrong_type(&entry, "a whole number"));
                };
                u64::from_str_radix(integer.as_str(), integer.radix())
                    .ok()
                    .filter(|number| *number <= most)
                    .ok_or_else(|| self.refuse(&entry, format!("must be a whole number from 0 to {most}")))
            })
            .transpose()
    }

    /// A string that `read` understands.
    pub(super) fn read<T, E: ToString>(
        &mut self,
        key: &'static str,
        expected: &'static str,
        read: impl FnOnce(&str) -> std::result::Result<T, E>,
    ) -> Result<Option<T>> {
        self.take(key)
            .map(|entry| match &entry.value {
                DeValue::String(text) => read(text).map_err(|why| self.refuse(&entry, why)),
                _ => Err(self.wrong_type(&entry, expected)),
            })
            .transpose()
    }

    /// A list of strings, no two the same and at most `most`.
    pub(super) fn strings(&mut self, key: &'static str, most: usize) -> Result<Option<Strings>> {
        let Some(entry) = self.take(key) else { return Ok(None) };
        let DeValue::Array(array) = &entry.value else { return Err(self.wrong_type(&entry, "an array of strings")) };
        if array.len() > most {
            return Err(self.refuse(&entry, format!("{} entries; at most {most}", array.len())));
        }
        let mut strings: Vec<(String, u32)> = Vec::with_capacity(array.len());
        for item in array.iter() {
            let line = self.source.line(item.span().start);
            let DeValue::String(text) = item.get_ref() else {
                let item = Entry { line, value: item.get_ref().clone(), span: item.span(), key: entry.key.clone() };
                return Err(self.wrong_type(&item, "an array of strings"));
            };
            if strings.iter().any(|(other, _)| *other == **text) {
                let problem =
                    Problem::Value { key: entry.key.clone(), reason: format!("`{}` is there twice", shown(text)) };
                return Err(self.error(line, problem));
            }
            strings.push((text.clone().into_owned(), line));
        }
        Ok(Some(Strings { line: entry.line, of: strings }))
    }
}
