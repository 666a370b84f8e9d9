//! Tasks that belong to somebody: dropping the handle aborts the task.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use tokio::task::AbortHandle;

/// A task of an actor. It is aborted when this is dropped, which also happens when the actor panics or is killed.
#[derive(Debug)]
pub(crate) struct Owned(AbortHandle);

impl Owned {
    /// Spawns `future` on the runtime of the caller.
    #[expect(clippy::disallowed_methods, reason = "the one place where tasks are made, so that each has an owner")]
    pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(future).abort_handle())
    }
}

impl Owned {
    /// Lets the task go on without an owner: only for one that is told to end by other means and does.
    #[cfg(feature = "harness")]
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }

    /// Whether the task is over.
    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Panics because a fault says so: unwinds like any panic, without the message on stderr that nobody asked for.
pub(crate) fn injected_panic(action: &crate::fault::Action) -> ! {
    std::panic::resume_unwind(Box::new(action.message().to_owned()))
}

/// Runs `future`, turning a panic inside it into its message.
pub(crate) async fn contained<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    std::future::poll_fn(move |context| {
        // The future is dropped after a panic and never polled again, so no broken invariant can be seen.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(payload) => Poll::Ready(Err(panic_text(&*payload))),
        }
    })
    .await
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_inside_becomes_its_text() {
        assert_eq!(contained(async { 1 }).await, Ok(1));
        let broken: Result<(), _> = contained(async { panic!("no {}", "good") }).await;
        assert_eq!(broken, Err("no good".to_owned()));
    }

    #[tokio::test]
    async fn dropping_the_owner_ends_the_task() {
        let (alive, mut gone) = tokio::sync::watch::channel(());
        let task = Owned::spawn(async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        drop(task);
        assert!(gone.changed().await.is_err(), "the task's sender was dropped with it");
    }
}
