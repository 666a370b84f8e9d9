//! What a supervisor is made from, validated: combinations that make no sense cannot be constructed.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Backoff, Intensity, RestartSpec, RestartType};

/// Which children are restarted when one has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// That one.
    OneForOne,
    /// All of them.
    OneForAll,
    /// That one and those started after it.
    RestForOne,
}

/// Whether a supervisor stops itself when significant children have ended by themselves, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AutoShutdown {
    /// Never.
    Never,
    /// When one has.
    AnySignificant,
    /// When one has and no other is left.
    AllSignificant,
}

/// How several children are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopOrder {
    /// The last started first, the next when that one is confirmed gone.
    Reverse,
    /// All at once: children that know nothing of each other, such as delegated sessions.
    AtOnce,
}

/// How a child is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// Killed at once.
    Brutal,
    /// Asked to stop, and killed when it is not gone after this long.
    Grace(Duration),
}

/// One child of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildSpec<Id> {
    id: Id,
    restart: RestartType,
    shutdown: Shutdown,
    backoff: Backoff,
    healthy_after: Duration,
    significant: bool,
}

impl<Id> ChildSpec<Id> {
    /// A child that is not significant, with the default backoff; healthy after a minute.
    pub fn new(id: Id, restart: RestartType, shutdown: Shutdown) -> Self {
        let defaults = RestartSpec::default();
        let (backoff, healthy_after) = (defaults.backoff(), defaults.healthy_after());
        Self { id, restart, shutdown, backoff, healthy_after, significant: false }
    }

    /// With this wait before a restart. It begins anew once the child has been up for `healthy_after`.
    #[must_use]
    pub fn backoff(self, backoff: Backoff, healthy_after: Duration) -> Self {
        Self { backoff, healthy_after, ..self }
    }

    /// One whose own ending counts for the supervisor's [`AutoShutdown`].
    ///
    /// # Errors
    /// A permanent child never ends by itself for good.
    pub fn significant(self) -> Result<Self, SpecError> {
        match self.restart {
            RestartType::Permanent => Err(SpecError::SignificantPermanent),
            RestartType::Transient | RestartType::Temporary => Ok(Self { significant: true, ..self }),
        }
    }

    /// Its name.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Which of its exits are followed by a restart.
    pub fn restart(&self) -> RestartType {
        self.restart
    }

    pub(super) fn shutdown(&self) -> Shutdown {
        self.shutdown
    }

    pub(super) fn waits(&self) -> (Backoff, Duration) {
        (self.backoff, self.healthy_after)
    }

    pub(super) fn is_significant(&self) -> bool {
        self.significant
    }
}

/// A supervisor: its rules, and the children it starts with, in the order they are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec<Id> {
    pub(super) rules: Rules,
    pub(super) children: Vec<ChildSpec<Id>>,
}

/// What holds for all children of a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub strategy: Strategy,
    pub intensity: Intensity,
    pub auto_shutdown: AutoShutdown,
    pub stop_order: StopOrder,
}

/// A supervisor that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A permanent child cannot be significant.
    #[error("a permanent child never ends for good, so it cannot be significant: make it transient or temporary")]
    SignificantPermanent,
    /// A significant child whose ending would mean nothing.
    #[error(
        "a significant child means nothing where auto-shutdown is `never`: choose `any_significant` or `all_significant`"
    )]
    SignificantForNothing,
    /// Two children of one name.
    #[error("two children have the same id: give each its own")]
    Duplicate,
    /// More children than [`Spec::MOST_CHILDREN`].
    #[error("more than {} children: put a supervisor between", Spec::<()>::MOST_CHILDREN)]
    TooMany,
    /// Children that depend on each other, stopped all at once.
    #[error("children restarted together depend on each other and stop in order: stop at once is for one_for_one")]
    AtOnceTogether,
    /// The supervisor is stopping, or has.
    #[error("the supervisor is stopping: nothing is started any more")]
    Stopping,
}

impl<Id: Ord> Spec<Id> {
    /// The most children a supervisor has.
    pub const MOST_CHILDREN: usize = 100_000;

    /// A supervisor that stops its children in reverse order, one after the other.
    pub fn new(
        strategy: Strategy,
        intensity: Intensity,
        auto_shutdown: AutoShutdown,
        children: Vec<ChildSpec<Id>>,
    ) -> Result<Self, SpecError> {
        let rules = Rules { strategy, intensity, auto_shutdown, stop_order: StopOrder::Reverse };
        if children.len() > Self::MOST_CHILDREN {
            return Err(SpecError::TooMany);
        }
        children.iter().try_for_each(|child| rules.admit(child))?;
        if children.iter().map(ChildSpec::id).collect::<BTreeSet<_>>().len() < children.len() {
            return Err(SpecError::Duplicate);
        }
        Ok(Self { rules, children })
    }

    /// One that stops all its children at once.
    pub fn stop_at_once(mut self) -> Result<Self, SpecError> {
        match self.rules.strategy {
            Strategy::OneForAll | Strategy::RestForOne => Err(SpecError::AtOnceTogether),
            Strategy::OneForOne => {
                self.rules.stop_order = StopOrder::AtOnce;
                Ok(self)
            }
        }
    }
}

impl Rules {
    /// Whether such a child makes sense under these rules.
    pub(super) fn admit<Id>(&self, child: &ChildSpec<Id>) -> Result<(), SpecError> {
        if child.significant && self.auto_shutdown == AutoShutdown::Never {
            return Err(SpecError::SignificantForNothing);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(id: u32, restart: RestartType) -> ChildSpec<u32> {
        ChildSpec::new(id, restart, Shutdown::Brutal)
    }

    #[test]
    fn combinations_that_make_no_sense_cannot_be_constructed() {
        let new = |auto, children| Spec::new(Strategy::RestForOne, Intensity::default(), auto, children);
        assert_eq!(child(0, RestartType::Permanent).significant(), Err(SpecError::SignificantPermanent));
        let significant = child(0, RestartType::Transient).significant().unwrap();
        assert_eq!(new(AutoShutdown::Never, vec![significant.clone()]).unwrap_err(), SpecError::SignificantForNothing);
        let twins = vec![child(1, RestartType::Permanent), child(1, RestartType::Transient)];
        assert_eq!(new(AutoShutdown::Never, twins).unwrap_err(), SpecError::Duplicate);
        let fine = new(AutoShutdown::AnySignificant, vec![significant]).unwrap();
        assert_eq!(fine.stop_at_once().unwrap_err(), SpecError::AtOnceTogether);
        let crowd = (0..=100_000).map(|id| child(id, RestartType::Temporary)).collect();
        assert_eq!(new(AutoShutdown::Never, crowd).unwrap_err(), SpecError::TooMany);
    }
}
