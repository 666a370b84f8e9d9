//! Every promise of treeward, one file each, in one binary.

mod supervision_contract;
mod survey_agrees;
