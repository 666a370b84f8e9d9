//! A guest sees the directories it was lent, whatever is in them, and nothing outside them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use treeward::guest::{Confinement, Exit, Guests};
use treeward::lending::Directory;

use super::guest_support::{FakeSession, Treatment, guests, load_script, nothing};

/// Runs steps with these directories; the results of the steps, `Err` for those that failed.
async fn script(guests: &Guests, directories: Vec<Directory>, steps: Value) -> Vec<Result<Value, String>> {
    let session = FakeSession::new(Treatment::Answer).session();
    let confinement = Confinement { directories, ..nothing() };
    let guest = load_script(guests).await;
    let run = guest.run(session, steps.to_string().into(), confinement, None);
    let exit = tokio::time::timeout(Duration::from_secs(60), run).await.expect("it hangs");
    let Exit::Answered(Ok(answer)) = exit else { panic!("{exit:?}") };
    let results: Vec<Value> = serde_json::from_str(&answer).unwrap();
    results
        .into_iter()
        .map(|result| match result.get("error") {
            Some(error) => Err(error.as_str().unwrap().to_owned()),
            None => Ok(result["ok"].clone()),
        })
        .collect()
}

fn read(path: &str) -> Value {
    json!({"do": "read", "dir": "input", "path": path})
}

/// A directory with everything in it that can go wrong, beside a secret.
fn hostile() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(place.path().join("secret"), "secret").unwrap();
    fs::write(root.join("plain"), "plain text").unwrap();
    fs::write(root.join("sub/leaf"), "leaf").unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink(place.path().join("secret"), root.join("out-absolute")).unwrap();
    symlink("../../secret", root.join("sub/out")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("loop-b", root.join("loop-a")).unwrap();
    symlink("loop-a", root.join("loop-b")).unwrap();
    symlink("plain", root.join("inside")).unwrap();
    symlink("/dev/zero", root.join("device")).unwrap();
    nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("fifo", root.join("to-fifo")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    place
}

fn lend(place: &Path, write: bool) -> Directory {
    Directory::open("input", place.join("root"), write).unwrap()
}

#[tokio::test]
async fn nothing_leads_out_and_nothing_hangs() {
    let place = hostile();
    for simulated in [false, true] {
        let guests = guests(simulated);
        let bad = [
            "out",
            "out-absolute",
            "sub/out",
            "up",
            "up/secret",
            "../secret",
            "sub/../../secret",
            "/etc/passwd",
            "loop-a",
            "device",
            "fifo",
            "to-fifo",
            "socket",
            "absent",
            "sub",
            "",
            "plain/x",
            "nul\0",
        ];
        let mut steps: Vec<Value> = bad.iter().map(|path| read(path)).collect();
        steps.extend(["plain", "sub/leaf", "sub/../plain"].map(read));
        let results = script(&guests, vec![lend(place.path(), false)], json!(steps)).await;
        for (path, result) in bad.iter().zip(&results) {
            assert!(result.is_err(), "{path}: {result:?}");
        }
        let good: Vec<&str> = results[bad.len()..].iter().map(|r| r.as_ref().unwrap().as_str().unwrap()).collect();
        assert_eq!(good, ["plain text", "leaf", "plain text"]);
    }
}

#[tokio::test]
async fn a_directory_lists_in_order_and_says_what_it_cannot_name() {
    let place = hostile();
    let root = place.path().join("root");
    for name in [&b"\xff\xfe"[..], b"caf\xe9", b"\x80"] {
        fs::write(root.join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    let results = script(&guests(false), vec![lend(place.path(), false)], json!([{"do": "list"}])).await;
    let entries = results[0].as_ref().unwrap().as_array().unwrap();
    let names: Vec<&str> = entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
    let mut expected = vec![
        "device",
        "fifo",
        "inside",
        "loop-a",
        "loop-b",
        "out",
        "out-absolute",
        "plain",
        "socket",
        "sub",
        "to-fifo",
        "up",
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
    let errors: Vec<&str> = entries.iter().filter_map(|entry| entry["error"].as_str()).collect();
    assert_eq!(errors.len(), 1, "said once, after everything that can be named: {entries:?}");
    assert!(entries.last().unwrap()["error"].is_string());
    let kind = |name: &str| entries.iter().find(|e| e["name"] == name).unwrap()["kind"].as_str().unwrap().to_owned();
    assert_eq!(
        ["plain", "sub", "out", "fifo", "socket"].map(kind),
        ["file", "directory", "link", "special", "special"]
    );
}

#[tokio::test]
async fn only_what_was_lent_for_writing_is_written() {
    let place = hostile();
    let guests = guests(false);
    let write = |path: &str| json!({"do": "write", "dir": "input", "path": path, "text": "new"});
    let results = script(&guests, vec![lend(place.path(), false)], json!([write("plain"), write("fresh")])).await;
    assert!(results.iter().all(Result::is_err), "{results:?}");
    assert_eq!(fs::read_to_string(place.path().join("root/plain")).unwrap(), "plain text");

    let bad = ["out", "out-absolute", "../fresh", "up/fresh", "fifo", "to-fifo", "device", "sub"];
    let mut steps: Vec<Value> = bad.iter().map(|path| write(path)).collect();
    steps.extend([write("plain"), write("sub/fresh")]);
    let results = script(&guests, vec![lend(place.path(), true)], json!(steps)).await;
    for (path, result) in bad.iter().zip(&results) {
        assert!(result.is_err(), "{path}: {result:?}");
    }
    assert!(results[bad.len()..].iter().all(Result::is_ok), "{results:?}");
    assert_eq!(fs::read_to_string(place.path().join("root/plain")).unwrap(), "new");
    assert_eq!(fs::read_to_string(place.path().join("root/sub/fresh")).unwrap(), "new");
    assert_eq!(fs::read_to_string(place.path().join("secret")).unwrap(), "secret");
    assert!(!place.path().join("fresh").exists());
}

#[tokio::test]
async fn each_directory_has_its_own_name_and_right() {
    let place = hostile();
    let whole = lend(place.path(), true);
    let sub = whole.lend("sub", "part", false).unwrap();
    let steps = json!([
        {"do": "dirs"},
        {"do": "read", "dir": "part", "path": "leaf"},
        {"do": "read", "dir": "part", "path": "../plain"},
        {"do": "write", "dir": "part", "path": "leaf", "text": "no"},
    ]);
    let results = script(&guests(false), vec![sub], steps.clone()).await;
    assert_eq!(results[0], Ok(json!(["part"])));
    assert_eq!(results[1], Ok(json!("leaf")));
    assert!(results[2].is_err() && results[3].is_err());
    let results = script(&guests(false), vec![], steps).await;
    assert_eq!(results[0], Ok(json!([])));
    assert!(results[1].is_err());
}

#[tokio::test]
async fn files_that_cannot_be_read_and_links_of_the_kernel_are_errors() {
    // Nobody can read the first page of a process, whoever they are; and the links here lead everywhere.
    let process = Directory::open("input", "/proc/self", false).unwrap();
    let bad = ["mem", "exe", "cwd", "cwd/Cargo.toml", "root/etc/passwd", "fd/0", "fd/1"];
    let steps: Vec<Value> = bad.iter().map(|path| read(path)).collect();
    let results = script(&guests(false), vec![process], json!(steps)).await;
    for (path, result) in bad.iter().zip(&results) {
        assert!(result.is_err(), "{path}: {result:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn thousands_of_openings_leave_nothing_behind() {
    let place = hostile();
    // Every listing step opens and drops; a long run of them leaves nothing behind.
    let many = json!([{"do": "list", "times": 3000}, {"do": "read", "path": "plain", "times": 3000}]);
    let results = script(&guests(true), vec![lend(place.path(), false)], many).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}
