//! Restart is not re-run: what follows when something that thinks has ended.

use serde::{Deserialize, Serialize};

/// Whether the same task may simply be run again from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rerun {
    /// It may.
    Yes,
    /// It may not.
    No,
    /// A person decides each time.
    Ask,
}
