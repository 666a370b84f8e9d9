//! treeward inside a program of your own: native agents, in one file.
//!
//!     cargo run --example library
//!
//! A lead splits its task among readers and sums up what they say. One of them panics the first time it is run: its
//! supervisor starts it again. A second tree has a smaller budget and is refused in the middle. Both are read back from
//! the journal.

use std::time::Duration;

use treeward::agent::{CallError, Completion, Session, Task};
use treeward::capsule::Budget;
use treeward::ids::TreeId;
use treeward::journal::{Filter, Limit, Stored};
use treeward::supervision::{Rerun, RestartSpec, RestartType};
use treeward::{Capsule, Runtime, Submission, Team};

/// Counts the words of its task. A panic is a crash of its session only.
async fn count(session: Session, task: Task) -> Result<String, String> {
    let attempt = session.info().await.map_err(|gone| gone.to_string())?.attempt;
    assert!(attempt > 1 || !task.text.contains("stumble"), "stumbled");
    Ok(task.text.split_whitespace().count().to_string())
}

/// Hands each line of its task to a reader, all at once, and adds up what they answer.
async fn lead(session: Session, task: Task) -> Result<String, String> {
    let mut held = Vec::new();
    for line in task.text.lines() {
        match session.delegate_to("reader", line).await {
            Ok(delegation) => held.push(delegation),
            // Whatever is granted to nobody has a key that says where to look: `budget.delegations`, say.
            Err(CallError::Refused(refusal)) => return Err(format!("no reader for {line:?}: {refusal}")),
            Err(gone) => return Err(gone.to_string()),
        }
    }
    let mut words = 0;
    for delegation in held {
        let completion = delegation.wait().await.map_err(|error| error.to_string())?;
        words += completion.answer.parse::<u64>().map_err(|_| format!("a reader ended {:?}", completion.status))?;
    }
    Ok(format!("{words} words"))
}

fn team() -> Result<Team, Box<dyn std::error::Error>> {
    // Reading again does no harm, so the same task may simply be run again: at most three times a minute.
    let pause = (Duration::from_millis(10), Duration::from_secs(1));
    let restart = RestartSpec::new(RestartType::Transient, 3, Duration::from_secs(60), pause, Rerun::Yes)?;
    let reader = Capsule::native("reader", count).restart(restart).build()?;
    let lead = Capsule::native("lead", lead).delegates(["reader"]).build()?;
    Ok(Team::new(lead, [reader])?)
}

/// Runs one tree to its end, under a label.
async fn run(runtime: &Runtime, tenant: &str, budget: Budget) -> Result<(TreeId, Completion), treeward::SubmitError> {
    let task = "one line\nand a line to stumble over\nthe last";
    let team = team().expect("the team makes sense");
    let tree = runtime.submit(Submission::new(team, task).label("tenant", tenant).budget(budget)).await?;
    let id = tree.id();
    let completion = tree.completion().await.expect("a journal in memory does not fail");
    Ok((id, completion))
}

/// All records of a tree: the journal is the truth, and everything else a view of it.
async fn records(runtime: &Runtime, tree: TreeId) -> Vec<Stored> {
    let mut records: Vec<Stored> = Vec::new();
    loop {
        let from = records.last().map_or(1, |last| last.seq + 1);
        let page = runtime.journal().read(tree, from, Limit::default()).await.expect("a page");
        records.extend(page.records);
        if !page.more {
            return records;
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().seed(7).start().await?;

    let (free, completion) = run(&runtime, "blue", Budget::default()).await?;
    println!("blue:  {:?} {}, {} delegations", completion.status, completion.answer, completion.spent.delegations);

    let two = Budget { delegations: Some(2), ..Budget::default() };
    let (_, completion) = run(&runtime, "green", two).await?;
    println!("green: {:?} {}", completion.status, completion.detail.unwrap_or_default());

    println!("\nwhat became of the reader that stumbled, from the journal:");
    for stored in records(&runtime, free).await {
        let body: serde_json::Value = serde_json::from_str(&stored.body)?;
        if body["path"] == "0.1" || (body["path"] == "0" && body["strand"] == "delegation.1") {
            println!("{:>4} {:4} attempt {} {}", stored.seq, body["path"], body["attempt"], body["kind"]);
        }
    }

    let of_blue = Filter { labels: [("tenant".to_owned(), "blue".to_owned())].into(), ..Filter::default() };
    println!("\ntrees of tenant blue: {}", runtime.journal().trees(of_blue).await?.len());

    runtime.stop(Duration::from_secs(5)).await?;
    Ok(())
}
