//! The other end of the socket, for commands: it blocks, and never longer than it was told.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::place::{self, PlaceError};
use super::protocol::{Answer, Ask};
use crate::ids::TreeId;
use crate::journal::Stored;

/// Bytes of an answer. A hundred thousand sessions need less.
const ANSWER: u64 = 64 << 20;

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Where it listens.
    pub socket: PathBuf,
}

/// The processes of this user that listen in `directory`, or in the usual place. What is left of dead ones is passed over.
pub fn processes(directory: Option<&Path>) -> Result<Vec<Process>, PlaceError> {
    let directory = directory.map_or_else(place::usual_place, Path::to_owned);
    let sockets = place::sockets(&directory)?;
    Ok(sockets
        .into_iter()
        .filter(|(owner, _)| owner.lives())
        .map(|(owner, socket)| Process { pid: owner.pid, socket })
        .collect())
}

/// Why a process did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It is gone, or did not answer in time.
    #[error("{}", if self.is_late() { "it did not answer in time".to_owned() } else { .0.to_string() })]
    Io(#[from] io::Error),
    /// It closed the connection.
    #[error("it closed the connection: it is ending, or was killed")]
    Closed,
    /// It said no.
    #[error("it refused: {0}")]
    Refused(String),
    /// Its answer is not one.
    #[error("its answer cannot be read: {0}; is it another version of treeward?")]
    Unreadable(String),
}

impl ClientError {
    /// Whether nothing came in time, and nothing else is wrong.
    pub fn is_late(&self) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, Self::Io(error) if matches!(error.kind(), WouldBlock | TimedOut))
    }
}

/// A connection to one process.
#[derive(Debug)]
pub struct Client {
    to: UnixStream,
    from: BufReader<UnixStream>,
    /// What has come of the next answer.
    line: Vec<u8>,
}

/// The next thing heard of a followed tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// A record.
    Record(Stored),
    /// It says no more: it ended, or (`false`) its process is ending.
    Over(bool),
}

impl Client {
    /// Connects. No answer takes longer than `patience`.
    pub fn connect(process: &Process, patience: Duration) -> Result<Self, ClientError> {
        let to = UnixStream::connect(&process.socket)?;
        to.set_read_timeout(Some(patience))?;
        to.set_write_timeout(Some(patience))?;
        let from = BufReader::new(to.try_clone()?);
        Ok(Self { to, from, line: Vec::new() })
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, ask: &Ask) -> Result<Answer, ClientError> {
        self.to.write_all(ask.line().as_bytes())?;
        self.answer()
    }

    /// Follows a tree from record `from` on.
    pub fn follow(&mut self, tree: TreeId, from: u64) -> Result<(), ClientError> {
        Ok(self.to.write_all(Ask::Follow { tree, from }.line().as_bytes())?)
    }

    /// What comes next of the followed tree, within `patience` (`None`: however long it takes). After
    /// [`is_late`](ClientError::is_late) it can be asked for again.
    pub fn next(&mut self, tree: TreeId, patience: Option<Duration>) -> Result<Followed, ClientError> {
        self.to.set_read_timeout(patience)?;
        match self.answer()? {
            Answer::Record { seq, body, envelope, hash } => {
                let mut bytes = [0; 32];
                hex::decode_to_slice(&hash, &mut bytes).map_err(|error| ClientError::Unreadable(error.to_string()))?;
                Ok(Followed::Record(Stored { tree, seq, body, envelope, hash: bytes }))
            }
            Answer::Over { ended } => Ok(Followed::Over(ended)),
            other => Err(ClientError::Unreadable(format!("{other:?}").chars().take(80).collect())),
        }
    }

    /// Whether the next answer is here already, so that reading it waits for nothing.
    pub fn has_more(&self) -> bool {
        self.from.buffer().contains(&b'\n')
    }

    fn answer(&mut self) -> Result<Answer, ClientError> {
        // A read that was late has put what came into `line`: the next one goes on there.
        let room = ANSWER.saturating_sub(self.line.len() as u64);
        (&mut self.from).take(room).read_until(b'\n', &mut self.line)?;
        let line = std::mem::take(&mut self.line);
        if !line.ends_with(b"\n") {
            let too_long = line.len() as u64 >= ANSWER;
            return Err(if too_long { ClientError::Unreadable("it is too long".into()) } else { ClientError::Closed });
        }
        match serde_json::from_slice(&line).map_err(|error| ClientError::Unreadable(error.to_string()))? {
            Answer::Refused { why } => Err(ClientError::Refused(why)),
            answer => Ok(answer),
        }
    }
}
