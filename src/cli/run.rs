//! `treeward run`
mod screen;
mod task;
