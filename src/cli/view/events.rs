//! One line per record.

use std::time::Duration;

use treeward::capsule::{Budget, Usage};
use treeward::env::Timestamp;
use treeward::ids::Strand;
use treeward::journal::{Body, CallOutcome, CompletionStatus, Decision, Kind, LentDirectory, QuestionOutcome, Text};

use super::fold::{class_name, outcome_name, status_name, text};
use super::{Line, Style, count, one_line, time, usd};

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What somebody watching wants to know.
    Watching,
    /// Every record, with its number and strand.
    Everything,
}

/// Columns of a text in a line.
const TEXT: usize = 100;

/// A record as a line; `None` where it is not told at this detail. `start` is when the tree's first record was taken.
pub fn event(body: &Body, seq: u64, at: Timestamp, start: Timestamp, detail: Detail) -> Option<Line> {
    let (style, what) = told(body, detail)?;
    let after = time(Duration::from_micros(at.saturating_sub(start)));
    let mut line = Line::new();
    if detail == Detail::Everything {
        line.push(Style::Dim, &format!("{seq:>6} "));
    }
    line.push(Style::Dim, &format!("{after:>7}  "));
    // For somebody watching, how a delegation went is news of the child.
    let subject = match (detail, body.strand) {
        (Detail::Watching, Strand::Delegation(index)) if !matches!(body.kind, Kind::Delegated { .. }) => {
            body.path.child(index)
        }
        _ => body.path.clone(),
    };
    line.push(Style::Strong, &format!("{:<8}", subject.to_string()));
    if detail == Detail::Everything {
        let strand = match body.attempt {
            0 | 1 => body.strand.to_string(),
            n => format!("{} try {n}", body.strand),
        };
        line.push(Style::Dim, &format!(" {strand:<14}"));
        line.push(style, &format!(" {:<19}", body.kind.name()));
    }
    if !what.is_empty() {
        line.push(if detail == Detail::Everything { Style::Plain } else { style }, &format!(" {what}"));
    }
    Some(line)
}

fn ending(status: CompletionStatus) -> Style {
    match status {
        CompletionStatus::Ok => Style::Good,
        CompletionStatus::Terminated => Style::Warn,
        CompletionStatus::Error | CompletionStatus::Crashed | CompletionStatus::Unknown => Style::Bad,
    }
}

fn with(detail: Option<&str>) -> String {
    detail.map(|detail| format!(": {}", one_line(detail, 2 * TEXT))).unwrap_or_default()
}

/// What a record tells, and how it stands out.
fn told(body: &Body, detail: Detail) -> Option<(Style, String)> {
    let watching = detail == Detail::Watching;
    match (&body.kind, books(&body.kind)) {
        (_, Some(_)) if watching => None,
        (_, Some(what)) => Some((Style::Dim, what)),
        // Said once: by the delegation's ending, and of the root by the answer itself.
        (Kind::TaskEnded { status, .. }, _)
            if watching && (body.path.depth() > 0 || *status == CompletionStatus::Ok) =>
        {
            None
        }
        (Kind::SessionStarted { capsule, .. }, _) if watching => {
            Some((Style::Busy, format!("{} starts", one_line(capsule, TEXT))))
        }
        (Kind::TaskSubmitted { task }, _) if watching && text(task).is_empty() => None,
        (kind, None) => Some(happening(kind)),
    }
}

/// The book-keeping of a tree: of interest in a trace only.
fn books(kind: &Kind) -> Option<String> {
    Some(match kind {
        Kind::TaskStarted {} | Kind::DelegationTaken {} => String::new(),
        Kind::GateAsked { tool } => one_line(tool, TEXT),
        Kind::GateDecided { decision: Decision::Allow, by, .. } => format!("allowed by {}", one_line(by, TEXT)),
        Kind::BudgetReserved { slice } => format!("set aside: {}", budget(slice)),
        Kind::BudgetCapped { cap } => format!("capped to what is left: {}", budget(cap)),
        Kind::BudgetSettled { spent, estimated } => {
            format!("spent {}{}", usage(spent), if *estimated { " (estimated)" } else { "" })
        }
        Kind::UsageReported { usage: used } => usage(used),
        Kind::Checkpoint { label, state } => format!("{} ({} bytes)", one_line(label, TEXT), super::grouped(state.len)),
        Kind::Chosen { among, chosen } => {
            let among = one_line(&format!("{among:?}"), TEXT);
            chosen.map_or_else(|| format!("none of {among} in time"), |index| format!("{index} of {among}"))
        }
        Kind::ToolReturned { outcome: CallOutcome::Ok, output } => text(output),
        Kind::SessionEnded { status, .. } => status_name(*status).to_owned(),
        Kind::HarnessStarting { driver, program } => {
            format!("{} ({})", one_line(program, TEXT), one_line(driver, TEXT))
        }
        Kind::HarnessStarted {} => String::new(),
        Kind::HarnessReady { session } => session.as_deref().map(|id| one_line(id, TEXT)).unwrap_or_default(),
        Kind::HarnessExited { exit } => one_line(exit, TEXT),
        Kind::HarnessGone { survivors: 0 } => "nothing of it is left".to_owned(),
        Kind::AttemptEnded { class: treeward::supervision::ExitClass::Done, .. } => "done".to_owned(),
        _ => return None,
    })
}

fn happening(kind: &Kind) -> (Style, String) {
    match kind {
        Kind::TreeStarted { capsule, seed, budget: ceiling, .. } => {
            let within =
                Some(budget(ceiling)).filter(|b| !b.is_empty()).map(|b| format!(", within {b}")).unwrap_or_default();
            (Style::Strong, format!("tree of {} begins (seed {seed}{within})", one_line(capsule, TEXT)))
        }
        Kind::TreeEnded { status, refused } => {
            let late = if *refused == 0 {
                String::new()
            } else {
                format!(" ({} refused)", count(*refused, "late record", "late records"))
            };
            (ending(*status), format!("tree ended: {}{late}", status_name(*status)))
        }
        Kind::SessionStarted { capsule, lent: directories, .. } => {
            (Style::Busy, format!("{} starts{}", one_line(capsule, TEXT), lent(directories)))
        }
        Kind::AttemptEnded { class, detail, changed_world } => {
            let changed = if *changed_world { ", may have changed the world" } else { "" };
            (Style::Bad, format!("attempt over, {}{changed}{}", class_name(*class), with(detail.as_deref())))
        }
        Kind::Restarted { class, after_ms } => (
            Style::Warn,
            format!("starts again in {} ({})", time(Duration::from_millis(*after_ms)), class_name(*class)),
        ),
        Kind::TaskSubmitted { task } => (Style::Plain, named("task", task)),
        Kind::TaskEnded { status, answer, detail } => {
            let answer = answer.as_ref().map(|answer| format!(": {}", text(answer))).unwrap_or_default();
            (ending(*status), format!("{}{answer}{}", status_name(*status), with(detail.as_deref())))
        }
        Kind::Text { text: said } => (Style::Plain, format!("says: {}", text(said))),
        Kind::ToolCalled { tool, input, .. } => {
            (Style::Plain, format!("calls {} {}", one_line(tool, TEXT), text(input)))
        }
        Kind::ToolReturned { outcome, output } => {
            (Style::Warn, format!("call answered with {}: {}", outcome_name(*outcome), text(output)))
        }
        Kind::GateDecided { by, reason, .. } => {
            (Style::Warn, format!("denied by {}{}", one_line(by, TEXT), with(reason.as_deref())))
        }
        Kind::QuestionAsked { question } => (Style::Warn, format!("asks: {}", text(question))),
        Kind::QuestionAnswered { outcome, answer } => {
            let how = match outcome {
                QuestionOutcome::Answered => "answered",
                QuestionOutcome::Denied => "nobody can answer here",
                QuestionOutcome::Expired => "nobody answered in time",
                QuestionOutcome::Withdrawn => "withdrawn",
            };
            (Style::Plain, format!("{how}{}", answer.as_ref().map(|a| format!(": {}", text(a))).unwrap_or_default()))
        }
        Kind::Delegated { child, capsule, task, lent: directories, .. } => (
            Style::Plain,
            named(&format!("delegates to {child} {}", one_line(capsule, TEXT)), task) + &lent(directories),
        ),
        Kind::Queued { limit } => (Style::Dim, format!("waits for a place ({})", one_line(limit, TEXT))),
        Kind::BudgetExhausted { key, asked, left } => {
            (Style::Warn, format!("budget exhausted: {} asked {asked}, left {left}", one_line(key, TEXT)))
        }
        Kind::DelegationEnded { status, attempts, answer, detail, .. } => {
            let tries = if *attempts > 1 { format!(" after {attempts} attempts") } else { String::new() };
            let answer = answer.as_ref().map(|answer| format!(": {}", text(answer))).unwrap_or_default();
            (ending(*status), format!("{}{tries}{answer}{}", status_name(*status), with(detail.as_deref())))
        }
        Kind::Escalated { why } => (Style::Bad, format!("gives up and passes it on: {}", one_line(why, TEXT))),
        Kind::StopRequested { reason } => (Style::Warn, format!("is to stop: {}", one_line(reason, TEXT))),
        Kind::FaultInjected { point, action, nth } => {
            (Style::Warn, format!("FAULT {} {} (passage {nth})", one_line(point, TEXT), one_line(action, TEXT)))
        }
        Kind::HarnessInterrupted { by } => (Style::Warn, format!("is interrupted ({})", one_line(by, TEXT))),
        Kind::HarnessKilled { signal } => (Style::Warn, format!("is sent {}", one_line(signal, TEXT))),
        Kind::HarnessGone { survivors } => {
            let left = count(u64::from(*survivors), "process it left behind was", "processes it left behind were");
            (Style::Warn, format!("{left} ended"))
        }
        Kind::Note { key, text: said } => (Style::Plain, format!("{}: {}", one_line(key, TEXT), text(said))),
        other => (Style::Plain, other.name().to_owned()),
    }
}

/// `what: text`, or `what` alone where the text is empty.
fn named(what: &str, said: &Text) -> String {
    let said = text(said);
    if said.is_empty() { what.to_owned() } else { format!("{what}: {said}") }
}

fn lent(directories: &[LentDirectory]) -> String {
    if directories.is_empty() {
        return String::new();
    }
    let list: Vec<String> = directories
        .iter()
        .map(|d| {
            let from = d.from.as_ref().map(|from| format!("={from}")).unwrap_or_default();
            format!("{}{from}{}", d.name, if d.write { " (writable)" } else { "" })
        })
        .collect();
    format!(" [lent {}]", one_line(&list.join(", "), TEXT))
}

/// What was spent, in words; `nothing` where nothing was.
pub fn usage(usage: &Usage) -> String {
    let mut parts = Vec::new();
    for (n, one, many) in [
        (usage.tokens, "token", "tokens"),
        (usage.tool_calls, "tool call", "tool calls"),
        (usage.delegations, "delegation", "delegations"),
    ] {
        if n > 0 {
            parts.push(count(n, one, many));
        }
    }
    if usage.micro_usd > 0 {
        parts.push(usd(usage.micro_usd));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

/// The ceilings of a budget, in words; empty where nothing is limited.
pub fn budget(budget: &Budget) -> String {
    let mut parts = Vec::new();
    for (ceiling, one, many) in [
        (budget.tokens, "token", "tokens"),
        (budget.tool_calls, "tool call", "tool calls"),
        (budget.delegations, "delegation", "delegations"),
        (budget.depth.map(u64::from), "level", "levels"),
    ] {
        parts.extend(ceiling.map(|n| count(n, one, many)));
    }
    parts.extend(budget.micro_usd.map(usd));
    parts.extend(budget.wall.map(time));
    parts.join(", ")
}
