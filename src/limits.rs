//! Every limit, with its name, its default and what happens when it is reached: a typed, recorded outcome.

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
    /// `gate`: how long a tool's component may run before it has said what it offers.
    pub gate: Duration,
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
            calls: 16,
            guest_memory: 256 << 20,
            guest_running: Duration::from_secs(600),
        }
    }
}

/// How much a limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// So many.
    Count(u64),
    /// So many bytes.
    Bytes(u64),
    /// So long.
    Time(Duration),
}

/// One limit, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name, as a refusal shows it behind `limits.`.
    pub name: &'static str,
    /// What it is.
    pub value: Value,
    /// What it is where nobody says otherwise.
    pub default: Value,
    /// What it is about.
    pub what: &'static str,
    /// What happens when it is reached.
    pub reached: &'static str,
    /// Where it can be set.
    pub set: Set,
}

/// Where a limit can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// For a runtime, by its builder.
    Runtime,
    /// For a runtime, and for a capsule by this key of its manifest.
    Capsule(&'static str),
    /// Nowhere.
    Fixed,
}

/// Limits that make no sense: which, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limits.{name}: {why}")]
pub struct LimitsError {
    /// The limit.
    pub name: &'static str,
    /// What is wrong with it.
    pub why: String,
}

/// The largest linear memory of a guest: what 32 bits can address.
pub const LARGEST_MEMORY: u64 = 4 << 30;
/// The smallest: one page.
const SMALLEST_MEMORY: u64 = 64 << 10;
/// Bytes of a name an agent gives: a tool's, a checkpoint's label.
pub const NAME: usize = 1024;
/// Bytes of a line that a program writes, its line end not counted.
pub const PROGRAM_LINE: usize = 8 << 20;
/// Bytes of a call that a program makes.
pub const PROGRAM_CALL: usize = 8 << 20;
/// The longest time: every timer is certain to hold it.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

type Line = (&'static str, Value, &'static str, &'static str, Set);

impl Limits {
    /// All of them, in the order they are shown.
    pub fn table(&self) -> Vec<Row> {
        let rows = self.lines().into_iter().zip(Self::default().lines());
        rows.map(|((name, value, what, reached, set), (_, default, ..))| Row {
            name,
            value,
            default,
            what,
            reached,
            set,
        })
        .collect()
    }

    fn lines(&self) -> Vec<Line> {
        use Set::{Capsule, Fixed, Runtime};
        use Value::{Bytes, Count, Time};
        // Taken apart, so that a limit that is not in the table does not compile.
        let Self {
            depth,
            deepest,
            live_children,
            queued_children,
            live_sessions,
            deadline,
            stall,
            grace,
            answer,
            answer_whole,
            task,
            detail,
            credit,
            field,
            body,
            gate,
            calls,
            guest_memory,
            guest_running,
        } = self.clone();
        let count = |n: u32| Count(n.into());
        let bytes = |n: usize| Bytes(n as u64);
        let connections = Count(crate::control::CONNECTIONS as u64);
        let request = Bytes(crate::control::REQUEST as u64);
        vec![
            ("depth", count(depth), "levels of a tree below its root", "refused", Capsule("budget.depth")),
            ("deepest", count(deepest), "what a budget may say of the depth", "less is taken", Runtime),
            (
                "live_children",
                count(live_children),
                "of a session",
                "the next one waits",
                Capsule("limits.live_children"),
            ),
            ("queued_children", count(queued_children), "of a session", "refused", Runtime),
            ("live_sessions", count(live_sessions), "in the process", "refused: busy", Runtime),
            ("calls", count(calls), "of a session that run at once", "refused", Runtime),
            ("deadline", Time(deadline), "of a delegation", "terminated", Capsule("limits.deadline")),
            ("stall", Time(stall), "without progress", "stalled, then the restart policy", Capsule("limits.stall")),
            ("grace", Time(grace), "of a stop, the whole tree", "ended by force", Runtime),
            ("gate", Time(gate), "until a tool has said what it offers", "the capsule is refused", Runtime),
            ("task", bytes(task), "of a task's text", "refused", Runtime),
            ("answer", bytes(answer), "of an answer handed to a parent", "cut; the whole is a blob", Runtime),
            ("answer_whole", bytes(answer_whole), "of an answer or a tool's", "an error instead", Runtime),
            ("detail", bytes(detail), "of why it did not answer", "cut, and says so", Runtime),
            ("credit", Bytes(credit.into()), "of a session, not committed yet", "its agent waits", Runtime),
            ("field", bytes(field), "of a text in a record", "kept as a blob", Runtime),
            ("body", bytes(body), "of a record's body", "the record is refused", Runtime),
            ("name", bytes(NAME), "of a tool's name or a label", "refused", Fixed),
            ("program.line", bytes(PROGRAM_LINE), "of a line a program writes", "skipped, and noted", Fixed),
            ("program.call", bytes(PROGRAM_CALL), "of a call a program makes", "refused", Fixed),
            ("guest.memory", Bytes(guest_memory), "of a guest", "out of memory", Capsule("limits.memory")),
            ("guest.running", Time(guest_running), "of a guest, not its waits", "trapped", Capsule("limits.running")),
            ("control.connections", connections, "to the local socket", "refused: busy", Fixed),
            ("control.request", request, "of a request to the local socket", "refused", Fixed),
        ]
    }

    /// Whether they make sense together.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), LimitsError> {
        let wrong = |name, why: String| Err(LimitsError { name, why });
        for (name, value, ..) in self.lines() {
            match value {
                Value::Count(0) if !matches!(name, "depth" | "deepest" | "queued_children") => {
                    return wrong(name, "must be at least 1, or nothing could run".into());
                }
                Value::Bytes(0) => return wrong(name, "must be at least 1 byte".into()),
                Value::Time(time) if time > LONGEST => return wrong(name, "must be at most 365 days".into()),
                Value::Time(Duration::ZERO) if name != "grace" => return wrong(name, "must be longer than 0".into()),
                _ => {}
            }
        }
        if self.depth > self.deepest {
            return wrong("depth", format!("is {} and limits.deepest is {}", self.depth, self.deepest));
        }
        if self.answer > self.answer_whole {
            return wrong("answer", format!("is {} and limits.answer_whole is {}", self.answer, self.answer_whole));
        }
        if self.field > self.body {
            return wrong("field", format!("is {} and limits.body is {}", self.field, self.body));
        }
        if !(SMALLEST_MEMORY..=LARGEST_MEMORY).contains(&self.guest_memory) {
            return wrong("guest.memory", format!("is {} and must be from 64KiB to 4GiB", self.guest_memory));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_make_sense_and_are_all_in_the_table() {
        Limits::default().check().unwrap();
        let table = Limits { depth: 3, ..Limits::default() }.table();
        assert_eq!((table[0].name, table[0].value, table[0].default), ("depth", Value::Count(3), Value::Count(16)));
        let mut names: Vec<_> = table.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.len());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let said = |limits: Limits| limits.check().unwrap_err().to_string();
        let usual = Limits::default;
        assert!(said(Limits { live_sessions: 0, ..usual() }).starts_with("limits.live_sessions: must be at least 1"));
        assert!(said(Limits { stall: Duration::ZERO, ..usual() }).starts_with("limits.stall"));
        assert!(said(Limits { deadline: Duration::MAX, ..usual() }).contains("365 days"));
        assert!(
            said(Limits { depth: 2_000, ..usual() }).starts_with("limits.depth: is 2000 and limits.deepest is 1024")
        );
        assert!(said(Limits { answer: 99 << 20, ..usual() }).contains("limits.answer_whole"));
        assert!(said(Limits { field: 2 << 20, ..usual() }).contains("limits.body"));
        assert!(said(Limits { guest_memory: 5 << 30, ..usual() }).contains("64KiB to 4GiB"));
        Limits { depth: 0, queued_children: 0, grace: Duration::ZERO, ..usual() }.check().unwrap();
    }
}
