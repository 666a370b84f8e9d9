//! Reaching what runs: the processes of this user, their trees, and the one that is meant.

use std::time::Duration;

use treeward::control::protocol::{Answer, Ask};
use treeward::control::{Client, Process, processes};
use treeward::ids::{SessionPath, TreeId};
use treeward::{SessionView, Sessions};

use super::exit::Exit;
use super::failure::Failure;

/// How long a process has to answer: longer than its sessions have.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// One process and what it said.
pub struct Live {
    pub process: Process,
    /// What lives there, or why it did not say.
    pub seen: Result<Sessions, String>,
}

/// One running tree.
pub struct Tree<'a> {
    pub process: &'a Process,
    pub id: TreeId,
    pub root: &'a SessionView,
}

/// The processes that listen, or the one that is named.
pub fn listening(pid: Option<u32>) -> Result<Vec<Process>, Failure> {
    let found = processes(None).map_err(|error| Failure::new(Exit::Usage, error))?;
    match pid {
        None => Ok(found),
        Some(pid) => {
            let found: Vec<_> = found.into_iter().filter(|process| process.pid == pid).collect();
            if found.is_empty() {
                return Err(Failure::new(Exit::Usage, format!("no treeward of yours listens as process {pid}"))
                    .help("`treeward ps` lists those that do"));
            }
            Ok(found)
        }
    }
}

/// What lives in each of them.
pub fn look(processes: Vec<Process>, tree: Option<TreeId>) -> Vec<Live> {
    let ask = |process: &Process| match Client::connect(process, PATIENCE)?.ask(&Ask::Sessions { tree })? {
        Answer::Sessions { seen, .. } => Ok(seen),
        _ => Err(treeward::control::ClientError::Unreadable("it is not about sessions".to_owned())),
    };
    let about = |process: Process| Live { seen: ask(&process).map_err(|error| error.to_string()), process };
    processes.into_iter().map(about).collect()
}

/// The running trees, the one that started last first.
pub fn trees(live: &[Live]) -> Vec<Tree<'_>> {
    let roots = live.iter().flat_map(|one| {
        let sessions = one.seen.as_ref().map_or(&[][..], |seen| &seen.sessions);
        let roots = sessions.iter().filter(|session| session.path == SessionPath::root());
        roots.map(|root| Tree { process: &one.process, id: root.tree, root })
    });
    let mut trees: Vec<_> = roots.collect();
    trees.sort_by_key(|tree| (tree.root.age_ms, tree.id));
    trees
}

/// The word for the tree that started last.
const LATEST: &str = "latest";

/// The running tree that is named; where none is, the only one. `None`: none that is meant runs.
pub fn find<'a>(trees: &'a [Tree<'a>], named: Option<&str>) -> Result<Option<&'a Tree<'a>>, Failure> {
    let ambiguous = |what: &str| {
        let known: Vec<_> = trees.iter().take(3).map(|tree| tree.id.to_string()).collect();
        Failure::new(Exit::Usage, what).help(format!("name it: {}; or `latest`", known.join(", ")))
    };
    match named {
        Some(LATEST) => Ok(trees.first()),
        None if trees.len() > 1 => Err(ambiguous("more than one tree runs")),
        None => Ok(trees.first()),
        Some(named) => {
            let mut found = trees.iter().filter(|tree| !named.is_empty() && tree.id.to_string().starts_with(named));
            match (found.next(), found.next()) {
                (Some(_), Some(_)) => Err(ambiguous(&format!("more than one running tree begins with `{named}`"))),
                (found, _) => Ok(found),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treeward::Standing;

    fn view(tree: u8, age_ms: u64) -> SessionView {
        let tree = format!("tree_{tree:032x}").parse().unwrap();
        let (path, state) = (SessionPath::root(), Standing::Running);
        SessionView { tree, path, capsule: "a".into(), state, attempt: 1, age_ms, left_ms: 1, doing: None }
    }

    #[test]
    fn a_running_tree_is_named_the_only_one_or_the_latest() {
        let seen = Sessions { sessions: vec![view(1, 50), view(2, 10)], ..Sessions::default() };
        let live = |seen| [Live { process: Process { pid: 1, socket: "s".into() }, seen: Ok(seen) }];
        let both = live(seen);
        let both = trees(&both);
        let id = |named: &str| find(&both, Some(named)).map(|found| found.map(|tree| tree.root.age_ms));
        assert_eq!(id("latest").unwrap(), Some(10));
        assert_eq!(id("tree_00000000000000000000000000000001").unwrap(), Some(50));
        assert_eq!(id("tree_9").unwrap(), None);
        assert!(id("tree_0").unwrap_err().lines().contains("more than one running tree begins with"));
        assert!(find(&both, None).err().unwrap().lines().contains("more than one tree runs"));
        let one = live(Sessions { sessions: vec![view(1, 50)], ..Sessions::default() });
        assert_eq!(find(&trees(&one), None).unwrap().unwrap().root.age_ms, 50);
        assert!(find(&[], None).unwrap().is_none());
    }
}
