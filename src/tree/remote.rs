//! What can be asked of a running runtime from outside its trees.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::context::Shared;
use super::look::{Look, Sessions};
use super::message::RootMessage;
use crate::ids::{SessionPath, TreeId};
use crate::journal::{CompletionStatus, Journal};

/// What came of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// It was told; its ending follows within the grace.
    Told,
    /// It had ended already.
    Ended(CompletionStatus),
    /// No such session is known here; it never was, or its completion was taken.
    Unknown,
    /// Whoever had to be asked on the way did not answer in time.
    Silent,
}

/// A session to be stopped, on its way down to the one that made it.
#[derive(Debug)]
pub(crate) struct StopAt {
    pub(crate) tree: TreeId,
    pub(crate) path: SessionPath,
    pub(crate) grace: Duration,
    pub(crate) reply: oneshot::Sender<Stopped>,
}

impl StopAt {
    /// Answers, unless nobody waits any more.
    pub(crate) fn answer(self, stopped: Stopped) {
        let _nobody = self.reply.send(stopped);
    }
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Remote {
    root: ActorRef<RootMessage>,
    shared: Arc<Shared>,
}

impl Remote {
    pub(crate) fn new(root: ActorRef<RootMessage>, shared: Arc<Shared>) -> Self {
        Self { root, shared }
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What lives now, as far as it answers within `within`.
    pub(crate) async fn sessions(&self, tree: Option<TreeId>, within: Duration) -> Sessions {
        let (look, gathering) = Look::new(tree);
        let _gone = self.root.cast(RootMessage::Look(look));
        gathering.by(Instant::now() + within).await
    }

    /// Stops one session with everything below it. Returns when it was told.
    pub(crate) async fn stop(&self, tree: TreeId, path: SessionPath, grace: Duration, within: Duration) -> Stopped {
        let (reply, answer) = oneshot::channel();
        let _gone = self.root.cast(RootMessage::StopAt(StopAt { tree, path, grace, reply }));
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(stopped)) => stopped,
            // Dropped with a session that ended on the way.
            Ok(Err(_)) => Stopped::Unknown,
            Err(_) => Stopped::Silent,
        }
    }
}
