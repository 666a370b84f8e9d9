//! Ending what lost its warden: found by identity and by tag, killed through pidfds, confirmed.
//!
//! These functions wait. They are for a thread where that is allowed.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use nix::poll::PollTimeout;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use super::{proc, sys};
use crate::harness::identity::{Identity, RunTag};

/// How long keepers may take to end by themselves, as they do when their warden is gone.
const PATIENCE: u16 = 3_000;
/// How long what was killed is waited for before it is looked for again.
const LOOK: u16 = 1_000;

/// Ends these runs: their keepers, and every process that carries one of the tags. Returns when none is left; how many
/// processes had to be killed.
pub(super) fn end_runs(keepers: &[Identity], tags: &BTreeSet<RunTag>) -> u32 {
    let mut killed = end_keepers(keepers.iter().filter_map(open).collect());
    while let Some(more) = kill_all(|pid| proc::tag_of(pid).is_some_and(|tag| tags.contains(&tag))) {
        killed += more;
    }
    killed
}

/// Ends what belonged to treeward processes that are dead, of this user and in this PID namespace.
pub(super) fn end_abandoned() -> u32 {
    let user = geteuid().as_raw();
    let abandoned = |pid: i32| {
        fs::metadata(format!("/proc/{pid}")).is_ok_and(|process| process.uid() == user)
            && proc::tag_of(pid).is_some_and(|tag| tag.owner().is_dead())
    };
    // A warden and its keepers were started under a tag that is no run's. Stopped ones are woken: they then see that
    // treeward is gone, and know better than anybody what there is to end.
    let keepers: Vec<OwnedFd> = proc::all_pids()
        .into_iter()
        .filter(|pid| abandoned(*pid) && proc::tag_of(*pid).is_some_and(|tag| tag.is_of_a_warden()))
        .filter_map(|pid| sys::pidfd_open(pid).ok().filter(|_| abandoned(pid)))
        .collect();
    for keeper in &keepers {
        let _gone = sys::pidfd_signal(keeper.as_fd(), Some(Signal::SIGCONT), false);
    }
    let mut killed = end_keepers(keepers);
    while let Some(more) = kill_all(abandoned) {
        killed += more;
    }
    killed
}

/// The pidfd of that very process.
fn open(identity: &Identity) -> Option<OwnedFd> {
    // Looked at again behind the opening: from then on the descriptor means it, or nobody.
    sys::pidfd_open(identity.pid).ok().filter(|_| identity.holds())
}

fn end_keepers(keepers: Vec<OwnedFd>) -> u32 {
    let mut patience = PollTimeout::from(PATIENCE);
    let mut killed = 0;
    for keeper in keepers {
        if sys::pidfd_ended(&keeper, patience) {
            continue;
        }
        // The others had this time too.
        patience = PollTimeout::ZERO;
        killed += 1;
        kill_and_wait(&keeper);
    }
    killed
}

fn kill_and_wait(pidfd: &OwnedFd) {
    // The kernel may take its time over a process that waits for a disk; it is not gone before it is gone.
    loop {
        let _gone = sys::pidfd_signal(pidfd.as_fd(), Some(Signal::SIGKILL), false);
        if sys::pidfd_ended(pidfd, PollTimeout::from(LOOK)) {
            return;
        }
    }
}

/// One pass: kills all that match and waits for their end. `None` when there was none.
fn kill_all(matches: impl Fn(i32) -> bool) -> Option<u32> {
    let own = nix::unistd::getpid().as_raw();
    let found: Vec<OwnedFd> = proc::all_pids()
        .into_iter()
        .filter(|pid| *pid != own && matches(*pid))
        // Looked at again behind the opening, since the pid may have changed hands.
        .filter_map(|pid| sys::pidfd_open(pid).ok().filter(|_| matches(pid)))
        .inspect(|pidfd| {
            let _gone = sys::pidfd_signal(pidfd.as_fd(), Some(Signal::SIGKILL), false);
        })
        .collect();
    found.iter().for_each(kill_and_wait);
    let killed = u32::try_from(found.len()).unwrap_or(u32::MAX);
    (killed > 0).then_some(killed)
}
