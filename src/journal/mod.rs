//! The ordered, durable account of every tree.
//!
//! Whoever has something to say holds a [`Journal`] and appends; the one writer folds, numbers, hashes and groups; a
//! [`Store`] keeps the bytes; everything shown anywhere is read back from them.

mod chain;
mod counts;
pub mod diff;
mod fold;
mod handle;
mod memory;
mod pen;
mod prune;
mod queue;
mod record;
pub mod recover;
mod seal;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
pub mod verify;
mod writer;

pub use chain::Hash;
pub use counts::Counter;
pub use fold::{Closing, Event, Fold, Refused, Scope, Summary, Verdict, Why};
pub use handle::{
    AppendError, Closed, ClosedTicket, Committed, Entry, Head, Health, Journal, Options, ReadError, Ticket,
};
pub use memory::MemoryStore;
pub use prune::prune;
pub use queue::Share;
pub use record::*;
pub use seal::Sizes;
#[cfg(feature = "sqlite")]
pub use sqlite::{Reader, SqliteOptions, SqliteStore};
pub use store::{
    Batch, Durability, Filter, Limit, Opener, Page, Source, Started, Store, StoreError, Stored, StoredBlob, Tip,
    TreeInfo,
};
pub use writer::{StoreFault, StoreFaults};
