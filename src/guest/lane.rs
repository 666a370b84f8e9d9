//! Where busy guests run: beside the threads that serve everybody else, as many at once as there are cores, and of
//! several trees that compute each the same share.
//!
//! A guest that has used up two ticks without once waiting for anything is busy. From then on it needs a turn for each
//! further tick. A tree has at most as many guests in the row for turns as there are cores, so a tree of a thousand
//! busy guests stands no more often in it than one of a few.

use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The lane of one tree.
#[derive(Clone, Debug)]
pub struct Lane(Arc<Semaphore>);

impl Default for Lane {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(cores())))
    }
}

/// Where the lanes of all trees come together.
pub(super) struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(cores())))
    }
}

/// Leave to run for a tick; the next in the row has it when this is dropped.
pub(super) struct Turn {
    _turn: Option<OwnedSemaphorePermit>,
    _lane: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// The next turn in `lane`. First come, first served, within a lane and among lanes. Cancel safe: whoever stops
    /// waiting leaves the row.
    pub(super) async fn next(&self, lane: &Lane) -> Turn {
        // Never closed: without a permit the guest would only run as it did before.
        let in_lane = lane.0.clone().acquire_owned().await.ok();
        let turn = self.0.clone().acquire_owned().await.ok();
        Turn { _turn: turn, _lane: in_lane }
    }
}

impl Turn {
    /// Runs `work` while another thread serves what this one served.
    pub(super) fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
            _ => work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_crowded_lane_gets_no_more_turns_than_another() {
        let turns = Arc::new(Turns(Arc::new(Semaphore::new(1))));
        let narrow = || Lane(Arc::new(Semaphore::new(1)));
        let (crowded, lonely) = (narrow(), narrow());
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let mut running = tokio::task::JoinSet::new();
        let gate = turns.next(&narrow()).await;
        for (lane, name, guests) in [(&crowded, "crowded", 50), (&lonely, "lonely", 1)] {
            for _ in 0..guests {
                let (turns, lane, told) = (turns.clone(), lane.clone(), told.clone());
                running.spawn(async move {
                    for _ in 0..20 {
                        let turn = turns.next(&lane).await;
                        told.send(name).unwrap();
                        tokio::task::yield_now().await;
                        drop(turn);
                    }
                });
            }
        }
        drop(gate);
        let mut first = Vec::new();
        while first.len() < 40 {
            first.push(heard.recv().await.unwrap());
        }
        let lonely = first.iter().filter(|name| **name == "lonely").count();
        assert!((15..=20).contains(&lonely), "{lonely} of 40");
    }
}
