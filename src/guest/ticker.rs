//! The clock that makes busy guests yield.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::EngineWeak;

/// How long a guest runs before it yields to its neighbours; a kill of a spinning guest lands within it.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// A thread of its own: tasks of the runtime may all be busy guests, which is just when it is needed.
/// It rests while no guest is live, and ends when this is dropped.
pub(super) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    live: AtomicUsize,
    over: AtomicBool,
    /// It has found no guest and is going to rest: only then does a new one wake it.
    resting: AtomicBool,
}

impl Ticker {
    /// Starts ticking `engine`'s epoch.
    pub(super) fn start(engine: EngineWeak) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new().name("treeward-tick".into()).spawn({
            let shared = shared.clone();
            move || {
                while !shared.over.load(Ordering::SeqCst) {
                    shared.resting.store(true, Ordering::SeqCst);
                    // Looked at behind the flag: a guest that came before it is seen here, a later one sees the flag.
                    if shared.live.load(Ordering::SeqCst) == 0 {
                        std::thread::park();
                        continue;
                    }
                    shared.resting.store(false, Ordering::SeqCst);
                    // Woken early it ticks early, which only makes a guest yield once more.
                    std::thread::park_timeout(TICK);
                    match engine.upgrade() {
                        Some(engine) => engine.increment_epoch(),
                        None => return,
                    }
                }
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Keeps ticking while the answer is held.
    pub(super) fn hold(&self) -> Ticking {
        self.shared.live.fetch_add(1, Ordering::SeqCst);
        if self.shared.resting.load(Ordering::SeqCst)
            && self.shared.resting.swap(false, Ordering::SeqCst)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
        Ticking(self.shared.clone())
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _panicked = thread.join();
        }
    }
}

/// A live guest, as far as the ticker is concerned.
pub(super) struct Ticking(Arc<Shared>);

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
    }
}
