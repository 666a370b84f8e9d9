//! `treeward run`
mod reporter;
mod screen;
mod summary;
mod task;
