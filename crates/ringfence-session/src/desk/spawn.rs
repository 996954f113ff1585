//! The other side of a call: for programs that ask a session's supervisor to start a command in it.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::wire::{Answer, CallAnswer, CallOrder, CallReply, Connection, MOST_LINE, Reply, VERSION, Verb};
use crate::ways;

/// A command that a supervisor was asked for. When this is dropped before its end, it is ended.
#[derive(Debug)]
pub struct Spawned {
    /// What is written here the command reads. Dropped, its input ends.
    pub stdin: Option<OwnedFd>,
    /// What it prints.
    pub stdout: OwnedFd,
    /// What it says beside that.
    pub stderr: OwnedFd,
    channel: BufReader<UnixStream>,
}

impl Spawned {
    /// Readable when there is something to [hear](Spawned::hear).
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.channel.get_ref().as_fd()
    }

    /// The next thing that is said of it: that it was refused, or that it has started, and then how it ended. `None` where
    /// nothing more is said; without an end its fence was taken down by force.
    ///
    /// # Errors
    /// When what is said is not understood.
    pub fn hear(&mut self) -> io::Result<Option<CallAnswer>> {
        let mut line = Vec::new();
        (&mut self.channel).take(MOST_LINE as u64).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let reply: CallReply = serde_json::from_slice(&line)?;
        if reply.v != VERSION {
            return Err(io::Error::other(format!("the session speaks version {}, this is {VERSION}", reply.v)));
        }
        Ok(Some(reply.answer))
    }
}

/// What came of asking for a call.
#[derive(Debug)]
pub enum Asked {
    /// It is being started.
    Spawned(Box<Spawned>),
    /// The supervisor says no.
    Refused {
        /// Why.
        why: String,
        /// What helps.
        hint: Option<String>,
    },
}

impl Connection {
    /// Asks for a command within the session. The connection is used up by it; other calls have others.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn exec(mut self, order: CallOrder) -> io::Result<Asked> {
        self.send(Verb::Exec { order: Box::new(order) })?;
        let stream = self.into_stream();
        let (mut line, mut fds) = (Vec::new(), Vec::new());
        while !line.ends_with(b"\n") {
            let mut bytes = [0; 4096];
            fds.extend(ways::receive(&stream, &mut bytes)?);
            // A JSON line has no zero in it, so the first one is where nothing was written any more.
            line.extend(bytes.iter().take_while(|byte| **byte != 0));
            if line.len() > MOST_LINE {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let reply: Reply = serde_json::from_slice(&line)?;
        match (reply.answer, <[OwnedFd; 4]>::try_from(fds)) {
            (Answer::Refused { why, hint }, _) => Ok(Asked::Refused { why, hint }),
            (Answer::Spawned, Ok([stdin, stdout, stderr, channel])) => {
                let channel = BufReader::new(UnixStream::from(channel));
                Ok(Asked::Spawned(Box::new(Spawned { stdin: Some(stdin), stdout, stderr, channel })))
            }
            _ => Err(io::Error::other("the supervisor answers something else")),
        }
    }
}
