//! A guest is held to the runtime's limits where its capsule sets none, and a capsule cannot set more than there is.

use std::path::Path;
use std::time::Duration;

use treeward::agent::Completion;
use treeward::{Builder, Limits, Submission, SubmitError, Team};

use crate::support::{GRACE, simulated};

/// A capsule around the scripted guest, with these lines at the end of its manifest.
fn capsule(place: &Path, more: &str) -> Team {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/script/script.wasm");
    std::fs::copy(script, place.join("script.wasm")).expect("the component");
    let manifest = format!("name = \"script\"\n[run]\nguest = \"script.wasm\"\n[restart]\nrerun = \"no\"\n{more}");
    std::fs::write(place.join("capsule.toml"), manifest).expect("the manifest");
    Team::load(place).expect("a team")
}

fn limited(limits: Limits) -> Builder {
    simulated().limits(limits)
}

async fn run(builder: Builder, team: Team, steps: &str) -> Result<Completion, SubmitError> {
    let runtime = builder.start().await.expect("a runtime");
    let result = match runtime.submit(Submission::new(team, steps)).await {
        Ok(tree) => Ok(tree.completion().await.expect("a completion")),
        Err(refused) => Err(refused),
    };
    runtime.stop(GRACE).await.expect("the end");
    result
}

#[tokio::test(start_paused = true)]
async fn guest_memory() {
    let place = tempfile::tempdir().expect("a directory");
    let grow = r#"[{"do":"grow","count":1000}]"#;
    let small = || limited(Limits { guest_memory: 4 << 20, ..Limits::default() });
    let ended = run(small(), capsule(place.path(), ""), grow).await.expect("a completion");
    let enough = run(limited(Limits::default()), capsule(place.path(), ""), grow).await.expect("a completion");
    assert!(enough.answer.contains("1000"), "{enough:?}");
    // The guest takes the no for an answer, and says how far it came: 64 pages are 4 MiB.
    let pages: u64 = ended.answer.trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a number");
    assert!(pages > 0 && pages < 64, "{ended:?}");
    // More than there is is refused before anything starts, naming both.
    let refused = run(small(), capsule(place.path(), "[limits]\nmemory = \"8MiB\"\n"), grow).await;
    let refused = refused.expect_err("more than there is").to_string();
    for part in ["`script`", "limits.memory is 8388608 bytes", "limits.guest.memory is 4194304"] {
        assert!(refused.contains(part), "{part:?} is not in {refused}");
    }
    run(small(), capsule(place.path(), "[limits]\nmemory = \"4MiB\"\n"), "[]").await.expect("as much as there is");
}

#[tokio::test(start_paused = true)]
async fn guest_running() {
    let place = tempfile::tempdir().expect("a directory");
    let limits = Limits { guest_running: Duration::from_millis(50), ..Limits::default() };
    let ended = run(limited(limits), capsule(place.path(), ""), r#"[{"do":"spin"}]"#).await.expect("a completion");
    let detail = ended.detail.expect("a reason");
    assert!(detail.contains("running time of 50ms (limits.running)"), "{detail}");
}

/// A tool that never says what it offers keeps no run waiting.
#[tokio::test(start_paused = true)]
async fn gate() {
    let place = tempfile::tempdir().expect("a directory");
    let spins = r#"(component
        (import "treeward:agent/types@0.1.0" (instance $types
          (type $t (record (field "name" string) (field "description" string) (field "input-schema" string)))
          (export "tool-info" (type (eq $t)))))
        (alias export $types "tool-info" (type $info))
        (core module $m
          (memory (export "memory") 1)
          (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
          (func (export "describe") (result i32) (loop $l (br $l)) (unreachable))
          (func (export "call") (param i32 i32 i32 i32) (result i32) (unreachable)))
        (core instance $i (instantiate $m))
        (func (export "describe") (result (list $info)) (canon lift (core func $i "describe") (memory (core memory $i "memory"))))
        (func (export "call") (param "name" string) (param "input" string) (result (result string (error string)))
          (canon lift (core func $i "call") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"#;
    std::fs::write(place.path().join("spins.wasm"), wat::parse_str(spins).expect("a component")).expect("the tool");
    let team = capsule(place.path(), "[tools.spins]\ncomponent = \"spins.wasm\"\nchanges_world = false\n");
    let limits = Limits { gate: Duration::from_millis(50), ..Limits::default() };
    let refused = run(limited(limits), team, "[]").await.expect_err("it never says").to_string();
    assert!(refused.contains("spins.wasm") && refused.contains("limits.gate"), "{refused}");
}
