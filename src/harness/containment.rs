//! What holds the processes of a run on this machine, and what is missing for the next better thing.

use std::fmt;
use std::sync::Arc;

/// What guarantees that no descendant of a run outlives it. The last holds most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// Each run has a keeper that adopts whatever its leader abandons, and kills until none is left. What outlives the
    /// keeper itself is found by the run's tag.
    Subreaper,
    /// Each run is a PID namespace inside a user namespace: the kernel ends all of it at once.
    UserPidNamespace,
    /// Each run is a PID namespace: the kernel ends all of it at once.
    PidNamespace,
}

/// What holds on this machine, tried out when the warden started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containment {
    /// What ends a run.
    pub isolation: Isolation,
    /// Why it is not a better one: one line for each that was tried, with what to do.
    pub missing: Arc<[String]>,
    /// The control group in which each run gets a leaf of its own, where one can be made.
    pub control_group: Option<Arc<str>>,
    /// How many processes a run may have is enforced for it alone.
    pub limits_processes: bool,
    /// How much memory a run may take is enforced for all its processes together, not for each by itself.
    pub limits_memory: bool,
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let promise = match self.isolation {
            Isolation::PidNamespace => {
                "a PID namespace for each run: the kernel leaves nothing of it, however treeward ends"
            }
            Isolation::UserPidNamespace => {
                "a PID and a user namespace for each run: the kernel leaves nothing of it, however treeward ends"
            }
            Isolation::Subreaper => {
                "a subreaper for each run: nothing of it is left, also when treeward is killed; what survives the death of \
                 treeward and of the run's keeper at once is swept at the next start"
            }
        };
        writeln!(f, "{promise}")?;
        match &self.control_group {
            Some(group) => writeln!(f, "a control group for each run, below {group}")?,
            None => writeln!(f, "no control groups")?,
        }
        let processes = if self.limits_processes { "for each run alone" } else { "not enforced here" };
        let memory = if self.limits_memory { "for each run as a whole" } else { "for each process by itself" };
        write!(f, "limits: processes {processes}, memory {memory}")?;
        for line in &*self.missing {
            write!(f, "\nmissing: {line}")?;
        }
        Ok(())
    }
}
