//! The local socket of a running process: what lives, a tree as it grows, a stop, the metrics.
//!
//! A process that was asked to listens on a Unix socket of its own, in a directory only its user can enter. One line of
//! JSON is a request, one line an answer (see [`protocol`]). Nothing here is needed to run: where the socket cannot be
//! made the runtime runs without, and says why.

mod client;
mod metrics;
mod place;
pub mod protocol;
mod server;

pub use client::{Client, ClientError, Followed, Process, processes};
pub use metrics::Histogram;
pub use place::{PlaceError, usual_place};
pub(crate) use server::Control;

use std::path::PathBuf;

/// Connections served at once; the next one is told `busy`.
pub const CONNECTIONS: usize = 16;
/// Connections of these that may follow a tree, so that a question always gets through.
pub const FOLLOWERS: usize = 12;
/// Bytes of a request.
pub const REQUEST: usize = 64 << 10;

/// Where a runtime listens; see [`Builder::control`](crate::Builder::control).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    #[default]
    Nowhere,
    /// In the user's own directory for sockets: where `treeward ps` looks.
    UsualPlace,
    /// In this directory, which is made where it is not there, and must be the user's own and closed to others.
    In(PathBuf),
}
