//! What the survey counts and how it rolls up. No host and no files: plain Rust, tested as such.

mod count;
mod report;
mod table;

pub use count::{Counter, Figures};
pub use report::{Note, Outcome, ROOM, Ranked, Report};
pub use table::table;
