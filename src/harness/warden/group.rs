//! Control groups: a leaf for each run, where one can really be made.
//!
//! A directory of the right name proves nothing (on a tmpfs the same names become plain files), so the file system's magic
//! is looked at, and a leaf is made for trial. Version 2 is preferred; of version 1 the `pids` and `memory` hierarchies
//! carry limits too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};

use crate::harness::identity::{Identity, start_ticks};
use crate::harness::process::ProcessLimits;

/// What a hierarchy can do for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Version 2, with both controllers.
    Unified,
    /// Version 1's `pids`.
    Processes,
    /// Version 1's `memory`.
    Memory,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Unified, Self::Processes, Self::Memory];

    /// The files that must be in a leaf.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Unified => &["cgroup.procs", "cgroup.kill", "pids.max", "memory.max"],
            Self::Processes => &["cgroup.procs", "pids.max"],
            Self::Memory => &["cgroup.procs", "memory.limit_in_bytes"],
        }
    }

    /// Its line in `/proc/self/cgroup` has this second field.
    fn is_named(self, controllers: &str) -> bool {
        let has = |name| controllers.split(',').any(|controller| controller == name);
        match self {
            Self::Unified => controllers.is_empty(),
            Self::Processes => has("pids"),
            Self::Memory => has("memory"),
        }
    }

    fn has_magic(self, directory: &Path) -> bool {
        let magic = if self == Self::Unified { CGROUP2_SUPER_MAGIC } else { CGROUP_SUPER_MAGIC };
        statfs(directory).is_ok_and(|found| found.filesystem_type() == magic)
    }
}

/// The hierarchies in which a leaf can be made.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    parents: Vec<(Kind, PathBuf)>,
}

impl Groups {
    /// Looks for them, and clears away the leaves of wardens that are gone. Beside it: what stands in the way of version 2.
    pub(super) fn look() -> (Self, Option<String>) {
        let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut parents = Vec::new();
        let mut missing = Some("cgroup v2 is not mounted here".to_owned());
        for kind in Kind::ALL {
            let Some(directory) = own_directory(kind, &cgroup, &mounts) else { continue };
            let usable = usable(kind, &directory);
            if kind == Kind::Unified {
                missing = usable.as_ref().err().cloned();
            }
            if usable.is_ok() {
                clear(&directory);
                parents.push((kind, directory));
            }
            // Version 2 with its controllers leaves nothing for version 1 to do.
            if kind == Kind::Unified && missing.is_none() {
                break;
            }
        }
        (Self { parents }, missing)
    }

    fn has(&self, kind: Kind) -> bool {
        self.parents.iter().any(|(other, _)| *other == kind)
    }

    pub(super) fn limits_processes(&self) -> bool {
        self.has(Kind::Unified) || self.has(Kind::Processes)
    }

    pub(super) fn limits_memory(&self) -> bool {
        self.has(Kind::Unified) || self.has(Kind::Memory)
    }

    /// For people.
    pub(super) fn name(&self) -> Option<Arc<str>> {
        let names: Vec<String> = self.parents.iter().map(|(_, directory)| directory.display().to_string()).collect();
        (!names.is_empty()).then(|| names.join(" and ").into())
    }

    /// A leaf with these limits, for a run of this warden; `None` where there is nothing to be had from one.
    pub(super) fn leaf(&self, run: u64, limits: ProcessLimits) -> io::Result<Option<Leaf>> {
        let own = Identity::own();
        let name = format!("{LEAF}{}-{}-{run}", own.pid, own.start_ticks);
        let mut leaf = Leaf { directories: Vec::new() };
        for (kind, parent) in &self.parents {
            let wanted = match kind {
                Kind::Unified => true,
                Kind::Processes => limits.processes.is_some(),
                Kind::Memory => limits.memory.is_some(),
            };
            if wanted && let Err(error) = leaf.add(*kind, parent.join(&name), limits) {
                leaf.remove();
                return Err(error);
            }
        }
        Ok((!leaf.directories.is_empty()).then_some(leaf))
    }
}

const LEAF: &str = "treeward-";

/// One run's control groups.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    directories: Vec<(Kind, PathBuf)>,
}

impl Leaf {
    fn add(&mut self, kind: Kind, directory: PathBuf, limits: ProcessLimits) -> io::Result<()> {
        fs::create_dir(&directory)?;
        self.directories.push((kind, directory.clone()));
        let write = |file: &str, value: u64| fs::write(directory.join(file), value.to_string());
        let (pids, memory) = match kind {
            Kind::Unified => (Some("pids.max"), Some("memory.max")),
            Kind::Processes => (Some("pids.max"), None),
            Kind::Memory => (None, Some("memory.limit_in_bytes")),
        };
        if let (Some(file), Some(processes)) = (pids, limits.processes) {
            // The keeper is one of them.
            write(file, processes.saturating_add(1))?;
        }
        if let (Some(file), Some(memory)) = (memory, limits.memory) {
            write(file, memory)?;
        }
        Ok(())
    }

    /// Puts this process into it.
    pub(super) fn join(&self) -> io::Result<()> {
        self.directories.iter().try_for_each(|(_, directory)| fs::write(directory.join("cgroup.procs"), "0"))
    }

    /// Kills all that are in it, where the kernel can.
    pub(super) fn kill(&self) {
        for (kind, directory) in &self.directories {
            if *kind == Kind::Unified {
                let _gone = fs::write(directory.join("cgroup.kill"), "1");
            }
        }
    }

    /// Whether it could be taken away: only when nothing is left in it.
    pub(super) fn remove(&self) -> bool {
        self.directories.iter().fold(true, |all, (_, directory)| {
            let gone = match fs::remove_dir(directory) {
                Ok(()) => true,
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            };
            all && gone
        })
    }
}

/// Where this process's own group of that hierarchy is mounted.
fn own_directory(kind: Kind, cgroup: &str, mounts: &str) -> Option<PathBuf> {
    let own = cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        kind.is_named(controllers).then(|| fields.next()).flatten()
    })?;
    mounts.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let (mut front, mut back) = (front.split(' ').skip(3), back.split(' '));
        let (root, point) = (front.next()?, front.next()?);
        let matches = match kind {
            Kind::Unified => back.next()? == "cgroup2",
            Kind::Processes | Kind::Memory => back.next()? == "cgroup" && kind.is_named(back.nth(1)?),
        };
        let below = Path::new(own).strip_prefix(root).ok()?;
        matches.then(|| Path::new(point).join(below))
    })
}

fn usable(kind: Kind, directory: &Path) -> Result<(), String> {
    let place = directory.display();
    if !kind.has_magic(directory) {
        return Err(format!("{place} is no cgroup file system"));
    }
    let own = Identity::own();
    let trial = directory.join(format!("{LEAF}{}-{}-trial", own.pid, own.start_ticks));
    if let Err(error) = fs::create_dir(&trial) {
        return Err(format!("no control group can be made below {place}: {error}; run treeward in a delegated one"));
    }
    let lacking: Vec<&str> = kind.files().iter().copied().filter(|file| !trial.join(file).exists()).collect();
    let _left_for_the_next_start = fs::remove_dir(&trial);
    if lacking.is_empty() {
        return Ok(());
    }
    Err(format!(
        "a cgroup v2 leaf for each run: no {} below {place}; enable pids and memory in its cgroup.subtree_control",
        lacking.join(", ")
    ))
}

/// Takes away the empty leaves of wardens that are gone.
fn clear(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| owner_of(name).is_some_and(|(pid, start)| start_ticks(pid) != Some(start)))
        {
            // Not removed while something is in it.
            let _not_empty = fs::remove_dir(entry.path());
        }
    }
}

fn owner_of(name: &str) -> Option<(i32, u64)> {
    let mut fields = name.strip_prefix(LEAF)?.split('-');
    let owner = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    fields.next().and(Some(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:27 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
32 31 0:28 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw
33 31 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 31 0:30 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";

    #[test]
    fn the_own_group_is_found_below_its_mount() {
        let own = |kind, cgroup| own_directory(kind, cgroup, MOUNTS);
        assert_eq!(own(Kind::Unified, "0::/user.slice/a"), Some("/sys/fs/cgroup/unified/user.slice/a".into()));
        assert_eq!(own(Kind::Processes, "8:pids:/\n0::/"), Some("/sys/fs/cgroup/pids/".into()));
        assert_eq!(own(Kind::Memory, "4:memory:/docker/x/y"), Some("/sys/fs/cgroup/memory/y".into()));
        // Mounted from a root that the own group is not below: not reachable from here.
        assert_eq!(own(Kind::Memory, "4:memory:/other"), None);
        assert_eq!(own(Kind::Processes, "4:cpu,cpuacct:/"), None);
        assert_eq!(own(Kind::Unified, ""), None);
    }

    #[test]
    fn plain_directories_are_no_control_groups() {
        let directory = tempfile::tempdir().unwrap();
        for file in Kind::Unified.files() {
            fs::write(directory.path().join(file), "").unwrap();
        }
        let refused = usable(Kind::Unified, directory.path()).unwrap_err();
        assert!(refused.contains("is no cgroup file system"), "{refused}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4, "something was written there");
    }

    #[test]
    fn a_leaf_names_its_warden() {
        assert_eq!(owner_of("treeward-12-345-0"), Some((12, 345)));
        assert_eq!(owner_of("treeward-12-345-trial"), Some((12, 345)));
        for other in ["treeward", "treeward-", "treeward-12-345", "treeward-x-345-0", "user.slice"] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }
}
