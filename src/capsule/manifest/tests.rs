use proptest::prelude::*;

use super::*;
use crate::supervision::Rerun;

const FULL: &str = r#"
name = "reviewer"
version = "0.2.0"
description = "Reviews a change."

[run]
guest = "bin/reviewer.wasm"

[grants]
read = ["input"]
write = ["work"]
env = ["LANG"]
network = ["https://API.example.com"]
delegate = ["tester", "reviewer"]

[tools.grep]
component = "tools/grep.wasm"
changes_world = false

[tools.send]
component = "tools/send.wasm"

[budget]
tokens = 200_000
usd = 1.10
tool_calls = 0x10
delegations = 3
depth = 8
wall = "30m"

[limits]
memory = "256MiB"
live_children = 64
deadline = "10m"
stall = "5m"
running = "1m"

[restart]
type = "permanent"
max_restarts = 2
window = "30s"
backoff = { initial = "100ms", max = "5s" }
rerun = "no"

[capsules.tester.run]
guest = "tester.wasm"

[capsules.tester.grants]
read = ["src"]
"#;

fn parse(text: &str) -> Result<Manifest> {
    Manifest::parse(Path::new("a/capsule.toml"), text.as_bytes())
}

fn refused(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// A manifest that is well but for what is added.
fn with(added: &str) -> String {
    format!("name = \"a\"\nrun.guest = \"a.wasm\"\n{added}")
}

#[test]
fn every_key_is_read() {
    let manifest = parse(FULL).unwrap();
    let Terms { name, version, description, grants, budget, limits, restart } = &manifest.terms;
    assert_eq!((name.as_str(), version.as_str(), description.as_str()), ("reviewer", "0.2.0", "Reviews a change."));
    assert!(matches!(&manifest.run, RunEntry::Guest(file) if file == Path::new("bin/reviewer.wasm")));
    assert_eq!(grants.network.first().unwrap().to_string(), "https://api.example.com");
    assert_eq!((grants.read.len(), grants.write.len(), grants.env.len(), grants.delegate.len()), (1, 1, 1, 2));
    assert!(!manifest.tools["grep"].changes_world);
    assert!(manifest.tools["send"].changes_world, "what does not say so is taken to change the world");
    assert_eq!(
        *budget,
        Budget {
            tokens: Some(200_000),
            micro_usd: Some(1_100_000),
            tool_calls: Some(16),
            delegations: Some(3),
            depth: Some(8),
            wall: Some(Duration::from_secs(1800)),
        }
    );
    assert_eq!((limits.memory, limits.live_children), (Some(256 << 20), Some(64)));
    assert_eq!((limits.deadline, limits.stall), (Some(Duration::from_secs(600)), Some(Duration::from_secs(300))));
    assert_eq!(limits.running, Some(Duration::from_secs(60)));
    assert_eq!((restart.restart(), restart.rerun()), (RestartType::Permanent, Rerun::No));
    assert_eq!(restart.intensity().max_restarts(), 2);
    assert_eq!(restart.backoff().max(), Duration::from_secs(5));
    assert_eq!(manifest.team["tester"].name(), "tester");
    assert!(manifest.team["tester"].terms.grants.read.contains("src"));
}

#[test]
fn what_is_absent_is_nothing_granted_nothing_limited_and_the_usual_restart() {
    let manifest = parse(&with("")).unwrap();
    assert_eq!(manifest.terms, Terms::new("a".to_owned()));
}

#[test]
fn an_unknown_key_is_told_with_its_line_and_the_nearest_known_one_at_every_level() {
    for (text, message) in [
        (with("[limits]\nstal = \"5m\""), "a/capsule.toml:4: [limits] unknown key `stal`; did you mean `stall`?"),
        (with("nmae = \"b\""), "a/capsule.toml:3: unknown key `nmae`; did you mean `name`?"),
        (with("run.gest = \"b\""), "a/capsule.toml:3: [run] unknown key `gest`; did you mean `guest`?"),
        (with("[grants]\n\nwirte = []"), "a/capsule.toml:5: [grants] unknown key `wirte`; did you mean `write`?"),
        (
            with("[tools.x]\ncomponnt = \"x\""),
            "a/capsule.toml:4: [tools.x] unknown key `componnt`; did you mean `component`?",
        ),
        (with("[budget]\nusdd = 1"), "a/capsule.toml:4: [budget] unknown key `usdd`; did you mean `usd`?"),
        (
            with("[restart]\nmax_restart = 1"),
            "a/capsule.toml:4: [restart] unknown key `max_restart`; did you mean `max_restarts`?",
        ),
        (
            with("[restart]\nbackoff = { intial = \"1s\" }"),
            "a/capsule.toml:4: [restart.backoff] unknown key `intial`; did you mean `initial`?",
        ),
        (
            with("[capsules.leaf]\n[capsules.leaf.run]\nguest = \"x\"\n[capsules.leaf.limit]"),
            "a/capsule.toml:6: [capsules.leaf] unknown key `limit`; did you mean `limits`?",
        ),
        (
            with("[capsules.leaf.run]\nguest = \"x\"\n[capsules.leaf.grants]\ncolour = 1"),
            "a/capsule.toml:6: [capsules.leaf.grants] unknown key `colour`; known here: read, write, env, network, delegate",
        ),
    ] {
        assert_eq!(refused(&text), message);
    }
}

#[test]
fn the_first_unknown_key_of_the_file_is_told_and_what_is_shown_cannot_steer_a_terminal() {
    assert!(refused(&with("zzz = 1\naaa = 1")).starts_with("a/capsule.toml:3: unknown key `zzz`"));
    let shown = refused(&with("\"\\u001b[2J\" = 1"));
    assert!(shown.contains("`\\u{1b}[2J`"), "{shown}");
}

#[test]
fn files_that_are_no_manifest_at_all() {
    for empty in ["", "\n\n", "# nothing\n"] {
        assert!(refused(empty).starts_with("a/capsule.toml:1: the file is empty"), "{empty:?}");
    }
    let not_text = Manifest::parse(Path::new("a.toml"), b"name = \"a\"\nb = \"\xff\"").unwrap_err();
    assert_eq!((not_text.line, &not_text.problem), (2, &Problem::NotUtf8 { offset: 16 }));
    let long = Manifest::parse(Path::new("a.toml"), &vec![b'#'; LONGEST_MANIFEST + 1]).unwrap_err();
    assert_eq!(long.problem, Problem::TooLong { limit: LONGEST_MANIFEST });
    assert!(
        Manifest::parse(Path::new("a.toml"), &vec![b'#'; LONGEST_MANIFEST]).is_err_and(|e| e.problem == Problem::Empty)
    );
    assert!(refused("name = ").starts_with("a/capsule.toml:1: not TOML: "));
    assert!(
        refused("name = \"a\"\n\n[run\n").starts_with("a/capsule.toml:3: not TOML: "),
        "{}",
        refused("name = \"a\"\n\n[run\n")
    );
    let deep = format!("name = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(refused(&deep).contains("not TOML"));
}

#[test]
fn lines_are_counted_however_they_end() {
    let text = with("[limits]\nstal = \"5m\"").replace('\n', "\r\n");
    assert!(refused(&text).starts_with("a/capsule.toml:4: [limits] unknown key `stal`"), "{}", refused(&text));
    assert!(
        refused(&format!("\u{feff}{text}")).starts_with("a/capsule.toml:4: "),
        "{}",
        refused(&format!("\u{feff}{text}"))
    );
}

#[test]
fn duplicates_are_refused_with_the_line_of_the_second() {
    let twice = refused(&with("[limits]\nstall = \"1m\"\nstall = \"2m\""));
    assert!(twice.starts_with("a/capsule.toml:5: not TOML: duplicate key at `stall`"), "{twice}");
    assert!(refused(&with("[limits]\n[limits]")).starts_with("a/capsule.toml:4: not TOML: duplicate key"));
    assert!(
        refused(&with("[grants]\nread = [\"x\",\n\"x\"]"))
            .starts_with("a/capsule.toml:5: [grants] `read`: `x` is there")
    );
    let hosts = with("[grants]\nnetwork = [\"https://x\",\n\"https://X:443\"]");
    assert!(refused(&hosts).starts_with("a/capsule.toml:5: [grants] `network`: `https://X:443` is there twice"));
}

#[test]
fn wrong_types_and_values_name_their_key_and_line() {
    for (added, message) in [
        ("version = 1", "3: `version` must be a string, not an integer"),
        ("description = [\"x\"]", "3: `description` must be a string, not an array"),
        ("grants = 1", "3: `grants` must be a table, not an integer"),
        ("grants.read = \"x\"", "3: [grants] `read` must be an array of strings, not a string"),
        ("grants.read = [\n1]", "4: [grants] `read` must be an array of strings, not an integer"),
        ("grants.read = [\"a\",\n\"../x\"]", "4: [grants] `read`: `../x` is not a name"),
        ("grants.write = [\"/etc\"]", "3: [grants] `write`: `/etc` is not a name"),
        ("grants.env = [\"A=B\"]", "3: [grants] `env`: `A=B` is not the name of an environment variable"),
        ("grants.network = [\"https://*.x\"]", "3: [grants] `network`: `https://*.x` is not a host"),
        ("grants = { read = [\"x\"], write = [\"x\"] }", "3: [grants] `read`: `x` is in grants.write too"),
        ("[tools.X]\ncomponent = \"x\"", "3: [tools] `X`: `X` is not a name"),
        ("[tools.x]\nchanges_world = false", "3: [tools.x] `component` is missing"),
        ("[tools.x]\ncomponent = 1", "4: [tools.x] `component` must be a path"),
        ("[tools.x]\ncomponent = \"x\"\nchanges_world = 0", "5: [tools.x] `changes_world` must be `true` or `false`"),
        ("budget.tokens = -1", "3: [budget] `tokens`: must be a whole number from 0 to 9223372036854775807"),
        ("budget.tokens = 9223372036854775808", "3: [budget] `tokens`: must be a whole number"),
        ("budget.tokens = 1.0", "3: [budget] `tokens` must be a whole number, not a float"),
        ("budget.depth = 4294967296", "3: [budget] `depth`: must be a whole number from 0 to 4294967295"),
        ("budget.usd = 0.0000001", "3: [budget] `usd`: `0.0000001` is not an amount"),
        ("budget.usd = inf", "3: [budget] `usd`: `inf` is not an amount"),
        ("budget.usd = 1e3", "3: [budget] `usd`: `1e3` is not an amount"),
        ("budget.usd = true", "3: [budget] `usd` must be an amount"),
        ("budget.wall = 30", "3: [budget] `wall` must be a duration like \"30m\", not an integer"),
        ("budget.wall = \"half an hour\"", "3: [budget] `wall`: `half an hour` is not a duration"),
        ("[limits]\nmemory = \"1 pound\"", "4: [limits] `memory`: `1 pound` is not a size"),
        ("[limits]\nmemory = \"5GiB\"", "4: [limits] `memory`: must be from 64KiB to 4GiB"),
        ("[limits]\nlive_children = 0", "4: [limits] `live_children`: must be from 1 to 65536"),
        ("[limits]\nstall = \"10m\"\ndeadline = \"5m\"", "4: [limits] `stall`: must be shorter than limits.deadline"),
        (
            "[restart]\ntype = \"transiant\"",
            "4: [restart] `type`: `transiant` is none of permanent, transient, temporary; did",
        ),
        ("[restart]\nrerun = true", "4: [restart] `rerun` must be a string, not a boolean"),
        ("[restart]\n\nmax_restarts = 4000000000", "5: [restart] `max_restarts`: "),
        ("[restart]\nbackoff = { initial = \"9s\", max = \"1s\" }", "4: [restart] `backoff.initial`: "),
        ("[capsules.b]", "3: [capsules.b] `run` is missing"),
        ("[capsules.a.run]\nguest = \"x\"", "3: [capsules] `a`: the capsule of the file has that name already"),
        ("[capsules.b]\nname = \"c\"\nrun.guest = \"x\"", "4: [capsules.b] `name`: `c` is not the name of its section"),
        ("[capsules.b]\nrun.guest = \"x\"\ncapsules = {}", "5: [capsules.b] `capsules`: a capsule of an inline team"),
        ("[capsules.b]\nrun.guest = \"x\"\ngrants.read = [\"B\"]", "5: [capsules.b.grants] `read`: `B` is not a name"),
        ("[capsules.\"..\"]\nrun.guest = \"x\"", "3: [capsules] `..`: `..` is not a name"),
    ] {
        let refused = refused(&with(added));
        assert!(refused.starts_with(&format!("a/capsule.toml:{message}")), "{added}\n{refused}");
    }
}

#[test]
fn names_and_texts_are_plain() {
    for name in ["", "A", "../a", "a b", "a\\u0000"] {
        let refused = refused(&format!("\nname = \"{name}\"\nrun.guest = \"a\""));
        assert!(refused.starts_with("a/capsule.toml:2: `name`: "), "{refused}");
    }
    assert!(refused(&with("description = \"\\u001b]0;x\\u0007\"")).starts_with("a/capsule.toml:3: `description`: "));
    assert!(refused("run.guest = \"a\"").starts_with("a/capsule.toml:1: `name` is missing; write"));
    assert!(refused("name = \"a\"").starts_with("a/capsule.toml:1: `run` is missing; write"));
}

#[test]
fn exactly_one_thing_thinks_and_what_is_not_in_this_version_says_so() {
    let run = |run: &str| refused(&format!("name = \"a\"\n[run]\n{run}"));
    assert!(run("").starts_with(
        "a/capsule.toml:2: [run] exactly one of `guest`, `harness` and `command` must be there, not none"
    ));
    assert!(run("guest = \"a\"\nharness = \"claude\"").contains("not `guest` and `harness`"));
    assert!(
        run("harness = \"claude\"\nprompt = \"p.md\"")
            .starts_with("a/capsule.toml:3: [run] `harness` is not in this version;")
    );
    assert!(run("command = [\"python3\"]").starts_with("a/capsule.toml:3: [run] `unconfined` is missing; files and"));
    assert!(run("command = [\"python3\"]\nunconfined = false").contains("`unconfined` is missing"));
    assert!(run("command = \"python3 x\"\nunconfined = true").contains("`command` must be a list of the program"));
    assert!(run("command = []\nunconfined = true").contains("must name a program"));
    assert!(run("command = [1]\nunconfined = true").contains("`command` must be a list of the program"));
    assert!(run("guest = \"a.wasm\"\nunconfined = true").contains("a guest is always confined"));
    assert!(run("command = [\"python3\"]\nmodel = \"x\"").contains("goes with `harness`"));
    assert!(run("guest = \"a\"\nmodel = \"m\"").starts_with("a/capsule.toml:4: [run] `model`: goes with `harness`"));
    let hooks = refused(&with("[[hooks]]\ncomponent = \"p.wasm\""));
    assert!(hooks.starts_with("a/capsule.toml:3: `hooks` is not in this version;"), "{hooks}");
    let mcp = refused(&with("[tools.x]\nmcp = \"https://x\""));
    assert!(mcp.starts_with("a/capsule.toml:4: [tools.x] `mcp` is not in this version;"), "{mcp}");
}

#[test]
fn a_component_cannot_be_spelled_to_lie_elsewhere() {
    for path in ["", "/etc/passwd", "..", "../a.wasm", "a/../../b", ".", "a\\u0000b", "\\u001b[2J"] {
        let refused = refused(&format!("name = \"a\"\n[run]\nguest = \"{path}\""));
        assert!(refused.starts_with("a/capsule.toml:3: [run] `guest`: "), "{refused}");
    }
}

#[test]
fn lists_are_bounded() {
    let names: Vec<String> = (0..300).map(|n| format!("\"a{n}\"")).collect();
    assert!(refused(&with(&format!("grants.delegate = [{}]", names.join(",")))).contains("300 entries; at most 256"));
    let tools: String = (0..300).map(|n| format!("[tools.a{n}]\ncomponent = \"a\"\n")).collect();
    assert!(refused(&with(&tools)).contains("300 tools; at most 256"));
    let team: String = (0..300).map(|n| format!("[capsules.a{n}.run]\nguest = \"a\"\n")).collect();
    assert!(refused(&with(&team)).contains("300 capsules; at most 256"));
}

/// Whatever is wrong, it is told with the file and a line that the file has.
fn located(bytes: &[u8]) {
    if let Err(error) = Manifest::parse(Path::new("x/capsule.toml"), bytes) {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
        assert!((1..=lines).contains(&error.line), "{error}");
        assert!(error.to_string().starts_with(&format!("x/capsule.toml:{}: ", error.line)), "{error}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_with_a_place(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        located(&bytes);
    }

    #[test]
    fn any_text_is_refused_with_a_place(text in "[a-z\\[\\]=\".{}, \n#'0-9\\\\\u{1b}é]{0,120}") {
        located(text.as_bytes());
    }

    #[test]
    fn a_good_manifest_with_a_piece_cut_out_or_replaced_is_good_or_refused_with_a_place(
        at in 0..FULL.len(),
        len in 0..40_usize,
        put in "|x|\"|=|\\[|\\]|\n|-1|\\{|name = 1\n|\u{0}",
    ) {
        let end = (at + len).min(FULL.len());
        located([&FULL.as_bytes()[..at], put.as_bytes(), &FULL.as_bytes()[end..]].concat().as_slice());
    }
}
