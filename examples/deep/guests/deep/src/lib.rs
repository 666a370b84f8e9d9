//! Delegates to itself, one level below the other, and says how deep the tree was once all have answered.
//!
//! The task is how many levels are still to come below; the answer is how many there were.

use agent::Guest;
use agent::session;
use agent::types::{CompletionStatus, DelegationRequest, Task};

/// How many levels below the root, where the task does not say.
const USUAL: u32 = 1_000;

struct Deep;

impl Guest for Deep {
    fn run(task: Task) -> Result<String, String> {
        let below = match task.text.trim() {
            "" => USUAL,
            text => text.parse().map_err(|_| "the task is how many levels to go down, like 1000")?,
        };
        let reached = if below == 0 { 0 } else { 1 + descend(below - 1)? };
        let is_root = session::info().depth == 0;
        Ok(if is_root { format!("{reached} levels below this one, and back") } else { reached.to_string() })
    }
}

agent::export!(Deep with_types_in agent::world);

fn descend(below: u32) -> Result<u32, String> {
    let request = DelegationRequest {
        capsule: "deep".to_owned(),
        task: below.to_string(),
        slice: None,
        lend: Vec::new(),
        deadline: None,
    };
    let child = session::delegate(&request).map_err(|refusal| format!("{}: {}", refusal.key, refusal.reason))?;
    let completion = child.wait(None).ok_or("it has no completion")?;
    match completion.status {
        CompletionStatus::Ok => completion.answer.parse().map_err(|_| "its answer is no number".to_owned()),
        _ => Err(completion.detail.unwrap_or_else(|| "it did not answer".to_owned())),
    }
}
