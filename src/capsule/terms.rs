//! What a capsule says about itself, however it was written: the part a manifest and a native agent share.

use std::time::Duration;

use super::grants::{Grants, is_variable};
use super::name::check_name;
use super::usage::Budget;
use crate::limits::Limits;
use crate::supervision::RestartSpec;

/// How many entries one list of a capsule may have.
pub(crate) const MOST_ENTRIES: usize = 256;
const LONGEST_VERSION: usize = 64;
const LONGEST_DESCRIPTION: usize = 4096;
const MEMORY: std::ops::RangeInclusive<u64> = 64 << 10..=4 << 30;
const LIVE_CHILDREN: std::ops::RangeInclusive<u32> = 1..=65_536;

/// The limits a capsule sets for its own sessions. An absent one is the runtime's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CapsuleLimits {
    /// Bytes of a guest's linear memory.
    pub memory: Option<u64>,
    /// Children live at once; the next one is queued.
    pub live_children: Option<u32>,
    /// How long a delegation to this capsule may take, unless the request says less.
    #[serde(serialize_with = "millis")]
    pub deadline: Option<Duration>,
    /// How long without progress, of itself or below, is a stall.
    #[serde(serialize_with = "millis")]
    pub stall: Option<Duration>,
    /// How long a guest may run in all, its waits in host calls not counted.
    #[serde(serialize_with = "millis")]
    pub running: Option<Duration>,
}

fn millis<S: serde::Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&value.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)), serializer)
}

impl CapsuleLimits {
    /// Bytes of a guest's linear memory. More than the runtime's cannot be had: whoever starts the guest refuses it.
    pub fn memory(&self, runtime: &Limits) -> u64 {
        self.memory.unwrap_or(runtime.guest_memory)
    }

    /// Children live at once.
    pub fn live_children(&self, runtime: &Limits) -> u32 {
        self.live_children.unwrap_or(runtime.live_children)
    }

    /// How long a delegation may take where the request does not say.
    pub fn deadline(&self, runtime: &Limits) -> Duration {
        self.deadline.unwrap_or(runtime.deadline)
    }

    /// What is a stall. Timers are ordered: it never comes after the deadline.
    pub fn stall(&self, runtime: &Limits) -> Duration {
        self.stall.unwrap_or(runtime.stall).min(self.deadline(runtime))
    }

    /// How long a guest may run.
    pub fn running(&self, runtime: &Limits) -> Duration {
        self.running.unwrap_or(runtime.guest_running)
    }
}

/// A capsule that makes no sense: the key at fault, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct Invalid {
    /// The manifest key (`grants.write`, `limits.stall`).
    pub key: String,
    /// Which of several values under that key, where there are several.
    pub value: Option<String>,
    /// What is wrong and what to do.
    pub reason: String,
}

impl Invalid {
    pub(crate) fn new(key: impl Into<String>, reason: impl ToString) -> Self {
        Self { key: key.into(), value: None, reason: reason.to_string() }
    }

    fn of(key: &str, value: &str, reason: impl ToString) -> Self {
        Self { value: Some(value.to_owned()), ..Self::new(key, reason) }
    }
}

/// Name, grants, budget, limits and restart rules of a capsule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) grants: Grants,
    pub(crate) budget: Budget,
    pub(crate) limits: CapsuleLimits,
    pub(crate) restart: RestartSpec,
}

impl Terms {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            version: String::new(),
            description: String::new(),
            grants: Grants::default(),
            budget: Budget::default(),
            limits: CapsuleLimits::default(),
            restart: RestartSpec::default(),
        }
    }

    /// Refuses what makes no sense.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        check_name(&self.name).map_err(|bad| Invalid::new("name", bad))?;
        self.check_texts()?;
        self.check_grants()?;
        self.check_limits()
    }

    fn check_texts(&self) -> Result<(), Invalid> {
        if self.version.len() > LONGEST_VERSION || self.version.contains(|c: char| c.is_control() || c.is_whitespace())
        {
            return Err(Invalid::new("version", "a version is at most 64 bytes, without spaces, like `0.2.0`"));
        }
        let unprintable = |c: char| c.is_control() && c != '\n';
        if self.description.len() > LONGEST_DESCRIPTION || self.description.contains(unprintable) {
            return Err(Invalid::new("description", "a description is at most 4096 bytes, without control characters"));
        }
        Ok(())
    }

    fn check_grants(&self) -> Result<(), Invalid> {
        let Grants { read, write, env, network, delegate } = &self.grants;
        for (key, names) in [("grants.read", read), ("grants.write", write), ("grants.delegate", delegate)] {
            for name in names {
                check_name(name).map_err(|bad| Invalid::of(key, name, bad))?;
            }
        }
        for (key, count) in [
            ("grants.read", read.len()),
            ("grants.write", write.len()),
            ("grants.env", env.len()),
            ("grants.network", network.len()),
            ("grants.delegate", delegate.len()),
        ] {
            if count > MOST_ENTRIES {
                return Err(Invalid::new(key, format!("{count} entries; at most {MOST_ENTRIES}")));
            }
        }
        if let Some(both) = read.intersection(write).next() {
            let reason = format!("`{both}` is in grants.write too, which includes reading; take it out of grants.read");
            return Err(Invalid::of("grants.read", both, reason));
        }
        if let Some(bad) = env.iter().find(|name| !is_variable(name)) {
            let reason = format!("`{}` is not the name of an environment variable", super::name::shown(bad));
            return Err(Invalid::of("grants.env", bad, reason));
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), Invalid> {
        let CapsuleLimits { memory, live_children, deadline, stall, running } = self.limits;
        if memory.is_some_and(|memory| !MEMORY.contains(&memory)) {
            return Err(Invalid::new("limits.memory", "must be from 64KiB to 4GiB"));
        }
        if live_children.is_some_and(|children| !LIVE_CHILDREN.contains(&children)) {
            return Err(Invalid::new("limits.live_children", "must be from 1 to 65536"));
        }
        let times = [
            ("limits.deadline", deadline),
            ("limits.stall", stall),
            ("limits.running", running),
            ("budget.wall", self.budget.wall),
        ];
        for (key, time) in times {
            if time.is_some_and(|time| !super::quantity::DURATIONS.contains(&time)) {
                return Err(Invalid::new(key, "must be from 1ms to 365days"));
            }
        }
        if let (Some(stall), Some(deadline)) = (stall, deadline)
            && stall >= deadline
        {
            return Err(Invalid::new("limits.stall", "must be shorter than limits.deadline, or it could never strike"));
        }
        Ok(())
    }
}
