//! What a capsule is: its manifest, its grants, its budget.
//!
//! Everything here is a value; only [`load`] touches the file system.

mod budget;
mod envelope;
mod grants;
mod host;
mod name;
mod quantity;
mod usage;

pub use budget::{Account, Answer, Ask, Child, Exhausted, Notice, Pending, Reserved, Settled};
pub use envelope::{check_declared, check_lend, check_lends};
pub use grants::{Grants, Wider};
pub use host::{BadHost, Host};
pub use quantity::{BadBudget, BadQuantity, Usd};
pub use usage::{Axis, Budget, Usage};
