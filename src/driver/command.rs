//! `command`: any program. Its task comes on standard input, its answer is its standard output.

use super::{
    Description, Driver, Ending, Exit, Failure, Framing, Interrupt, LaunchError, Output, Plan, Reports, Request, Seen,
    Step, Turn,
};
use std::collections::BTreeMap;

/// The exit code by which a program says that it cannot do what it was asked; the reason is what it wrote to standard
/// error. (`EX_DATAERR` of sysexits.h.) Every other code but 0 is a failure that another try may not meet.
pub const CANNOT: i32 = 65;

/// Drives one run of a program. It keeps at most the answer's limit of what the program writes, and counts the rest.
#[derive(Debug)]
pub struct Command {
    argv: Vec<String>,
    answer: Vec<u8>,
    limit: usize,
    written: u64,
}

impl Command {
    /// A driver for this program with these arguments.
    pub fn new(argv: Vec<String>) -> Self {
        Self { argv, answer: Vec::new(), limit: 0, written: 0 }
    }

    fn answered(&mut self) -> (Turn, Vec<(String, String)>) {
        let mut notes = Vec::new();
        if self.written > self.limit as u64 {
            let why = format!(
                "the answer is {} bytes and limits.answer_whole is {}: write long results to a lent directory, or \
                 answer in parts",
                self.written, self.limit
            );
            return (Turn::Failed(Failure::Other, why), notes);
        }
        let (answer, replaced) = lossy(&std::mem::take(&mut self.answer));
        if replaced > 0 {
            let text = format!("{replaced} sequences of the answer were not UTF-8 and were replaced");
            notes.push(("not_utf8".to_owned(), text));
        }
        (Turn::Ended(answer), notes)
    }
}

/// `bytes` as text, and how many sequences had to be replaced.
fn lossy(bytes: &[u8]) -> (String, usize) {
    let mut text = String::with_capacity(bytes.len());
    let mut replaced = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            replaced += 1;
        }
    }
    (text, replaced)
}

impl Driver for Command {
    fn describe(&self) -> Description {
        Description {
            name: "command".to_owned(),
            version_probe: Vec::new(),
            framing: Framing::Bytes,
            interrupt: Interrupt::None,
            reports: Reports::default(),
        }
    }

    fn launch(&mut self, request: &Request) -> Result<Plan, LaunchError> {
        let usable = |word: &String| !word.contains('\0');
        if self.argv.first().is_none_or(String::is_empty) || !self.argv.iter().all(usable) {
            return Err(LaunchError("run.command: a program and its arguments, without NUL, are needed".to_owned()));
        }
        self.limit = request.answer_limit;
        Ok(Plan {
            argv: self.argv.clone(),
            env: BTreeMap::new(),
            files: Vec::new(),
            input: request.task.clone().into_bytes(),
            close_input: true,
        })
    }

    fn feed(&mut self, output: Output<'_>) -> Vec<Step> {
        let bytes = match output {
            Output::Bytes(bytes) => bytes,
            Output::Line { text, .. } => text.as_bytes(),
            Output::Skipped { .. } | Output::End => return Vec::new(),
        };
        self.written = self.written.saturating_add(bytes.len() as u64);
        let room = self.limit.saturating_sub(self.answer.len());
        self.answer.extend_from_slice(&bytes[..room.min(bytes.len())]);
        Vec::new()
    }

    fn classify_exit(&mut self, seen: Seen<'_>) -> Ending {
        match seen.exit {
            Exit::Code(0) => {
                let (turn, notes) = self.answered();
                Ending { turns: vec![turn], notes }
            }
            Exit::Code(CANNOT) => {
                let said = seen.stderr.trim();
                let why = if said.is_empty() { "it said that it cannot (exit code 65), and not why" } else { said };
                Ending { turns: vec![Turn::Failed(Failure::Other, why.to_owned())], notes: Vec::new() }
            }
            _ => Ending::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn driver(limit: usize) -> Command {
        let mut driver = Command::new(vec!["x".into()]);
        let request = Request { task: "do".into(), answer_limit: limit, ..Request::default() };
        let plan = driver.launch(&request).unwrap();
        assert_eq!((plan.input.as_slice(), plan.close_input), (b"do".as_slice(), true));
        driver
    }

    fn ended(driver: &mut Command, exit: Exit) -> Ending {
        driver.classify_exit(Seen { exit, stderr: "why\n" })
    }

    #[test]
    fn the_answer_is_all_it_wrote_and_only_where_it_exits_well() {
        for (exit, turns) in [
            (Exit::Code(0), vec![Turn::Ended("one two".into())]),
            (Exit::Code(CANNOT), vec![Turn::Failed(Failure::Other, "why".into())]),
            (Exit::Code(1), vec![]),
            (Exit::Signal(11), vec![]),
            (Exit::ByUs, vec![]),
            (Exit::Lost, vec![]),
        ] {
            let mut driver = driver(100);
            driver.feed(Output::Bytes(b"one "));
            driver.feed(Output::Bytes(b"two"));
            driver.feed(Output::End);
            assert_eq!(ended(&mut driver, exit).turns, turns, "{exit:?}");
        }
    }

    #[test]
    fn an_answer_over_the_limit_is_an_error_and_takes_no_more_room() {
        let mut driver = driver(10);
        (0..1000).for_each(|_| drop(driver.feed(Output::Bytes(&[b'x'; 1000]))));
        assert!(driver.answer.capacity() < 100);
        let ending = ended(&mut driver, Exit::Code(0));
        assert!(matches!(&ending.turns[0], Turn::Failed(Failure::Other, why) if why.contains("1000000 bytes")));
    }

    #[test]
    fn a_program_that_is_none_is_not_launched() {
        for argv in [vec![], vec![String::new()], vec!["a\0b".to_owned()]] {
            assert!(Command::new(argv).launch(&Request::default()).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_make_the_same_ending(
            bytes in prop::collection::vec(any::<u8>(), 0..300), cuts in prop::collection::vec(0_usize..300, 0..8),
            limit in 0_usize..400,
        ) {
            let mut whole = driver(limit);
            whole.feed(Output::Bytes(&bytes));
            let mut pieces = driver(limit);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            for pair in cuts.windows(2) {
                prop_assert!(pieces.feed(Output::Bytes(&bytes[pair[0]..pair[1]])).is_empty());
            }
            prop_assert_eq!(ended(&mut whole, Exit::Code(0)), ended(&mut pieces, Exit::Code(0)));
        }
    }
}
