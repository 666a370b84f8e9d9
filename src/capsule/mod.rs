//! What a capsule is: its manifest, its grants, its budget.
//!
//! Everything here is a value; only `load` touches the file system.

mod budget;
mod builder;
mod envelope;
mod grants;
mod host;
mod load;
mod manifest;
mod name;
mod quantity;
mod summary;
mod team;
mod terms;
mod usage;
mod value;

pub use budget::{Account, Answer, Ask, Child, Exhausted, Notice, Pending, Reserved, Settled};
pub use builder::Builder;
pub use envelope::{check_declared, check_lend, check_lends};
pub use grants::{Grants, Wider};
pub use host::{BadHost, Host};
pub use load::{FileProblem, LONGEST_COMPONENT, LONGEST_TEAM, LoadError};
pub use manifest::{LONGEST_MANIFEST, Manifest, ManifestError, Problem};
pub use name::{BadCapsuleName, check_name};
pub use quantity::{BadBudget, BadQuantity, Usd};
pub use summary::{ComponentSummary, RestartSummary, Summary, TeamSummary, ToolSummary};
pub use team::{MOST_CAPSULES, Team, TeamError};
pub use terms::{CapsuleLimits, Invalid};
pub use usage::{Axis, Budget, Usage};
pub use value::{Capsule, CommandLine, Component, NativeTool, Run, Tool, ToolRun, ToolRunning};
