//! The one engine of the process and the pool its guests live in.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, WasmBacktraceDetails};

use super::cache::{Cache, CacheError};
use super::lane::Turns;
use super::sizing::{Sizing, free_maps};
use super::state::{self, Guest};
use super::ticker::{Ticker, Ticking};
use crate::ids::Digest;
use crate::limits::{LARGEST_MEMORY, Limits};

/// Stack a guest's own calls may use; beyond it the guest traps.
const WASM_STACK: usize = 512 << 10;
/// A fiber's whole stack: the guest's, and what host calls made on top of it need. Reserved, touched page by page.
const FIBER_STACK: usize = 2 << 20;
/// Core instances of one component. A Python guest has 38.
const CORE_INSTANCES: u32 = 100;
/// Tables per live guest, and elements of each; an interpreter's function table has some ten thousand.
const TABLES: u32 = 4;
const TABLE_ELEMENTS: usize = 20_000;
/// Bytes of a memory kept resident between two guests of a slot: clearing them is cheaper than giving them back.
const KEEP_RESIDENT: usize = 64 << 10;

/// How guests are run.
#[derive(Clone, Debug)]
pub struct GuestConfig {
    /// On fuel instead of the wall clock, with file reads inline: the same seed gives the same run.
    pub simulated: bool,
    /// Where compiled components are kept; `None` keeps none.
    pub cache: Option<PathBuf>,
    /// `live_sessions` sizes the pool; the limits on texts bound what a guest hands over.
    pub limits: Limits,
}

impl GuestConfig {
    /// As `run` has it: real, with the usual cache.
    pub fn new(limits: Limits) -> Self {
        Self { simulated: false, cache: Cache::usual_place(), limits }
    }

    /// For simulations and tests: on fuel, nothing kept.
    pub fn simulated(limits: Limits) -> Self {
        Self { simulated: true, cache: None, limits }
    }
}

/// The engine cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The pool, or the engine itself.
    #[error("cannot set up the WebAssembly engine: {0}; if address space is limited (ulimit -v), lift that limit")]
    Engine(wasmtime::Error),
    /// The thread that makes busy guests yield.
    #[error("cannot start the thread that makes busy guests yield: {0}")]
    Ticker(std::io::Error),
}

/// Every place for a live guest is taken. Nothing was started; try again when a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("busy: all {limit} places for live guests are taken (limits.live_sessions; vm.max_map_count bounds it)")]
pub struct Busy {
    /// How many there are.
    pub limit: u32,
}

/// The guests of a process: one engine, one pool, one clock. Cheap to clone; every clone is the same.
#[derive(Clone)]
pub struct Guests(Arc<Inner>);

pub(super) struct Inner {
    pub(super) engine: Engine,
    pub(super) agents: Linker<Guest>,
    pub(super) tools: Linker<Guest>,
    pub(super) limits: Limits,
    pub(super) simulated: bool,
    pub(super) sizing: Sizing,
    cache: Option<Result<Cache, CacheError>>,
    /// Components already compiled, so that loading a capsule twice compiles once. Immutable values; a memo.
    compiled: Mutex<BTreeMap<Digest, Component>>,
    places: Arc<Semaphore>,
    ticker: Option<Ticker>,
    pub(super) turns: Turns,
}

/// Compiled components remembered in the process.
const REMEMBERED: usize = 256;

impl std::fmt::Debug for Guests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Guests({:?})", self.0.sizing)
    }
}

impl Guests {
    /// Sets up the engine and reserves the pool's address space: some 20 ms for ten thousand places, once per runtime.
    /// A simulation has no pool and is set up at once.
    pub fn new(config: GuestConfig) -> Result<Self, EngineError> {
        // One after another, though they share nothing: each is sized by what the others left.
        static SETUP: Mutex<()> = Mutex::new(());
        let setup = SETUP.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let plan = if config.simulated { Sizing::without_pool } else { Sizing::plan };
        let mut sizing = plan(config.limits.live_sessions, free_maps());
        let engine = loop {
            match Engine::new(&engine_config(&config, sizing)) {
                Ok(engine) => break engine,
                // Where address space is short (another pool, ulimit -v), a smaller pool serves fewer guests well.
                Err(_) if sizing.live > 1 => sizing.live = (sizing.live / 2).max(1),
                Err(error) => return Err(EngineError::Engine(error)),
            }
        };
        drop(setup);
        let (agents, tools) = state::linkers(&engine).map_err(EngineError::Engine)?;
        let cache = config.cache.as_ref().map(|path| Cache::open(path, &engine));
        if let Some(Err(error)) = &cache {
            tracing::warn!(%error, "compiled components are not kept");
        }
        let ticker =
            if config.simulated { None } else { Some(Ticker::start(engine.weak()).map_err(EngineError::Ticker)?) };
        Ok(Self(Arc::new(Inner {
            engine,
            agents,
            tools,
            limits: config.limits,
            simulated: config.simulated,
            sizing,
            cache,
            compiled: Mutex::default(),
            places: Arc::new(Semaphore::new(sizing.live as usize)),
            ticker,
            turns: Turns::default(),
        })))
    }

    /// How many guests can be live at once here.
    pub fn sizing(&self) -> Sizing {
        self.0.sizing
    }

    /// Why compiled components are not kept, where they should be.
    pub fn cache_problem(&self) -> Option<&CacheError> {
        self.0.cache.as_ref()?.as_ref().err()
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Inner {
    /// Compiles, or takes what was compiled before. Blocks for as long as compiling takes.
    pub(super) fn compile(&self, bytes: &[u8]) -> wasmtime::Result<Component> {
        let digest = Digest::of(bytes);
        let remembered = || self.compiled.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(component) = remembered().get(&digest) {
            return Ok(component.clone());
        }
        let cache = self.cache.as_ref().and_then(|cache| cache.as_ref().ok());
        let component = match cache.and_then(|cache| cache.load(&self.engine, digest)) {
            Some(component) => component,
            None => {
                let component = Component::new(&self.engine, bytes)?;
                if let Some(cache) = cache {
                    cache.store(digest, &component);
                }
                component
            }
        };
        let mut memo = remembered();
        if memo.len() >= REMEMBERED {
            memo.pop_first();
        }
        memo.insert(digest, component.clone());
        Ok(component)
    }

    /// A place in the pool, held while the guest lives.
    pub(super) fn place(&self) -> Result<Place, Busy> {
        let permit = self.places.clone().try_acquire_owned().map_err(|_| self.busy())?;
        Ok(Place { _permit: permit, _ticking: self.ticker.as_ref().map(Ticker::hold) })
    }

    pub(super) fn busy(&self) -> Busy {
        Busy { limit: self.sizing.live }
    }
}

/// One guest's place.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    _ticking: Option<Ticking>,
}

/// Fuel for a millisecond of running time in simulation: what an unhurried machine does in it.
pub(super) const FUEL_PER_MILLISECOND: u64 = 10_000;
/// Running time between two yields in simulation.
pub(super) const YIELD: Duration = Duration::from_millis(10);
/// The same as fuel.
pub(super) const FUEL_PER_YIELD: u64 = 10 * FUEL_PER_MILLISECOND;

/// A running time as fuel.
pub(super) fn fuel(running: Duration) -> u64 {
    let millis = u64::try_from(running.as_millis()).unwrap_or(u64::MAX);
    // One unit short of the largest: wasmtime counts in signed numbers.
    millis.saturating_mul(FUEL_PER_MILLISECOND).clamp(1, i64::MAX as u64)
}

fn engine_config(config: &GuestConfig, sizing: Sizing) -> Config {
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(sizing.live)
        .total_core_instances(sizing.live.saturating_mul(CORE_INSTANCES))
        .max_core_instances_per_component(CORE_INSTANCES)
        .total_memories(sizing.live)
        .total_tables(sizing.live.saturating_mul(TABLES))
        .max_tables_per_module(TABLES)
        .table_elements(TABLE_ELEMENTS)
        .total_stacks(sizing.live)
        .max_memory_size(usize::try_from(LARGEST_MEMORY).unwrap_or(usize::MAX))
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_RESIDENT);
    // A simulation is set up thousands of times and runs few guests each time: a pool would cost more than it saves.
    let placing = match config.simulated {
        true => InstanceAllocationStrategy::OnDemand,
        false => InstanceAllocationStrategy::Pooling(pool),
    };
    let mut engine = Config::new();
    engine
        .allocation_strategy(placing)
        .memory_init_cow(sizing.copy_on_write)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK)
        .epoch_interruption(!config.simulated)
        .consume_fuel(config.simulated)
        // What two machines could compute differently is pinned where runs are compared.
        .cranelift_nan_canonicalization(config.simulated)
        .relaxed_simd_deterministic(config.simulated)
        // A trap's detail is bounded, and no environment variable of the process changes it.
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        .wasm_backtrace_details(WasmBacktraceDetails::Disable);
    engine
}
