//! What a run's keeper and the warden say to each other: one short message each, over a socket that keeps them apart.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, send, sendmsg,
    socketpair,
};

use super::sys;
use crate::harness::process::ExitStatus;

/// One end of the socket between a keeper and the warden. What a keeper is told is one thing only, to bury: by any
/// message, or by the end of the socket.
#[derive(Debug)]
pub(super) struct Control(OwnedFd);

/// What a keeper says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// The leader runs its program; with a pidfd of it.
    Started,
    /// There is no leader, and the keeper ends.
    Failed { stage: u8, errno: i32 },
    /// The leader ended. It is not reaped.
    Exited(ExitStatus),
    /// Nothing is left but the leader's zombie.
    Buried { survivors: u32 },
    /// The isolation works; said by a trial.
    Works,
    /// This step of it does not; said by a trial.
    Refused { step: u8, errno: i32 },
}

/// What was read.
pub(super) enum Heard {
    Note(Note, Option<OwnedFd>),
    Nothing,
    Closed,
}

const LENGTH: usize = 9;

impl Control {
    /// The two ends.
    pub(super) fn pair() -> nix::Result<(Self, Self)> {
        let (one, other) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        )?;
        Ok((Self(one), Self(other)))
    }

    /// Never waits: the few messages of a keeper's life always have room. Where the other side is gone nobody is told.
    pub(super) fn send(&self, note: Note, pidfd: Option<&OwnedFd>) {
        let (kind, a, b) = match note {
            Note::Started => (0, 0, 0),
            Note::Failed { stage, errno } => (1, i32::from(stage), errno),
            Note::Exited(ExitStatus::Code(code)) => (2, 0, code),
            Note::Exited(ExitStatus::Signal(number)) => (2, 1, number),
            Note::Exited(ExitStatus::Lost) => (2, 2, 0),
            Note::Buried { survivors } => (3, 0, survivors as i32),
            Note::Works => (4, 0, 0),
            Note::Refused { step, errno } => (5, i32::from(step), errno),
        };
        let mut message = [0; LENGTH];
        message[0] = kind;
        message[1..5].copy_from_slice(&a.to_le_bytes());
        message[5..].copy_from_slice(&b.to_le_bytes());
        let raw: Vec<RawFd> = pidfd.iter().map(|fd| fd.as_raw_fd()).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let control = if raw.is_empty() { &[][..] } else { &rights[..] };
        let _nobody_there =
            sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(&message)], control, MsgFlags::MSG_NOSIGNAL, None);
    }

    /// Tells a keeper to bury. It is gone already where this fails.
    pub(super) fn ask_to_bury(&self) {
        let _gone = send(self.0.as_raw_fd(), &[0], MsgFlags::MSG_NOSIGNAL);
    }

    /// What the keeper said, if it said anything.
    pub(super) fn hear(&self) -> Heard {
        let mut message = [0; LENGTH];
        let mut space = nix::cmsg_space!(RawFd);
        let mut slices = [IoSliceMut::new(&mut message)];
        let received =
            match recvmsg::<()>(self.0.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
                Ok(received) => received,
                Err(Errno::EAGAIN | Errno::EINTR) => return Heard::Nothing,
                Err(_) => return Heard::Closed,
            };
        let length = received.bytes;
        let mut pidfd = None;
        if let Ok(controls) = received.cmsgs() {
            for control in controls {
                if let ControlMessageOwned::ScmRights(raw) = control {
                    // One is ever sent; owning each closes what is too much.
                    for fd in raw {
                        pidfd = Some(sys::received(fd));
                    }
                }
            }
        }
        if length != LENGTH {
            return Heard::Closed;
        }
        let number = |at: usize| i32::from_le_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
        let (a, b) = (number(1), number(5));
        let note = match (message[0], a) {
            (0, _) => Note::Started,
            (1, stage) => Note::Failed { stage: stage as u8, errno: b },
            (2, 0) => Note::Exited(ExitStatus::Code(b)),
            (2, 1) => Note::Exited(ExitStatus::Signal(b)),
            (2, _) => Note::Exited(ExitStatus::Lost),
            (3, _) => Note::Buried { survivors: b as u32 },
            (4, _) => Note::Works,
            (5, step) => Note::Refused { step: step as u8, errno: b },
            _ => return Heard::Closed,
        };
        Heard::Note(note, pidfd)
    }
}

impl AsRawFd for Control {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
