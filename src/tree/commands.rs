//! Runs a program as the agent of a session: a task that is told to stop, never dropped while its processes live.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::report::Outcome;
use super::scribe::Scribe;
use super::session::SessionSeed;
use crate::agent::{Session, Task};
use crate::harness::run::{AgentParts, CommandSpec, Recorder, Recording, Report, StopOrder, agent};
use crate::harness::{Faulty, RunFaults, Warden};
use crate::ids::{RunId, Strand};
use crate::journal::{Ids, Kind};
use crate::supervision::StopTimes;

/// Tells a run to stop. Dropped (its session is gone), it tells it to be gone at once; the task ends by itself when
/// nothing of the run is left, and holds the session's pulse until then.
#[derive(Debug)]
pub(super) struct Stopper(watch::Sender<Option<StopOrder>>);

impl Stopper {
    pub(super) fn new() -> (Self, watch::Receiver<Option<StopOrder>>) {
        let (sender, receiver) = watch::channel(None);
        (Self(sender), receiver)
    }

    /// Stops it within these times; a later order can only tighten.
    pub(super) fn stop(&self, times: StopTimes) {
        self.0.send_modify(|order| {
            let times = order.as_ref().map_or(times, |order| order.times.tighten(times));
            *order = Some(StopOrder { times });
        });
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.stop(StopTimes::within(Instant::now(), Duration::ZERO, 0));
    }
}

/// The records of a run go to its session's main strand.
struct OnMain(Scribe);

impl OnMain {
    fn of(&self, run: RunId) -> Scribe {
        Scribe { ids: Ids { run: Some(run), ..self.0.ids }, ..self.0.clone() }
    }
}

impl Recorder for OnMain {
    fn record(&self, run: RunId, kind: Kind) {
        self.of(run).say(Strand::Main, kind);
    }

    fn commit(&self, run: RunId, kind: Kind) -> Recording {
        let committed = self.of(run).promise(Strand::Main, [], kind, None);
        Box::pin(async move { committed.await.map(drop).map_err(|error| error.to_string()) })
    }
}

/// Runs the program of a session until nothing of it is left.
pub(super) fn run(
    seed: &SessionSeed,
    warden: Warden,
    spec: CommandSpec,
    session: Session,
    task: Task,
    mut stop: watch::Receiver<Option<StopOrder>>,
    faults: RunFaults,
) -> impl Future<Output = Outcome> + Send + 'static {
    let shared = &seed.shared;
    let scribe = seed.scribe();
    let parts = AgentParts {
        spec,
        session,
        task,
        directories: seed.directories.to_vec(),
        variables: shared.variables(seed.prepared.capsule.grants()),
        stop: stop.clone(),
        recorder: Arc::new(OnMain(scribe)),
        chance: shared.env.run_of(seed.tree.number, &seed.path, seed.attempt),
        limits: shared.limits.clone(),
    };
    async move {
        if let Some(late) = faults.lateness() {
            tokio::select! {
                biased;
                _ = stop.wait_for(Option::is_some) => {}
                () = tokio::time::sleep(late) => {}
            }
        }
        let launcher = Faulty::new(&warden, faults);
        let Report { class, result, detail, spawned, survivors } = agent(&launcher, parts).await;
        let left = (survivors > 0).then(|| format!("{survivors} processes it had left behind were ended"));
        let detail = match (detail, left) {
            (Some(detail), Some(left)) => Some(format!("{detail}; {left}")),
            (detail, left) => detail.or(left),
        };
        let result = result.map(|result| result.map(Arc::from));
        Outcome { class, result, detail, changed_world: spawned, spent: None }
    }
}
