//! The tree as the records so far tell it.

use std::collections::{BTreeMap, BTreeSet};

use treeward::capsule::Usage;
use treeward::env::Timestamp;
use treeward::ids::{SessionPath, Strand};
use treeward::journal::{Body, CallOutcome, CompletionStatus, Decision, Kind, Reporter, Text};
use treeward::supervision::ExitClass;

use super::one_line;

/// Columns kept of a task or a detail: a tree of ten thousand sessions is held whole.
const KEPT: usize = 160;

/// Kinds of fault told apart.
const STRUCK: usize = 1_024;

/// Levels shown. A journal is a file like any other: what it says about depth is not believed.
const DEEPEST: u32 = 1_024;

/// A tree, folded from its records in their order. A record about a session not heard of before makes its place.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The root's capsule, as the tree's start names it.
    pub capsule: String,
    /// The seed it runs with.
    pub seed: Option<u64>,
    /// Its sessions; a parent before its children, children by number.
    pub sessions: BTreeMap<SessionPath, Node>,
    /// How the tree ended, once it has.
    pub ended: Option<CompletionStatus>,
    /// Records refused because what they were about had ended.
    pub refused: u64,
    /// What the agents used, as recorded.
    pub used: Usage,
    /// Faults that struck.
    pub faults: u64,
    /// Where and what of them, each pair once.
    pub struck: BTreeSet<(String, String)>,
    /// When its first and its last record were taken.
    pub span: Option<(Timestamp, Timestamp)>,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Handed over, not started yet.
    #[default]
    Starting,
    /// Waiting for a place.
    Queued,
    /// Live.
    Running,
    /// Over.
    Ended(CompletionStatus),
}

/// One session of the tree.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its capsule's name.
    pub capsule: String,
    /// Its task, shortened to one line; the directory it was lent where it has no task.
    pub task: String,
    /// Where it stands.
    pub state: State,
    /// Incarnations begun.
    pub attempts: u32,
    /// The faults that struck it: how many, and the last.
    pub faults: Option<(u32, String)>,
    /// What it does just now, where the records tell.
    pub doing: Option<String>,
    /// Why it did not answer, or why its last attempt ended.
    pub detail: Option<String>,
    /// It is over, and not by its own report: it crashed, or was closed with something above it.
    pub unreported: bool,
}

impl Tree {
    /// Takes the next record in.
    pub fn apply(&mut self, body: &Body, at: Timestamp) {
        let first = self.span.map_or(at, |(first, _)| first);
        self.span = Some((first, at.max(first)));
        if self.ended.is_none() {
            self.count(&body.kind);
            self.take(body);
        }
    }

    /// The session's place, made where it is new, below places for all above it.
    fn node(&mut self, path: &SessionPath) -> &mut Node {
        let mut above = path.parent();
        while let Some(missing) = above.filter(|path| !self.sessions.contains_key(path)) {
            above = missing.parent();
            self.sessions.insert(missing, Node::default());
        }
        self.sessions.entry(path.clone()).or_default()
    }

    fn count(&mut self, kind: &Kind) {
        let used = &mut self.used;
        match kind {
            Kind::Delegated { .. } => used.delegations = used.delegations.saturating_add(1),
            Kind::GateDecided { decision: Decision::Allow, .. } => used.tool_calls = used.tool_calls.saturating_add(1),
            Kind::UsageReported { usage } => {
                used.tokens = used.tokens.saturating_add(usage.tokens);
                used.micro_usd = used.micro_usd.saturating_add(usage.micro_usd);
            }
            Kind::FaultInjected { point, action, .. } => {
                self.faults += 1;
                if self.struck.len() < STRUCK {
                    self.struck.insert((point.clone(), action.clone()));
                }
            }
            _ => {}
        }
    }

    fn take(&mut self, body: &Body) {
        // What a delegation's strand says is about its child.
        let subject = match body.strand {
            Strand::Delegation(index) => body.path.child(index),
            _ => body.path.clone(),
        };
        if subject.depth() > DEEPEST {
            return;
        }
        match &body.kind {
            Kind::TreeStarted { capsule, seed, .. } => {
                self.capsule = one_line(capsule, KEPT);
                self.seed = Some(*seed);
            }
            Kind::TreeEnded { status, refused } => {
                self.ended = Some(*status);
                self.refused = *refused;
            }
            Kind::Delegated { capsule, task, lent, .. } => {
                let node = self.node(&subject);
                node.capsule = one_line(capsule, KEPT);
                node.task = text(task);
                if node.task.is_empty() {
                    node.task = lent
                        .iter()
                        .find_map(|dir| dir.from.as_ref())
                        .map(|from| one_line(from, KEPT))
                        .unwrap_or_default();
                }
            }
            Kind::Queued { limit } => {
                let node = self.node(&subject);
                node.state = State::Queued;
                node.doing = Some(one_line(&format!("waits for a place ({limit})"), KEPT));
            }
            Kind::DelegationEnded { status, detail, attempts, by, .. } => {
                let node = self.node(&subject);
                node.unreported = *by != Reporter::Child;
                node.attempts = node.attempts.max(*attempts);
                node.end(*status, detail.as_deref());
            }
            kind => self.node(&subject).take(kind, body.attempt),
        }
    }
}

impl Node {
    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    fn end(&mut self, status: CompletionStatus, detail: Option<&str>) {
        self.state = State::Ended(status);
        self.doing = None;
        match detail {
            _ if status == CompletionStatus::Ok => self.detail = None,
            Some(detail) => self.detail = Some(one_line(detail, KEPT)),
            None => {}
        }
    }

    fn take(&mut self, kind: &Kind, attempt: u32) {
        match kind {
            Kind::FaultInjected { point, action, .. } => {
                let n = self.faults.take().map_or(0, |(n, _)| n).saturating_add(1);
                self.faults = Some((n, one_line(&format!("{point} {action}"), KEPT)));
            }
            Kind::SessionEnded { status, by } => {
                self.unreported = *by != Reporter::Child;
                self.end(*status, None);
            }
            // The rest only says how it got there.
            _ if self.is_over() => {}
            Kind::SessionStarted { capsule, .. } => {
                self.capsule = one_line(capsule, KEPT);
                self.attempts = self.attempts.max(attempt);
                self.state = State::Running;
                self.doing = None;
            }
            Kind::TaskSubmitted { task } => self.task = text(task),
            Kind::TaskEnded { detail: Some(detail), .. } => self.detail = Some(one_line(detail, KEPT)),
            Kind::AttemptEnded { class, detail, .. } => {
                let why = detail.clone().unwrap_or_else(|| class_name(*class).to_owned());
                self.detail = (*class != ExitClass::Done).then(|| one_line(&why, KEPT));
                self.doing = None;
            }
            Kind::Restarted { class, .. } => {
                self.doing = Some(format!("starting again after: {}", class_name(*class)));
            }
            Kind::StopRequested { reason } => self.doing = Some(one_line(&format!("stopping: {reason}"), KEPT)),
            Kind::ToolCalled { tool, .. } => self.doing = Some(one_line(&format!("calls {tool}"), KEPT)),
            Kind::ToolReturned { outcome: CallOutcome::Ok, .. } => self.doing = None,
            Kind::ToolReturned { outcome, .. } => {
                self.doing = Some(format!("a call was answered with: {}", outcome_name(*outcome)));
            }
            Kind::QuestionAsked { question } => self.doing = Some(one_line(&format!("asks: {}", text(question)), KEPT)),
            Kind::QuestionAnswered { .. } => self.doing = None,
            Kind::Text { text: said } => self.doing = Some(text(said)),
            _ => {}
        }
    }
}

/// A record's text on one line.
pub fn text(text: &Text) -> String {
    match text {
        Text::Inline(text) => one_line(text, KEPT),
        Text::Blob(blob) => format!("({} bytes, kept as blob {:.8}…)", super::grouped(blob.len), blob.blob.to_string()),
    }
}

/// How a class of exit is said to a person.
pub fn class_name(class: ExitClass) -> &'static str {
    match class {
        ExitClass::Done => "done",
        ExitClass::Canceled => "cancelled",
        ExitClass::Refused => "refused",
        ExitClass::Throttled { .. } => "a quota was reached",
        ExitClass::Retryable => "a failure that may pass",
        ExitClass::Stalled => "no progress",
        ExitClass::OutOfMemory => "out of memory",
        ExitClass::Signal { .. } => "ended by a signal",
        ExitClass::Trap => "the guest trapped",
        ExitClass::Panic => "panicked",
        ExitClass::KilledByUs => "killed",
    }
}

/// How a call's outcome is said to a person.
pub fn outcome_name(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Ok => "ok",
        CallOutcome::Error => "an error",
        CallOutcome::Denied => "denied",
        CallOutcome::Ended => "ended before it answered",
    }
}

/// How an ending is said to a person.
pub fn status_name(status: CompletionStatus) -> &'static str {
    match status {
        CompletionStatus::Ok => "ok",
        CompletionStatus::Error => "error",
        CompletionStatus::Crashed => "crashed",
        CompletionStatus::Terminated => "terminated",
        CompletionStatus::Unknown => "unknown",
    }
}
