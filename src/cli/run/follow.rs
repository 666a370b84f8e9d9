//! Follows a tree from its first record to its completion.

use std::time::Duration;

use tokio::time::Instant;
use treeward::agent::Completion;
use treeward::ids::TreeId;
use treeward::journal::{AppendError, Journal, Limit};
use treeward::{Runtime, Tree};

use super::interrupts::Interrupts;
use super::reporter::Reporter;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::out::Out;
use crate::cli::view::time;

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// How following ended.
pub struct Followed {
    /// How the tree ended.
    pub completion: Result<Completion, AppendError>,
    /// Why it was stopped: what was to be shown did not get there.
    pub unheard: Option<Failure>,
}

/// Shows every record of the tree as it is committed, stops it when the user asks or nobody listens any more, and
/// returns when it has ended and all of it was shown.
pub async fn follow(
    runtime: &Runtime,
    tree: Tree,
    interrupts: &mut Interrupts,
    reporter: &mut Reporter,
    out: &mut Out,
) -> Followed {
    let journal = runtime.journal();
    let (stopper, grace) = (tree.stopper(), tree.grace());
    let mut head = journal.subscribe(tree.id());
    let mut reader = Reader { journal, tree: tree.id(), next: 1 };
    let completion = tree.completion();
    tokio::pin!(completion);
    let mut ended: Option<Result<Completion, AppendError>> = None;
    let mut unheard = None;
    let (mut open, mut behind) = (true, true);
    let mut drawn = Instant::now();
    loop {
        if let Some(completion) = ended.take_if(|completion| !behind && (!open || completion.is_err())) {
            return Followed { completion, unheard };
        }
        tokio::select! { biased;
            count = interrupts.next() => {
                stopper.stop(if count > 1 { Duration::ZERO } else { grace });
                reporter.notice(&match count {
                    1 => format!("stopping in order, within {}; Ctrl-C again stops at once", time(grace)),
                    _ => "stopping at once".to_owned(),
                });
            }
            more = reader.page(reporter, out), if behind => match more {
                Ok(more) => behind = more,
                Err(failure) => {
                    // Nobody sees what happens any more: what runs is stopped, in order, and its ending recorded.
                    (behind, open) = (false, false);
                    stopper.stop(grace);
                    if unheard.is_none() {
                        unheard = Some(failure);
                    }
                }
            },
            changed = head.changed(), if open => (open, behind) = (changed.is_ok(), true),
            completion = &mut completion, if ended.is_none() => {
                // The journal says no more after a failure; after an ending what it still has is read.
                behind = unheard.is_none();
                open &= completion.is_ok();
                ended = Some(completion);
            }
            () = tokio::time::sleep_until(drawn + FRAME), if reporter.is_stale() => {}
        }
        if reporter.is_stale() && drawn.elapsed() >= FRAME {
            reporter.show(false);
            drawn = Instant::now();
        }
    }
}

/// Reads a tree page by page.
struct Reader<'a> {
    journal: &'a Journal,
    tree: TreeId,
    next: u64,
}

impl Reader<'_> {
    /// Shows the next page; says whether there was more.
    async fn page(&mut self, reporter: &mut Reporter, out: &mut Out) -> Result<bool, Failure> {
        let page = self.journal.read(self.tree, self.next, Limit::default()).await;
        let page = page.map_err(|error| Failure::new(Exit::Journal, error))?;
        for stored in &page.records {
            reporter.record(stored, out)?;
            self.next = stored.seq + 1;
        }
        out.flush()?;
        Ok(page.more && !page.records.is_empty())
    }
}
