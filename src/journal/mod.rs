//! The ordered, durable account of every tree.

mod record;

pub use record::*;
