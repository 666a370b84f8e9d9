//! Factors a number by sending three ways off at once. The first good answer wins, the others are cancelled.
//!
//! An answer is good when its factors are not 1 and their product is the number: a child's word is not taken for it.

use agent::Guest;
use agent::session::{self, Delegation};
use agent::types::{CompletionStatus, DelegationRequest, Task};

/// Two primes close to each other. One way finds them at once; trying every divisor takes many times as long.
const USUAL: u64 = 4_611_686_181_636_145_867;

/// The capsules that can be sent, each its own way.
const WAYS: [&str; 3] = ["trial", "fermat", "rho"];

struct Race;

impl Guest for Race {
    fn run(task: Task) -> Result<String, String> {
        let number = match task.text.trim() {
            "" => USUAL,
            text => text.parse().map_err(|_| format!("the task is a number to factor, up to {}", u64::MAX))?,
        };
        race(number)
    }
}

agent::export!(Race with_types_in agent::world);

fn race(number: u64) -> Result<String, String> {
    let mut running: Vec<(&str, Delegation)> = Vec::new();
    for way in WAYS {
        let request = DelegationRequest {
            capsule: way.to_owned(),
            task: format!("{way} {number}"),
            slice: None,
            lend: Vec::new(),
            deadline: None,
        };
        let delegation = session::delegate(&request).map_err(|refusal| format!("{}: {}", refusal.key, refusal.reason))?;
        running.push((way, delegation));
    }
    let mut lost = Vec::new();
    while !running.is_empty() {
        let among: Vec<&Delegation> = running.iter().map(|(_, delegation)| delegation).collect();
        let Some(completion) = session::wait_any(&among, None) else { break };
        let Some(place) = running.iter().position(|(_, delegation)| delegation.index() == completion.index) else { break };
        let (way, taken) = running.remove(place);
        drop(taken);
        let said = match completion.status {
            CompletionStatus::Ok => completion.answer,
            _ => completion.detail.unwrap_or_default(),
        };
        if let Some((a, b)) = factors(&said, number) {
            for (_, loser) in &running {
                loser.cancel(&format!("{way} was faster"));
            }
            let losers: Vec<&str> = running.iter().map(|(way, _)| *way).collect();
            let losers = if losers.is_empty() { "nobody".to_owned() } else { losers.join(" and ") };
            return Ok(format!("{number} = {a} x {b}, found by {way}; cancelled: {losers}"));
        }
        lost.push(format!("{way}: {said}"));
    }
    Err(format!("no way had a good answer for {number}\n{}", lost.join("\n")))
}

/// The two factors a child names, where they are ones.
fn factors(said: &str, number: u64) -> Option<(u64, u64)> {
    let (a, b) = said.split_once(' ')?;
    let (a, b): (u64, u64) = (a.parse().ok()?, b.parse().ok()?);
    (a > 1 && b > 1 && a.checked_mul(b) == Some(number)).then_some((a.min(b), a.max(b)))
}
