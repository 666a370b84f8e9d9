//! Where one actor stands in the fault plan.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{Action, Plan, Point, Rule, Scope, When};
use crate::env::Chance;
use crate::ids::SessionPath;

/// One actor's place in the fault plan: it counts how often each rule's point was passed.
///
/// Counts belong to the attempt: a restarted session counts from 1 again, so `nth=1` strikes in every attempt and
/// `attempt=1 nth=1` once. At the journal's points they run as long as the writer. Whether a `p=` rule strikes the
/// n-th time depends on the seed, the session, the attempt and n alone, not on what else happened in between.
#[derive(Debug, Default)]
pub struct Cursor(Option<Box<Inner>>);

#[derive(Debug)]
struct Inner {
    plan: Arc<Plan>,
    salt: u64,
    /// The rules that can strike here at all.
    rules: Vec<Count>,
}

#[derive(Debug)]
struct Count {
    index: usize,
    passed: u64,
}

/// A fault that strikes now. Whoever meets it makes it happen, and records it first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// Where.
    pub point: Point,
    /// What is to happen.
    pub action: Action,
    /// How often the rule's point had been passed, this time included.
    pub nth: u64,
}

impl Cursor {
    /// The cursor of one attempt of one session.
    pub fn for_session(
        plan: Option<&Arc<Plan>>,
        path: &SessionPath,
        capsule: &str,
        attempt: u32,
        chance: Chance,
    ) -> Self {
        Self::new(plan, chance, |rule| {
            let filter = rule.filter();
            rule.point().scope() == Scope::Session
                && filter.path.as_ref().is_none_or(|pattern| pattern.matches(path))
                && filter.capsule.as_deref().is_none_or(|name| name == capsule)
                && filter.attempt.is_none_or(|n| n.get() == attempt)
        })
    }

    /// The cursor of the journal's writer.
    pub fn for_journal(plan: Option<&Arc<Plan>>, chance: Chance) -> Self {
        Self::new(plan, chance, |rule| rule.point().scope() == Scope::Journal)
    }

    fn new(plan: Option<&Arc<Plan>>, mut chance: Chance, applies: impl Fn(&Rule) -> bool) -> Self {
        let Some(plan) = plan else { return Self(None) };
        let rules: Vec<Count> = plan
            .rules()
            .iter()
            .enumerate()
            .filter(|(_, rule)| applies(rule))
            .map(|(index, _)| Count { index, passed: 0 })
            .collect();
        if rules.is_empty() {
            return Self(None);
        }
        Self(Some(Box::new(Inner { plan: plan.clone(), salt: chance.bits(), rules })))
    }

    /// Passes `point` (for the call of `tool`, where there is one): the fault that strikes, if one does.
    /// Every rule for the point counts the passage; the first that fires strikes.
    #[inline]
    pub fn strike(&mut self, point: Point, tool: Option<&str>) -> Option<Strike> {
        match &mut self.0 {
            None => None,
            Some(inner) => inner.strike(point, tool),
        }
    }
}

impl Inner {
    fn strike(&mut self, point: Point, tool: Option<&str>) -> Option<Strike> {
        let mut strike = None;
        for count in &mut self.rules {
            let rule = &self.plan.rules()[count.index];
            if rule.point() != point || rule.filter().tool.as_deref().is_some_and(|name| Some(name) != tool) {
                continue;
            }
            count.passed += 1;
            let nth = count.passed;
            let fires = match rule.when() {
                When::Always => true,
                When::Nth(n) => nth == n.get(),
                When::Every(n) => nth.is_multiple_of(n.get()),
                When::Chance(p) => draw(self.salt, count.index, nth) < p,
            };
            if fires && strike.is_none() {
                strike = Some(Strike { point, action: rule.action().clone(), nth });
            }
        }
        strike
    }
}

/// A number in `0.0..1.0` for the n-th passage of one rule. Hashed rather than drawn in turn, so that rules and
/// points do not disturb each other.
fn draw(salt: u64, rule: usize, nth: u64) -> f64 {
    let mut hash = Sha256::new();
    hash.update(b"fault");
    hash.update(salt.to_le_bytes());
    hash.update((rule as u64).to_le_bytes());
    hash.update(nth.to_le_bytes());
    let bytes: [u8; 32] = hash.finalize().into();
    let bits = bytes[..8].iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::env::Env;
    use crate::ids::Strand;

    fn plan(rules: &[&str]) -> Arc<Plan> {
        Arc::new(Plan::new(rules.iter().map(|rule| rule.parse().unwrap()).collect()))
    }

    /// Inside a paused runtime, since an `Env` is anchored to tokio's clock.
    fn chance(seed: u64, path: &str, attempt: u32) -> Chance {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async { Env::simulated(seed, None).chance(&path.parse().unwrap(), attempt, Strand::Main) })
    }

    fn session(rules: &[&str], path: &str, attempt: u32) -> Cursor {
        let plan = plan(rules);
        Cursor::for_session(Some(&plan), &path.parse().unwrap(), "reader", attempt, chance(7, path, attempt))
    }

    fn struck(cursor: &mut Cursor, point: Point, times: usize) -> Vec<u64> {
        (0..times).filter_map(|_| cursor.strike(point, None)).map(|strike| strike.nth).collect()
    }

    #[test]
    fn without_a_rule_for_it_an_actor_holds_nothing() {
        let mut none = Cursor::for_session(None, &SessionPath::root(), "reader", 1, chance(7, "0", 1));
        assert!(none.0.is_none() && none.strike(Point::Session, None).is_none());
        assert!(session(&["session path=0.1 panic", "sync error"], "0.2", 1).0.is_none());
        assert_eq!(size_of::<Cursor>(), size_of::<usize>());
    }

    #[test]
    fn filters_choose_the_session_the_capsule_and_the_attempt() {
        let strikes = |rule: &str, path: &str, attempt| {
            !struck(&mut session(&[rule], path, attempt), Point::Session, 1).is_empty()
        };
        assert!(strikes("session path=0.1 panic", "0.1", 1));
        assert!(!strikes("session path=0.1 panic", "0.1.0", 1));
        assert!(!strikes("session path=0.1 panic", "0.10", 1));
        assert!(strikes("session path=0.1.* panic", "0.1.0", 1));
        assert!(strikes("session capsule=reader panic", "0", 1));
        assert!(!strikes("session capsule=writer panic", "0", 1));
        assert!(!strikes("session attempt=1 panic", "0", 2));
        assert!(strikes("session attempt=2 panic", "0", 2));
    }

    #[test]
    fn a_rule_counts_only_what_its_filter_lets_through() {
        let mut cursor = session(&["tool tool=grep nth=2 error"], "0", 1);
        assert_eq!(cursor.strike(Point::Tool, Some("grep")), None);
        assert_eq!(cursor.strike(Point::Tool, Some("sed")), None);
        assert_eq!(cursor.strike(Point::Gate, Some("grep")), None);
        let strike = cursor.strike(Point::Tool, Some("grep")).unwrap();
        assert_eq!(strike, Strike { point: Point::Tool, action: Action::Error(None), nth: 2 });
        assert_eq!(cursor.strike(Point::Tool, Some("grep")), None);
        assert_eq!(cursor.strike(Point::Tool, None), None);
    }

    #[test]
    fn nth_strikes_once_every_strikes_again_and_always_strikes() {
        assert_eq!(struck(&mut session(&["wait nth=3 hang"], "0", 1), Point::Wait, 9), [3]);
        assert_eq!(struck(&mut session(&["wait every=3 hang"], "0", 1), Point::Wait, 9), [3, 6, 9]);
        assert_eq!(struck(&mut session(&["wait hang"], "0", 1), Point::Wait, 3), [1, 2, 3]);
        assert_eq!(struck(&mut session(&["wait p=1 hang"], "0", 1), Point::Wait, 3), [1, 2, 3]);
    }

    #[test]
    fn the_first_rule_that_fires_strikes_and_the_others_still_count() {
        let mut cursor = session(&["wait nth=1 hang", "wait nth=2 drop", "wait every=2 error"], "0", 1);
        let actions: Vec<_> = (0..4).map(|_| cursor.strike(Point::Wait, None).map(|strike| strike.action)).collect();
        assert_eq!(actions, [Some(Action::Hang), Some(Action::Drop), None, Some(Action::Error(None))]);
    }

    #[test]
    fn the_journal_has_its_own_points() {
        let plan = plan(&["session panic", "sync nth=2 error"]);
        let mut cursor = Cursor::for_journal(Some(&plan), chance(7, "0", 0));
        assert!(struck(&mut cursor, Point::Session, 3).is_empty());
        assert_eq!(struck(&mut cursor, Point::Sync, 3), [2]);
    }

    proptest! {
        #[test]
        fn chance_follows_seed_path_attempt_and_count_alone(
            seed in any::<u64>(), attempt in 1_u32..4, noise in prop::collection::vec(0_usize..3, 40),
        ) {
            let plan = plan(&["wait p=0.5 hang", "emit p=0.5 drop"]);
            let cursor = || Cursor::for_session(Some(&plan), &SessionPath::root(), "lead", attempt, chance(seed, "0", attempt));
            let alone = struck(&mut cursor(), Point::Wait, noise.len());
            let mut disturbed = cursor();
            let mut among = Vec::new();
            for emits in noise {
                struck(&mut disturbed, Point::Emit, emits);
                among.extend(struck(&mut disturbed, Point::Wait, 1));
            }
            prop_assert_eq!(alone, among);
        }

        #[test]
        fn a_probability_is_one(seed in any::<u64>()) {
            let plan = plan(&["wait p=0.25 hang"]);
            let mut cursor = Cursor::for_session(Some(&plan), &SessionPath::root(), "lead", 1, chance(seed, "0", 1));
            let strikes = struck(&mut cursor, Point::Wait, 2_000).len();
            // Seven standard deviations either way.
            prop_assert!((365..=635).contains(&strikes), "{strikes} of 2000");
        }
    }
}
