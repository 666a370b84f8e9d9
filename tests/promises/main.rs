//! The promises, one file each.

mod journal_killed;
mod journal_kit;
mod journal_records;
mod journal_sqlite;
mod journal_verify;
mod journal_writer;
