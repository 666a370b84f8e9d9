//! The `agent` world in Rust: what every guest of this repository is written against.
//!
//! A guest implements [`Guest`] and ends with `agent::export!(Name with_types_in agent::world);`.

/// What wit-bindgen makes of `wit/`; its documentation is there.
#[allow(missing_docs)]
pub mod world {
    wit_bindgen::generate!({ path: "../../wit", world: "treeward:agent/agent", pub_export_macro: true });
}

pub use world::treeward::agent::{session, types};
pub use world::{Guest, export};
