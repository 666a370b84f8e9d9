//! The worlds of `wit/`, as Rust.
#![allow(missing_docs, clippy::pedantic)]

wasmtime::component::bindgen!({
    path: "wit",
    world: "agent",
    imports: { default: async | trappable },
    exports: { default: async },
    with: { "treeward:agent/session.delegation": super::session_host::Held },
    require_store_data_send: true,
});

/// The world of tools.
pub mod tool {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "tool",
        exports: { default: async },
        with: { "treeward:agent/types": super::treeward::agent::types },
    });
}
