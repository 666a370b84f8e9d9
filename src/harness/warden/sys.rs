//! The system calls that neither the standard library nor nix offers as safe functions. All of treeward's `unsafe` is here.
#![allow(unsafe_code, reason = "each block says why it is sound")]

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;
use tokio::io::unix::AsyncFd;

use crate::harness::process::ExitStatus;

/// A descriptor for a process, which unlike its pid never comes to mean another one.
pub(super) fn pidfd_open(pid: i32) -> nix::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers; what it returns is a new descriptor that nobody else owns. Always close-on-exec.
    unsafe {
        let fd = Errno::result(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// Sends `signal` (`None`: only asks whether one could be sent) to the process behind a pidfd, or to its group.
/// A process that was reaped gives `ESRCH`.
pub(super) fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: Option<Signal>, group: bool) -> nix::Result<()> {
    /// Since Linux 6.9; `EINVAL` before.
    const PIDFD_SIGNAL_PROCESS_GROUP: libc::c_uint = 1 << 2;
    let number = signal.map_or(0, |signal| signal as libc::c_int);
    let flags = if group { PIDFD_SIGNAL_PROCESS_GROUP } else { 0 };
    // SAFETY: the descriptor is open for as long as it is borrowed; a null siginfo asks for the kernel's own.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            number,
            std::ptr::null::<libc::siginfo_t>(),
            flags,
        )
    };
    Errno::result(result).map(drop)
}

/// Proof that this process has one thread and is to keep one: only then may a forked child go on with ordinary code.
#[derive(Debug)]
pub(super) struct SingleThreaded(());

impl SingleThreaded {
    /// Counts the threads.
    pub(super) fn check() -> io::Result<Self> {
        match fs::read_dir("/proc/self/task")?.count() {
            1 => Ok(Self(())),
            threads => Err(io::Error::other(format!("the warden must have one thread, not {threads}"))),
        }
    }
}

/// Who returned from a fork.
pub(super) enum Forked {
    Child,
    Parent(i32),
}

/// Forks into new namespaces (`CLONE_NEW…`; none: an ordinary fork).
pub(super) fn fork(_proof: &SingleThreaded, namespaces: libc::c_int) -> nix::Result<Forked> {
    if namespaces == 0 {
        // SAFETY: the one thread of this process is the one that forks, so no lock is held by one that is not copied.
        return match unsafe { nix::unistd::fork()? } {
            nix::unistd::ForkResult::Child => Ok(Forked::Child),
            nix::unistd::ForkResult::Parent { child } => Ok(Forked::Parent(child.as_raw())),
        };
    }
    // SAFETY: zero is a valid value for every field of this plain struct of integers.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = namespaces as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM and without a stack this is a fork: the child has a copy of this memory and goes on here.
    // As above there is no other thread. The struct outlives the call and its size is its own.
    let result =
        unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, std::mem::size_of::<libc::clone_args>()) };
    match Errno::result(result)? {
        0 => Ok(Forked::Child),
        child => Ok(Forked::Parent(child as i32)),
    }
}

/// Ends this process at once: no destructor, no exit handler of the program it was forked from.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no precondition.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor but these.
///
/// For a process that was just forked and uses only `keep` from now on: whatever else in its copied memory still owns a
/// descriptor is never touched again.
pub(super) fn close_all_but(_proof: &SingleThreaded, keep: &[RawFd]) {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    let mut from: libc::c_uint = 0;
    for fd in keep.into_iter().map(|fd| fd as libc::c_uint).chain([libc::c_uint::MAX]) {
        if fd > from {
            // SAFETY: closing descriptors touches no memory; that none of them is used again is this function's contract.
            unsafe { libc::syscall(libc::SYS_close_range, from, fd - 1, 0) };
        }
        from = fd.saturating_add(1);
    }
}

/// Owns a descriptor that the kernel just handed to this process.
pub(super) fn received(fd: RawFd) -> OwnedFd {
    // SAFETY: called once for each number in an SCM_RIGHTS message, and once for standard input at the start of the warden:
    // the kernel opened it for this process and nothing else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Every signal does what it does by default again, also those that the C library keeps to itself: a process inherits what
/// its parent ignored.
pub(super) fn default_signals() {
    /// Larger than the kernel's struct on any architecture: no handler, no flags, an empty mask.
    static DEFAULT: [u64; 8] = [0; 8];
    for number in 1..=64 {
        // SAFETY: the kernel reads a sigaction from memory that is there and long enough, and writes nothing. The default
        // disposition runs no code of this process. For SIGKILL and SIGSTOP it refuses.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, number, DEFAULT.as_ptr(), std::ptr::null_mut::<u64>(), 8_usize);
        }
    }
}

/// These signals are ignored from now on.
pub(super) fn ignore_signals(numbers: &[libc::c_int]) {
    for number in numbers {
        // SAFETY: ignoring runs no code of this process.
        unsafe { libc::signal(*number, libc::SIG_IGN) };
    }
}

/// A child that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) pid: i32,
    pub(super) status: ExitStatus,
}

/// A child (`Some`: this one) that ended, without waiting for one. `reap` takes it away; otherwise it stays, and keeps its
/// pid. `Ok(None)`: none has ended. `ECHILD`: there is none.
pub(super) fn wait(child: Option<i32>, reap: bool) -> nix::Result<Option<Ended>> {
    let (kind, id) = child.map_or((libc::P_ALL, 0), |pid| (libc::P_PID, pid as libc::id_t));
    let flags = libc::WEXITED | libc::WNOHANG | if reap { 0 } else { libc::WNOWAIT };
    // SAFETY: siginfo_t is plain data for which zeroes are valid, and outlives the call. si_pid and si_status are what
    // waitid fills in; si_pid stays zero when no child has ended.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        Errno::result(libc::waitid(kind, id, &raw mut info, flags))?;
        if info.si_pid() == 0 {
            return Ok(None);
        }
        let status = match info.si_code {
            libc::CLD_EXITED => ExitStatus::Code(info.si_status()),
            _ => ExitStatus::Signal(info.si_status()),
        };
        Ok(Some(Ended { pid: info.si_pid(), status }))
    }
}

/// Whether a pidfd's process has ended, waiting at most this long.
pub(super) fn pidfd_ended(pidfd: &impl AsFd, at_most: nix::poll::PollTimeout) -> bool {
    use nix::poll::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, at_most).is_ok_and(|ready| ready > 0)
}

/// A descriptor in the caller's reactor.
pub(super) fn registered<T: OwnsOne>(owner: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: the trait's promise is what is asked for: the descriptor stays open and the same until the owner is dropped.
    unsafe { AsyncFd::register(owner) }.map_err(io::Error::from)
}

/// Owns one descriptor from its making to its drop, and never exchanges it.
pub(super) trait OwnsOne: std::os::fd::AsRawFd {}
impl OwnsOne for OwnedFd {}
impl OwnsOne for super::wire::Link {}
