//! One run of one guest, from a fresh instance to its exit.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use wasmtime::component::InstancePre;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::engine::{Busy, FUEL_PER_YIELD, Inner, fuel};
use super::lane::{Lane, Turn, Turns};
use super::pace::paced;
use super::state::Guest;
use super::stop::Stop;
use super::tail::Tail;
use super::wasi::{Confinement, lower};
use crate::agent::Session;
use crate::supervision::ExitClass;

/// How a run of a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It answered, or said why it cannot.
    Answered(Result<String, String>),
    /// It ended without either.
    Crashed {
        /// What kind of end it was.
        class: ExitClass,
        /// Why, where, and the last lines it wrote to its standard streams. Bounded.
        detail: String,
    },
    /// It was not started.
    Busy(Busy),
}

impl Exit {
    /// As far as restarting is concerned.
    pub fn class(&self) -> ExitClass {
        match self {
            Self::Answered(_) => ExitClass::Done,
            Self::Crashed { class, .. } => *class,
            Self::Busy(_) => ExitClass::Retryable,
        }
    }

    /// What it answered, where it did.
    pub fn result(&self) -> Option<&Result<String, String>> {
        match self {
            Self::Answered(result) => Some(result),
            _ => None,
        }
    }

    /// Why it did not answer.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Answered(_) => None,
            Self::Crashed { detail, .. } => Some(detail.clone()),
            Self::Busy(busy) => Some(busy.to_string()),
        }
    }
}

/// A fault that strikes a guest at the start of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestFault {
    /// It traps.
    Trap,
    /// It never comes back.
    Hang,
}

/// Running time between two signs of progress.
const PROGRESS: Duration = Duration::from_secs(1);

/// Counts the time a guest runs: the time its future is polled, not the time it waits.
struct Meter {
    used: AtomicU64,
    limit: Duration,
    /// Set when the guest was made to yield, which is not when it waits.
    interrupted: AtomicBool,
}

impl Meter {
    fn new(limit: Duration) -> Self {
        Self { used: AtomicU64::new(0), limit, interrupted: AtomicBool::new(false) }
    }

    fn used(&self) -> Duration {
        Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }

    /// Runs a guest by the clock, says now and then that it goes on, and moves it aside while it is busy.
    async fn over<T>(
        &self,
        turns: &Turns,
        lane: &Lane,
        session: &Session,
        mut run: Pin<&mut impl Future<Output = T>>,
    ) -> T {
        let mut told = Duration::ZERO;
        let mut turn: Option<Turn> = None;
        let mut busy = false;
        loop {
            let done = std::future::poll_fn(|cx| {
                let from = Instant::now();
                let poll = match &turn {
                    Some(turn) => turn.aside(|| run.as_mut().poll(cx)),
                    None => run.as_mut().poll(cx),
                };
                let nanos = u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.used.fetch_add(nanos, Ordering::Relaxed);
                if poll.is_pending() && self.used() >= told + PROGRESS {
                    told = self.used();
                    session.progress();
                }
                turn = None;
                let interrupted = self.interrupted.swap(false, Ordering::Relaxed);
                let still_busy = std::mem::replace(&mut busy, interrupted) && interrupted;
                match poll {
                    Poll::Ready(result) => Poll::Ready(Some(result)),
                    // Its second tick in a row: it is polled again when it has its turn.
                    Poll::Pending if still_busy => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            });
            match done.await {
                Some(result) => return result,
                None => {
                    // Back to the scheduler first: a turn that is free at once would leave it no moment to end the task.
                    tokio::task::yield_now().await;
                    turn = Some(turns.next(lane).await);
                }
            }
        }
    }
}

/// Runs `body` in a fresh instance.
///
/// Dropping the future ends the guest: at once where it waits, at its next yield (10 ms) where it runs.
pub(super) async fn run<F>(
    inner: &Inner,
    pre: &InstancePre<Guest>,
    session: Session,
    confinement: Confinement,
    fault: Option<GuestFault>,
    body: F,
) -> Exit
where
    F: AsyncFnOnce(&mut Store<Guest>, wasmtime::component::Instance) -> wasmtime::Result<Result<String, String>>,
{
    let place = match inner.place() {
        Ok(place) => place,
        Err(busy) => return Exit::Busy(busy),
    };
    let tail = Tail::default();
    let limit = confinement.running;
    let lane = confinement.lane.clone();
    let meter = Arc::new(Meter::new(limit));
    let mut store = Store::new(&inner.engine, lower(inner, session.clone(), confinement, &tail));
    store.limiter(|guest| &mut guest.limiter);
    // One call's texts together; the limits of each are checked behind it.
    let most = inner.limits.answer_whole.saturating_add(inner.limits.field);
    store.set_hostcall_fuel(most);
    if let Err(error) = bound(&mut store, inner.simulated, &meter) {
        return crash(inner, &store, &tail, limit, &error);
    }
    let result = {
        // Pinned here: handed on by value its room would be kept twice in every live session.
        let work = pin!(async {
            let instance = pre.instantiate_async(&mut store).await?;
            match fault {
                None => {}
                Some(GuestFault::Trap) => {
                    return Err(wasmtime::Error::from(Trap::UnreachableCodeReached).context("fault injected"));
                }
                Some(GuestFault::Hang) => std::future::pending().await,
            }
            body(&mut store, instance).await
        });
        if inner.simulated { paced(work).await } else { meter.over(&inner.turns, &lane, &session, work).await }
    };
    let exit = match result {
        Ok(result) => Exit::Answered(result),
        Err(error) if error.is::<PoolConcurrencyLimitError>() => Exit::Busy(inner.busy()),
        Err(error) => crash(inner, &store, &tail, limit, &error),
    };
    drop(store);
    drop(place);
    exit
}

/// Makes the guest yield, and stop at its limit.
fn bound(store: &mut Store<Guest>, simulated: bool, meter: &Arc<Meter>) -> wasmtime::Result<()> {
    if simulated {
        store.set_fuel(fuel(meter.limit))?;
        return store.fuel_async_yield_interval(Some(FUEL_PER_YIELD));
    }
    let meter = meter.clone();
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        if meter.used() >= meter.limit {
            return Err(Stop::Running(meter.limit).into());
        }
        meter.interrupted.store(true, Ordering::Relaxed);
        Ok(UpdateDeadline::Yield(1))
    });
    Ok(())
}

fn crash(inner: &Inner, store: &Store<Guest>, tail: &Tail, running: Duration, error: &wasmtime::Error) -> Exit {
    let trap = error.downcast_ref::<Trap>();
    let stop = error.downcast_ref::<Stop>();
    let memory = store.data().limiter.most();
    let (class, why) = if trap == Some(&Trap::OutOfFuel) {
        (ExitClass::Trap, Stop::Running(running).to_string())
    } else if error.root_cause().to_string().contains("hostcalls has been exhausted") {
        // The type of that error is wasmtime's own. Missing it here would only cost the name of the limit.
        let most = inner.limits.answer_whole;
        (ExitClass::Trap, format!("more than {most} bytes handed over at once (limits.answer_whole)"))
    } else if let Some(stop) = stop {
        let class = if *stop == Stop::SessionEnded { ExitClass::KilledByUs } else { ExitClass::Trap };
        (class, stop.to_string())
    } else if store.data().limiter.denied() {
        // A guest refused memory ends in whatever way its language has for that.
        let why = error.root_cause();
        (ExitClass::OutOfMemory, format!("the guest reached its memory of {memory} bytes (limits.memory): {why}"))
    } else if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        (ExitClass::Trap, format!("the guest called exit({code}) instead of answering"))
    } else {
        (ExitClass::Trap, error.root_cause().to_string())
    };
    let mut detail = why;
    if let Some(trace) = error.downcast_ref::<WasmBacktrace>() {
        detail.push_str(&format!("\n{trace}"));
    }
    let written = tail.text();
    if !written.is_empty() {
        detail.push_str(&format!("\nit wrote:\n{written}"));
    }
    Exit::Crashed { class, detail: cut(detail, inner.limits.detail) }
}

/// At most `most` bytes, said so where it was cut.
fn cut(text: String, most: usize) -> String {
    const MARK: &str = " […]";
    if text.len() <= most {
        return text;
    }
    let keep = text.floor_char_boundary(most.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..keep])
}
