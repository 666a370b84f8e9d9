//! Counts what is in one file: the leaf of the survey. Its task is the file's name in the directory it is lent as
//! `input`, its answer the file's figures as JSON.

use agent::Guest;
use agent::types::Task;
use figures::{Counter, Figures};
use lent::{Directory, Kind};

struct Reader;

impl Guest for Reader {
    fn run(task: Task) -> Result<String, String> {
        count(&task.text).map(|figures| figures.to_json())
    }
}

agent::export!(Reader with_types_in agent::world);

fn count(name: &str) -> Result<Figures, String> {
    let input = Directory::lent("input").ok_or("no directory was lent as `input`")?;
    let mut file = input.open(name).map_err(|fault| fault.to_string())?;
    // Between the listing and now a FIFO may have taken the file's place: reading that could wait for ever.
    if file.kind() != Ok(Kind::File) {
        return Err("no longer a regular file".into());
    }
    let mut counter = Counter::default();
    loop {
        let piece = file.read().map_err(|fault| fault.to_string())?;
        if piece.is_empty() {
            return Ok(counter.finish());
        }
        counter.feed(&piece);
    }
}
