//! A look at what lives. It is asked down the tree by messages: every delegator says where its children stand and asks
//! those that live what they do. Whoever does not answer in time is missing from the view, which then says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::ids::{SessionPath, TreeId};
use crate::journal::CompletionStatus;

/// Sessions one look can hold; of a larger tree the rest is counted.
const MOST_SEEN: usize = 100_000;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It waits for a place.
    Queued,
    /// It is being started.
    Starting,
    /// It is live.
    Running,
    /// It is being stopped, or what it left behind is.
    Stopping,
    /// It rests between two attempts.
    Restarting,
    /// It has ended, and its completion was not taken yet.
    Ended(CompletionStatus),
}

/// One session, as the one that made it and it itself see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its tree.
    pub tree: TreeId,
    /// Its place there.
    pub path: SessionPath,
    /// Its capsule.
    pub capsule: String,
    /// Where it stands.
    pub state: Standing,
    /// Which incarnation it is, from 1.
    pub attempt: u32,
    /// Since it was handed over, in milliseconds.
    pub age_ms: u64,
    /// Until its deadline, in milliseconds.
    pub left_ms: u64,
    /// What it does; absent where it is not live, or did not answer in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<Doing>,
}

/// What a live session says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doing {
    /// Children with a place.
    pub live_children: u32,
    /// Children waiting for one.
    pub queued_children: u32,
    /// Calls of its that run.
    pub calls: u32,
    /// How long the question waited in its mailbox, in milliseconds: what stands before it there.
    pub behind_ms: u64,
}

/// What a look saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// The sessions, in order of tree and path.
    pub sessions: Vec<SessionView>,
    /// Whether some did not answer in time: what is below them is missing.
    pub partial: bool,
    /// Sessions that were too many for one look.
    pub left_out: u64,
}

/// The question, on its way down. The look is over when the last clone is gone.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    to: mpsc::Sender<Seen>,
    asked: Instant,
    left_out: Arc<AtomicU64>,
    /// The only tree that is meant.
    tree: Option<TreeId>,
}

/// One answer.
#[derive(Debug)]
pub(crate) enum Seen {
    /// A child, by the one that made it.
    Child(Box<SessionView>),
    /// A session, by itself.
    Itself(TreeId, SessionPath, Doing),
}

impl Look {
    /// A question, and where its answers come.
    pub(crate) fn new(tree: Option<TreeId>) -> (Self, Gathering) {
        // Two answers a session; never a wait for whoever answers.
        let (to, answers) = mpsc::channel(2 * MOST_SEEN);
        let left_out = Arc::new(AtomicU64::new(0));
        (Self { to, asked: Instant::now(), left_out: left_out.clone(), tree }, Gathering { answers, left_out })
    }

    /// Whether this tree is meant.
    pub(crate) fn means(&self, tree: TreeId) -> bool {
        self.tree.is_none_or(|only| only == tree)
    }

    /// How long the question has been on its way.
    pub(crate) fn behind_ms(&self) -> u64 {
        millis(self.asked.elapsed())
    }

    /// Answers. Never waits: what is too much is counted.
    pub(crate) fn saw(&self, seen: Seen) {
        let child = matches!(seen, Seen::Child(_));
        if let Err(mpsc::error::TrySendError::Full(_)) = self.to.try_send(seen) {
            self.left_out.fetch_add(u64::from(child), Ordering::Relaxed);
        }
    }

    /// Whether anybody still wants to know.
    pub(crate) fn is_over(&self) -> bool {
        self.to.is_closed()
    }
}

/// Takes the answers.
pub(crate) struct Gathering {
    answers: mpsc::Receiver<Seen>,
    left_out: Arc<AtomicU64>,
}

impl Gathering {
    /// Everything that is answered by `until`.
    pub(crate) async fn by(mut self, until: Instant) -> Sessions {
        let mut views: BTreeMap<(TreeId, SessionPath), SessionView> = BTreeMap::new();
        let mut doings: BTreeMap<(TreeId, SessionPath), Doing> = BTreeMap::new();
        let mut partial = false;
        loop {
            match tokio::time::timeout_at(until, self.answers.recv()).await {
                Ok(Some(Seen::Child(_))) if views.len() >= MOST_SEEN => {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Some(Seen::Child(view))) => {
                    views.insert((view.tree, view.path.clone()), *view);
                }
                Ok(Some(Seen::Itself(tree, path, doing))) => {
                    doings.insert((tree, path), doing);
                }
                Ok(None) => break,
                Err(_) => {
                    partial = true;
                    break;
                }
            }
        }
        // A session may be heard before the one that made it.
        for (place, doing) in doings {
            if let Some(view) = views.get_mut(&place) {
                view.doing = Some(doing);
            }
        }
        let left_out = self.left_out.load(Ordering::Relaxed);
        Sessions { sessions: views.into_values().collect(), partial, left_out }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(path: &str) -> Seen {
        Seen::Child(Box::new(SessionView {
            tree: TreeId::nobody(),
            path: path.parse().unwrap(),
            capsule: "a".into(),
            state: Standing::Running,
            attempt: 1,
            age_ms: 0,
            left_ms: 0,
            doing: None,
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_ends_with_the_last_who_was_asked_and_never_later_than_it_may() {
        let (look, gathering) = Look::new(None);
        let itself = Seen::Itself(TreeId::nobody(), SessionPath::root(), Doing { calls: 3, ..Doing::default() });
        look.saw(itself);
        look.saw(view("0"));
        drop(look);
        let seen = gathering.by(Instant::now() + Duration::from_secs(1)).await;
        assert!(!seen.partial);
        assert_eq!(seen.sessions[0].doing.unwrap().calls, 3);

        let (silent, gathering) = Look::new(None);
        silent.saw(view("0.1"));
        let started = Instant::now();
        let seen = gathering.by(started + Duration::from_secs(1)).await;
        assert!(seen.partial && seen.sessions.len() == 1);
        assert_eq!(started.elapsed().as_secs(), 1);
        assert!(silent.is_over());
        silent.saw(view("0.2"));
    }

    #[tokio::test(start_paused = true)]
    async fn more_sessions_than_a_look_holds_are_counted() {
        let (look, gathering) = Look::new(None);
        let asking = async {
            for index in 0..MOST_SEEN + 7 {
                look.saw(view(&format!("0.{index}")));
            }
            drop(look);
        };
        asking.await;
        let seen = gathering.by(Instant::now() + Duration::from_secs(1)).await;
        assert_eq!((seen.sessions.len(), seen.left_out), (MOST_SEEN, 7));
    }
}
