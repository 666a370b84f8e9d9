//! What this machine really allows: tried, not guessed.

use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::control::{Control, Heard, Note};
use super::group::Groups;
use super::namespace::{self, FORK, Outside, Refused, STEPS};
use super::sys::{Forked, SingleThreaded, close_all_but, exit_now, fork};
use crate::harness::containment::{Containment, Isolation};

/// How long a trial may take, in milliseconds. One that hangs is one that failed.
const PATIENCE: u16 = 5_000;

const WORDS: [(&str, Isolation); 3] = [
    ("subreaper", Isolation::Subreaper),
    ("user-pid-namespace", Isolation::UserPidNamespace),
    ("pid-namespace", Isolation::PidNamespace),
];

/// As an argument of the warden.
pub(super) fn isolation_word(isolation: Isolation) -> &'static str {
    WORDS.iter().find(|(_, other)| *other == isolation).map_or(WORDS[0].0, |(word, _)| word)
}

pub(super) fn isolation_from(word: &str) -> Option<Isolation> {
    WORDS.iter().find(|(other, _)| *other == word).map(|(_, isolation)| *isolation)
}

/// The best there is, no better than `at_most`, with the reasons why it is not better.
pub(super) fn best(
    proof: &SingleThreaded,
    at_most: Isolation,
    groups: &Groups,
    no_unified: Option<String>,
) -> Containment {
    let mut missing = Vec::new();
    let mut isolation = Isolation::Subreaper;
    for better in [Isolation::PidNamespace, Isolation::UserPidNamespace] {
        if better > at_most {
            missing.push(format!("`{}` was not tried: the warden was started without it", isolation_word(better)));
            continue;
        }
        match attempt(proof, better) {
            Ok(()) => {
                isolation = better;
                break;
            }
            Err(Refused { step, errno }) => missing.push(advice(better, step, errno)),
        }
    }
    missing.extend(no_unified);
    Containment {
        isolation,
        missing: missing.into(),
        control_group: groups.name(),
        limits_processes: groups.limits_processes() || isolation == Isolation::UserPidNamespace,
        limits_memory: groups.limits_memory(),
    }
}

fn advice(isolation: Isolation, step: u8, errno: Errno) -> String {
    let step = STEPS.get(step as usize).copied().unwrap_or("a step unknown");
    let reason = errno.desc();
    match isolation {
        Isolation::UserPidNamespace => format!(
            "a PID namespace in a user namespace for each run: {step}: {reason}; allow user namespaces \
             (kernel.unprivileged_userns_clone, user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)"
        ),
        _ => format!("a PID namespace for each run: {step}: {reason}; it takes root, or CAP_SYS_ADMIN in a container"),
    }
}

fn attempt(proof: &SingleThreaded, isolation: Isolation) -> Result<(), Refused> {
    let refused = |errno| Refused { step: FORK, errno };
    let (mine, theirs) = Control::pair().map_err(refused)?;
    let outside = Outside::ask();
    let child = match fork(proof, namespace::flags(isolation)).map_err(refused)? {
        Forked::Child => {
            close_all_but(proof, &[theirs.as_raw_fd()]);
            let note = match namespace::enter(isolation, outside) {
                Ok(()) => Note::Works,
                Err(Refused { step, errno }) => Note::Refused { step, errno: errno as i32 },
            };
            theirs.send(note, None);
            exit_now(0)
        }
        Forked::Parent(child) => Pid::from_raw(child),
    };
    drop(theirs);
    let mut fds = [PollFd::new(std::os::fd::AsFd::as_fd(&mine), PollFlags::POLLIN)];
    let _ready_or_late = poll(&mut fds, PollTimeout::from(PATIENCE));
    let outcome = match mine.hear() {
        Heard::Note(Note::Works, _) => Ok(()),
        Heard::Note(Note::Refused { step, errno }, _) => Err(Refused { step, errno: Errno::from_raw(errno) }),
        Heard::Note(..) | Heard::Nothing | Heard::Closed => Err(refused(Errno::ETIMEDOUT)),
    };
    let _gone = kill(child, Signal::SIGKILL);
    let _reaped = waitpid(child, None);
    outcome
}
