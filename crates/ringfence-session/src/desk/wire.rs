//! What is said over a session's control socket: one JSON object to a line, with a version.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ringfence_surface::AbsPath;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::audit::Event;
use crate::store::About;
use crate::text::Bytes;
use crate::walk::os_path;

/// The version of what is said here.
pub const VERSION: u32 = 1;
/// The socket in a session's directory.
pub(crate) const SOCKET: &str = "control";
/// A file beside it. Landlock alone does not keep a command from the sockets of its own user, and does keep it from this.
pub(crate) const TOKEN: &str = "token";
/// A longer line is nothing of ours.
pub(super) const MOST_LINE: usize = 1 << 20;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`].
    pub v: u32,
    /// What the file `token` beside the socket says.
    pub token: String,
    /// What is asked for.
    pub ask: Verb,
}

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Verb {
    /// How it is.
    Status {},
    /// The end of the session.
    Stop {},
    /// Everything in the session stops.
    Pause {},
    /// It goes on.
    Resume {},
    /// Everything that happens from now on.
    Subscribe {},
    /// A place to read.
    Grant {
        /// Which.
        path: Bytes,
        /// What stands there, by device and inode.
        device: u64,
        /// The inode.
        inode: u64,
        /// For how long, in milliseconds.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        for_ms: Option<u64>,
        /// What in it is denied.
        masked: Vec<Masked>,
    },
    /// Another mode for the tool calls of the client.
    Mode {
        /// Its name.
        mode: String,
    },
    /// The end of a grant.
    Revoke {
        /// Of which place.
        path: Bytes,
    },
}

/// Something denied in a place that is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Masked {
    /// Which.
    pub path: Bytes,
    /// Whether it is a directory.
    pub directory: bool,
}

/// An answer, or something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// [`VERSION`].
    pub v: u32,
    /// What is said.
    pub answer: Answer,
}

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Answer {
    /// It is done.
    Done,
    /// How it is.
    Status {
        /// What the session is.
        session: Box<About>,
        /// What was given to it.
        grants: Vec<Given>,
        /// How many kinds of things were denied to it.
        stopped: usize,
        /// How often something was denied to it.
        #[serde(default)]
        denied: u64,
        /// Why it is paused, where it is.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        paused: Option<String>,
    },
    /// It was not done.
    Refused {
        /// Why.
        why: String,
        /// What helps.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        hint: Option<String>,
    },
    /// Something happened.
    Event {
        /// What.
        happened: Event,
    },
}

/// Something that was given to a running session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Its number, which no other grant of the session has or will have.
    #[serde(default)]
    pub n: u64,
    /// Which place.
    pub path: Bytes,
    /// `read`.
    pub access: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until_ms: Option<u64>,
}

/// A conversation with a session's supervisor.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
    token: String,
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

impl Connection {
    /// Opens one to the session of this directory.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn open(dir: &AbsPath) -> io::Result<Self> {
        // By a descriptor: the path may be longer than an address can be.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = rustix::fs::open(dir.as_bytes(), flags, Mode::empty())?;
        let token = std::fs::read_to_string(os_path(&dir.join(TOKEN)))?;
        let stream = UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", place.as_raw_fd()))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream), token })
    }

    /// Asks for something.
    ///
    /// # Errors
    /// When the supervisor does not answer, or not in a way that this version understands.
    pub fn ask(&mut self, verb: Verb) -> io::Result<Answer> {
        let mut line = serde_json::to_vec(&Request { v: VERSION, token: self.token.clone(), ask: verb })?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)?;
        self.hear()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The next thing that is said; `None` at the end of the session.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn hear(&mut self) -> io::Result<Option<Answer>> {
        let mut line = Vec::new();
        let most = MOST_LINE as u64;
        (&mut self.stream).take(most).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let reply: Reply = serde_json::from_slice(&line)?;
        if reply.v != VERSION {
            return Err(io::Error::other(format!("the session speaks version {}, this is {VERSION}", reply.v)));
        }
        Ok(Some(reply.answer))
    }

    /// Waits for events as long as it takes.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait_for_ever(&self) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(None)
    }
}
