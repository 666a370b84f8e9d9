//! Native capsules, said in Rust what a manifest says in TOML.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::name::shown;
use super::terms::{Invalid, Terms};
use super::usage::Budget;
use super::value::{Capsule, Run, Tool, ToolRun};
use crate::agent::Agent;
use crate::supervision::RestartSpec;

/// A native capsule being described. Nothing is granted that is not said; [`build`](Self::build) validates it all.
#[must_use = "a described capsule is none until it is built"]
#[derive(Debug)]
pub struct Builder {
    terms: Terms,
    run: Run,
    tools: BTreeMap<String, Tool>,
    wrong: Option<Invalid>,
}

impl Builder {
    pub(crate) fn new(name: String, agent: Arc<dyn Agent>) -> Self {
        Self { terms: Terms::new(name), run: Run::Native(agent), tools: BTreeMap::new(), wrong: None }
    }

    fn wrong(&mut self, invalid: Invalid) {
        self.wrong.get_or_insert(invalid);
    }

    /// Its version.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.terms.version = version.into();
        self
    }

    /// What it does.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.terms.description = description.into();
        self
    }

    /// Directories it must be lent to read.
    pub fn read<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.terms.grants.read.extend(names.into_iter().map(Into::into));
        self
    }

    /// Directories it must be lent to read and write.
    pub fn write<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.terms.grants.write.extend(names.into_iter().map(Into::into));
        self
    }

    /// Environment variables it sees. (Native code sees them all; children of this capsule may be granted these.)
    pub fn env<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.terms.grants.env.extend(names.into_iter().map(Into::into));
        self
    }

    /// Hosts it may send HTTP requests to, like `https://api.example.com`.
    pub fn network<S: AsRef<str>>(mut self, hosts: impl IntoIterator<Item = S>) -> Self {
        for host in hosts {
            match host.as_ref().parse() {
                Ok(host) => drop(self.terms.grants.network.insert(host)),
                Err(bad) => self.wrong(Invalid::new("grants.network", bad)),
            }
        }
        self
    }

    /// Capsules of its team it may delegate to; its own name only where it is meant.
    pub fn delegates<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.terms.grants.delegate.extend(names.into_iter().map(Into::into));
        self
    }

    /// A tool as a Rust function. `changes_world`: whether a call may change something outside treeward.
    pub fn tool<F, R>(mut self, name: impl Into<String>, changes_world: bool, tool: F) -> Self
    where
        F: Fn(String) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, String>> + Send + 'static,
    {
        let name = name.into();
        let run = ToolRun::Native(Arc::new(move |input| Box::pin(tool(input))));
        if self.tools.contains_key(&name) {
            self.wrong(Invalid::new("tools", format!("`{}` is there twice", shown(&name))));
        }
        self.tools.insert(name, Tool { run, changes_world });
        self
    }

    /// Ceilings of a session of it and all below.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.terms.budget = budget;
        self
    }

    /// Children live at once; the next one is queued.
    pub fn live_children(mut self, children: u32) -> Self {
        self.terms.limits.live_children = Some(children);
        self
    }

    /// How long a delegation to it may take, unless the request says less.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.terms.limits.deadline = Some(deadline);
        self
    }

    /// How long without progress, of itself or below, is a stall.
    pub fn stall(mut self, stall: Duration) -> Self {
        self.terms.limits.stall = Some(stall);
        self
    }

    /// When a session of it is restarted.
    pub fn restart(mut self, restart: RestartSpec) -> Self {
        self.terms.restart = restart;
        self
    }

    /// The capsule, or the first key of it that makes no sense.
    pub fn build(self) -> Result<Arc<Capsule>, Invalid> {
        match self.wrong {
            Some(wrong) => Err(wrong),
            None => Capsule::new(self.terms, self.run, self.tools, None).map(Arc::new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(name: &str) -> Builder {
        Capsule::native(name, |_session, task| async move { Ok(task.text) })
    }

    #[test]
    fn nothing_is_granted_that_is_not_said() {
        let capsule = native("leaf").build().unwrap();
        assert_eq!(capsule.grants(), &super::super::Grants::default());
        assert!(!capsule.may_change_world() && capsule.budget().is_unlimited() && capsule.tools().is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_key() {
        let key = |builder: Builder| builder.build().unwrap_err().key;
        let minute = Duration::from_secs(60);
        let tool = |input: String| async move { Ok(input) };
        assert_eq!(key(native("No")), "name");
        assert_eq!(key(native("a").version("1 0")), "version");
        assert_eq!(key(native("a").description("\u{1b}[2J")), "description");
        assert_eq!(key(native("a").read(["../x"])), "grants.read");
        assert_eq!(key(native("a").read(["x"]).write(["x"])), "grants.read");
        assert_eq!(key(native("a").write([""])), "grants.write");
        assert_eq!(key(native("a").env(["A=B"])), "grants.env");
        assert_eq!(key(native("a").network(["https://*.b"])), "grants.network");
        assert_eq!(key(native("a").delegates(["B"])), "grants.delegate");
        assert_eq!(key(native("a").delegates((0..300).map(|n| format!("a{n}")))), "grants.delegate");
        assert_eq!(key(native("a").tool("x", true, tool).tool("x", false, tool)), "tools");
        assert_eq!(key(native("a").tool("a b", true, tool)), "tools");
        assert_eq!(key(native("a").live_children(0)), "limits.live_children");
        assert_eq!(key(native("a").deadline(Duration::ZERO)), "limits.deadline");
        assert_eq!(key(native("a").deadline(Duration::MAX)), "limits.deadline");
        assert_eq!(key(native("a").deadline(minute).stall(minute)), "limits.stall");
        let wall = Budget { wall: Some(Duration::MAX), ..Budget::default() };
        assert_eq!(key(native("a").budget(wall)), "budget.wall");
    }

    #[test]
    fn what_changes_the_world_is_known_and_what_differs_has_another_digest() {
        let tool = |input: String| async move { Ok(input) };
        assert!(native("a").tool("send", true, tool).build().unwrap().may_change_world());
        assert!(!native("a").tool("look", false, tool).build().unwrap().may_change_world());
        assert!(native("a").write(["work"]).build().unwrap().may_change_world());
        assert!(!native("a").read(["input"]).build().unwrap().may_change_world());
        let digest = |builder: Builder| builder.build().unwrap().digest();
        assert_eq!(digest(native("a")), digest(native("a")));
        assert_ne!(digest(native("a")), digest(native("b")));
        assert_ne!(digest(native("a")), digest(native("a").read(["input"])));
    }
}
