//! Every promise of treeward, one file each, in one binary.

mod bad_manifests;
mod supervision_contract;
