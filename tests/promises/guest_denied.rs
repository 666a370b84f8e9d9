//! A call that is denied ends as one, and the session and its tree go on to their own endings.

use std::path::Path;

use treeward::capsule::Team;
use treeward::journal::CompletionStatus;
use treeward::{Runtime, Submission};

use crate::support::run;

const GUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guests");

/// Runs a component of `tests/guests` with these further lines of manifest.
async fn answer(component: &str, manifest: &str, task: &str) -> String {
    let capsule = tempfile::tempdir().expect("a directory");
    let copy = |path: &str, name: &str| std::fs::copy(Path::new(GUESTS).join(path), capsule.path().join(name));
    copy(component, "guest.wasm").expect("the component");
    copy("echo-tool/echo-tool.wasm", "echo-tool.wasm").expect("the component");
    let manifest = format!("name = \"tried\"\n[run]\nguest = \"guest.wasm\"\n{manifest}");
    std::fs::write(capsule.path().join("capsule.toml"), manifest).expect("written");
    let team = Team::load(capsule.path()).expect("the capsule loads");
    let ran = run(Runtime::builder().cache(None), Submission::new(team, task)).await;
    ran.check();
    let completion = ran.completion.expect("committed");
    match completion.status {
        CompletionStatus::Ok => completion.answer,
        status => format!("{status:?}: {}", completion.detail.unwrap_or_default()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_not_there_is_denied_and_the_next_one_runs() {
    let manifest = "[tools.echo]\ncomponent = \"echo-tool.wasm\"\nchanges_world = false\n";
    let task = r#"[{"do":"tool","name":"upper","input":"{}"},{"do":"tool","name":"echo","input":"[1]"}]"#;
    let said = answer("script/script.wasm", manifest, task).await;
    assert!(said.contains(r#""error":"denied: "#), "{said}");
    assert!(said.contains(r#""ok":"[1]""#), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_not_listed_is_denied() {
    let manifest = "[grants]\nnetwork = [\"http://127.0.0.1:9\"]\n";
    let said = answer("fetch/fetch.wasm", manifest, "GET http://127.0.0.1:10/").await;
    assert!(said.starts_with("Error: "), "{said}");
    assert!(said.to_lowercase().contains("denied"), "{said}");
}
