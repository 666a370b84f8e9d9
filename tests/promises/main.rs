//! Every promise of treeward, one file each, in one binary.

mod bad_manifests;
mod exactly_one_ending;
mod guest_bad_components;
mod guest_cache;
mod guest_confined;
mod guest_delegations;
mod guest_files;
mod guest_limits;
mod guest_support;
mod guest_tools;
mod journal_killed;
mod journal_kit;
mod journal_records;
mod journal_sqlite;
mod journal_verify;
mod journal_writer;
mod supervision_contract;
mod support;
mod warden_bounds;
mod warden_kit;
mod warden_leaves_nothing;
mod warden_lost;
mod warden_spawns;
