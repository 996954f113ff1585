//! What is known of a session: `session.json` while it lives, one line of `ended.jsonl` afterwards.
//!
//! Both carry a version. What another version wrote is listed by its name and never guessed at.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use ringfence_surface::AbsPath;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::text::Bytes;
use crate::walk::os_path;

/// The version of what is written here.
pub const SCHEMA: u32 = 1;

/// A session as its supervisor describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What it is called.
    pub id: String,
    /// The supervisor.
    pub pid: u32,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// The project's root.
    pub project: Bytes,
    /// Where the command was started.
    pub workdir: Bytes,
    /// The command, as far as it fits: see [`About::shorten`].
    pub command: Vec<Bytes>,
    /// How the fence was built.
    pub rung: String,
    /// Who runs the command, where that is not the caller.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<u32>,
    /// Which agent was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<String>,
    /// What does not hold, in words.
    pub shortfalls: Vec<String>,
    /// What can be given while it runs.
    pub grants: Grants,
    /// What the supervisor does by itself when too much of something happens, in words.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub watches: Vec<String>,
}

/// What can be given to a session while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grants {
    /// Nothing: its fence is not one that can be changed.
    None,
    /// Places to read, and to write where a broker carries writes out.
    Reads,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// What it was.
    #[serde(flatten)]
    pub about: About,
    /// When it ended, in milliseconds since 1970; when it was found ended, where its supervisor was killed.
    pub ended_ms: u64,
    /// Its code; none where its supervisor was killed.
    pub code: Option<u8>,
    /// How many kinds of things were stopped on its way out.
    pub stopped: u64,
}

/// The name of the record in a session's directory.
pub(crate) const FILE: &str = "session.json";
const NEW: &str = "session.json.new";
const ENDED: &str = "ended.jsonl";
/// More of the past than this is not kept.
const MOST_PAST: u64 = 4 << 20;
/// What stays of it then.
const KEPT_PAST: usize = 2 << 20;
/// More of a command than this is not kept.
const MOST_COMMAND: usize = 4096;

impl About {
    /// A command of a length that a list can hold: what is cut ends in `…`.
    #[must_use]
    pub fn shorten(words: &[Vec<u8>]) -> Vec<Bytes> {
        let mut left = MOST_COMMAND;
        let mut short = Vec::new();
        for word in words {
            if word.len() >= left {
                short.push(Bytes::new(&[&word[..left.min(word.len())], "…".as_bytes()].concat()));
                break;
            }
            left -= word.len();
            short.push(Bytes::new(word));
        }
        short
    }

    /// Writes it into its directory, whole or not at all, with what its supervisor asks of whoever talks to it: Landlock alone does
    /// not keep a command from the sockets of its own user, and does keep it from this file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, dir: &AbsPath, token: Option<&str>) -> io::Result<()> {
        #[derive(Serialize)]
        struct Kept<'k> {
            #[serde(flatten)]
            about: &'k About,
            #[serde(skip_serializing_if = "Option::is_none")]
            token: Option<&'k str>,
        }
        let new = dir.join(NEW);
        let text = serde_json::to_vec(&Kept { about: self, token })?;
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(os_path(&new))?;
        file.write_all(&text)?;
        fs::rename(os_path(&new), os_path(&dir.join(FILE)))
    }

    /// Reads it. What another version wrote is an error.
    ///
    /// # Errors
    /// When it is not there, or is nothing of ours.
    pub fn read(dir: &AbsPath) -> io::Result<Self> {
        parse(&text_of(dir)?)
    }

    /// What its supervisor asks of whoever talks to it.
    ///
    /// # Errors
    /// As [`About::read`], and where nobody answers.
    pub(crate) fn token(dir: &AbsPath) -> io::Result<String> {
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
        }
        let Token { token } = parse(&text_of(dir)?)?;
        token.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn text_of(dir: &AbsPath) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
    let mode = rustix::fs::Mode::empty();
    let file: File = rustix::fs::open(dir.join(FILE).as_bytes(), rustix::fs::OFlags::RDONLY | flags, mode)?.into();
    file.take(1 << 20).read_to_end(&mut text)?;
    Ok(text)
}

fn parse<'t, T: Deserialize<'t>>(text: &'t [u8]) -> io::Result<T> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let Version { schema } = serde_json::from_slice(text)?;
    if schema != SCHEMA {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("written by another version (schema {schema})"),
        ));
    }
    Ok(serde_json::from_slice(text)?)
}

/// Removes what is written about a session from its directory. What is not there needs no removing.
pub(crate) fn remove(dir: &AbsPath) {
    for name in [FILE, NEW, crate::desk::SOCKET, crate::desk::PAUSED, crate::desk::RESERVE] {
        let _ = rustix::fs::unlink(dir.join(name).as_bytes());
    }
}

impl Past {
    /// Adds it to what is kept of ended sessions.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, state: &AbsPath) -> io::Result<()> {
        let path = state.join(ENDED);
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = fs::OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(flags);
        let open = || options.open(os_path(&path));
        let file = open()?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let length = file.metadata()?.len();
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        if length > 0 && !ends_in_line(&file, length)? {
            // Whoever wrote there was killed: what is torn stays a line of its own, which nobody can read.
            line.insert(0, b'\n');
        }
        (&file).write_all(&line)?;
        if length > MOST_PAST { forget_old(&file) } else { Ok(()) }
    }
}

fn ends_in_line(file: &File, length: u64) -> io::Result<bool> {
    let mut last = [0];
    file.read_exact_at(&mut last, length - 1)?;
    Ok(last == *b"\n")
}

/// Keeps the newest. The file stays the same, since others wait for its lock. A crash in between leaves a list that is cut,
/// and nothing else is lost: the whole story is in the audit.
fn forget_old(file: &File) -> io::Result<()> {
    let mut text = Vec::new();
    let length = file.metadata()?.len();
    let mut from = file.try_clone()?;
    io::Seek::seek(&mut from, io::SeekFrom::Start(length.saturating_sub(KEPT_PAST as u64)))?;
    from.read_to_end(&mut text)?;
    let first = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1);
    file.set_len(0)?;
    (&mut &*file).write_all(&text[first..])
}

/// The ended sessions, the newest first, and how many lines could not be read.
///
/// # Errors
/// When the list is there and cannot be read.
pub fn past(state: &AbsPath) -> io::Result<(Vec<Past>, usize)> {
    let text = match fs::read(os_path(&state.join(ENDED))) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        text => text?,
    };
    let mut known = std::collections::HashSet::new();
    let (mut all, mut unread): (Vec<Past>, usize) = (Vec::new(), 0);
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).rev() {
        match parse::<Past>(line) {
            // One that was collected twice, since the first who did was killed.
            Ok(past) if !known.insert(past.about.id.clone()) => {}
            Ok(past) => all.push(past),
            Err(_) => unread += 1,
        }
    }
    Ok((all, unread))
}
