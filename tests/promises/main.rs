//! Every promise of treeward, one file each, in one binary.

mod bad_manifests;
mod exactly_one_ending;
mod supervision_contract;
mod support;
