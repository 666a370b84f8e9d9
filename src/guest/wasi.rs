//! What a guest is lent of the outer world, and its lowering into WASI.

use std::collections::BTreeSet;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::time::Instant;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx};
use wasmtime_wasi_http::WasiHttpCtx;

use super::engine::Inner;
use super::http::Outgoing;
use super::lane::Lane;
use super::session_host::Lent;
use super::state::{Guest, Limiter};
use super::tail::Tail;
use crate::agent::Session;
use crate::capsule::Host;
use crate::env::{Chance, Env};
use crate::lending::Directory;

/// Bytes of randomness a guest may ask for at once.
const RANDOM: u64 = 1 << 20;

/// Everything a guest is lent; what is not here it does not have.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// Directories, each found by the guest under its name.
    pub directories: Vec<Directory>,
    /// Environment variables, name and value.
    pub variables: Vec<(String, String)>,
    /// Where outgoing HTTP may go.
    pub hosts: BTreeSet<Host>,
    /// Bytes of its memories together (`limits.memory`).
    pub memory: u64,
    /// How long it may run, not counting its waits in host calls (`limits.running`).
    pub running: Duration,
    /// Where its wall clock comes from.
    pub env: Env,
    /// Where its randomness comes from; the same chance gives the same stream.
    pub chance: Chance,
    /// Where it runs when it is busy: with the others of its tree.
    pub lane: Lane,
}

impl Confinement {
    /// Nothing but a clock, chance and these limits.
    pub fn nothing(memory: u64, running: Duration, env: Env, chance: Chance) -> Self {
        let (directories, variables, hosts) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { directories, variables, hosts, memory, running, env, chance, lane: Lane::default() }
    }
}

/// Lowers a confinement into the state of a new guest.
pub(super) fn lower(inner: &Inner, session: Session, lent: Confinement, tail: &Tail) -> Guest {
    let Confinement { directories, variables, hosts, memory, running: _, env, mut chance, lane: _ } = lent;
    let mut stream = || {
        let mut seed = [0; 32];
        chance.fill(&mut seed);
        ChaCha8Rng::from_seed(seed)
    };
    let (secure, insecure) = (stream(), stream());
    let seed = u128::from(chance.bits()) << 64 | u128::from(chance.bits());
    // Standard input is closed where none is given.
    let wasi = WasiCtx::builder()
        .stdout(tail.clone())
        .stderr(tail.clone())
        .envs(&variables)
        .secure_random(secure)
        .insecure_random(insecure)
        .insecure_random_seed(seed)
        .max_random_size(RANDOM)
        .wall_clock(Wall(env))
        .monotonic_clock(Monotonic(Instant::now()))
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .allow_blocking_current_thread(inner.simulated)
        .build();
    Guest {
        wasi,
        table: Guest::table(),
        directories: directories.into(),
        listed: Default::default(),
        inline: inner.simulated,
        http: WasiHttpCtx::new(),
        outgoing: Outgoing { session: session.clone(), hosts: hosts.into() },
        lent: Lent::new(session, inner.limits.clone()),
        limiter: Limiter::new(memory),
    }
}

struct Wall(Env);

impl HostWallClock for Wall {
    fn resolution(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn now(&self) -> Duration {
        Duration::from_micros(self.0.now())
    }
}

/// Time since the guest was started, by tokio's clock: in simulation it moves only when the simulation does.
struct Monotonic(Instant);

impl HostMonotonicClock for Monotonic {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
