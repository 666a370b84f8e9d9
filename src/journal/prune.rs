//! Forgetting ended trees, by age and label.

use super::store::{Filter, Store, StoreError};

/// Deletes the ended trees that `filter` means (a tree that has not ended is never meant), with the blobs nothing else
/// names. Returns how many trees are gone.
pub fn prune(store: &mut dyn Store, filter: &Filter) -> Result<usize, StoreError> {
    let meant = store.trees(&Filter { ended: Some(true), ..filter.clone() })?;
    for info in &meant {
        store.prune(info.tree)?;
    }
    Ok(meant.len())
}
