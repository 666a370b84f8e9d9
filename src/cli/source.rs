//! Opening a journal to read, and finding a tree in it.

use std::path::PathBuf;

use treeward::journal::{Filter, Limit, Reader, Source, StoreError, Stored, TreeInfo};

use super::exit::Exit;
use super::failure::Failure;
use super::place::{DEFAULT, Place};

/// The journal a command reads.
#[derive(Clone, Debug, clap::Args)]
pub struct At {
    /// The journal file
    #[arg(long, value_name = "FILE", default_value = DEFAULT)]
    pub journal: PathBuf,
}

/// The word for the tree that started last.
const LATEST: &str = "latest";

impl At {
    /// The journal, as other commands name it.
    pub fn place(&self) -> Place {
        Place::File(self.journal.clone())
    }

    /// Opens it.
    pub fn open(&self) -> Result<Reader, Failure> {
        if self.journal.as_os_str() == "memory" {
            return Err(Failure::new(Exit::Usage, "a journal in memory is gone with the run that wrote it")
                .help("run with --journal FILE, then read that FILE"));
        }
        Reader::open(&self.journal).map_err(failed)
    }
}

/// A journal that could not be read.
pub fn failed(error: StoreError) -> Failure {
    Failure::new(Exit::Journal, error)
}

/// The tree that `named` names: `latest` (also where nothing is named), an id, or the beginning of one.
pub fn find(source: &mut dyn Source, named: Option<&str>) -> Result<TreeInfo, Failure> {
    let named = named.filter(|named| *named != LATEST);
    let newest = if named.is_none() { Some(1) } else { None };
    let trees = source.trees(&Filter { newest, ..Filter::default() }).map_err(failed)?;
    let Some(named) = named else {
        return trees.into_iter().next().ok_or_else(|| {
            Failure::new(Exit::Usage, "the journal holds no tree yet").help("`treeward run CAPSULE` makes one")
        });
    };
    pick(&trees, named).cloned()
}

fn pick<'a>(trees: &'a [TreeInfo], named: &str) -> Result<&'a TreeInfo, Failure> {
    let mut found = trees.iter().filter(|info| !named.is_empty() && info.tree.to_string().starts_with(named));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(Failure::new(Exit::Usage, format!("more than one tree begins with `{named}`"))
            .help("write more of its id, or `latest`")),
        (None, _) => {
            let known: Vec<String> = trees.iter().take(3).map(|info| info.tree.to_string()).collect();
            let help = match &*known {
                [] => "the journal holds no tree yet".to_owned(),
                known => format!("the latest are {}", known.join(", ")),
            };
            Err(Failure::new(Exit::Usage, format!("there is no tree `{named}`")).help(help))
        }
    }
}

/// Goes through the records of a tree in order, page by page.
pub fn each_record(
    source: &mut dyn Source,
    info: &TreeInfo,
    mut each: impl FnMut(&Stored) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut from = 1;
    loop {
        let page = source.read(info.tree, from, Limit::default()).map_err(failed)?;
        for stored in &page.records {
            each(stored)?;
            from = stored.seq + 1;
        }
        if !page.more || page.records.is_empty() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(id: &str) -> TreeInfo {
        TreeInfo { tree: id.parse().unwrap(), started_at: 0, ended_at: None, labels: Default::default() }
    }

    #[test]
    fn a_tree_is_found_by_as_much_of_its_id_as_tells_it_from_others() {
        let trees = [tree("tree_00000000000000000000000000000012"), tree("tree_10000000000000000000000000000000")];
        assert_eq!(pick(&trees, "tree_1").unwrap(), &trees[1]);
        assert_eq!(pick(&trees, "tree_00000000000000000000000000000012").unwrap(), &trees[0]);
        let said = |named: &str| pick(&trees, named).unwrap_err().lines();
        assert!(said("tree_").contains("more than one tree begins with `tree_`"));
        assert!(said("tree_2").contains("there is no tree `tree_2`\nhelp: the latest are tree_0000"));
        assert!(said("").contains("there is no tree ``"));
        assert!(pick(&[], "tree_2").unwrap_err().lines().contains("holds no tree yet"));
    }
}
