//! What several promises are tested with.

use std::sync::Arc;
use std::time::Duration;

use treeward::agent::{Completion, Session, Task};
use treeward::fault::{Plan, Rule};
use treeward::ids::TreeId;
use treeward::journal::{Body, Journal, Kind, Limit, Stored};
use treeward::{Builder, Capsule, Runtime, Submission, Team};

pub const GRACE: Duration = Duration::from_secs(20);

/// A plan of rules as the command line takes them.
pub fn plan(rules: &[&str]) -> Plan {
    let rules = rules.iter().map(|rule| rule.parse::<Rule>().expect("a rule"));
    Plan::new(rules.collect())
}

/// A capsule that answers what `think` makes of its task.
pub fn leaf<F, R>(name: &str, think: F) -> Arc<Capsule>
where
    F: Fn(Session, Task) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, String>> + Send + 'static,
{
    Capsule::native(name, think).build().expect("a capsule")
}

/// A runtime in simulation. Use it on a paused current-thread runtime.
pub fn simulated() -> Builder {
    Runtime::builder().simulated().seed(7)
}

/// What one run left behind.
pub struct Ran {
    pub completion: Result<Completion, String>,
    pub bodies: Vec<Body>,
}

impl Ran {
    /// The kinds of record at one path, as `kind` names.
    pub fn kinds(&self, path: &str) -> Vec<&'static str> {
        self.at(path).map(|body| body.kind.name()).collect()
    }

    pub fn at<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Body> {
        self.bodies.iter().filter(move |body| body.path.to_string() == path)
    }

    pub fn count(&self, kind: &str) -> usize {
        self.bodies.iter().filter(|body| body.kind.name() == kind).count()
    }

    /// Checks what must hold after every run, whatever happened in it.
    pub fn check(&self) {
        use std::collections::BTreeSet;
        let mut sessions = BTreeSet::new();
        let mut delegations = BTreeSet::new();
        for body in &self.bodies {
            let at = (body.path.clone(), body.strand);
            match &body.kind {
                Kind::SessionStarted { .. } => assert!(sessions.insert(at), "{body:?} starts twice"),
                Kind::SessionEnded { .. } => assert!(sessions.remove(&at), "{body:?} ends what is not open"),
                Kind::Delegated { .. } => assert!(delegations.insert(at), "{body:?} is made twice"),
                Kind::DelegationEnded { .. } => assert!(delegations.remove(&at), "{body:?} ends what is not open"),
                _ => {}
            }
        }
        assert_eq!(sessions, BTreeSet::new(), "sessions without an ending");
        assert_eq!(delegations, BTreeSet::new(), "delegations without an ending");
        match &self.bodies.last().expect("records").kind {
            Kind::TreeEnded { refused, .. } => assert_eq!(*refused, 0, "records were refused: {:#?}", self.bodies),
            other => panic!("the tree did not end: {other:?}"),
        }
    }
}

/// Every record of a tree, from the journal itself.
pub async fn records(journal: &Journal, tree: TreeId) -> Vec<Stored> {
    let mut all = Vec::new();
    loop {
        let from = all.last().map_or(1, |last: &Stored| last.seq + 1);
        let page = journal.read(tree, from, Limit::default()).await.expect("a page");
        if page.records.is_empty() {
            return all;
        }
        all.extend(page.records);
    }
}

/// Runs one task to its end, in simulation unless the builder says otherwise.
pub async fn run(builder: Builder, submission: Submission) -> Ran {
    let runtime = builder.start().await.expect("a runtime");
    let places = runtime.free_places();
    let tree = runtime.submit(submission).await.expect("a tree");
    let id = tree.id();
    let completion = tree.completion().await.map_err(|error| error.to_string());
    let stored = match runtime.journal().health().borrow().is_poisoned() {
        true => Vec::new(),
        false => records(runtime.journal(), id).await,
    };
    let bodies = stored.iter().map(|stored| serde_json::from_str(&stored.body).expect("a body")).collect();
    assert_eq!(runtime.free_places(), places, "a place was not given back");
    let _failed_journal = runtime.stop(GRACE).await;
    Ran { completion, bodies }
}

/// A lead that delegates its task to each of `to` at once and joins the answers with commas, in order.
pub fn lead(to: &[&'static str]) -> Team {
    team(to, move |session: Session, task: Task, to: Vec<&'static str>| async move {
        let mut held = Vec::new();
        for name in to {
            held.push(session.delegate_to(name, task.text.clone()).await.map_err(|e| e.to_string())?);
        }
        let mut answers = Vec::new();
        for delegation in held {
            let completion = delegation.wait().await.map_err(|e| e.to_string())?;
            answers.push(match completion.detail {
                Some(why) => format!("{:?}: {why}", completion.status),
                None => completion.answer,
            });
        }
        Ok(answers.join(", "))
    })
}

/// A lead with the usual children: `echo`, `fail`, `panics`, `hangs`.
pub fn team<F, R>(to: &[&'static str], think: F) -> Team
where
    F: Fn(Session, Task, Vec<&'static str>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, String>> + Send + 'static,
{
    let names = to.to_vec();
    let lead = Capsule::native("lead", move |session: Session, task: Task| think(session, task, names.clone()))
        .delegates(["echo", "fail", "panics", "hangs"])
        .build()
        .expect("a lead");
    let echo = leaf("echo", |_, task| async move { Ok(task.text) });
    let fail = leaf("fail", |_, _| async { Err("I cannot".to_owned()) });
    let panics = leaf("panics", |_, _| async { panic!("out of cheese") });
    let hangs = leaf("hangs", |_, _| std::future::pending());
    Team::new(lead, [echo, fail, panics, hangs]).expect("a team")
}
