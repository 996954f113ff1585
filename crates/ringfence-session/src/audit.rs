//! The audit: what happened in every session of a user, one JSON line each, each with the hash of the line before.
//!
//! It outlives the sessions: `audit/log.jsonl` beside their directories, older parts as `log-N.jsonl`, and `head`, which has
//! the number and the hash of the last line, so that a cut at the end is found too. There is one chain for all sessions. Whoever
//! writes holds the lock of `head`, so that two never write at once.
//!
//! What is kept is limited, and so is what each session may take of it: see `bound` and `room`.
//!
//! A line is written in one call before anybody is told that it is. Only the machine itself can lose lines by losing power: those
//! that were not synced yet. Nothing here is secret from, or safe from, the user whose audit it is: somebody with the user's
//! rights could write the whole chain anew. Whoever wants to notice that keeps a number and its hash elsewhere.

mod bound;
mod follow;
mod log;
mod read;
mod room;
mod verify;

use std::io;
use std::time::Duration;

use ringfence_surface::AbsPath;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::approvals::Question;
use crate::text::{Bytes, hex};
use crate::violations::Counted;

pub(crate) use bound::{Admission, Budget, Origin};
pub use follow::{Follow, From};
pub use read::{Query, Stored};
pub use verify::{Known, Report};

/// The audit of a state directory.
#[derive(Debug, Clone)]
pub struct Audit {
    dir: AbsPath,
}

/// Something that happened, and to which session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Which.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// A session begins.
    Start {
        /// The project's root.
        path: Bytes,
        /// The command, as far as it is kept.
        command: Vec<Bytes>,
        /// How the fence is built.
        rung: String,
        /// The supervisor.
        pid: u32,
    },
    /// What holds and what does not, as far as it was asked for.
    Receipt {
        /// How many claims hold, where the whole receipt was asked for.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        held: Option<usize>,
        /// Those that do not, in words.
        shortfalls: Vec<String>,
        /// What the policy gives and the fence does not, in words.
        withheld: Vec<String>,
    },
    /// It did not start.
    Failed {
        /// Why.
        why: String,
    },
    /// It ended.
    End {
        /// The command's own code.
        code: u8,
        /// How many kinds of things were stopped on its way out.
        stopped: u64,
    },
    /// What repositories gained that the user's git would act on.
    Git {
        /// In words.
        gained: Vec<String>,
    },
    /// What of its policy was made use of.
    Used {
        /// Who was reached: `host:port`, `localhost:port`, `socket PATH`.
        reached: Vec<String>,
        /// The rules by which something was written; none where nobody saw the writes.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        written: Option<Vec<String>>,
        /// Whether more was reached than is kept.
        is_cut: bool,
    },
    /// Its supervisor was killed; noticed by somebody else.
    Killed,
    /// Something was denied.
    Violation(Counted),
    /// A tool call was judged.
    Verdict {
        /// Which tool.
        tool: String,
        /// Whether it may.
        allowed: bool,
        /// Why.
        why: String,
        /// On what, where it is one thing.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        path: Option<Bytes>,
        /// What would allow it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        remedy: Option<String>,
    },
    /// A place was given to a running session.
    Grant {
        /// Which.
        path: Bytes,
        /// `read` or `write`.
        access: String,
        /// Until when, in milliseconds since 1970.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        until_ms: Option<u64>,
    },
    /// A host was given to a running session.
    GrantHost {
        /// Which.
        host: String,
        /// Until when, in milliseconds since 1970.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        until_ms: Option<u64>,
    },
    /// A place was taken away again.
    Revoke {
        /// Which.
        path: Bytes,
        /// Why.
        why: String,
    },
    /// A host was taken away again.
    RevokeHost {
        /// Which.
        host: String,
        /// Why.
        why: String,
    },
    /// How much tool calls are held back is another now.
    Mode {
        /// Which.
        mode: String,
    },
    /// There was more of something than a watch of the policy allows.
    Watch {
        /// The watch, in words.
        watch: String,
        /// Where it was written.
        source: String,
        /// How much it was.
        count: u64,
        /// What was done.
        done: String,
    },
    /// Something waits for an answer.
    Asked(Question),
    /// It was answered.
    Answered {
        /// Which question.
        id: u64,
        /// What was asked for, in words.
        asked: String,
        /// Was it a yes?
        allowed: bool,
        /// For how long, or why not.
        how: String,
    },
    /// Everything in the session was stopped.
    Pause {
        /// Why.
        why: String,
    },
    /// It goes on.
    Resume,
    /// Somebody outside replaced something guarded, or made something under a denied name: for a moment it had no guard.
    Gap {
        /// Which.
        path: Bytes,
        /// `deny` or `protect`.
        guard: String,
        /// For how long, in milliseconds, where it has its guard again.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        ms: Option<u64>,
        /// Why it has none, where it has not.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        why: Option<String>,
    },
    /// Whether guarded places still have their guards could not be determined.
    Unchecked {
        /// The first of them.
        path: Bytes,
        /// How many more.
        more: u64,
        /// Why.
        why: String,
    },
    /// Directories in which nobody notices what somebody outside makes.
    Unwatched {
        /// Where.
        path: Bytes,
        /// How many.
        count: u64,
        /// Why.
        why: String,
    },
    /// Something was asked for and not given.
    GrantRefused {
        /// What.
        asked: String,
        /// Why.
        why: String,
    },
    /// The end of the log was half a line, since a writer was stopped in the middle. It was taken out, and stands here.
    Torn {
        /// What stood there, as far as it is kept.
        text: Bytes,
        /// How long it was.
        bytes: u64,
    },
    /// The log was not as its last writer left it.
    Broken {
        /// What was found.
        found: String,
    },
    /// Its part of the audit is full. Of lines that the program inside causes, more are counted and not written.
    Full {
        /// How much that part is.
        bytes: u64,
    },
    /// Said before the end: so many lines were counted and not written.
    Omitted {
        /// How many.
        lines: u64,
    },
    /// Lines of a session are removed, since there is a limit to what is kept and they take the most of it. What each of them
    /// said is gone; in the place of each run of them stands a [`What::Gone`] by which the chain holds.
    Thinned {
        /// Of which session.
        of: String,
        /// How many lines.
        lines: u64,
        /// How long they were.
        bytes: u64,
        /// Beginning with the line of this number.
        from: u64,
        /// Up to the line of this number; between them, lines of other sessions stay.
        through: u64,
        /// The hash of all the lines that stand in their place in this part of the log.
        in_their_place: String,
    },
    /// Stands in the place of lines that were removed, from this line's own number on.
    Gone {
        /// The number of the last of them.
        through: u64,
        /// The hash of that one.
        hash: String,
    },
    /// The oldest part was removed, since there is a limit to what is kept, and nothing else was left to remove.
    Pruned {
        /// The number of its last line.
        through: u64,
        /// The hash of that line.
        hash: String,
    },
}

impl Event {
    /// For a session, now.
    #[must_use]
    pub fn now(session: &str, what: What) -> Self {
        Self { session: Some(session.to_owned()), at_ms: crate::text::now_ms(), what }
    }
}

/// How long a writer waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Somebody waits for the result.
    Start,
    /// There is a session to look after.
    Running,
}

impl Patience {
    fn time(self) -> Duration {
        match self {
            Self::Start => Duration::from_secs(5),
            Self::Running => Duration::from_millis(20),
        }
    }
}

impl Audit {
    /// The audit that belongs to a state directory. Nothing is opened yet.
    #[must_use]
    pub fn of(state: &AbsPath) -> Self {
        Self { dir: state.join("audit") }
    }

    /// Adds events, all or none.
    ///
    /// # Errors
    /// When they cannot be written, or somebody else writes for too long (`WouldBlock`).
    pub fn append(&self, events: &[Event], patience: Patience) -> io::Result<()> {
        log::append(&self.dir, events, patience.time())
    }

    /// Has everything that was written reach the disk.
    ///
    /// # Errors
    /// What fdatasync says.
    pub fn sync(&self) -> io::Result<()> {
        log::sync(&self.dir)
    }

    /// Checks the whole chain.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn verify(&self, known: Option<&Known>) -> io::Result<Report> {
        verify::verify(&self.dir, known)
    }

    /// What happened, the oldest first, and how many lines could not be read.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn query(&self, query: &Query) -> io::Result<(Vec<Stored>, usize)> {
        read::query(&self.dir, query)
    }

    /// What happens while it is written.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn follow(&self, start: From) -> io::Result<Follow> {
        Follow::from(&self.dir, start)
    }
}

/// What stands before the first line.
pub(crate) const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The hash of a line, without its end.
pub(crate) fn hash(line: &[u8]) -> String {
    hex(&Sha256::digest(line))
}

/// A line as it is written.
#[derive(Debug, Serialize)]
struct Line<'l> {
    n: u64,
    prev: &'l str,
    #[serde(flatten)]
    event: &'l Event,
}

/// What every line has, whatever else it says.
#[derive(Debug, Deserialize)]
struct Link {
    n: u64,
    prev: String,
}

#[cfg(test)]
mod tests;
