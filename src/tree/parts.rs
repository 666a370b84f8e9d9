//! What the root supervises besides trees, under the same policy as anything else.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::limits::Limits;
use crate::supervision::{
    AutoShutdown, ChildSpec, Effect, Event, ExitClass, Incarnation, Intensity, Policy, RestartType, Shutdown, Spec,
    SpecError, Strategy,
};

/// A part of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The one writer. Significant: without it nothing can be remembered, so nothing goes on.
    Journal,
}

/// The parts of a runtime and the policy over them.
#[derive(Debug)]
pub(super) struct Parts {
    policy: Policy<Part>,
    lives: BTreeMap<Part, Incarnation>,
}

impl Parts {
    /// The parts, all of which run already: the runtime starts them before its root.
    pub(super) fn new(limits: &Limits) -> Result<Self, SpecError> {
        let shutdown = Shutdown::Grace(limits.grace);
        let journal = ChildSpec::new(Part::Journal, RestartType::Temporary, shutdown).significant()?;
        let any = AutoShutdown::AnySignificant;
        let spec = Spec::new(Strategy::OneForOne, Intensity::default(), any, vec![journal])?;
        let (policy, effects) = Policy::new(spec, Instant::now());
        let mut parts = Self { policy, lives: BTreeMap::new() };
        for effect in effects {
            if let Effect::Start { child, incarnation } = effect {
                parts.lives.insert(child, incarnation);
                parts.step(Event::Started { child, incarnation });
            }
        }
        Ok(parts)
    }

    /// A part is gone. Whether the runtime ends with it.
    pub(super) fn lost(&mut self, child: Part, class: ExitClass) -> bool {
        let Some(&incarnation) = self.lives.get(&child) else { return false };
        let effects = self.step(Event::Exited { child, incarnation, class });
        effects.iter().any(|effect| matches!(effect, Effect::ShutdownSelf { .. }))
    }

    fn step(&mut self, event: Event<Part>) -> Vec<Effect<Part>> {
        // Nothing here is restarted, so no pause is ever drawn.
        self.policy.step(event, Instant::now(), &mut || 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_journal_that_is_gone_ends_the_runtime_once() {
        let mut parts = Parts::new(&Limits::default()).expect("the parts make sense");
        assert!(parts.lost(Part::Journal, ExitClass::Panic));
        assert!(!parts.lost(Part::Journal, ExitClass::Panic), "it is over already");
    }
}
