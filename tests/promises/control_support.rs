//! A runtime that listens in a directory of its own, and somebody who asks it.

use std::path::Path;
use std::time::Duration;

use treeward::control::protocol::{Answer, Ask};
use treeward::control::{Client, ClientError, Listen, Process, processes};
use treeward::ids::TreeId;
use treeward::journal::{Body, Limit};
use treeward::{Builder, Runtime};

pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub fn directory(&self) -> std::path::PathBuf {
        self.0.path().join("sockets")
    }

    pub fn builder(&self) -> Builder {
        Runtime::builder().control(Listen::In(self.directory()))
    }

    /// The one process that listens here.
    pub fn process(&self) -> Process {
        let found = processes(Some(&self.directory())).expect("the processes");
        assert_eq!(found.len(), 1, "{found:?}");
        found.into_iter().next().expect("one")
    }

    pub async fn ask(&self, ask: Ask) -> Result<Answer, ClientError> {
        let process = self.process();
        blocking(move || Client::connect(&process, PATIENCE)?.ask(&ask)).await
    }
}

/// The client blocks: it has a thread of its own.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("the client")
}

/// Waits until a record of the tree is what is looked for.
pub async fn until(runtime: &Runtime, tree: TreeId, mut is: impl FnMut(&Body) -> bool) {
    let mut head = runtime.journal().subscribe(tree);
    let mut next = 1;
    loop {
        let page = runtime.journal().read(tree, next, Limit::default()).await.expect("a page");
        for stored in &page.records {
            next = stored.seq + 1;
            if is(&serde_json::from_str(&stored.body).expect("a body")) {
                return;
            }
        }
        if page.records.is_empty() {
            let more = tokio::time::timeout(PATIENCE, head.changed()).await.expect("the record in time");
            assert!(more.is_ok(), "the tree ended without it");
        }
    }
}

/// Waits until the session at `path` has started.
pub async fn started(runtime: &Runtime, tree: TreeId, path: &str) {
    until(runtime, tree, |body| body.path.to_string() == path && body.kind.name() == "task_started").await;
}

/// What is in a directory.
pub fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("the directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect()
}
