//! What treeward and the warden say to each other: frames of a bounded length over a Unix stream socket, descriptors
//! beside them. Nothing is allocated from a length that the other side claims.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use super::sys;
use crate::harness::containment::{Containment, Isolation};
use crate::harness::process::{ExitStatus, ProcessLimits, SpawnStage};

/// The longest frame. Linux takes arguments and environment up to a quarter of the stack limit, 2 MiB by default.
pub(super) const MAX_FRAME: usize = 2 << 20;
/// Descriptors that came and were not asked for yet. More than one spawn's never wait.
const MAX_DESCRIPTORS: usize = 16;
/// Bytes waiting for the other side. Frames are only queued for what is live, so this is reached by no honest peer.
const MAX_QUEUED: usize = 64 << 20;

/// A number that names one run for the life of one warden.
pub(super) type RunId = u64;

/// What treeward asks of the warden.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// With standard input, output and error of the new process.
    Spawn(Box<Job>),
    Bury(RunId),
    Ping(u64),
    /// End everything, then yourself.
    End,
}

/// What is to be spawned, with the tag already in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) run: RunId,
    pub(super) argv: Vec<OsString>,
    pub(super) cwd: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) limits: ProcessLimits,
}

/// What the warden says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Say {
    Ready(Containment),
    Spawned { run: RunId, leader: Pid, keeper: Pid },
    NotSpawned { run: RunId, stage: SpawnStage, errno: i32 },
    Exited { run: RunId, status: ExitStatus },
    Buried { run: RunId, survivors: u32 },
    Pong(u64),
}

/// A process as the warden names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pid {
    pub(super) pid: i32,
    pub(super) start_ticks: u64,
}

/// The other side does not keep to the protocol. The link is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame that is none of the protocol's: {0}")]
pub(super) struct BadFrame(pub(super) &'static str);

/// Writes a frame's fields.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn i32(&mut self, value: i32) -> &mut Self {
        self.u32(value as u32)
    }

    fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.0.extend(value);
        self
    }

    fn count(&mut self, value: usize) -> &mut Self {
        self.u32(u32::try_from(value).unwrap_or(u32::MAX))
    }

    fn option(&mut self, value: Option<u64>) -> &mut Self {
        match value {
            None => self.u8(0),
            Some(value) => self.u8(1).u64(value),
        }
    }

    fn status(&mut self, status: ExitStatus) -> &mut Self {
        match status {
            ExitStatus::Code(code) => self.u8(0).i32(code),
            ExitStatus::Signal(number) => self.u8(1).i32(number),
            ExitStatus::Lost => self.u8(2),
        }
    }
}

/// Reads a frame's fields. Whatever is missing is an error, never a default.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], BadFrame> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(BadFrame("it is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadFrame> {
        self.take(N)?.try_into().map_err(|_| BadFrame("it is cut short"))
    }

    fn u8(&mut self) -> Result<u8, BadFrame> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, BadFrame> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, BadFrame> {
        self.array().map(u64::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32, BadFrame> {
        self.u32().map(|value| value as i32)
    }

    fn bytes(&mut self) -> Result<&'a [u8], BadFrame> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn os(&mut self) -> Result<OsString, BadFrame> {
        Ok(OsString::from_vec(self.bytes()?.to_vec()))
    }

    /// As many items as are really there: the count only says when to stop.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, BadFrame>) -> Result<Vec<T>, BadFrame> {
        let count = self.u32()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn option(&mut self) -> Result<Option<u64>, BadFrame> {
        match self.u8()? {
            0 => Ok(None),
            1 => self.u64().map(Some),
            _ => Err(BadFrame("an option that is neither")),
        }
    }

    fn flag(&mut self) -> Result<bool, BadFrame> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BadFrame("a flag that is neither")),
        }
    }

    fn text(&mut self) -> Result<String, BadFrame> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| BadFrame("a text that is not UTF-8"))
    }

    fn status(&mut self) -> Result<ExitStatus, BadFrame> {
        match self.u8()? {
            0 => self.i32().map(ExitStatus::Code),
            1 => self.i32().map(ExitStatus::Signal),
            2 => Ok(ExitStatus::Lost),
            _ => Err(BadFrame("no exit status")),
        }
    }

    fn pid(&mut self) -> Result<Pid, BadFrame> {
        Ok(Pid { pid: self.i32()?, start_ticks: self.u64()? })
    }

    fn end<T>(self, value: T) -> Result<T, BadFrame> {
        if self.0.is_empty() { Ok(value) } else { Err(BadFrame("it is too long")) }
    }
}

impl Ask {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        match self {
            Self::Spawn(job) => {
                w.u8(0).u64(job.run).bytes(job.cwd.as_os_str().as_bytes()).count(job.argv.len());
                for argument in &job.argv {
                    w.bytes(argument.as_bytes());
                }
                w.count(job.env.len());
                for (key, value) in &job.env {
                    w.bytes(key.as_bytes()).bytes(value.as_bytes());
                }
                let ProcessLimits { memory, processes, cpu_seconds, open_files } = job.limits;
                w.option(memory).option(processes).option(cpu_seconds).option(open_files);
            }
            Self::Bury(run) => drop(w.u8(1).u64(*run)),
            Self::Ping(number) => drop(w.u8(2).u64(*number)),
            Self::End => drop(w.u8(3)),
        }
        w.0
    }

    pub(super) fn decode(frame: &[u8]) -> Result<Self, BadFrame> {
        let mut r = Reader(frame);
        let ask = match r.u8()? {
            0 => {
                let run = r.u64()?;
                let cwd = r.os()?.into();
                let argv = r.list(Reader::os)?;
                let env = r.list(|r| Ok((r.os()?, r.os()?)))?;
                let limits = ProcessLimits {
                    memory: r.option()?,
                    processes: r.option()?,
                    cpu_seconds: r.option()?,
                    open_files: r.option()?,
                };
                Self::Spawn(Box::new(Job { run, argv, cwd, env, limits }))
            }
            1 => Self::Bury(r.u64()?),
            2 => Self::Ping(r.u64()?),
            3 => Self::End,
            _ => return Err(BadFrame("no such request")),
        };
        r.end(ask)
    }
}

const STAGES: [SpawnStage; 6] = [
    SpawnStage::Pipes,
    SpawnStage::Fork,
    SpawnStage::Isolate,
    SpawnStage::Limits,
    SpawnStage::Directory,
    SpawnStage::Exec,
];
const ISOLATIONS: [Isolation; 3] = [Isolation::Subreaper, Isolation::UserPidNamespace, Isolation::PidNamespace];

/// A stage as one byte, also between a run's keeper and the warden.
pub(super) fn stage_number(stage: SpawnStage) -> u8 {
    STAGES.iter().position(|other| *other == stage).unwrap_or(0) as u8
}

pub(super) fn stage_from(number: u8) -> Result<SpawnStage, BadFrame> {
    STAGES.get(number as usize).copied().ok_or(BadFrame("no such stage"))
}

impl Say {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        match self {
            Self::Ready(containment) => {
                let isolation = ISOLATIONS.iter().position(|other| *other == containment.isolation).unwrap_or(0);
                w.u8(0).u8(isolation as u8).count(containment.missing.len());
                for line in &*containment.missing {
                    w.bytes(line.as_bytes());
                }
                match &containment.control_group {
                    None => drop(w.u8(0)),
                    Some(group) => drop(w.u8(1).bytes(group.as_bytes())),
                }
                w.u8(containment.limits_processes.into()).u8(containment.limits_memory.into());
            }
            Self::Spawned { run, leader, keeper } => {
                w.u8(1).u64(*run).i32(leader.pid).u64(leader.start_ticks).i32(keeper.pid).u64(keeper.start_ticks);
            }
            Self::NotSpawned { run, stage, errno } => drop(w.u8(2).u64(*run).u8(stage_number(*stage)).i32(*errno)),
            Self::Exited { run, status } => drop(w.u8(3).u64(*run).status(*status)),
            Self::Buried { run, survivors } => drop(w.u8(4).u64(*run).u32(*survivors)),
            Self::Pong(number) => drop(w.u8(5).u64(*number)),
        }
        w.0
    }

    pub(super) fn decode(frame: &[u8]) -> Result<Self, BadFrame> {
        let mut r = Reader(frame);
        let say = match r.u8()? {
            0 => {
                let isolation = ISOLATIONS.get(r.u8()? as usize).copied().ok_or(BadFrame("no such isolation"))?;
                let missing = r.list(Reader::text)?.into();
                let control_group = if r.flag()? { Some(r.text()?.into()) } else { None };
                let (limits_processes, limits_memory) = (r.flag()?, r.flag()?);
                Self::Ready(Containment { isolation, missing, control_group, limits_processes, limits_memory })
            }
            1 => Self::Spawned { run: r.u64()?, leader: r.pid()?, keeper: r.pid()? },
            2 => Self::NotSpawned { run: r.u64()?, stage: stage_from(r.u8()?)?, errno: r.i32()? },
            3 => Self::Exited { run: r.u64()?, status: r.status()? },
            4 => Self::Buried { run: r.u64()?, survivors: r.u32()? },
            5 => Self::Pong(r.u64()?),
            _ => return Err(BadFrame("no such answer")),
        };
        r.end(say)
    }
}

/// One end of the socket: what came and is not a whole frame yet, what is to go and had no room yet.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
    inbox: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    outbox: VecDeque<Outgoing>,
    queued: usize,
}

#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// Travel with the first byte.
    descriptors: Vec<OwnedFd>,
}

/// What reading gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Some,
    Nothing,
    Closed,
}

impl Link {
    /// Over a non-blocking stream socket.
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, inbox: Vec::new(), descriptors: VecDeque::new(), outbox: VecDeque::new(), queued: 0 }
    }

    /// Queues a frame; [`flush`](Self::flush) sends it.
    pub(super) fn send(&mut self, payload: &[u8], descriptors: Vec<OwnedFd>) -> Result<(), BadFrame> {
        if payload.len() > MAX_FRAME || self.queued > MAX_QUEUED {
            return Err(BadFrame("too much at once"));
        }
        let mut bytes = Vec::with_capacity(4 + payload.len());
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(payload);
        self.queued += bytes.len();
        self.outbox.push_back(Outgoing { bytes, sent: 0, descriptors });
        Ok(())
    }

    pub(super) fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends what there is room for.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while let Some(frame) = self.outbox.front_mut() {
            let raw: Vec<RawFd> = frame.descriptors.iter().map(AsRawFd::as_raw_fd).collect();
            let rights = [ControlMessage::ScmRights(&raw)];
            let control = if raw.is_empty() { &[][..] } else { &rights[..] };
            let bytes = [IoSlice::new(&frame.bytes[frame.sent..])];
            match sendmsg::<()>(self.socket.as_raw_fd(), &bytes, control, MsgFlags::MSG_NOSIGNAL, None) {
                Ok(sent) => {
                    frame.sent += sent;
                    frame.descriptors.clear();
                    if frame.sent == frame.bytes.len() {
                        self.queued -= frame.bytes.len();
                        self.outbox.pop_front();
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Reads once.
    pub(super) fn fill(&mut self) -> io::Result<Filled> {
        let mut buffer = [0; 16 << 10];
        let mut control = nix::cmsg_space!([RawFd; 3]);
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let message = match recvmsg::<()>(self.socket.as_raw_fd(), &mut slices, Some(&mut control), flags) {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(Filled::Nothing),
            // Not empty: to be tried again.
            Err(Errno::EINTR) => return Ok(Filled::Some),
            Err(errno) => return Err(errno.into()),
        };
        let bytes = message.bytes;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = control {
                self.descriptors.extend(raw.into_iter().map(sys::received));
            }
        }
        if self.descriptors.len() > MAX_DESCRIPTORS {
            return Err(io::Error::other(BadFrame("descriptors nobody asked for")));
        }
        self.inbox.extend_from_slice(&buffer[..bytes]);
        Ok(if bytes == 0 { Filled::Closed } else { Filled::Some })
    }

    /// The next whole frame that came.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, BadFrame> {
        let Some(header) = self.inbox.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*header) as usize;
        if length > MAX_FRAME {
            return Err(BadFrame("it claims to be longer than any may be"));
        }
        if self.inbox.len() < 4 + length {
            return Ok(None);
        }
        let frame = self.inbox[4..4 + length].to_vec();
        self.inbox.drain(..4 + length);
        Ok(Some(frame))
    }

    /// The descriptors that came with the frame just read.
    pub(super) fn take_descriptors<const N: usize>(&mut self) -> Option<[OwnedFd; N]> {
        if self.descriptors.len() < N {
            return None;
        }
        self.descriptors.drain(..N).collect::<Vec<_>>().try_into().ok()
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl std::os::fd::AsFd for Link {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
