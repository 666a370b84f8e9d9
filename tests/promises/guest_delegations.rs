//! The `session` a guest imports is the session a native agent holds: every call arrives as it was made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use treeward::agent::{
    AskError, Call, Completion, Credit, DelegationRequest, Info, Lend, Port, Refusal, Session, Status, ToolError,
};
use treeward::capsule::{Budget, Usage};
use treeward::guest::{Exit, Guests};
use treeward::ids::SessionPath;
use treeward::journal::CompletionStatus;

use super::guest_support::{guests, load_script, nothing};

/// A session that makes delegations and ends them when they are waited for, the latest first.
#[derive(Clone, Default)]
struct Team(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    requests: Vec<DelegationRequest>,
    taken: BTreeMap<u32, bool>,
    dropped: Vec<u32>,
    cancelled: Vec<(u32, String)>,
    checkpoints: Vec<(String, Vec<u8>)>,
    waits: Vec<(Vec<u32>, Option<Duration>)>,
    /// Waits are not answered.
    silent: bool,
    held_back: Vec<Call>,
}

impl Port for Team {
    fn send(&self, call: Call, _: Credit) -> Result<(), Box<Call>> {
        let mut state = self.0.lock().unwrap();
        match call {
            Call::Info { reply } => {
                let left =
                    Budget { tokens: Some(9), depth: Some(3), wall: Some(Duration::from_secs(1)), ..Budget::default() };
                let path = "0.2.1".parse().unwrap();
                let info = Info { path, depth_left: 3, left, deadline: Duration::from_millis(1500), attempt: 2 };
                reply.send(info).unwrap();
            }
            Call::Delegate { request, reply } if request.capsule == "stranger" => {
                let refusal = Refusal { key: "grants.delegate".into(), reason: "not granted".into() };
                reply.send(Err(refusal)).unwrap();
            }
            Call::Delegate { request, reply } => {
                let index = u32::try_from(state.requests.len()).unwrap();
                state.requests.push(request);
                reply.send(Ok(index)).unwrap();
            }
            call @ Call::Wait { .. } if state.silent => state.held_back.push(call),
            Call::Wait { among, at_most, reply } => {
                state.waits.push((among.clone(), at_most));
                let index = *among.iter().max().unwrap();
                assert_eq!(state.taken.insert(index, true), None, "a completion is taken once");
                let answer = format!("answer {index}");
                let completion = Completion {
                    index,
                    status: CompletionStatus::Ok,
                    answer_len: answer.len() as u64,
                    answer,
                    detail: None,
                    spent: Usage { tokens: 7, ..Usage::default() },
                };
                reply.send(Ok(Some(completion))).unwrap();
            }
            Call::Status { reply, .. } => reply.send(Ok(Status::Ended(CompletionStatus::Terminated))).unwrap(),
            Call::Cancel { index, reason } => state.cancelled.push((index, reason)),
            Call::Dropped { index } => state.dropped.push(index),
            Call::Checkpoint { label, state: bytes, reply } => {
                state.checkpoints.push((label, bytes.to_vec()));
                reply.send(()).unwrap();
            }
            Call::Ask { reply, .. } => reply.send(Err(AskError::Expired)).unwrap(),
            Call::Tool { name, input, reply } => {
                let result = if name == "grep" { Ok(input) } else { Err(ToolError::Denied("no such tool".into())) };
                reply.send(result).unwrap();
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    }
}

impl Team {
    fn session(&self) -> Session {
        Session::new(Arc::new(self.clone()), SessionPath::root(), 1 << 20)
    }

    async fn run(&self, guests: &Guests, steps: Value) -> Exit {
        load_script(guests).await.run(self.session(), steps.to_string().into(), nothing(), None).await
    }

    async fn results(&self, steps: Value) -> Vec<Value> {
        match self.run(&guests(true), steps).await {
            Exit::Answered(Ok(answer)) => serde_json::from_str(&answer).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_arrives_as_it_was_made() {
    let team = Team::default();
    let results = team
        .results(json!([
            {"do": "delegate", "capsule": "reader", "task": "read it", "deadline_ms": 250,
             "slice": {"tokens": 5, "depth": 1, "wall_ms": 9},
             "lend": [{"directory": "input", "path": "a/b", "name": "sub", "write": true}]},
            {"do": "delegate", "capsule": "stranger", "task": ""},
        ]))
        .await;
    assert_eq!(results[0]["ok"], 0);
    assert_eq!(results[1]["error"], "grants.delegate: not granted");
    let expected = DelegationRequest {
        capsule: "reader".into(),
        task: "read it".into(),
        slice: Some(Budget {
            tokens: Some(5),
            depth: Some(1),
            wall: Some(Duration::from_millis(9)),
            ..Budget::default()
        }),
        lend: vec![Lend { directory: "input".into(), path: "a/b".into(), name: "sub".into(), write: true }],
        deadline: Some(Duration::from_millis(250)),
    };
    assert_eq!(team.0.lock().unwrap().requests, [expected]);
}

#[tokio::test(start_paused = true)]
async fn everything_else_arrives_too() {
    let team = Team::default();
    let results = team
        .results(json!([
            {"do": "info"},
            {"do": "tool", "name": "grep", "input": "{}"},
            {"do": "tool", "name": "rm", "input": "{}"},
            {"do": "ask", "text": "may I?"},
            {"do": "checkpoint", "label": "half", "text": "state"},
            {"do": "delegate", "task": "x"},
            {"do": "status", "of": 0},
            {"do": "cancel", "of": 0, "reason": "enough"},
        ]))
        .await;
    assert_eq!(results[0]["ok"]["path"], "0.2.1");
    assert_eq!(results[0]["ok"]["depth"], 2);
    assert_eq!(results[0]["ok"]["deadline_ms"], 1500);
    assert_eq!(results[0]["ok"]["tokens"], 9);
    assert_eq!(results[0]["ok"]["wall_ms"], 1000);
    assert_eq!(results[0]["ok"]["attempt"], 2);
    assert_eq!(results[1]["ok"], "{}");
    assert_eq!(results[2]["error"], "denied: no such tool");
    assert_eq!(results[3]["error"], "expired");
    assert_eq!(results[6]["ok"], "ended terminated");
    let state = team.0.lock().unwrap();
    assert_eq!(state.checkpoints, [("half".to_owned(), b"state".to_vec())]);
    assert_eq!(state.cancelled, [(0, "enough".to_owned())]);
    assert_eq!(state.dropped, [0], "never waited for, so it is let go of with its guest");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_any_until_none_is_left_takes_each_once() {
    let team = Team::default();
    let results = team
        .results(json!([
            {"do": "delegate", "task": "x", "times": 5},
            {"do": "wait", "of": 2, "at_most_ms": 40},
            {"do": "wait", "of": 2},
            {"do": "wait-all"},
            {"do": "wait-any"},
        ]))
        .await;
    assert_eq!(results[1]["ok"]["answer"], "answer 2");
    assert_eq!(results[1]["ok"]["spent"]["tokens"], 7);
    assert_eq!(results[2]["ok"], Value::Null, "taken before");
    let order: Vec<u64> = results[3]["ok"].as_array().unwrap().iter().map(|c| c["index"].as_u64().unwrap()).collect();
    assert_eq!(order, [4, 3, 1, 0]);
    assert_eq!(results[4]["ok"], Value::Null);
    let state = team.0.lock().unwrap();
    assert_eq!(state.waits[0], (vec![2], Some(Duration::from_millis(40))));
    assert_eq!(state.waits[1], (vec![0, 1, 3, 4], None));
    assert!(state.dropped.is_empty(), "all were taken");
}

#[tokio::test(start_paused = true)]
async fn killed_in_a_wait_it_lets_go_of_all_it_holds() {
    let team = Team::default();
    team.0.lock().unwrap().silent = true;
    let guests = guests(true);
    let run = team.run(&guests, json!([{"do": "delegate", "task": "x", "times": 3}, {"do": "wait", "of": 1}]));
    assert!(tokio::time::timeout(Duration::from_secs(3600), run).await.is_err());
    let mut dropped = team.0.lock().unwrap().dropped.clone();
    dropped.sort_unstable();
    assert_eq!(dropped, [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_task_beyond_its_limit_is_refused_by_name() {
    let team = Team::default();
    // Held together by JSON, so the step itself stays below what one call may carry.
    let results = team.results(json!([{"do": "delegate", "task": "x".repeat((1 << 20) + 1)}])).await;
    let error = results[0]["error"].as_str().unwrap();
    assert!(error.contains("limits.task") && error.contains("1048577"), "{error}");
    assert!(team.0.lock().unwrap().requests.is_empty());
}
