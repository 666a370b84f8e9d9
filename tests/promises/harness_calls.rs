//! What a program asks of its session with `treeward call`: gated like everything else, and never more than its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use treeward::agent::{Call, Credit, Port, Session};
use treeward::capsule::Team;
use treeward::harness::Program;
use treeward::harness::call::{CallServer, LONGEST_FRAME};
use treeward::ids::SessionPath;
use treeward::journal::CompletionStatus;
use treeward::{Builder, Runtime, Submission};

use crate::support::{Ran, run};

const BIN: &str = env!("CARGO_BIN_EXE_treeward");

fn runtime() -> Builder {
    Runtime::builder().cache(None).warden(Program::Path(BIN.into()))
}

/// A team whose root is a shell script; `extra` is the rest of its manifest.
async fn shell(script: &str, extra: &str) -> Ran {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("agent.sh"), script).expect("a script");
    let manifest = format!("name = \"root\"\n[run]\ncommand = [\"sh\", \"agent.sh\"]\nunconfined = true\n{extra}");
    std::fs::write(place.path().join("capsule.toml"), manifest).expect("a manifest");
    let submission = Submission::new(Team::load(place.path()).expect("a team"), "the task").read("input", place.path());
    let ran = run(runtime(), submission).await;
    ran.check();
    ran
}

const LEAF: &str = "[grants]\ndelegate = [\"leaf\", \"slow\"]\nread = [\"input\"]\n[capsules.leaf]\n\
    run.command = [\"sh\", \"-c\", \"echo leaf got $(cat) from $TREEWARD_DIR_INPUT\"]\nrun.unconfined = true\n\
    grants.read = [\"input\"]\n[capsules.slow]\nrun.command = [\"sleep\", \"1000\"]\nrun.unconfined = true\n";

fn answer(ran: &Ran) -> String {
    let completion = ran.completion.as_ref().expect("a completion");
    assert_eq!(completion.status, CompletionStatus::Ok, "{completion:?}");
    completion.answer.clone()
}

/// The lines of an answer, each as JSON.
fn lines(ran: &Ran) -> Vec<Value> {
    answer(ran).lines().map(|line| serde_json::from_str(line).unwrap_or_else(|bad| panic!("{line}: {bad}"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_delegates_waits_and_looks() {
    let script = "T=\"$TREEWARD call\"
        $T info
        $T delegate leaf 'a part' --lend input
        $T delegate slow x
        $T status 1
        $T wait-any 0 1
        $T wait 1 --at-most 10ms; echo $?
        $T cancel 1 enough
        $T wait 1
        $T wait 0; echo $?
        echo '{\"capsule\": \"leaf\", \"task\": \"json\", \"lend\": [{\"directory\": \"input\"}]}' | $T delegate -
        $T wait 2
        $T emit 'half way'
        $T checkpoint here 'a state'";
    let ran = shell(script, LEAF).await;
    let said = lines(&ran);
    assert_eq!((&said[0]["path"], &said[0]["attempt"]), (&json!("0"), &json!(1)));
    assert_eq!(said[0]["directories"][0]["name"], "input");
    assert_eq!(said[1], json!({"index": 0, "path": "0.0"}));
    assert_eq!((&said[3]["status"], &said[4]["index"]), (&json!("running"), &json!(0)));
    assert!(said[4]["answer"].as_str().unwrap().starts_with("leaf got a part from /"), "{}", said[4]);
    assert_eq!((&said[5], &said[6]), (&Value::Null, &json!(5)), "nothing ended in time");
    assert_eq!((&said[7], &said[8]["status"]), (&Value::Null, &json!("terminated")));
    assert_eq!((&said[9]["error"]["trouble"], &said[10]), (&json!("refused"), &json!(4)), "a completion is taken once");
    assert_eq!((&said[11]["index"], &said[12]["status"]), (&json!(2), &json!("ok")));
    assert_eq!((ran.count("text"), ran.count("checkpoint")), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_granted_is_refused_with_its_key() {
    let script = "T=\"$TREEWARD call\"
        $T delegate nobody x; echo $?
        $T delegate leaf x --lend elsewhere; echo $?
        $T delegate leaf x --lend-write input; echo $?
        $T grep '{}'; echo $?
        $T ask 'may I?'; echo $?
        $T delegate leaf; echo \"[$?]\"
        TREEWARD_TOKEN=guess $T info; echo $?
        TREEWARD_SOCKET=/nowhere $T info; echo \"[$?]\"";
    let ran = shell(script, LEAF).await;
    let said = lines(&ran);
    let refused = |n: usize| said[n]["error"]["trouble"].as_str().unwrap_or_else(|| panic!("{}", said[n])).to_owned();
    assert_eq!(
        (refused(0), &said[0]["error"]["key"], &said[1]),
        ("refused".into(), &json!("grants.delegate"), &json!(4))
    );
    for n in [2, 4, 6, 8] {
        assert_eq!((refused(n), &said[n + 1]), ("refused".into(), &json!(4)), "{}", said[n]);
    }
    assert_eq!(said[10], json!([2]));
    assert_eq!((refused(11), &said[12]), ("unauthorized".into(), &json!(4)));
    assert_eq!(said[13], json!([3]));
    assert_eq!(ran.count("delegated"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_delegated_and_nobody_waits_for_ends_with_it() {
    let ran = shell("$TREEWARD call delegate slow x > /dev/null; echo done", LEAF).await;
    assert_eq!(answer(&ran), "done\n");
    let ended: Vec<_> = ran.at("0.0").map(|body| body.kind.name()).collect();
    assert!(ended.contains(&"harness_gone") && ended.last() == Some(&"session_ended"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_environment_is_made_from_nothing() {
    let ran = shell("env | cut -d= -f1 | sort", LEAF).await;
    let answer = answer(&ran);
    let names: Vec<&str> = answer.lines().filter(|name| !["PWD", "_", "SHLVL", "OLDPWD"].contains(name)).collect();
    let own = [
        "HOME",
        "PATH",
        "TMPDIR",
        "TREEWARD",
        "TREEWARD_DIR_INPUT",
        "TREEWARD_RUN",
        "TREEWARD_SOCKET",
        "TREEWARD_TOKEN",
    ];
    assert_eq!(names, own);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_private_directory_goes_with_it() {
    let ran = shell("stat -c %a $(dirname $TREEWARD_SOCKET); echo x > $TMPDIR/x; dirname $TREEWARD_SOCKET", LEAF).await;
    let answer = answer(&ran);
    let (mode, place) = answer.trim().split_once('\n').expect("two lines");
    assert_eq!(mode, "700");
    assert!(place.starts_with('/') && !Path::new(place).exists(), "{place} is left");
}

/// A session that answers nothing, and says what was asked of it.
struct Mute(tokio::sync::mpsc::UnboundedSender<Call>);

impl Port for Mute {
    fn send(&self, call: Call, _credit: Credit) -> Result<(), Box<Call>> {
        self.0.send(call).map_err(|lost| Box::new(lost.0))
    }
}

struct Served {
    _place: tempfile::TempDir,
    socket: PathBuf,
    server: Option<CallServer>,
    asked: tokio::sync::mpsc::UnboundedReceiver<Call>,
    stop: tokio::sync::watch::Sender<bool>,
}

fn serve() -> Served {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("s");
    let (to, asked) = tokio::sync::mpsc::unbounded_channel();
    let session = Session::new(std::sync::Arc::new(Mute(to)), SessionPath::root(), 1 << 20);
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let server = CallServer::start(socket.clone(), "secret", session, Vec::new(), stopping).expect("a server");
    Served { _place: place, socket, server: Some(server), asked, stop }
}

impl Served {
    async fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).await.expect("a connection")
    }

    async fn ask(&self, line: &[u8]) -> Value {
        let mut stream = self.connect().await;
        // It may hang up before all is written.
        let _cut = stream.write_all(line).await;
        let _cut = stream.write_all(b"\n").await;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.expect("a reply");
        serde_json::from_str(&reply).unwrap_or_else(|bad| panic!("{reply}: {bad}"))
    }
}

fn trouble(reply: &Value) -> &str {
    reply["error"]["trouble"].as_str().unwrap_or_else(|| panic!("{reply}"))
}

#[tokio::test]
async fn nonsense_is_answered_and_takes_nothing_along() {
    let served = serve();
    for line in [
        &b""[..],
        b"{}",
        b"[]",
        b"\xff\xfe",
        b"{\"token\":\"secret\"",
        b"null",
        br#"{"token":"secret","call":"rm","input":{}}"#,
        br#"{"token":"secret","call":"wait","input":{"among":-1}}"#,
        br#"{"token":"secret","call":"delegate","input":{"capsule":"x","task":"y","root":true}}"#,
        br#"{"token":"secret","call":"info","input":{},"more":1}"#,
    ] {
        assert_eq!(trouble(&served.ask(line).await), "bad_call", "{}", String::from_utf8_lossy(line));
    }
    for token in ["", "secre", "secrets", "Secret"] {
        let frame = json!({"token": token, "call": "info"}).to_string();
        assert_eq!(trouble(&served.ask(frame.as_bytes()).await), "unauthorized");
    }
    let long = vec![b' '; LONGEST_FRAME + 2];
    assert_eq!(trouble(&served.ask(&long).await), "bad_call");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_says_nothing_is_told_so_after_ten_seconds() {
    let served = serve();
    let mut stream = served.connect().await;
    let start = tokio::time::Instant::now();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.expect("a reply");
    assert!(reply.contains("within 10 s"), "{reply}");
    assert!(start.elapsed() >= Duration::from_secs(10));
}

#[tokio::test]
async fn who_hangs_up_while_waiting_takes_no_completion() {
    let mut served = serve();
    let mut stream = served.connect().await;
    stream.write_all(b"{\"token\":\"secret\",\"call\":\"wait\",\"input\":{\"among\":[0]}}\n").await.expect("written");
    let Some(Call::Wait { mut reply, .. }) = served.asked.recv().await else { panic!("no wait") };
    drop(stream);
    // The session sees that nobody waits any more.
    reply.closed().await;
}

#[tokio::test]
async fn a_hundred_connections_that_hang_do_not_keep_the_server_from_stopping() {
    let mut served = serve();
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(served.connect().await);
    }
    served.stop.send_replace(true);
    let mut reply = Vec::new();
    let _reset = held[0].read_to_end(&mut reply).await;
    assert!(reply.is_empty());
    served.server = None;
    assert!(!served.socket.exists());
}
