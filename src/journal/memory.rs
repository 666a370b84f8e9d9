//! A journal that lives as long as the process.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::ids::{Digest, TreeId};

use super::store::{Batch, Filter, Limit, Page, Source, Store, StoreError, Stored, Tip, TreeInfo};

/// Keeps everything in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    trees: BTreeMap<TreeId, Tree>,
    /// In the order they started.
    order: Vec<TreeId>,
    blobs: BTreeMap<Digest, Bytes>,
}

#[derive(Debug)]
struct Tree {
    info: TreeInfo,
    records: Vec<Stored>,
    blobs: BTreeSet<Digest>,
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Source for MemoryStore {
    fn read(&mut self, tree: TreeId, from: u64, limit: Limit) -> Result<Page, StoreError> {
        let Some(tree) = self.trees.get(&tree) else { return Ok(Page::default()) };
        let start = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX).min(tree.records.len());
        let mut page = Page::default();
        let mut bytes = 0;
        for record in &tree.records[start..] {
            bytes += record.size();
            if !page.records.is_empty() && (page.records.len() >= limit.records || bytes > limit.bytes) {
                page.more = true;
                break;
            }
            page.records.push(record.clone());
        }
        Ok(page)
    }

    fn tip(&mut self, tree: TreeId) -> Result<Option<Tip>, StoreError> {
        let last = self.trees.get(&tree).and_then(|tree| tree.records.last());
        Ok(last.map(|last| Tip { seq: last.seq, hash: last.hash }))
    }

    fn trees(&mut self, filter: &Filter) -> Result<Vec<TreeInfo>, StoreError> {
        let infos = self.order.iter().rev().filter_map(|tree| self.trees.get(tree)).map(|tree| &tree.info);
        let meant = infos.filter(|info| filter.admits(info));
        Ok(meant.take(filter.newest.unwrap_or(usize::MAX)).cloned().collect())
    }

    fn blob(&mut self, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        Ok(self.blobs.get(&digest).cloned())
    }
}

impl Store for MemoryStore {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        for started in &batch.started {
            if self.trees.contains_key(&started.tree) {
                return Err(StoreError::TreeExists(started.tree));
            }
            let info =
                TreeInfo { tree: started.tree, started_at: started.at, ended_at: None, labels: started.labels.clone() };
            self.trees.insert(started.tree, Tree { info, records: Vec::new(), blobs: BTreeSet::new() });
            self.order.push(started.tree);
        }
        let missing = |tree: TreeId| StoreError::Other(format!("{tree} is not in the journal"));
        for blob in &batch.blobs {
            self.trees.get_mut(&blob.tree).ok_or_else(|| missing(blob.tree))?.blobs.insert(blob.digest);
            self.blobs.insert(blob.digest, blob.bytes.clone());
        }
        for record in &batch.records {
            self.trees.get_mut(&record.tree).ok_or_else(|| missing(record.tree))?.records.push(record.clone());
        }
        for (tree, at) in &batch.ended {
            self.trees.get_mut(tree).ok_or_else(|| missing(*tree))?.info.ended_at = Some(*at);
        }
        Ok(())
    }

    fn delete_blob(&mut self, digest: Digest) -> Result<(), StoreError> {
        self.blobs.remove(&digest);
        Ok(())
    }

    fn prune(&mut self, tree: TreeId) -> Result<(), StoreError> {
        match self.trees.get(&tree) {
            None => return Ok(()),
            Some(found) if found.info.ended_at.is_none() => return Err(StoreError::NotEnded(tree)),
            Some(_) => {}
        }
        let gone = self.trees.remove(&tree).map(|tree| tree.blobs).unwrap_or_default();
        self.order.retain(|other| *other != tree);
        for digest in gone {
            if !self.trees.values().any(|tree| tree.blobs.contains(&digest)) {
                self.blobs.remove(&digest);
            }
        }
        Ok(())
    }
}
