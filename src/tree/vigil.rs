//! How a supervisor knows that nothing of a subtree is left: everything alive in it holds a pulse.

use std::sync::Arc;

use tokio::sync::watch;

/// Held by every task of a session and, through their own pulses, by everything below it.
#[derive(Clone, Debug)]
pub(crate) struct Pulse(#[expect(dead_code, reason = "held for its drop")] Arc<Node>);

#[derive(Debug)]
struct Node {
    _alive: watch::Receiver<()>,
    _up: Option<Pulse>,
}

/// The supervisor's end.
#[derive(Clone, Debug)]
pub(crate) struct Vigil(watch::Sender<()>);

impl Vigil {
    /// A vigil over a new session, below the one that holds `up`.
    pub(crate) fn new(up: Option<Pulse>) -> (Self, Pulse) {
        let (sender, receiver) = watch::channel(());
        (Self(sender), Pulse(Arc::new(Node { _alive: receiver, _up: up })))
    }

    /// Whether no pulse of the session, or of anything below it, is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits until no pulse of the session, or of anything below it, is left. Cancel safe.
    pub(crate) async fn gone(&self) {
        self.0.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_subtree_is_gone_only_when_its_last_grandchild_is() {
        let (vigil, session) = Vigil::new(None);
        let (_below, child) = Vigil::new(Some(session.clone()));
        let (_deep, grandchild) = Vigil::new(Some(child.clone()));
        drop((session, child));
        assert!(!vigil.is_gone());
        drop(grandchild);
        vigil.gone().await;
    }
}
