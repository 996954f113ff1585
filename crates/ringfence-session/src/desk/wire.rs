//! What is said over a session's control socket: one JSON object to a line, with a version.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ringfence_surface::AbsPath;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::approvals::{Approved, Question, Scope};
use crate::audit::Event;
use crate::store::About;
use crate::text::Bytes;

/// The version of what is said here.
pub const VERSION: u32 = 1;
/// The socket in a session's directory.
pub(crate) const SOCKET: &str = "control";
/// The socket by which calls are asked for inside, among what is given to a session that was started so.
pub(super) const CALLS_SOCKET: &str = "calls";
/// The variable inside that has its token. A call does not have it, and cannot read it of others: it would be a way back from
/// its own fence to the session's.
pub const CALLS_VARIABLE: &str = "RINGFENCE_CALLS";
/// A longer line is nothing of ours.
pub(super) const MOST_LINE: usize = 1 << 20;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`].
    pub v: u32,
    /// What `session.json` beside the socket says.
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
    /// What waits for an answer, and what was said yes to.
    Approvals {},
    /// A yes.
    Approve {
        /// To which question.
        id: u64,
        /// For how long.
        scope: Scope,
    },
    /// A no, or the end of a yes.
    Deny {
        /// To which question.
        id: u64,
    },
    /// Everything that happens from now on.
    Subscribe {},
    /// A place.
    Grant {
        /// Which.
        path: Bytes,
        /// What for.
        #[serde(default = "for_reading")]
        access: Gives,
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
    /// A host to reach, or a port of the host's own.
    GrantHost {
        /// `HOST[:PORT]`, as a policy spells it, or `localhost:PORT`.
        host: String,
        /// For how long, in milliseconds.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        for_ms: Option<u64>,
    },
    /// Another mode for the tool calls of the client.
    Mode {
        /// Its name.
        mode: String,
    },
    /// A command within the session, in a fence of its own that is tighter.
    Exec {
        /// Which, and how much tighter.
        order: Box<CallOrder>,
    },
    /// The end of a grant.
    Revoke {
        /// Of which place.
        path: Bytes,
    },
    /// The end of a grant of a host, and of every connection that it admitted.
    RevokeHost {
        /// As it was given.
        host: String,
    },
}

/// What a place is given for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gives {
    /// To be read.
    Read,
    /// To be read and written.
    Write,
}

/// What is asked for where nothing is said.
fn for_reading() -> Gives {
    Gives::Read
}

impl Gives {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
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

/// A command within a session. Whatever is named narrows what it may do; what the session does not have is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallOrder {
    /// The command and its arguments.
    pub command: Vec<Bytes>,
    /// Write only here, of what the session may write.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub write: Vec<String>,
    /// Write nothing but temporary files.
    #[serde(default)]
    pub read_only: bool,
    /// Read only this and what programs need.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub read: Vec<String>,
    /// Patterns that are denied besides.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub deny: Vec<String>,
    /// Patterns that are protected besides.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub protect: Vec<String>,
    /// Reach nothing.
    #[serde(default)]
    pub no_network: bool,
    /// Reach only these hosts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub hosts: Vec<String>,
    /// Reach only these ports of the host's loopback.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub host_ports: Vec<u16>,
    /// Reach only these unix sockets.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub sockets: Vec<Bytes>,
    /// Pass these variables on, of those that the session has by name.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub env: Vec<String>,
    /// Start here; without it, where the session works.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workdir: Option<Bytes>,
    /// End it after so many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout_ms: Option<u64>,
    /// At most this much memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory: Option<u64>,
    /// At most this many processes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pids: Option<u32>,
}

impl CallOrder {
    /// A command, as narrow as every call is, and no narrower.
    #[must_use]
    pub fn plain(command: &[&[u8]]) -> Self {
        Self {
            command: command.iter().map(|word| Bytes::new(word)).collect(),
            write: Vec::new(),
            read_only: false,
            read: Vec::new(),
            deny: Vec::new(),
            protect: Vec::new(),
            no_network: false,
            hosts: Vec::new(),
            host_ports: Vec::new(),
            sockets: Vec::new(),
            env: Vec::new(),
            workdir: None,
            timeout_ms: None,
            memory: None,
            pids: None,
        }
    }
}

/// What is said over the channel of a call, one JSON object to a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallReply {
    /// [`VERSION`].
    pub v: u32,
    /// What is said.
    pub answer: CallAnswer,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum CallAnswer {
    /// The command runs.
    Started {
        /// What of its fence does not hold, beyond what the session has said of itself.
        not_held: Vec<String>,
    },
    /// Nothing was started.
    Refused {
        /// The exit code that says the same: 125, or 126 and 127 as for a shell.
        code: u8,
        /// Why.
        why: String,
        /// What helps.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        hint: Option<String>,
    },
    /// It has ended.
    Ended {
        /// Its own code, or 128 and its signal.
        code: u8,
        /// The signal, if it was one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        signal: Option<u8>,
        /// Whether its time was up.
        out_of_time: bool,
        /// Whether the session ended first.
        session_over: bool,
        /// What was stopped on its way out, and why.
        stopped: Vec<String>,
    },
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
    /// A host was taken away.
    Closed {
        /// How many connections ended by it.
        connections: u64,
    },
    /// A command is being started. Beside this line come four descriptors: its input to write, its output and its errors to
    /// read, and a channel that says what comes of it. Whoever lets go of the channel ends it.
    Spawned,
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
    /// What waits for an answer, and what was said yes to.
    Approvals {
        /// Is anybody asked at all?
        asks: bool,
        /// What waits, the oldest first.
        waiting: Vec<Question>,
        /// What was said yes to, for longer than once.
        approved: Vec<Approved>,
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
        happened: Box<Event>,
    },
}

/// Something that was given to a running session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Its number, which no other grant of the session has or will have.
    #[serde(default)]
    pub n: u64,
    /// Which place; the host, where it is one.
    pub path: Bytes,
    /// `read`, `write`, or `reach` for a host.
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
        let token = About::token(dir)?;
        // By a descriptor: the path may be longer than an address can be.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = rustix::fs::open(dir.as_bytes(), flags, Mode::empty())?;
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
        self.send(verb)?;
        self.hear()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    pub(super) fn send(&mut self, verb: Verb) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Request { v: VERSION, token: self.token.clone(), ask: verb })?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)
    }

    /// Without what was heard and not asked for.
    pub(super) fn into_stream(self) -> UnixStream {
        self.stream.into_inner()
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
