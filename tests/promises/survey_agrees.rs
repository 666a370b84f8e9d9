//! The survey of a real directory says exactly what `find`, `wc` and `grep` say of it, and what it could not see.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use treeward::capsule::Team;
use treeward::journal::CompletionStatus;
use treeward::{Runtime, Submission};

use crate::support::{plan, run};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

fn team() -> Team {
    Team::load(&Path::new(REPOSITORY).join("examples/survey")).expect("the capsule loads")
}

/// Runs `examples/survey` on `input` and answers with what its root said.
async fn survey(input: &Path, task: &str, rules: &[&str]) -> String {
    let team = team();
    let builder = Runtime::builder().cache(None).faults(plan(rules));
    let ran = run(builder, Submission::new(team, task).read("input", input)).await;
    ran.check();
    let completion = ran.completion.expect("committed");
    assert_eq!(completion.status, CompletionStatus::Ok, "{:?}", completion.detail);
    completion.answer
}

async fn report(input: &Path, rules: &[&str]) -> Value {
    serde_json::from_str(&survey(input, "json", rules).await).expect("JSON")
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no `{key}` in {value}"))
}

/// What a shell says in the C locale, run in `directory`.
#[expect(clippy::disallowed_methods, reason = "the oracle is a process of its own")]
fn shell(directory: &Path, script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).current_dir(directory).env("LC_ALL", "C").output();
    let output = output.expect("a shell");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Leaves out what the survey leaves out, then goes on with a test.
const FIND: &str = r"find . \( -name .git -o -name .treeward -o -type d -exec test -f {}/CACHEDIR.TAG \; \) -prune -o";

/// Holds a report against `find`, `wc` and `grep` on the same directory.
fn agrees(directory: &Path, report: &Value) {
    let total = &report["total"];
    let tell = |kind: &str| format!(r"{FIND} -type {kind} -print0 | tr -dc '\0' | wc -c");
    let all = format!("{FIND} -type f -print0 | xargs -0r cat");
    // With a newline behind each file nothing runs from one into the next.
    let apart = format!(r#"{FIND} -type f -print0 | xargs -0r -n1 sh -c 'cat -- "$0"; echo'"#);
    for (what, said, script) in [
        ("files", number(report, "files"), tell("f")),
        ("directories", number(report, "directories"), tell("d")),
        ("links", number(report, "links"), tell("l")),
        ("bytes", number(total, "bytes"), format!("{all} | wc -c")),
        ("lines", number(total, "lines"), format!("{all} | wc -l")),
        // In words of every `wc`: where a byte that cannot be printed counts for nothing.
        ("words", number(total, "words"), format!(r"{apart} | tr -d '\000-\010\016-\037\177-\377' | wc -w")),
        ("TODO", number(total, "todo"), format!("{apart} | grep -ao TODO | wc -l")),
        ("FIXME", number(total, "fixme"), format!("{apart} | grep -ao FIXME | wc -l")),
        ("longest", number(total, "longest"), format!(r"{apart} | tr '\000-\011\013-\377' x | wc -L")),
    ] {
        assert_eq!(said.to_string(), shell(directory, &script), "{what}: {script}");
    }
    let largest: Vec<String> = report["largest"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| format!("{} {}", number(&file["figures"], "bytes"), file["path"].as_str().expect("a path")))
        .collect();
    let ranked = format!(r"{FIND} -type f -printf '%s %P\0' | sort -z -k1,1nr -k2 | head -z -n 20");
    let expected = shell(directory, &ranked);
    assert_eq!(largest, expected.split_terminator('\0').collect::<Vec<_>>());
}

/// This repository: real files, some of them binary, links, and directories full of build products.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_this_repository_it_agrees_with_find_wc_and_grep() {
    let repository = Path::new(REPOSITORY);
    agrees(repository, &report(repository, &[]).await);
}

/// A directory with everything in it that trips a walker.
fn hostile() -> tempfile::TempDir {
    let temporary = tempfile::tempdir().expect("a directory");
    let root = temporary.path();
    let directory = |path: &str| {
        fs::create_dir_all(root.join(path)).expect("created");
        root.join(path)
    };
    let write = |path: &str, bytes: &[u8]| fs::write(root.join(path), bytes).expect("written");
    write("empty", b"");
    write("no newline", b"TODO and FIXME, TODOTODO");
    write("bytes", &(0..=255).cycle().take(200_000).collect::<Vec<u8>>());
    write("x\n\u{1b}[2Jtotal", &b"a name that forges a line\n".repeat(99));
    write("-n", b"a name that looks like an option\n");
    directory("nothing");
    directory("a/b/c/d/e/f");
    write("a/b/c/d/e/f/deep", b"deep\n");
    directory("many");
    (0..300).for_each(|n| write(&format!("many/{n}"), &b"x y\n".repeat(n % 50)));
    directory("cache/below");
    write("cache/CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55\n");
    write("cache/below/TODO", b"TODO\n");
    directory(".git/objects");
    write(".git/objects/TODO", b"TODO\n");
    directory("module");
    write("module/.git", b"gitdir: ../.git/modules/module\n");
    for (target, link) in [("/", "out"), ("..", "up"), ("loop", "loop"), ("a", "down"), ("gone", "dangling")] {
        symlink(target, root.join(link)).expect("linked");
    }
    nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    drop(std::os::unix::net::UnixListener::bind(root.join("socket")).expect("a socket"));
    temporary
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_walks_past_links_loops_fifos_and_caches() {
    let input = hostile();
    let report = report(input.path(), &[]).await;
    agrees(input.path(), &report);
    for (key, expected) in
        [("left_out", 3), ("links", 5), ("special", 2), ("unnamed", 0), ("lost", 0), ("unreadable", 0)]
    {
        assert_eq!(number(&report, key), expected, "{key} in {report}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_no_text_is_told_and_the_others_are_counted() {
    let input = tempfile::tempdir().expect("a directory");
    fs::create_dir(input.path().join("sub")).expect("created");
    fs::write(input.path().join("sub").join(OsStr::from_bytes(b"bad\xff")), b"one\n").expect("written");
    fs::write(input.path().join("sub/good"), b"two\n").expect("written");
    let report = report(input.path(), &[]).await;
    assert_eq!((number(&report, "files"), number(&report, "unnamed")), (1, 1), "{report}");
    assert!(report["notes"].to_string().contains("not UTF-8"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_forges_nothing_and_ends_in_totals() {
    let input = hostile();
    let table = survey(input.path(), "", &[]).await;
    assert!(!table.contains('\u{1b}'), "{table}");
    assert!(table.contains(r"x\n\u{1b}[2Jtotal"), "{table}");
    assert!(table.lines().any(|line| line.contains("  total: 306 files in 10 directories")), "{table}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subtree_that_crashes_is_told_and_the_rest_is_counted() {
    let input = tempfile::tempdir().expect("a directory");
    for sub in ["a", "b", "c"] {
        fs::create_dir(input.path().join(sub)).expect("created");
        fs::write(input.path().join(sub).join("file"), b"one line\n").expect("written");
    }
    let report = report(input.path(), &["session path=0.1 panic"]).await;
    assert_eq!((number(&report, "files"), number(&report, "lost")), (2, 1), "{report}");
    assert_eq!(report["notes"][0]["path"], "b", "{report}");
    assert!(report["notes"][0]["what"].to_string().contains("1 subtree lost (crashed"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_told_and_the_others_are_counted() {
    // Files that not even root may read.
    let input = Path::new("/proc/sys/vm");
    let unreadable = shell(input, "for f in *; do [ ! -f $f ] || cat $f >/dev/null 2>&1 || echo; done | wc -l");
    let report = report(input, &[]).await;
    assert_eq!(number(&report, "unreadable").to_string(), unreadable, "{report}");
    assert_eq!(number(&report, "lost"), 0, "{report}");
    assert!(number(&report, "files") > 0, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lies_too_deep_is_told_and_the_rest_is_counted() {
    let input = tempfile::tempdir().expect("a directory");
    let mut directory = input.path().to_owned();
    for _ in 0..70 {
        fs::write(directory.join("file"), b"one line\n").expect("written");
        directory.push("d");
        fs::create_dir(&directory).expect("created");
    }
    let report = report(input.path(), &[]).await;
    let levels = u64::from(team().root().budget().depth.expect("the example says how deep"));
    // The deepest sessions may delegate no further: what they hold, a file and a directory, is not surveyed.
    assert_eq!((number(&report, "files"), number(&report, "directories")), (levels, levels + 1), "{report}");
    assert_eq!((number(&report, "not_surveyed"), number(&report, "lost")), (2, 0), "{report}");
    assert!(report["notes"].to_string().contains("depth"), "{report}");
}
