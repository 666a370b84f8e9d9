//! An answer far over its bound is an error that names the bound; nothing is cut silently, nothing hangs.

use treeward::Submission;
use treeward::agent::{Session, Task};
use treeward::journal::CompletionStatus;
use treeward::{Capsule, Limits, Team};

use crate::support::{leaf, run, simulated};

#[tokio::test(start_paused = true)]
async fn it_is_an_error_by_name_and_its_sibling_answers() {
    let huge = leaf("huge", |_, task: Task| async move { Ok("x".repeat(task.text.parse().expect("a number"))) });
    let lead = Capsule::native("lead", |session: Session, _: Task| async move {
        let mut said = Vec::new();
        for bytes in [1 << 30, Limits::default().answer_whole + 1, Limits::default().answer_whole] {
            let child = session.delegate_to("huge", bytes.to_string()).await.map_err(|e| e.to_string())?;
            let completion = child.wait().await.map_err(|e| e.to_string())?;
            let named = completion.detail.is_some_and(|why| why.contains("limits.answer_whole"));
            said.push(format!("{:?} {} {named}", completion.status, completion.answer_len));
        }
        Ok(said.join(", "))
    });
    let team = Team::new(lead.delegates(["huge"]).build().expect("a lead"), [huge]).expect("a team");
    let ran = run(simulated(), Submission::new(team, "")).await;
    ran.check();
    let completion = ran.completion.as_ref().expect("a completion");
    assert_eq!(completion.status, CompletionStatus::Ok);
    let whole = Limits::default().answer_whole;
    assert_eq!(completion.answer, format!("Error 0 true, Error 0 true, Ok {whole} false"));
}
