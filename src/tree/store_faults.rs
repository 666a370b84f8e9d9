//! The fault points of the journal's store: where appends and syncs are made to fail.

use crate::env::Env;
use crate::fault::{Action, Cursor, Point};
use crate::ids::{SessionPath, Strand, TreeId};
use crate::journal::{StoreFault, StoreFaults};

struct FromPlan(Cursor);

/// The store's faults of `env`'s plan, where there is one.
pub(super) fn of(env: &Env) -> Option<Box<dyn StoreFaults>> {
    let plan = env.plan()?;
    let chance = env.chance(&SessionPath::root(), 0, Strand::Tree);
    Some(Box::new(FromPlan(Cursor::for_journal(Some(plan), chance))))
}

impl FromPlan {
    fn strike(&mut self, point: Point) -> Option<StoreFault> {
        let strike = self.0.strike(point, None)?;
        Some(match strike.action {
            Action::Delay(after) => StoreFault::Delay(after),
            action => StoreFault::Error(action.message().to_owned()),
        })
    }
}

impl StoreFaults for FromPlan {
    fn append(&mut self, _tree: TreeId, _path: &SessionPath, _strand: Strand) -> Option<StoreFault> {
        self.strike(Point::Append)
    }

    fn sync(&mut self) -> Option<StoreFault> {
        self.strike(Point::Sync)
    }
}
