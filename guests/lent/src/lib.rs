//! The directories a guest was lent: what WASI's preopens are to a capsule.
//!
//! Nothing here follows a symbolic link at the end of a path: a link is a thing of its own, not what it points at.

use std::fmt;

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, DirectoryEntryStream, ErrorCode, OpenFlags, PathFlags,
};

/// Why the file system did not do what was asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fault(ErrorCode);

impl Fault {
    /// The name is not UTF-8, so that a guest cannot say it.
    pub fn is_unnameable(self) -> bool {
        self.0 == ErrorCode::IllegalByteSequence
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            ErrorCode::Access | ErrorCode::NotPermitted => "permission denied",
            ErrorCode::NoEntry => "no such file or directory",
            ErrorCode::Loop => "a symbolic link, which is not followed",
            ErrorCode::NotDirectory => "not a directory",
            ErrorCode::IsDirectory => "a directory",
            ErrorCode::ReadOnly => "lent read-only",
            ErrorCode::IllegalByteSequence => "a name that is not UTF-8",
            ErrorCode::InsufficientSpace | ErrorCode::Quota => "no space left",
            ErrorCode::FileTooLarge => "the file is too large",
            ErrorCode::NameTooLong => "the name is too long",
            other => return f.write_str(other.name()),
        })
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a directory holds under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Link,
    /// A FIFO, a socket, a device: what reading might wait for ever on.
    Special,
}

impl From<DescriptorType> for Kind {
    fn from(kind: DescriptorType) -> Self {
        match kind {
            DescriptorType::RegularFile => Self::File,
            DescriptorType::Directory => Self::Directory,
            DescriptorType::SymbolicLink => Self::Link,
            _ => Self::Special,
        }
    }
}

/// One name in a directory.
#[derive(Debug)]
pub struct Entry {
    /// The name, without the directory's.
    pub name: String,
    /// What it names.
    pub kind: Kind,
}

/// A directory the guest may read, and write where that was lent too.
pub struct Directory(Descriptor);

impl Directory {
    /// The names of all directories this guest was lent.
    pub fn names() -> Vec<String> {
        get_directories().into_iter().map(|(_, name)| name).collect()
    }

    /// The directory lent under `name`.
    pub fn lent(name: &str) -> Option<Self> {
        get_directories().into_iter().find(|(_, lent)| lent == name).map(|(directory, _)| Self(directory))
    }

    /// What it holds, in the file system's order, without `.` and `..`.
    pub fn entries(&self) -> Result<Entries, Fault> {
        self.0.read_directory().map(Entries).map_err(Fault)
    }

    /// Opens a file below it for reading.
    pub fn open(&self, path: &str) -> Result<File, Fault> {
        let file = self.0.open_at(PathFlags::empty(), path, OpenFlags::empty(), DescriptorFlags::READ);
        Ok(File { file: file.map_err(Fault)?, offset: 0 })
    }

    /// All of a file below it. For files known to be small.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Fault> {
        let mut file = self.open(path)?;
        let mut all = Vec::new();
        loop {
            let piece = file.read()?;
            if piece.is_empty() {
                return Ok(all);
            }
            all.extend(piece);
        }
    }

    /// Writes a file below it, in place of what was there.
    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<(), Fault> {
        let flags = OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let file = self.0.open_at(PathFlags::empty(), path, flags, DescriptorFlags::WRITE).map_err(Fault)?;
        let mut written = 0;
        while written < bytes.len() {
            let count = file.write(&bytes[written..], written as u64).map_err(Fault)?;
            if count == 0 {
                return Err(Fault(ErrorCode::InsufficientSpace));
            }
            written += count as usize;
        }
        Ok(())
    }
}

/// The entries of a directory. An entry that cannot be told is an error of its own; the next may be good.
pub struct Entries(DirectoryEntryStream);

impl Iterator for Entries {
    type Item = Result<Entry, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.0.read_directory_entry().map_err(Fault).transpose()?;
        Some(entry.map(|entry| Entry { name: entry.name, kind: entry.type_.into() }))
    }
}

/// An open file, read from its start in pieces.
pub struct File {
    file: Descriptor,
    offset: u64,
}

impl File {
    /// The largest piece asked for at once.
    const PIECE: u64 = 64 << 10;

    /// What it is: a name may have changed hands since it was listed.
    pub fn kind(&self) -> Result<Kind, Fault> {
        self.file.get_type().map(Kind::from).map_err(Fault)
    }

    /// The next piece, at most 64 KiB of it; empty at the end.
    pub fn read(&mut self) -> Result<Vec<u8>, Fault> {
        let (piece, _) = self.file.read(Self::PIECE, self.offset).map_err(Fault)?;
        self.offset += piece.len() as u64;
        Ok(piece)
    }
}
