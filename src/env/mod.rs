//! The one door through which clock, chance, ids and faults come in (law 6).
//!
//! An [`Env`] is forked by (path, strand), never drawn from in global order: what one session draws does not
//! depend on what its siblings drew before it. Timers are `tokio::time`'s, which a simulation pauses.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::fault::Plan;
use crate::ids::{SessionPath, Strand};

/// Microseconds since the Unix epoch. Stands in envelopes, never in bodies.
pub type Timestamp = u64;

/// Where a run's clock, chance and faults come from. Cheap to clone; immutable.
#[derive(Clone, Debug)]
pub struct Env {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    seed: u64,
    /// What makes the ids of two runs of one seed differ; nothing in a simulation.
    salt: u64,
    simulated: bool,
    plan: Option<Arc<Plan>>,
    /// The wall clock and the tokio clock, read at the same moment.
    start: (Timestamp, Instant),
}

/// The wall clock a simulation starts at: 2026-01-01T00:00:00Z.
const SIMULATED_START: Timestamp = 1_767_225_600_000_000;

impl Env {
    /// The real world: the wall clock, and a seed drawn from the system unless one is given.
    /// Call inside a tokio runtime (the clock is anchored to it).
    pub fn real(seed: Option<u64>, plan: Option<Plan>) -> Self {
        let seed = seed.unwrap_or_else(system_seed);
        Self::new(seed, false, system_now(), plan)
    }

    /// A simulation: the clock starts at a fixed moment and follows `tokio::time`, which the caller pauses.
    pub fn simulated(seed: u64, plan: Option<Plan>) -> Self {
        Self::new(seed, true, SIMULATED_START, plan)
    }

    fn new(seed: u64, simulated: bool, now: Timestamp, plan: Option<Plan>) -> Self {
        let salt = if simulated { 0 } else { system_seed() };
        let plan = plan.filter(|plan| !plan.is_empty()).map(Arc::new);
        Self { inner: Arc::new(Inner { seed, salt, simulated, plan, start: (now, Instant::now()) }) }
    }

    /// The same, with ids unlike those of any other run: for a journal that holds other runs too.
    #[must_use]
    pub fn with_ids_of_its_own(&self) -> Self {
        let Inner { seed, simulated, plan, start, .. } = &*self.inner;
        let inner =
            Inner { seed: *seed, salt: system_seed(), simulated: *simulated, plan: plan.clone(), start: *start };
        Self { inner: Arc::new(inner) }
    }

    /// The seed every fork is derived from.
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// Whether the same seed must give the same bodies byte for byte: guests then run on fuel instead of
    /// epochs, and what would use a helper thread runs inline.
    pub fn is_simulated(&self) -> bool {
        self.inner.simulated
    }

    /// Now, for envelopes. Follows tokio's clock from the start of the run, so it never runs backwards.
    pub fn now(&self) -> Timestamp {
        let (at, instant) = self.inner.start;
        at.saturating_add(micros(instant.elapsed()))
    }

    /// The fault plan, where there is one.
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        self.inner.plan.as_ref()
    }

    /// The randomness of one strand of one attempt of one session. The same arguments give the same stream.
    pub fn chance(&self, path: &SessionPath, attempt: u32, strand: Strand) -> Chance {
        let mut hash = Sha256::new();
        hash.update(self.inner.seed.to_le_bytes());
        hash.update(format!("{path}/{attempt}/{strand}"));
        Chance(ChaCha8Rng::from_seed(hash.finalize().into()))
    }

    /// The ids of one session of the `tree`th tree of this run. In the real world they are unlike those of any other
    /// run, also of the same seed.
    pub fn ids_of(&self, tree: u64, path: &SessionPath) -> Chance {
        let mut hash = Sha256::new();
        hash.update(self.inner.seed.to_le_bytes());
        hash.update(self.inner.salt.to_le_bytes());
        hash.update(tree.to_le_bytes());
        hash.update(path.to_string());
        Chance(ChaCha8Rng::from_seed(hash.finalize().into()))
    }

    /// What one run of a harness is named and lets itself be known by: unlike any other attempt's, session's, tree's and,
    /// in the real world, process's.
    pub fn run_of(&self, tree: u64, path: &SessionPath, attempt: u32) -> Chance {
        let mut hash = Sha256::new();
        hash.update(b"run");
        hash.update(self.inner.seed.to_le_bytes());
        hash.update(self.inner.salt.to_le_bytes());
        hash.update(tree.to_le_bytes());
        hash.update(format!("{path}/{attempt}"));
        Chance(ChaCha8Rng::from_seed(hash.finalize().into()))
    }
}

/// A stream of randomness that belongs to one strand.
#[derive(Clone, Debug)]
pub struct Chance(ChaCha8Rng);

impl Chance {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        // 53 bits: every value is representable, 1.0 is not reached.
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// A version 4 UUID.
    pub fn uuid(&mut self) -> uuid::Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "this is the door")]
fn system_now() -> Timestamp {
    micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Chance from the operating system, through the standard library's own seeding of hash maps.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
fn system_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn forks_do_not_depend_on_what_others_drew() {
        let path: SessionPath = "0.1".parse().unwrap();
        let draw = |noise: usize| {
            let env = Env::simulated(7, None);
            let mut other = env.chance(&SessionPath::root(), 1, Strand::Main);
            for _ in 0..noise {
                other.bits();
            }
            env.chance(&path, 1, Strand::Main).bits()
        };
        assert_eq!(draw(0), draw(9));
        let env = Env::simulated(7, None);
        assert_ne!(env.chance(&path, 1, Strand::Main).bits(), env.chance(&path, 2, Strand::Main).bits());
        assert_ne!(env.chance(&path, 1, Strand::Main).bits(), env.chance(&path, 1, Strand::Call(0)).bits());
    }

    #[tokio::test(start_paused = true)]
    async fn the_simulated_clock_moves_only_with_tokio() {
        let env = Env::simulated(1, None);
        assert_eq!(env.now(), SIMULATED_START);
        tokio::time::advance(Duration::from_millis(5)).await;
        assert_eq!(env.now(), SIMULATED_START + 5_000);
    }

    #[tokio::test]
    async fn two_real_runs_of_one_seed_have_different_ids() {
        let ids = || Env::real(Some(3), None).ids_of(0, &SessionPath::root()).uuid();
        assert_ne!(ids(), ids());
    }
}
