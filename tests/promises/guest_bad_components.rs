//! A component that is not what it must be gives an error that names the file and what to do, and never a panic.

use bytes::Bytes;
use treeward::guest::{Allowed, ComponentError, Guests};

use super::guest_support::{ECHO, agent, guests_without_cache};

async fn error(guests: &Guests, bytes: impl Into<Bytes>) -> ComponentError {
    guests.load_agent("my.wasm", bytes.into(), Allowed::default()).await.unwrap_err()
}

fn says(error: &ComponentError, words: &[&str]) {
    let text = error.to_string();
    assert!(text.contains("my.wasm"), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

#[tokio::test]
async fn other_files_are_told_apart() {
    let guests = guests_without_cache();
    says(&error(&guests, "").await, &["empty"]);
    says(&error(&guests, "hello").await, &["not a WebAssembly component", "some other text"]);
    says(&error(&guests, &[0xff_u8, 0xfe, 0][..]).await, &["not a WebAssembly component"]);
    says(&error(&guests, "(component (oops").await, &["not a WebAssembly component"]);
    says(&error(&guests, "(module)").await, &["core module", "wasm-tools component new my.wasm"]);
    says(&error(&guests, &b"\0asm\x01\0\0\0"[..]).await, &["core module", "wasm-tools component new"]);
    says(&error(&guests, &b"\0asm\x63\0\x07\0"[..]).await, &["unknown version"]);
}

#[tokio::test]
async fn a_component_cut_short_anywhere_is_an_error() {
    let guests = guests_without_cache();
    let whole = wat::parse_str(agent(ECHO)).unwrap();
    assert!(guests.load_agent("my.wasm", Bytes::from(whole.clone()), Allowed::default()).await.is_ok());
    for cut in (0..whole.len()).step_by(64) {
        says(&error(&guests, whole[..cut].to_vec()).await, &[]);
    }
    // And one bit at a time: whatever still loads is a component, whatever does not is an error.
    for at in (8..whole.len()).step_by(37) {
        let mut bent = whole.clone();
        bent[at] ^= 0x41;
        let _either = guests.load_agent("my.wasm", Bytes::from(bent), Allowed::default()).await;
    }
}

#[tokio::test]
async fn the_wrong_world_is_named() {
    let guests = guests_without_cache();
    says(&error(&guests, "(component)").await, &["world `agent`", "run"]);
    let wrong = "(component (core module $m (func (export \"run\"))) (core instance $i (instantiate $m))
        (func (export \"run\") (canon lift (core func $i \"run\"))))";
    says(&error(&guests, wrong).await, &["world `agent`", "run"]);
    let narrower = agent(ECHO).replace("(export \"emit\" (func (param \"text\" string)))", "(export \"emit\" (func))");
    let narrower = narrower
        .replace("(memory $memory) (realloc $realloc)))\n  (core func $random_u64", "))\n  (core func $random_u64");
    let narrower = narrower.replace("(func $emit (param i32 i32))", "(func $emit)");
    says(&error(&guests, narrower).await, &["world `agent`", "emit"]);
}

#[tokio::test]
async fn imports_are_refused_with_the_key_that_would_grant_them() {
    let guests = guests_without_cache();
    let import = |name: &str| format!("(component (import \"{name}\" (instance)))");
    says(&error(&guests, import("wasi:http/outgoing-handler@0.2.3")).await, &["wasi:http", "grants.network"]);
    says(&error(&guests, import("wasi:nn/tensor@0.2.0")).await, &["wasi:nn/tensor", "no grant gives"]);
    says(&error(&guests, import("my:own/thing")).await, &["my:own/thing", "no grant gives"]);
    says(&error(&guests, import("wasi:io/streams@0.3.0")).await, &["WASI 0.2", "wasm32-wasip2"]);
    says(&error(&guests, import("treeward:agent/session@0.2.0")).await, &["treeward:agent@0.1.x"]);
    // With the grant, what is missing next is the export.
    let network = Allowed { network: true };
    let import = Bytes::from(import("wasi:http/outgoing-handler@0.2.3"));
    let error = guests.load_agent("my.wasm", import, network).await.unwrap_err();
    says(&error, &["world `agent`"]);
}
