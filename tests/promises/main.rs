//! Every promise of treeward, one file each, in one binary.

mod bad_manifests;
mod exactly_one_ending;
mod journal_killed;
mod journal_kit;
mod journal_records;
mod journal_sqlite;
mod journal_verify;
mod journal_writer;
mod supervision_contract;
mod support;
