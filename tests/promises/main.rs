//! Every promise of treeward, one file each, in one binary.

mod exactly_one_ending;
mod supervision_contract;
mod support;
