//! What a soak runs: short trees that come and go under faults, and long ones that live through all of it.

use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;
use treeward::agent::{Session, Task};
use treeward::capsule::{LoadError, Team};
use treeward::fault::{Plan, Rule};
use treeward::supervision::{Rerun, RestartSpec, RestartType};
use treeward::{Capsule, Submission};

/// Sessions of one short tree.
pub const SHORT: usize = 50;
/// Those of them that bring a child of their own.
const NESTS: usize = 7;
/// Sessions of one long tree.
pub const LONG: usize = 100;

/// The component that `new` gives its users.
const GUEST: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/guest/guest.wasm"));

const MANIFEST: &str = r#"name = "guest"
[run]
guest = "guest.wasm"
[limits]
memory = "2MiB"
stall = "1s"
deadline = "10s"
[restart]
rerun = "yes"
"#;

/// What strikes, all of it by chance and at the short trees alone: each a way for something to be left behind.
const FAULTS: [&str; 17] = [
    "session capsule=quick p=0.002 panic",
    "session capsule=guest p=0.002 kill",
    "session capsule=nest p=0.002 panic",
    "session capsule=lead p=0.00005 kill",
    "agent capsule=quick p=0.01 panic",
    "agent capsule=quick p=0.001 hang",
    "agent capsule=guest p=0.01 trap",
    "agent capsule=nest p=0.01 error",
    "start capsule=quick p=0.005 error",
    "start capsule=guest p=0.005 delay=20ms",
    "report capsule=quick p=0.003 drop",
    "report capsule=guest p=0.01 duplicate",
    "report capsule=nest p=0.01 delay=20ms",
    "exit capsule=quick p=0.2 drop",
    "emit capsule=quick p=0.01 delay=20ms",
    "delegate capsule=lead p=0.002 error",
    "sync every=101 delay=5ms",
];

/// The faults.
pub fn faults() -> Plan {
    let rules = FAULTS.iter().map(|rule| rule.parse::<Rule>());
    Plan::new(rules.collect::<Result<_, _>>().unwrap_or_default())
}

/// Makes the guest's capsule in `directory`.
pub fn write_guest(directory: &Path) -> std::io::Result<()> {
    std::fs::write(directory.join("guest.wasm"), GUEST)?;
    std::fs::write(directory.join("guest.toml"), MANIFEST)
}

/// A tree of [`SHORT`] sessions: native and guest leaves, some of them a level further down.
pub fn short(guest: &Path) -> Result<Team, LoadError> {
    let guest = Team::load(guest)?.root().clone();
    let (stall, deadline) = (Duration::from_secs(1), Duration::from_secs(10));
    let quick = Capsule::native("quick", |session: Session, task: Task| async move {
        session.emit(format!("{} of it", task.text)).await.map_err(|gone| gone.to_string())?;
        Ok(task.text)
    });
    let pauses = (Duration::from_millis(20), Duration::from_secs(1));
    let again = RestartSpec::new(RestartType::Transient, 3, Duration::from_secs(60), pauses, Rerun::Yes);
    let again = again.expect("rules that make sense");
    let quick = quick.stall(stall).deadline(deadline).restart(again);
    let nest = Capsule::native("nest", |session: Session, task: Task| async move {
        let child = session.delegate_to("quick", task.text).await.map_err(|error| error.to_string())?;
        let completion = child.wait().await.map_err(|error| error.to_string())?;
        Ok(completion.answer)
    });
    let nest = nest.delegates(["quick"]).stall(stall).deadline(deadline);
    let lead = Capsule::native("lead", |session: Session, _: Task| async move {
        let mut held = Vec::new();
        for n in 0..SHORT - 1 - 3 * NESTS {
            let to = if n % 2 == 0 { "quick" } else { "guest" };
            held.extend(session.delegate_to(to, n.to_string()).await.ok());
        }
        for n in 0..2 * NESTS {
            let to = if n % 2 == 0 { "nest" } else { "quick" };
            held.extend(session.delegate_to(to, n.to_string()).await.ok());
        }
        // Every ninth is dropped, every seventh cancelled: nobody waits for those.
        let mut good = 0;
        for (n, delegation) in held.into_iter().enumerate() {
            match n {
                n if n % 9 == 8 => drop(delegation),
                n if n % 7 == 6 => {
                    let _gone = delegation.cancel("no longer wanted").await;
                }
                _ => {
                    let completion = delegation.wait().await.map_err(|error| error.to_string())?;
                    good += u32::from(!completion.answer.is_empty());
                }
            }
        }
        Ok(good.to_string())
    });
    let lead = lead.delegates(["quick", "nest", "guest"]).stall(stall * 2).deadline(deadline * 3);
    let built = (lead.build(), quick.build(), nest.build());
    let (Ok(lead), Ok(quick), Ok(nest)) = built else { unreachable!("the soak's own capsules are valid") };
    Ok(Team::new(lead, [quick, nest, guest]).expect("the soak's own team is whole"))
}

/// A tree of [`LONG`] sessions that emit a text whenever `beat` changes and answer when it closes.
pub fn long(beat: &watch::Receiver<u64>) -> Team {
    let patience = Duration::from_secs(24 * 3600);
    let waits = {
        let beat = beat.clone();
        Capsule::native("waits", move |session: Session, _: Task| {
            let mut beat = beat.clone();
            async move {
                while beat.changed().await.is_ok() {
                    let now = *beat.borrow_and_update();
                    session.emit(format!("beat {now}")).await.map_err(|gone| gone.to_string())?;
                }
                Ok(String::new())
            }
        })
    };
    let waits = waits.stall(patience / 2).deadline(patience).build().expect("a valid capsule");
    let holds = Capsule::native("holds", |session: Session, _: Task| async move {
        let mut held = Vec::new();
        for _ in 1..LONG {
            held.push(session.delegate_to("waits", "").await.map_err(|error| error.to_string())?);
        }
        for delegation in held {
            let completion = delegation.wait().await.map_err(|error| error.to_string())?;
            if let Some(why) = completion.detail {
                return Err(why);
            }
        }
        Ok(String::new())
    });
    let holds = holds.delegates(["waits"]).live_children(LONG as u32).stall(patience / 2).deadline(patience);
    Team::new(holds.build().expect("a valid capsule"), [waits]).expect("a whole team")
}

/// A submission of `team`, found again by its number.
pub fn submission(team: Team, number: usize) -> Submission {
    Submission::new(team, number.to_string()).label("soak", number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_one_that_can_strike() {
        assert_eq!(faults().rules().len(), FAULTS.len());
    }
}
