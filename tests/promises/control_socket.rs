//! The local socket is its user's alone, bounded, and gone with its process; whoever misuses it harms only himself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use treeward::Submission;
use treeward::control::protocol::{Answer, Ask};
use treeward::control::{CONNECTIONS, Client, FOLLOWERS, Process, REQUEST};

use crate::control_support::{PATIENCE, Place, blocking, files, started};
use crate::support::{GRACE, lead};

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// Sends a line as it is, and reads one back; empty where the connection was closed.
fn say(process: &Process, line: &[u8]) -> String {
    let mut stream = UnixStream::connect(&process.socket).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // It may close before all of it is sent.
    let _closed = stream.write_all(line);
    let mut answer = String::new();
    let _closed = BufReader::new(stream).read_line(&mut answer);
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_closed_to_others_and_gone_with_the_runtime() {
    let place = Place::new();
    let runtime = place.builder().start().await.expect("a runtime");
    assert!(runtime.control_problem().is_none());
    let process = place.process();
    assert_eq!(process.pid, std::process::id());
    assert_eq!((mode(&place.directory()), mode(&process.socket)), (0o700, 0o600));
    let second = place.builder().start().await.expect("another runtime of this process");
    assert_eq!(files(&place.directory()).len(), 2);
    second.stop(GRACE).await.expect("the end");
    assert_eq!(files(&place.directory()).len(), 1);
    // A runtime that is dropped leaves nothing either.
    drop(runtime);
    assert!(files(&place.directory()).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_of_dead_processes_are_swept_and_passed_over() {
    let place = Place::new();
    place.builder().start().await.expect("a runtime").stop(GRACE).await.expect("the end");
    let stale = place.directory().join("4194305-1-0.sock");
    drop(UnixListener::bind(&stale).expect("a socket"));
    assert!(treeward::control::processes(Some(&place.directory())).expect("the list").is_empty());
    let runtime = place.builder().start().await.expect("a runtime");
    assert!(!stale.exists());
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_directory_is_open_to_others_the_runtime_runs_without() {
    let place = Place::new();
    std::fs::create_dir(place.directory()).expect("a directory");
    std::fs::set_permissions(place.directory(), std::fs::Permissions::from_mode(0o777)).expect("its mode");
    let runtime = place.builder().start().await.expect("a runtime");
    let problem = runtime.control_problem().expect("a problem").to_string();
    assert!(problem.contains("open to others") && problem.contains("XDG_RUNTIME_DIR"), "{problem}");
    assert!(files(&place.directory()).is_empty());
    assert!(treeward::control::processes(Some(&place.directory())).is_err(), "a client trusts it no more");
    let tree = runtime.submit(Submission::new(lead(&["echo"]), "x")).await.expect("a tree");
    assert_eq!(tree.completion().await.expect("a completion").answer, "x");
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_listened_on_unless_it_was_asked_for_and_never_in_a_simulation() {
    let place = Place::new();
    let runtime = place.builder().simulated().start().await.expect("a runtime");
    assert!(!place.directory().exists() && runtime.control_problem().is_none());
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_is_refused_and_the_next_one_served() {
    let place = Place::new();
    let runtime = place.builder().start().await.expect("a runtime");
    let process = place.process();
    blocking(move || {
        let refused = |line: &[u8], part: &str| {
            let answer = say(&process, line);
            assert!(answer.contains("\"answer\":\"refused\"") && answer.contains(part), "{answer:?}");
        };
        refused(b"GET / HTTP/1.1\r\n\r\n", "not a request");
        refused(b"\xff\xfe\x00\n", "not a request");
        refused(b"{\"v\":99,\"ask\":\"metrics\"}\n", "version 99");
        refused(b"{\"v\":1,\"ask\":\"sessions\",\"tree\":\"../../etc\"}\n", "not a request");
        refused(&vec![b'['; REQUEST + 1], "not a request");
        refused(&[&vec![b'['; REQUEST / 2][..], b"\n"].concat(), "not a request");
        // Gone before the line is whole.
        drop(UnixStream::connect(&process.socket).expect("a connection").write_all(b"{\"v\":1"));
        let mut client = Client::connect(&process, PATIENCE).expect("a connection");
        for _ in 0..3 {
            let answer = client.ask(&Ask::Sessions { tree: None }).expect("an answer");
            assert!(matches!(answer, Answer::Sessions { .. }));
        }
    })
    .await;
    runtime.stop(GRACE).await.expect("the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_connections_than_are_served_are_told_so() {
    let place = Place::new();
    let runtime = place.builder().start().await.expect("a runtime");
    let tree = runtime.submit(Submission::new(lead(&["hangs"]), "x")).await.expect("a tree");
    let id = tree.id();
    started(&runtime, id, "0.0").await;
    let process = place.process();
    blocking(move || {
        // As many as may follow; each has heard something, so it is served.
        let follow = || {
            let mut client = Client::connect(&process, PATIENCE).expect("a connection");
            client.follow(id, 1).expect("to follow");
            client.next(id, Some(PATIENCE)).map(|_| client)
        };
        let held: Vec<_> = (0..FOLLOWERS).map(|_| follow().expect("the first record")).collect();
        let error = follow().expect_err("one too many").to_string();
        assert!(error.contains("busy: 12 connections follow a tree"), "{error}");
        // A question still gets through, until every connection is taken.
        let mut rest = Vec::new();
        let error = loop {
            let mut client = Client::connect(&process, PATIENCE).expect("a connection");
            match client.ask(&Ask::Metrics {}) {
                Ok(_) => rest.push(client),
                Err(error) => break error.to_string(),
            }
            assert!(held.len() + rest.len() <= CONNECTIONS);
        };
        assert!(error.contains("busy: 16 connections are open"), "{error}");
        assert!(!rest.is_empty());
    })
    .await;
    tree.stop(GRACE);
    tree.completion().await.expect("a completion");
    runtime.stop(GRACE).await.expect("the end");
}

/// The clock is the test's: it passes when nothing else happens.
#[tokio::test(start_paused = true)]
async fn one_that_never_finishes_its_request_is_cut_loose() {
    let place = Place::new();
    let runtime = place.builder().start().await.expect("a runtime");
    let process = place.process();
    let mut slow = tokio::net::UnixStream::connect(&process.socket).await.expect("a connection");
    slow.write_all(b"{\"v\":1,\"ask\":").await.expect("half a request");
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(3600), slow.read_to_end(&mut rest)).await;
    assert_eq!(read.expect("in time").expect("its end"), 0);
    runtime.stop(GRACE).await.expect("the end");
}
