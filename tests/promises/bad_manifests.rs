//! A bad capsule is refused with the file, the line and what to do; nothing is read beyond its bounds, nothing hangs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use treeward::capsule::{LoadError, Run, Team};

const GOOD: &str = "name = \"a\"\n\n[run]\nguest = \"a.wasm\"\n";

struct Capsules(TempDir);

impl Capsules {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A capsule `a` that is well but for what is added.
    fn good(added: &str) -> Self {
        let capsules = Self::new();
        capsules.put("a/capsule.toml", format!("{GOOD}{added}")).put("a/a.wasm", "\0asm a");
        capsules
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn put(&self, file: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let file = self.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
        self
    }

    fn load(&self, path: &str) -> Result<Team, LoadError> {
        Team::load(&self.path().join(path))
    }

    /// What is said of `path`, with the temporary directory left out.
    fn refused(&self, path: &str) -> String {
        self.load(path).expect_err(path).to_string().replace(&format!("{}/", self.path().display()), "")
    }
}

fn fifo(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

/// Fails where `f` does not come back: what hangs here hangs for ever.
fn in_time<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(f()));
    outcome.recv_timeout(Duration::from_secs(60)).expect("it hangs")
}

#[test]
fn a_good_capsule_loads_from_a_directory_and_from_its_file() {
    let capsules = Capsules::good("[tools.t]\ncomponent = \"a.wasm\"\n");
    for path in ["a", "a/capsule.toml"] {
        let team = capsules.load(path).unwrap();
        let Run::Guest(guest) = team.root().run() else { panic!("no guest") };
        assert_eq!((&*guest.bytes, team.root().tools().len()), (&b"\0asm a"[..], 1));
    }
    let digest = |capsules: &Capsules| capsules.load("a").unwrap().root().digest();
    let before = digest(&capsules);
    assert_eq!(before, digest(&capsules));
    capsules.put("a/a.wasm", "\0asm b");
    assert_ne!(before, digest(&capsules), "another component is another capsule");
}

#[test]
fn the_examples_load() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let survey = Team::load(&examples.join("survey")).unwrap();
    assert_eq!(survey.members().keys().collect::<Vec<_>>(), ["reader", "survey"]);
    assert!(!survey.root().may_change_world());
}

#[test]
fn nothing_there() {
    let capsules = Capsules::new();
    fs::create_dir(capsules.path().join("empty")).unwrap();
    assert_eq!(
        capsules.refused("nowhere"),
        "nowhere: no such file; give a directory with a `capsule.toml`, or a `NAME.toml`"
    );
    assert_eq!(capsules.refused("empty"), "empty/capsule.toml: no such file");
}

#[test]
fn a_manifest_that_is_empty_or_no_text() {
    let capsules = Capsules::good("");
    capsules.put("a/capsule.toml", "");
    assert!(capsules.refused("a").starts_with("a/capsule.toml:1: the file is empty; "));
    capsules.put("a/capsule.toml", b"name = \"a\"\n# \xff\n");
    assert!(capsules.refused("a").starts_with("a/capsule.toml:2: not UTF-8: the byte at offset 13 "));
}

#[test]
fn a_manifest_of_100_mib_is_refused_and_not_read() {
    let capsules = Capsules::good("");
    let file = fs::File::create(capsules.path().join("a/capsule.toml")).unwrap();
    file.set_len(100 << 20).unwrap();
    assert!(capsules.refused("a").starts_with("a/capsule.toml:1: longer than 1048576 bytes, "));
}

#[test]
fn duplicate_and_unknown_keys() {
    let capsules = Capsules::good("[limits]\nstal = \"5m\"\n");
    assert_eq!(capsules.refused("a"), "a/capsule.toml:6: [limits] unknown key `stal`; did you mean `stall`?");
    let capsules = Capsules::good("[limits]\nstall = \"5m\"\nstall = \"6m\"\n");
    assert!(capsules.refused("a").starts_with("a/capsule.toml:7: not TOML: duplicate key at `stall`"));
}

#[test]
fn a_manifest_that_is_no_file() {
    let capsules = Capsules::new();
    fs::create_dir_all(capsules.path().join("d/capsule.toml")).unwrap();
    assert_eq!(capsules.refused("d"), "d/capsule.toml: a directory, not a regular file");
    fs::create_dir(capsules.path().join("f")).unwrap();
    fifo(&capsules.path().join("f/capsule.toml"));
    let refused = in_time(move || (capsules.refused("f"), capsules.refused("f/capsule.toml")));
    let expected = "f/capsule.toml: a device, a pipe or a socket, not a regular file";
    assert_eq!((refused.0.as_str(), refused.1.as_str()), (expected, expected));
}

#[test]
fn a_component_that_is_missing_empty_or_no_file() {
    let capsules = Capsules::good("");
    let component = capsules.path().join("a/a.wasm");
    fs::remove_file(&component).unwrap();
    assert_eq!(capsules.refused("a"), "a/capsule.toml:4: [run] `guest`: a/a.wasm: no such file");
    fs::write(&component, "").unwrap();
    assert_eq!(capsules.refused("a"), "a/capsule.toml:4: [run] `guest`: a/a.wasm: the file is empty");
    fs::remove_file(&component).unwrap();
    fs::create_dir(&component).unwrap();
    assert!(capsules.refused("a").ends_with("a/a.wasm: a directory, not a regular file"));
    fs::remove_dir(&component).unwrap();
    fifo(&component);
    let refused = in_time(move || capsules.refused("a"));
    assert!(refused.ends_with("a/a.wasm: a device, a pipe or a socket, not a regular file"), "{refused}");
}

#[test]
fn a_component_that_may_not_be_read() {
    let capsules = Capsules::good("");
    let component = capsules.path().join("a/a.wasm");
    fs::set_permissions(&component, fs::Permissions::from_mode(0o0)).unwrap();
    // Root reads it all the same; then loading it must go well.
    match fs::File::open(&component) {
        Ok(_) => assert!(capsules.load("a").is_ok()),
        Err(_) => {
            assert!(capsules.refused("a").starts_with("a/capsule.toml:4: [run] `guest`: a/a.wasm: cannot be read: "))
        }
    }
}

#[test]
fn a_component_that_is_too_long_is_not_read_whole() {
    let capsules = Capsules::good("[tools.t]\ncomponent = \"t.wasm\"\n");
    let file = fs::File::create(capsules.path().join("a/t.wasm")).unwrap();
    file.set_len(1 << 40).unwrap();
    assert_eq!(
        capsules.refused("a"),
        "a/capsule.toml:6: [tools.t] `component`: a/t.wasm: longer than 67108864 bytes, the most it may have"
    );
}

#[test]
fn links_may_lead_about_but_not_out() {
    let capsules = Capsules::good("");
    let component = capsules.path().join("a/a.wasm");
    fs::rename(&component, capsules.path().join("a/real.wasm")).unwrap();
    symlink("real.wasm", &component).unwrap();
    assert!(capsules.load("a").is_ok());

    fs::rename(capsules.path().join("a/real.wasm"), capsules.path().join("outside.wasm")).unwrap();
    for target in ["../outside.wasm", "/etc/passwd"] {
        fs::remove_file(&component).unwrap();
        symlink(target, &component).unwrap();
        let refused = capsules.refused("a");
        assert!(refused.contains("[run] `guest`: a/a.wasm: a link that leads out of "), "{refused}");
    }
    // Into a namesake of the directory, and round in a circle.
    capsules.put("ab/x.wasm", "x");
    fs::remove_file(&component).unwrap();
    symlink("../ab/x.wasm", &component).unwrap();
    assert!(capsules.refused("a").contains("leads out of"));
    fs::remove_file(&component).unwrap();
    symlink("a.wasm", &component).unwrap();
    assert!(capsules.refused("a").contains("a/a.wasm: cannot be read: "));
    // A directory of the path that is a link out.
    fs::remove_file(&component).unwrap();
    capsules.put("a/capsule.toml", GOOD.replace("a.wasm", "lib/x.wasm"));
    symlink("../ab", capsules.path().join("a/lib")).unwrap();
    assert!(capsules.refused("a").contains("leads out of"));
    // The manifest itself.
    fs::remove_file(capsules.path().join("a/capsule.toml")).unwrap();
    capsules.put("elsewhere.toml", GOOD);
    symlink("../elsewhere.toml", capsules.path().join("a/capsule.toml")).unwrap();
    assert!(capsules.refused("a").starts_with("a/capsule.toml: a link that leads out of "));
}

#[test]
fn delegates_are_found_in_the_file_the_directory_and_beside_it() {
    let capsules = Capsules::good(
        "[grants]\ndelegate = [\"a\", \"inline\", \"inner\", \"lone\", \"beside\"]\n[capsules.inline.run]\nguest = \"a.wasm\"\n",
    );
    let other = |name: &str| format!("name = \"{name}\"\n[run]\nguest = \"x.wasm\"\n");
    capsules
        .put("a/inner/capsule.toml", other("inner") + "[grants]\ndelegate = [\"lone\", \"inner\"]\n")
        .put("a/inner/x.wasm", "inner")
        .put("a/lone.toml", other("lone"))
        .put("a/x.wasm", "lone")
        .put("beside/capsule.toml", other("beside"))
        .put("beside/x.wasm", "beside");
    let team = capsules.load("a").unwrap();
    assert_eq!(team.members().keys().collect::<Vec<_>>(), ["a", "beside", "inline", "inner", "lone"]);
    let Run::Guest(lone) = team.get("lone").unwrap().run() else { panic!("no guest") };
    assert_eq!(&*lone.bytes, b"lone");
    let summary = team.summary();
    assert_eq!((summary.root.as_str(), summary.capsules[0].name.as_str(), summary.capsules.len()), ("a", "a", 5));
}

#[test]
fn a_delegate_that_is_not_there_is_told_with_its_line_and_where_it_was_looked_for() {
    let capsules = Capsules::good("[grants]\ndelegate = [\n  \"a\",\n  \"ghost\",\n]\n");
    assert_eq!(
        capsules.refused("a"),
        "a/capsule.toml:8: [grants] `delegate`: there is no capsule `ghost`; looked for [capsules.ghost], \
         a/ghost/capsule.toml, a/ghost.toml, ghost/capsule.toml, ghost.toml"
    );
}

#[test]
fn a_delegate_that_is_two_is_another_or_leads_out_is_refused() {
    let capsules = Capsules::good("[grants]\ndelegate = [\"b\"]\n");
    capsules.put("a/b.toml", GOOD).put("a/b/capsule.toml", GOOD);
    assert!(capsules.refused("a").contains("`b` is both a/b/capsule.toml and a/b.toml; remove one"));
    fs::remove_file(capsules.path().join("a/b.toml")).unwrap();
    assert!(
        capsules
            .refused("a")
            .starts_with("a/b/capsule.toml:1: `name`: is `a`, but a/capsule.toml delegates to it as `b`")
    );
    fs::remove_dir_all(capsules.path().join("a/b")).unwrap();
    symlink("/etc/passwd", capsules.path().join("a/b.toml")).unwrap();
    assert!(capsules.refused("a").starts_with("a/b.toml: a link that leads out of "));
}

#[test]
fn one_name_is_one_capsule() {
    // `b` is one capsule to `a`, and another to `c`.
    let capsules = Capsules::good("[grants]\ndelegate = [\"b\", \"c\"]\n");
    let other = |name: &str, delegate: &str| {
        format!("name = \"{name}\"\n[run]\nguest = \"a.wasm\"\n[grants]\ndelegate = [{delegate}]\n")
    };
    capsules
        .put("a/b.toml", other("b", ""))
        .put("a/c/capsule.toml", other("c", "\"b\""))
        .put("a/c/b.toml", other("b", ""))
        .put("a/c/a.wasm", "x");
    assert!(
        capsules
            .refused("a")
            .starts_with("a/c/capsule.toml:5: [grants] `delegate`: two capsules of this team are called `b`")
    );
}

#[test]
fn a_delegate_wider_than_its_delegator_is_refused_by_key_and_never_narrowed() {
    for (granted, held, key) in [
        ("read = [\"input\"]", "", "read"),
        ("write = [\"work\"]", "read = [\"work\"]", "write"),
        ("env = [\"LANG\",\n\"HOME\"]", "env = [\"LANG\"]", "env"),
        ("network = [\"https://b.example\"]", "network = [\"http://b.example\"]", "network"),
        ("delegate = [\"a\", \"b\", \"c\"]", "", "delegate"),
    ] {
        let team = "[capsules.b.run]\nguest = \"a.wasm\"\n[capsules.c.run]\nguest = \"a.wasm\"\n";
        let capsules = Capsules::good(&format!(
            "[grants]\ndelegate = [\"a\", \"b\"]\n{held}\n{team}[capsules.b.grants]\n{granted}\n"
        ));
        let refused = capsules.refused("a");
        assert!(refused.contains(&format!(": [capsules.b.grants] `{key}`: `")), "{refused}");
        assert!(refused.contains("is wider than what its delegator `a` holds; add it to the grants."), "{refused}");
    }
}

#[test]
fn a_team_without_end_is_refused() {
    // Each delegates to the next, and each must hold all that is below it.
    let capsules = Capsules::new();
    let names: Vec<String> = (0..300).map(|n| format!("a{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        let below: Vec<String> = names[n + 1..].iter().take(200).map(|name| format!("\"{name}\"")).collect();
        let manifest = format!("name = \"{name}\"\nrun.guest = \"a.wasm\"\ngrants.delegate = [{}]\n", below.join(", "));
        capsules.put(&format!("{name}.toml"), manifest);
    }
    capsules.put("a.wasm", "a");
    assert!(capsules.refused("a0.toml").contains("of a team of at most 256"), "{}", capsules.refused("a0.toml"));
}
