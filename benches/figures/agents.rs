//! The capsules that are measured.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use treeward::agent::{Session, Task};
use treeward::{Capsule, Team};

/// An agent in WAT: it answers with its task. The frame is that of the tests.
pub fn echo_text() -> String {
    include_str!("../../tests/guests/frame.wat").replace(
        ";;BODY",
        "(func $body (param i32 i32) (result i32) (call $reply (i32.const 0) (local.get 0) (local.get 1)))",
    )
}

/// A capsule that runs a component, as it is loaded from a directory.
pub fn guest(place: &Path, name: &str, component: &[u8]) -> Arc<Capsule> {
    let manifest = format!("name = \"{name}\"\n[run]\nguest = \"{name}.wasm\"\n");
    let file = place.join(format!("{name}.toml"));
    std::fs::write(place.join(format!("{name}.wasm")), component).expect("the component is written");
    std::fs::write(&file, manifest).expect("the manifest is written");
    Team::load(&file).expect("the capsule loads").root().clone()
}

/// The guest that does what its task says; see `tests/guests/README.md`.
pub fn script(place: &Path) -> Arc<Capsule> {
    guest(place, "script", include_bytes!("../../tests/guests/script/script.wasm"))
}

/// Answers with its task.
pub fn echo() -> Arc<Capsule> {
    let agent = |_: Session, task: Task| async move { Ok(task.text) };
    Capsule::native("echo", agent).build().expect("a capsule")
}

/// Waits until it is stopped.
pub fn waiter() -> Arc<Capsule> {
    let agent = |_: Session, _: Task| std::future::pending::<Result<String, String>>();
    Capsule::native("waiter", agent).build().expect("a capsule")
}

/// Hands its task to `child` as often as the task says, one after the other; answers with the time of each in
/// nanoseconds.
pub fn lead(child: &Arc<Capsule>) -> Team {
    let name = child.name().to_owned();
    let agent = move |session: Session, task: Task| {
        let name = name.clone();
        async move {
            let times: u32 = task.text.parse().map_err(|_| "the task is a number")?;
            let mut took = Vec::with_capacity(times as usize);
            for _ in 0..times {
                let begin = Instant::now();
                let delegation = session.delegate_to(name.as_str(), "hi").await.map_err(|why| why.to_string())?;
                let completion = delegation.wait().await.map_err(|why| why.to_string())?;
                took.push(begin.elapsed().as_nanos().to_string());
                if completion.answer != "hi" {
                    return Err(format!("{:?}: {:?}", completion.status, completion.detail));
                }
            }
            Ok(took.join(" "))
        }
    };
    let lead = Capsule::native("lead", agent).delegates([child.name()]).build().expect("a capsule");
    Team::new(lead, [child.clone()]).expect("a team")
}

/// Starts as many of `child` as its task says, tells `started`, and waits until it is stopped.
pub fn crowd(child: &Arc<Capsule>, task: &'static str, started: tokio::sync::mpsc::Sender<()>) -> Team {
    let name = child.name().to_owned();
    let agent = move |session: Session, number: Task| {
        let (name, started) = (name.clone(), started.clone());
        async move {
            let number: usize = number.text.parse().map_err(|_| "the task is a number")?;
            let mut held = Vec::with_capacity(number);
            for _ in 0..number {
                held.push(session.delegate_to(name.as_str(), task).await.map_err(|why| why.to_string())?);
            }
            let _nobody = started.send(()).await;
            std::future::pending().await
        }
    };
    let lead = Capsule::native("crowd", agent)
        .delegates([child.name()])
        .live_children(65_536)
        .deadline(Duration::from_secs(3600))
        .build()
        .expect("a capsule");
    Team::new(lead, [child.clone()]).expect("a team")
}
