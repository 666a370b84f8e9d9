//! Where the task comes from.

use std::fs::File;
use std::io::{IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::view::grouped;

/// Until treeward says what it waits for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The task's text: as given, else from the file, else from standard input where that is no terminal, else empty.
pub fn task(given: Option<String>, file: Option<PathBuf>, limit: usize) -> Result<String, Failure> {
    match (given, file) {
        (Some(text), _) => bounded(text, limit),
        (None, Some(file)) if file == Path::new("-") => read_stdin(limit),
        (None, Some(file)) => {
            let opened = File::open(&file).map_err(|error| unreadable(&file.display().to_string(), &error))?;
            read(&file.display().to_string(), opened, limit)
        }
        (None, None) if std::io::stdin().is_terminal() => Ok(String::new()),
        (None, None) => read_stdin(limit),
    }
}

/// Reads standard input, on a thread of its own so that a person can be told what is waited for.
fn read_stdin(limit: usize) -> Result<String, Failure> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(read("standard input", std::io::stdin(), limit)));
    let first = receiver.recv_timeout(PATIENCE);
    if let Err(mpsc::RecvTimeoutError::Timeout) = first {
        eprintln!("treeward: reading the task from standard input (with --task or </dev/null it is not read)");
    }
    first
        .or_else(|_| receiver.recv())
        .unwrap_or_else(|_| Err(Failure::new(Exit::Usage, "standard input: reading it failed")))
}

fn read(name: &str, from: impl Read, limit: usize) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    // One byte more than may be: enough to know that there is more, whatever the size claims to be.
    from.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    if bytes.len() > limit {
        return Err(too_long(name, limit));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(Exit::Usage, format!("{name}: the task is not UTF-8 (byte {at})"))
            .help("a task is text; lend binary files with --input DIR")
    })
}

fn bounded(text: String, limit: usize) -> Result<String, Failure> {
    if text.len() > limit { Err(too_long("--task", limit)) } else { Ok(text) }
}

fn too_long(name: &str, limit: usize) -> Failure {
    Failure::new(Exit::Usage, format!("{name}: the task is longer than {} bytes (limits.task)", grouped(limit as u64)))
        .help("put the material into a directory, lend it with --input DIR, and name it in the task")
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("{name}: the task cannot be read: {error}"))
        .help("give the task with --task TEXT, --task-file FILE or on standard input")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_the_limit_passes_and_one_byte_more_does_not() {
        assert_eq!(read("f", &[b'x'; 8][..], 8).unwrap(), "xxxxxxxx");
        let failure = read("f", &[b'x'; 9][..], 8).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.lines().contains("longer than 8 bytes (limits.task)"), "{}", failure.lines());
        assert!(bounded("xxxxxxxxx".into(), 8).is_err());
    }

    #[test]
    fn an_endless_file_is_not_read_to_its_end() {
        assert!(read("f", std::io::repeat(b'x'), 1 << 10).is_err());
    }

    #[test]
    fn bytes_that_are_no_text_are_named() {
        let failure = read("notes.bin", &b"abc\xff\xfe"[..], 8).unwrap_err();
        assert!(failure.lines().contains("notes.bin: the task is not UTF-8 (byte 3)"), "{}", failure.lines());
    }

    #[test]
    fn a_missing_file_and_a_directory_are_errors_that_name_it() {
        let place = tempfile::tempdir().unwrap();
        for path in [place.path().join("missing"), place.path().to_owned()] {
            let failure = task(None, Some(path.clone()), 8).unwrap_err();
            assert!(failure.lines().contains(&path.display().to_string()), "{}", failure.lines());
        }
    }
}
