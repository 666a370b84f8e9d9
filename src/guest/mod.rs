//! Guests: a capsule's own WebAssembly components, run in one engine and lent exactly what was granted.
//!
//! A component is loaded once ([`Guests::load_agent`], [`Guests::load_tool`]) and run in a fresh instance each time. A
//! guest sees its lent directories, its named variables, a clock and chance from [`Env`](crate::env::Env), outgoing HTTP
//! to the listed hosts, and its session; nothing else. It is killed by dropping the future that runs it.
//!
//! What isolation cannot hold: a host stack overflow or an allocator that aborts ends the process. The engine catches
//! guests' faults with process-wide handlers for SIGSEGV, SIGBUS, SIGILL and SIGFPE, and passes on what is not theirs.

mod bindings;
mod cache;
mod component;
mod engine;
mod files;
mod http;
mod lane;
mod pace;
mod run;
mod session_host;
mod sizing;
mod state;
mod stop;
mod tail;
mod ticker;
mod wasi;

pub use cache::CacheError;
pub use component::{AgentComponent, Allowed, ComponentError, ToolComponent, ToolInfo};
pub use engine::{Busy, EngineError, GuestConfig, Guests};
pub use lane::Lane;
pub use run::{Exit, GuestFault};
pub use sizing::{Sizing, free_maps, max_map_count};
pub use wasi::Confinement;
