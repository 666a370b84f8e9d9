//! Counts the primes below ten million by handing every thousand numbers to a session of its own: ten thousand at once.
//!
//! It makes every delegation before it waits for the first. As many run as `limits.live_children` says; the others are
//! queued, and can be seen and cancelled there.

use agent::Guest;
use agent::session::{self, Delegation};
use agent::types::{CompletionStatus, DelegationRequest, Task};

/// How many sessions, where the task does not say.
const USUAL: u64 = 10_000;

/// How many numbers each of them looks at.
const SPAN: u64 = 1_000;

struct Wide;

impl Guest for Wide {
    fn run(task: Task) -> Result<String, String> {
        let sessions = match task.text.trim() {
            "" => USUAL,
            text => text.parse().map_err(|_| "the task is how many sessions to use, like 10000")?,
        };
        let mut out: Vec<Option<Delegation>> = Vec::new();
        for piece in 0..sessions {
            let request = DelegationRequest {
                capsule: "primes".to_owned(),
                task: format!("{} {}", piece * SPAN, (piece + 1) * SPAN),
                slice: None,
                lend: Vec::new(),
                deadline: None,
            };
            let made = session::delegate(&request);
            out.push(Some(made.map_err(|refusal| format!("session {piece}: {}: {}", refusal.key, refusal.reason))?));
        }
        let mut primes = 0;
        // In the order they were made: each has its own reply, so nothing is searched among ten thousand.
        for (piece, delegation) in out.iter_mut().enumerate() {
            let Some(delegation) = delegation.take() else { continue };
            let completion = delegation.wait(None).ok_or_else(|| format!("session {piece} has no completion"))?;
            let counted = completion.answer.parse::<u64>().ok().filter(|_| completion.status == CompletionStatus::Ok);
            let why = completion.detail.unwrap_or_default();
            primes += counted.ok_or_else(|| format!("session {piece} did not count: {why}"))?;
        }
        Ok(format!("{primes} primes below {}, counted by {sessions} sessions", sessions * SPAN))
    }
}

agent::export!(Wide with_types_in agent::world);
