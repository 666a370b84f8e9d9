//! Going into isolation: what a keeper does to itself before it starts the leader.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{getegid, geteuid, getpid};

use super::proc;
use crate::harness::containment::Isolation;

/// What a keeper is forked with.
pub(super) fn flags(isolation: Isolation) -> libc::c_int {
    match isolation {
        Isolation::Subreaper => 0,
        Isolation::PidNamespace => libc::CLONE_NEWPID | libc::CLONE_NEWNS,
        Isolation::UserPidNamespace => libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWUSER,
    }
}

/// What is done, in order: each is a step that a machine may not allow.
pub(super) const STEPS: [&str; 9] = [
    "being told of the warden's death",
    "becoming a subreaper",
    "denying setgroups",
    "mapping the user",
    "mapping the group",
    "keeping its mounts to itself",
    "mounting a /proc of its own",
    "being the first process of its namespace",
    "making the namespaces",
];
/// The step that [`enter`] cannot see: it comes before.
pub(super) const FORK: u8 = 8;

/// A step that this machine does not allow, by its place in [`STEPS`].
pub(super) struct Refused {
    pub(super) step: u8,
    pub(super) errno: Errno,
}

/// Completes the isolation of this process, which was forked with [`flags`]. `outside` is who it was before.
pub(super) fn enter(isolation: Isolation, outside: Outside) -> Result<(), Refused> {
    let step = |step| move |errno| Refused { step, errno };
    if isolation == Isolation::Subreaper {
        // The warden's death closes the control socket; a stopped keeper has to be woken to see it.
        prctl::set_pdeathsig(Signal::SIGCONT).map_err(step(0))?;
        return prctl::set_child_subreaper(true).map_err(step(1));
    }
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(step(0))?;
    if isolation == Isolation::UserPidNamespace {
        let Outside { user, group } = outside;
        let map =
            |step, file, text: String| fs::write(file, text).map_err(|error| Refused { step, errno: errno_of(&error) });
        map(2, "/proc/self/setgroups", "deny".to_owned())?;
        map(3, "/proc/self/uid_map", format!("{user} {user} 1"))?;
        map(4, "/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none).map_err(step(5))?;
    let hardened = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), hardened, none).map_err(step(6))?;
    // That /proc shows this namespace is what tells what is left in it.
    if getpid().as_raw() == 1 && proc::all_pids() == [1] {
        Ok(())
    } else {
        Err(Refused { step: 7, errno: Errno::EINVAL })
    }
}

/// Who a keeper is outside its user namespace: asked before it is made.
#[derive(Clone, Copy)]
pub(super) struct Outside {
    user: nix::unistd::Uid,
    group: nix::unistd::Gid,
}

impl Outside {
    pub(super) fn ask() -> Self {
        Self { user: geteuid(), group: getegid() }
    }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}
