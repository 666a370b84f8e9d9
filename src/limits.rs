//! Every limit, with its name and default. Reaching one is a typed, recorded outcome.

use std::time::Duration;

/// The limits of a runtime. Names are those a refusal shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `depth`: levels of a tree below its root.
    pub depth: u32,
    /// `deepest`: what a budget may say of `depth` at most.
    pub deepest: u32,
    /// `live_children` of a session; the next one is queued.
    pub live_children: u32,
    /// `queued_children` of a session; the next one is refused.
    pub queued_children: u32,
    /// `live_sessions` in the process; the next one is refused with `busy`.
    pub live_sessions: u32,
    /// `deadline` of a delegation.
    pub deadline: Duration,
    /// `stall`: no progress of a session or of anything below it.
    pub stall: Duration,
    /// `grace`: how long a whole tree may take to stop.
    pub grace: Duration,
    /// `answer`: bytes of an answer handed to a parent; the whole text is kept as a blob.
    pub answer: usize,
    /// `answer_whole`: bytes of an answer at all.
    pub answer_whole: usize,
    /// `task`: bytes of a task's text.
    pub task: usize,
    /// `detail`: bytes of a crash's detail.
    pub detail: usize,
    /// `credit`: uncommitted bytes of a session.
    pub credit: u32,
    /// `field`: bytes of a record's field before it becomes a blob.
    pub field: usize,
    /// `body`: bytes of a record's body.
    pub body: usize,
    /// `tool_answer`: how long a tool or a gate may take.
    pub gate: Duration,
    /// `question`: how long a person may take.
    pub question: Duration,
    /// `calls`: tool calls of a session running at once.
    pub calls: u32,
    /// `guest.memory`: bytes of a guest's linear memory.
    pub guest_memory: u64,
    /// `guest.running`: time a guest may run, not counting its waits in host calls.
    pub guest_running: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 16,
            deepest: 1_024,
            live_children: 64,
            queued_children: 65_536,
            live_sessions: 10_000,
            deadline: Duration::from_secs(600),
            stall: Duration::from_secs(300),
            grace: Duration::from_secs(20),
            answer: 64 << 10,
            answer_whole: 16 << 20,
            task: 1 << 20,
            detail: 2_000,
            credit: 1 << 20,
            field: 64 << 10,
            body: 1 << 20,
            gate: Duration::from_secs(30),
            question: Duration::from_secs(3600),
            calls: 16,
            guest_memory: 256 << 20,
            guest_running: Duration::from_secs(600),
        }
    }
}
