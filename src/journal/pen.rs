//! The hand that writes: the store, on a thread of its own or in line.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ractor::ActorRef;

use super::store::{Batch, Store};
use super::writer::{Message, Work};

/// One batch, and the faults that strike it.
pub struct Commit {
    pub batch: Batch,
    /// Fails before anything is stored.
    pub append_fails: Option<String>,
    /// Fails when it is stored, but nobody knows.
    pub sync_fails: Option<String>,
}

/// Where storing happens. One task at a time, so a channel of one never blocks its sender.
pub enum Pen {
    /// In the writer's own handler, where order must not depend on threads.
    Inline(Option<Box<dyn Store>>),
    /// On one dedicated thread. `None` once it was told to close.
    Thread(Option<SyncSender<Task>>),
}

/// A task for the thread.
pub enum Task {
    Commit(Commit),
    Work(Work),
}

impl Pen {
    /// Moves `store` to a thread that reports to `writer` and ends, closing the store, when the writer does.
    pub fn thread(store: Box<dyn Store>, writer: ActorRef<Message>) -> std::io::Result<Self> {
        let (sender, tasks) = sync_channel(1);
        let thread = std::thread::Builder::new().name("treeward-journal".into());
        thread.spawn(move || run(store, &tasks, &writer))?;
        Ok(Self::Thread(Some(sender)))
    }

    pub fn is_inline(&self) -> bool {
        matches!(self, Self::Inline(_))
    }

    /// Whether it was told to close.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Inline(None) | Self::Thread(None))
    }

    /// Stores a batch; the result where it is known at once.
    pub fn commit(&mut self, commit: Commit) -> Option<Result<(), String>> {
        self.give(Task::Commit(commit))
    }

    /// Does a piece of work; the result where it is known at once.
    pub fn work(&mut self, work: Work) -> Option<Result<(), String>> {
        self.give(Task::Work(work))
    }

    fn give(&mut self, task: Task) -> Option<Result<(), String>> {
        match self {
            Self::Inline(Some(store)) => Some(perform(store.as_mut(), task)),
            Self::Thread(Some(sender)) => {
                let gone = sender.try_send(task).is_err();
                gone.then(|| Err("its thread is gone".to_owned()))
            }
            Self::Inline(None) | Self::Thread(None) => Some(Err("the store is closed".to_owned())),
        }
    }

    /// Closes the store. Says whether it is closed now; a thread says so later.
    pub fn close(&mut self) -> bool {
        match self {
            Self::Inline(store) => store.take().is_some(),
            Self::Thread(sender) => {
                *sender = None;
                false
            }
        }
    }
}

fn run(mut store: Box<dyn Store>, tasks: &Receiver<Task>, writer: &ActorRef<Message>) {
    while let Ok(task) = tasks.recv() {
        let result = perform(store.as_mut(), task);
        if writer.cast(Message::Stored(result)).is_err() {
            break;
        }
    }
    drop(store);
    let _gone = writer.cast(Message::StoreClosed);
}

/// A store that panics is a store that failed.
fn perform(store: &mut dyn Store, task: Task) -> Result<(), String> {
    let done = catch_unwind(AssertUnwindSafe(|| match task {
        Task::Commit(Commit { append_fails: Some(reason), .. }) => Err(reason),
        Task::Commit(commit) => {
            if !commit.batch.is_empty() {
                store.append(&commit.batch).map_err(|error| error.to_string())?;
            }
            commit.sync_fails.map_or(Ok(()), Err)
        }
        Task::Work(work) => {
            work(store);
            Ok(())
        }
    }));
    done.unwrap_or_else(|_| Err("the store panicked".to_owned()))
}
