//! The supervision policy, as a pure value.

mod exit;

pub use exit::ExitClass;
