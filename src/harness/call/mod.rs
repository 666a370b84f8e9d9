//! What a program asks of its session, over a Unix socket of the session's own.
//!
//! One connection carries one call: a line of JSON ([`Frame`]) there, a line of JSON ([`Reply`]) back. `treeward call` is
//! this for shells; any language that can open a Unix socket can do without it.

mod protocol;
mod server;

pub use protocol::{CallFailure, Frame, LONGEST_FRAME, Reply, SOCKET, TOKEN, Trouble};
pub use server::{CallServer, DirectoryInfo};
