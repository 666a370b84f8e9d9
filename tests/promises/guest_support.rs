//! What the tests of guests share: small guests, a session that answers as told, and a place to run them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use treeward::agent::{Call, Credit, Port, Session};
use treeward::env::Env;
use treeward::guest::{AgentComponent, Allowed, Confinement, Exit, GuestConfig, Guests};
use treeward::ids::{SessionPath, Strand};
use treeward::limits::Limits;

/// An agent with this core function as its body; see `tests/guests/frame.wat`.
pub fn agent(body: &str) -> String {
    include_str!("../guests/frame.wat").replace(";;BODY", body)
}

/// Answers with its task.
pub const ECHO: &str =
    "(func $body (param i32 i32) (result i32) (call $reply (i32.const 0) (local.get 0) (local.get 1)))";
/// Runs for ever.
pub const SPIN: &str = "(func $body (param i32 i32) (result i32) (loop $l (br $l)) (unreachable))";
/// Emits its task, then answers with it.
pub const EMIT: &str = "(func $body (param i32 i32) (result i32)
    (call $emit (local.get 0) (local.get 1))
    (call $reply (i32.const 0) (local.get 0) (local.get 1)))";

/// A few places; what the tests compile is kept for the next test.
pub fn guests(simulated: bool) -> Guests {
    let cache = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    few(simulated, Some(cache))
}

/// The same with nothing kept.
pub fn guests_without_cache() -> Guests {
    few(true, None)
}

fn few(simulated: bool, cache: Option<std::path::PathBuf>) -> Guests {
    let limits = Limits { live_sessions: 8, ..Limits::default() };
    Guests::new(GuestConfig { simulated, cache, limits }).unwrap()
}

pub async fn load(guests: &Guests, body: &str) -> AgentComponent {
    guests.load_agent("test.wat", Bytes::from(agent(body)), Allowed::default()).await.unwrap()
}

/// The guest that does what its task tells it; see the README beside it.
pub async fn load_script(guests: &Guests) -> AgentComponent {
    let script = include_bytes!("../guests/script/script.wasm");
    guests.load_agent("script.wasm", Bytes::from_static(script), Allowed::default()).await.unwrap()
}

/// What a guest said to its session, and how the session treats it.
#[derive(Clone)]
pub struct FakeSession {
    pub emitted: Arc<Mutex<Vec<String>>>,
    waiting: Arc<Mutex<Vec<Call>>>,
    treatment: Treatment,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Every call is answered at once.
    Answer,
    /// No call is ever answered.
    Silence,
    /// The session has ended.
    Gone,
    /// A call is answered after this long.
    After(Duration),
}

impl Port for FakeSession {
    fn send(&self, call: Call, _: Credit) -> Result<(), Box<Call>> {
        match (self.treatment, call) {
            (Treatment::Gone, call) => return Err(Box::new(call)),
            (Treatment::Answer, Call::Emit { text, reply, .. }) => {
                self.emitted.lock().unwrap().push(text);
                reply.send(()).unwrap();
            }
            #[expect(clippy::disallowed_methods, reason = "a stand-in, which ends with its test")]
            (Treatment::After(wait), Call::Emit { reply, .. }) => {
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(wait).await;
                    let _gone = reply.send(());
                });
            }
            (_, call) => self.waiting.lock().unwrap().push(call),
        }
        Ok(())
    }
}

impl FakeSession {
    pub fn new(treatment: Treatment) -> Self {
        Self { emitted: Arc::default(), waiting: Arc::default(), treatment }
    }

    pub fn session(&self) -> Session {
        Session::new(Arc::new(self.clone()), SessionPath::root(), 1 << 20)
    }
}

/// Nothing lent, ordinary limits.
pub fn nothing() -> Confinement {
    with_seed(1)
}

pub fn with_seed(seed: u64) -> Confinement {
    let env = Env::simulated(seed, None);
    let chance = env.chance(&SessionPath::root(), 1, Strand::Main);
    Confinement::nothing(64 << 20, Duration::from_secs(60), env, chance)
}

/// Runs a guest on `task` in a session that answers at once.
pub async fn run(guests: &Guests, body: &str, task: &str, confinement: Confinement) -> Exit {
    let session = FakeSession::new(Treatment::Answer).session();
    load(guests, body).await.run(session, task.into(), confinement, None).await
}
