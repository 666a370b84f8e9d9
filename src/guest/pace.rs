//! Computing takes time, in simulation too.
//!
//! A guest that computes yields each time it has used a piece of its fuel. In simulation that yield is a sleep of as
//! long as the fuel stands for: so a deadline strikes a guest that spins, and a clock moves for one that computes.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::engine::YIELD;

/// Runs a guest so that each of its yields takes its time.
pub(super) async fn paced<T>(run: impl Future<Output = T>) -> T {
    let mut run = pin!(run);
    loop {
        let turn = std::future::poll_fn(|cx| {
            let bell =
                Arc::new(Bell { early: AtomicBool::new(true), rung: AtomicBool::new(false), task: cx.waker().clone() });
            let poll = run.as_mut().poll(&mut Context::from_waker(&Waker::from(bell.clone())));
            bell.early.store(false, Ordering::Release);
            match poll {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                // It asked to be polled again before it had even returned: that is a yield, and not a wait.
                Poll::Pending if bell.rung.load(Ordering::Acquire) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        match turn.await {
            Some(result) => return result,
            None => tokio::time::sleep(YIELD).await,
        }
    }
}

/// Tells whether the guest's future was woken while it was being polled.
struct Bell {
    early: AtomicBool,
    rung: AtomicBool,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        if !self.early.load(Ordering::Acquire) {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_yield_takes_its_time_and_a_wait_its_own() {
        let start = Instant::now();
        let busy = std::pin::pin!(async {
            let mut turns = 0;
            std::future::poll_fn(|cx| {
                turns += 1;
                cx.waker().wake_by_ref();
                if turns <= 5 { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
        });
        paced(busy).await;
        assert_eq!(start.elapsed(), YIELD * 5);
        let start = Instant::now();
        paced(tokio::time::sleep(Duration::from_secs(3))).await;
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }
}
