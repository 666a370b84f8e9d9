//! What `/proc` says about processes. It changes while it is read: what is gone meanwhile is left out.

use std::fs;
use std::path::Path;

use crate::harness::identity::{RunTag, TAG_VARIABLE};

/// Bytes of an environment that are searched for a tag. Longer ones cannot be given to a program.
const MAX_ENVIRON: u64 = 4 << 20;

/// The children of this single-threaded process, those it adopted included, zombies too.
pub(super) fn own_children() -> Vec<i32> {
    match fs::read_to_string("/proc/thread-self/children") {
        Ok(text) => text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        // A kernel without CONFIG_PROC_CHILDREN.
        Err(_) => {
            let own = nix::unistd::getpid().as_raw();
            all_pids().into_iter().filter(|pid| parent_of(*pid) == Some(own)).collect()
        }
    }
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Every process this `/proc` shows.
pub(super) fn all_pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The tag in a process's environment, where it has one and it can be read.
pub(super) fn tag_of(pid: i32) -> Option<RunTag> {
    use std::io::Read as _;
    let mut environ = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(MAX_ENVIRON).read_to_end(&mut environ).ok()?;
    tag_in(&environ)
}

fn tag_in(environ: &[u8]) -> Option<RunTag> {
    let value = environ
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(TAG_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The pid behind a pidfd, in the PID namespace of the reader; `None` where it is not in it, or gone.
pub(super) fn pid_behind(pidfd: std::os::fd::RawFd) -> Option<i32> {
    let info = fs::read_to_string(Path::new("/proc/self/fdinfo").join(pidfd.to_string())).ok()?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()?;
    (pid > 0).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_the_whole_value_of_its_variable_and_of_no_other() {
        let tag = RunTag::new([7; 16]);
        let found = |environ: &str| tag_in(environ.as_bytes());
        assert_eq!(found(&format!("A=1\0TREEWARD_RUN={tag}\0B=2\0")), Some(tag.clone()));
        assert_eq!(found(&format!("TREEWARD_RUN={tag}")), Some(tag.clone()));
        assert_eq!(found(&format!("XTREEWARD_RUN={tag}\0")), None);
        assert_eq!(found(&format!("TREEWARD_RUNS={tag}\0")), None);
        assert_eq!(found(&format!("A=TREEWARD_RUN={tag}\0")), None);
        assert_eq!(found(&format!("TREEWARD_RUN={tag} \0")), None);
        assert_eq!(found(""), None);
    }
}
