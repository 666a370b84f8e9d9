//! Ends what a killed process left without an ending.

use crate::env::Env;
use crate::ids::{SessionPath, Strand, TreeId};
use crate::supervision::ExitClass;

use super::chain;
use super::fold::{Closing, Event, Scope, Summary, Verdict};
use super::record::{CompletionStatus, Ids, Kind, Reporter};
use super::seal::{Line, Sizes};
use super::store::{Batch, Filter, Store, StoreError, TreeInfo};
use super::verify::{Problem, replay};

/// How many endings are stored in one go.
const AT_ONCE: usize = 1024;

/// What recovery found and did in one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The tree.
    pub tree: TreeId,
    /// Records that were there.
    pub records: u64,
    /// What of it had not ended.
    pub open: Summary,
    /// Endings written now, the tree's own included.
    pub endings: usize,
    /// How the tree is said to have ended: `crashed`, or `unknown` where it may have changed the world.
    pub status: CompletionStatus,
    /// The first record that does not fit, if any. The tree is ended all the same.
    pub problem: Option<Problem>,
}

/// Ends every tree that has no ending. The caller owns the store and has not started a writer yet. Whoever is killed
/// during it just runs it again: an ending that is there is not written twice.
pub fn recover(store: &mut dyn Store, env: &Env, sizes: Sizes) -> Result<Vec<Recovered>, StoreError> {
    let mut trees = store.trees(&Filter { ended: Some(false), ..Filter::default() })?;
    trees.reverse();
    trees.iter().map(|info| end(store, env, sizes, info)).collect()
}

fn end(store: &mut dyn Store, env: &Env, sizes: Sizes, info: &TreeInfo) -> Result<Recovered, StoreError> {
    let (mut records, mut seq, mut hash, mut problem) = (0, 0, chain::START, None);
    let fold = replay(store, info.tree, |stored, problems| {
        records += 1;
        (seq, hash) = (stored.seq, stored.hash);
        problem = problem.take().or_else(|| problems.into_iter().next());
    })?;
    let open = fold.summary();
    let root = SessionPath::root();
    let changed = fold.changed_world(&root);
    let closing = Closing {
        scope: Scope::Session,
        verdict: Verdict::Judged,
        class: ExitClass::KilledByUs,
        by: Reporter::Recovery,
        detail: Some("the process that ran it was killed".into()),
    };
    let judged = if changed { CompletionStatus::Unknown } else { CompletionStatus::Crashed };
    let status = fold.root_status().unwrap_or(judged);
    let mut events = fold.close(&root, &closing);
    if fold.has_started() && !fold.has_ended() {
        events.push((root, 0, Strand::Tree, Kind::TreeEnded { status, refused: 0 }));
    }
    let mut line = Line::resumed(info.tree, info.labels.clone(), std::process::id(), fold, seq, hash);
    let mut endings = 0;
    let mut events = events.into_iter().peekable();
    while events.peek().is_some() {
        let batch = seal(&mut line, events.by_ref().take(AT_ONCE), env, sizes, &mut problem);
        endings += batch.records.len();
        store.append(&batch)?;
    }
    if !line.fold().has_ended() || endings == 0 {
        // Nothing of it can be gone on with; it is closed so that it is not met at every start.
        store.append(&Batch { ended: vec![(info.tree, env.now())], ..Batch::default() })?;
    }
    Ok(Recovered { tree: info.tree, records, open, endings, status, problem })
}

fn seal(
    line: &mut Line,
    events: impl Iterator<Item = Event>,
    env: &Env,
    sizes: Sizes,
    problem: &mut Option<Problem>,
) -> Batch {
    let mut batch = Batch::default();
    for event in events {
        match line.seal(event, Ids::default(), env.now(), sizes) {
            Ok(sealed) => sealed.join(&mut batch),
            Err(refused) => {
                let refused = Problem::Refused { seq: line.seq() + 1, refused: Box::new(refused) };
                problem.get_or_insert(refused);
            }
        }
    }
    batch
}
