//! What a capsule is: its manifest, its grants, its budget.

mod usage;

pub use usage::{Budget, Usage};
