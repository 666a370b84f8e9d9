//! Steps that ask something of the session.

use std::collections::BTreeMap;

use agent::session::{self, Delegation};
use agent::types::{
    AskError, Budget, Completion, CompletionStatus, DelegationRequest, Lend, Question, Status, ToolError,
};
use miniserde::json::{self, Value};

use crate::step::Step;
use crate::{number, object};

type Done = Result<Value, String>;

/// The delegations that were made and not dropped, by their index.
#[derive(Default)]
pub struct Held(BTreeMap<u32, Delegation>);

impl Held {
    fn get(&self, step: &Step) -> Result<&Delegation, String> {
        self.0.get(&of(step)).ok_or_else(|| format!("no delegation {} is held", of(step)))
    }

    /// Those a step names; all of them where it names none.
    fn among(&self, step: &Step) -> Vec<&Delegation> {
        match &step.among {
            None => self.0.values().collect(),
            Some(indices) => indices.iter().filter_map(|&index| self.0.get(&(index as u32))).collect(),
        }
    }
}

/// Performs `what` where it is one of these steps.
pub fn perform(what: &str, step: &Step, held: &mut Held) -> Option<Done> {
    let text = step.text.as_deref().unwrap_or_default();
    Some(match what {
        "info" => info(),
        "emit" => {
            session::emit(text);
            Ok(Value::Null)
        }
        "delegate" => delegate(step, held),
        "status" => held.get(step).map(|delegation| status(delegation.status())),
        "wait" => held.get(step).map(|delegation| completion(delegation.wait(step.at_most_ms))),
        "wait-any" => Ok(completion(session::wait_any(&held.among(step), step.at_most_ms))),
        "wait-all" => Ok(wait_all(&held.among(step))),
        "cancel" => held.get(step).map(|delegation| {
            delegation.cancel(step.reason.as_deref().unwrap_or("the script says so"));
            Value::Null
        }),
        "drop" => held.0.remove(&of(step)).map(|_| Value::Null).ok_or_else(|| "it is not held".to_owned()),
        "descend" => descend(step),
        "tool" => {
            let name = step.name.as_deref().unwrap_or_default();
            session::call_tool(name, step.input.as_deref().unwrap_or_default()).map(Value::String).map_err(|error| {
                match error {
                    ToolError::Denied(why) => format!("denied: {why}"),
                    ToolError::Failed(why) => format!("failed: {why}"),
                }
            })
        }
        "checkpoint" => {
            session::checkpoint(step.label.as_deref().unwrap_or_default(), text.as_bytes());
            Ok(Value::Null)
        }
        "ask" => {
            let question = Question { text: text.to_owned(), deadline: step.at_most_ms };
            session::ask(&question).map(Value::String).map_err(|error| match error {
                AskError::Denied => "denied".to_owned(),
                AskError::Expired => "expired".to_owned(),
            })
        }
        _ => return None,
    })
}

fn of(step: &Step) -> u32 {
    step.of.unwrap_or(0) as u32
}

fn info() -> Done {
    let info = session::info();
    let left = info.left;
    let optional = |value: Option<u64>| value.map_or(Value::Null, number);
    Ok(object([
        ("path", Value::String(info.path)),
        ("depth", number(info.depth.into())),
        ("depth_left", number(info.depth_left.into())),
        ("deadline_ms", number(info.deadline)),
        ("attempt", number(info.attempt.into())),
        ("tokens", optional(left.tokens)),
        ("micro_usd", optional(left.micro_usd)),
        ("tool_calls", optional(left.tool_calls)),
        ("delegations", optional(left.delegations)),
        ("depth_ceiling", optional(left.depth.map(u64::from))),
        ("wall_ms", optional(left.wall)),
    ]))
}

fn delegate(step: &Step, held: &mut Held) -> Done {
    let task = match &step.script {
        Some(script) => json::to_string(script),
        None => step.task.clone().unwrap_or_default(),
    };
    let delegation = ask_for(step, task)?;
    let index = delegation.index();
    held.0.insert(index, delegation);
    Ok(number(index.into()))
}

fn ask_for(step: &Step, task: String) -> Result<Delegation, String> {
    let slice = step.slice.as_ref().map(|slice| Budget {
        tokens: slice.tokens,
        micro_usd: slice.micro_usd,
        tool_calls: slice.tool_calls,
        delegations: slice.delegations,
        depth: slice.depth,
        wall: slice.wall_ms,
    });
    let lend = step.lend.as_deref().unwrap_or_default().iter().map(|lend| Lend {
        directory: lend.directory.clone(),
        path: lend.path.clone().unwrap_or_default(),
        name: lend.name.clone().unwrap_or_else(|| lend.directory.clone()),
        write: lend.write.unwrap_or(false),
    });
    let request = DelegationRequest {
        capsule: step.capsule.clone().unwrap_or_else(|| "script".to_owned()),
        task,
        slice,
        lend: lend.collect(),
        deadline: step.deadline_ms,
    };
    session::delegate(&request).map_err(|refusal| format!("{}: {}", refusal.key, refusal.reason))
}

/// Delegates to `width` sessions that do the same, `depth` levels down, and waits for all. The result is how many
/// sessions below answered.
fn descend(step: &Step) -> Done {
    let (depth, width) = (step.depth.unwrap_or(0), step.width.unwrap_or(1));
    if depth == 0 {
        return Ok(number(0));
    }
    let capsule = step.capsule.clone().unwrap_or_else(|| "script".to_owned());
    let below = object([
        ("do", Value::String("descend".to_owned())),
        ("capsule", Value::String(capsule)),
        ("depth", number(depth - 1)),
        ("width", number(width)),
    ]);
    let task = json::to_string(&Value::Array([below].into_iter().collect()));
    let out: Vec<Delegation> = (0..width).map(|_| ask_for(step, task.clone())).collect::<Result<_, _>>()?;
    let all: Vec<&Delegation> = out.iter().collect();
    let mut answered = 0;
    while let Some(completion) = session::wait_any(&all, None) {
        if completion.status != CompletionStatus::Ok {
            return Err(format!("{} ended {}", completion.index, word(completion.status)));
        }
        answered += 1 + sum_below(&completion.answer).ok_or("an answer is not understood")?;
    }
    Ok(number(answered))
}

/// What a session that descended says: `[{"do":"descend","ok":N}]`.
fn sum_below(answer: &str) -> Option<u64> {
    #[derive(miniserde::Deserialize)]
    struct Below {
        ok: u64,
    }
    let results: Vec<Below> = json::from_str(answer).ok()?;
    Some(results.iter().map(|result| result.ok).sum())
}

fn wait_all(among: &[&Delegation]) -> Value {
    let mut all = json::Array::new();
    while let Some(one) = session::wait_any(among, None) {
        all.push(completion(Some(one)));
    }
    Value::Array(all)
}

fn completion(completion: Option<Completion>) -> Value {
    let Some(completion) = completion else { return Value::Null };
    let spent = completion.spent;
    object([
        ("index", number(completion.index.into())),
        ("status", Value::String(word(completion.status).to_owned())),
        ("answer", Value::String(completion.answer)),
        ("answer_len", number(completion.answer_len)),
        ("detail", completion.detail.map_or(Value::Null, Value::String)),
        (
            "spent",
            object([
                ("tokens", number(spent.tokens)),
                ("micro_usd", number(spent.micro_usd)),
                ("tool_calls", number(spent.tool_calls)),
                ("delegations", number(spent.delegations)),
            ]),
        ),
    ])
}

fn status(status: Status) -> Value {
    Value::String(match status {
        Status::Queued => "queued".to_owned(),
        Status::Running => "running".to_owned(),
        Status::Ended(how) => format!("ended {}", word(how)),
    })
}

fn word(status: CompletionStatus) -> &'static str {
    match status {
        CompletionStatus::Ok => "ok",
        CompletionStatus::Error => "error",
        CompletionStatus::Crashed => "crashed",
        CompletionStatus::Terminated => "terminated",
        CompletionStatus::Unknown => "unknown",
    }
}
