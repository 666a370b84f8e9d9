//! Faults that can be made to strike at named points, on purpose and by a plan.
//!
//! Everything here is a value: a [`Plan`] is parsed from rules, every actor holds a [`Cursor`] over it, and
//! [`Cursor::strike`] says whether a fault strikes now. Making it strike, and recording that it did, is the actor's.
//! What must hold afterwards is no business of this module: a plan that breaks a promise is a finding.

mod action;
mod cursor;
mod error;
mod plan;
mod point;

pub use action::{Action, Verb};
pub use cursor::{Cursor, Strike};
pub use error::RuleError;
pub use plan::{Filter, PathPattern, Plan, Rule, When};
pub use point::{Point, Scope};
