//! Writes the chain: one writer at a time, whole lines only, and nothing that was found wrong is passed over.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::time::{Duration, Instant};

use ringfence_surface::AbsPath;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{Event, Line, Link, NOTHING, What, hash, room};
use crate::text::{Bytes, now_ms};
use crate::walk::os_path;

pub(super) const LOG: &str = "log.jsonl";
pub(super) const HEAD: &str = "head";
/// A part of this length is put away.
const MOST: u64 = 8 << 20;
/// As much as so many parts is kept beside the current one.
const PARTS: u64 = 16;
/// So much of half a line is kept.
const MOST_TORN: usize = 4096;

/// Where the chain ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    schema: u32,
    /// The number of the last line.
    pub(super) n: u64,
    /// Its hash.
    pub(super) hash: String,
    /// How long the current part is.
    pub(super) length: u64,
}

impl Head {
    pub(super) const START: fn() -> Self = || Self { schema: 1, n: 0, hash: NOTHING.to_owned(), length: 0 };

    fn store(&self, file: &File) -> io::Result<()> {
        // Shorter than a page and written in one call: nobody ever sees half of it, but for a machine that loses power.
        let mut text = serde_json::to_vec(self)?;
        text.resize(text.len().max(160), b' ');
        file.write_all_at(&text, 0)
    }

    /// Reads it. That it cannot be read now is an error and no evidence: a disk or a server may answer the next time.
    pub(super) fn load(mut file: &File) -> io::Result<StoredHead> {
        // Room for all of it and a byte more: one call reads it, and one finds its end.
        let mut text = Vec::with_capacity(512);
        file.rewind()?;
        file.take(4096).read_to_end(&mut text)?;
        if text.is_empty() {
            return Ok(StoredHead::Missing);
        }
        Ok(serde_json::from_slice(&text).map_or_else(|cause| StoredHead::Damaged(cause.to_string()), StoredHead::Whole))
    }
}

/// What stands in `head`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StoredHead {
    /// Nothing.
    Missing,
    /// Something that ringfence did not write, and what is wrong with it.
    Damaged(String),
    /// The end of the chain.
    Whole(Head),
}

/// Opens `head` and takes its lock.
pub(super) fn lock(dir: &AbsPath, time: Duration) -> io::Result<File> {
    let head = open(&dir.join(HEAD), OFlags::RDWR | OFlags::CREATE)?;
    let until = Instant::now() + time;
    loop {
        match rustix::fs::flock(&head, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(head),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(Duration::from_micros(200)),
            Err(errno) => return Err(errno.into()),
        }
    }
}

pub(super) fn open(path: &AbsPath, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?.into())
}

pub(super) fn sync(dir: &AbsPath) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(open(&dir.join(LOG), OFlags::RDWR)?)?)
}

pub(super) fn append(dir: &AbsPath, events: &[Event], time: Duration) -> io::Result<()> {
    append_within(dir, events, time, MOST)
}

/// With another length of parts, for tests.
pub(super) fn append_within(dir: &AbsPath, events: &[Event], time: Duration, most: u64) -> io::Result<()> {
    let head = match lock(dir, time) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(os_path(dir))?;
            lock(dir, time)?
        }
        head => head?,
    };
    let log = open(&dir.join(LOG), OFlags::RDWR | OFlags::CREATE | OFlags::APPEND)?;
    let (mut at, notes) = settle(dir, &head, &log)?;
    write(&log, &mut at, notes.iter().chain(events))?;
    at.store(&head)?;
    if at.length >= most {
        // What was to be written stands there. A disk on which no room can be made has the next writer try again.
        let _ = put_away(dir, &head, at, most * PARTS);
    }
    Ok(())
}

/// Adds lines in one call, all or none.
pub(super) fn write<'e>(log: &File, at: &mut Head, events: impl Iterator<Item = &'e Event>) -> io::Result<()> {
    let mut text = Vec::new();
    let (mut n, mut prev) = (at.n, at.hash.clone());
    for event in events {
        n += 1;
        let line = serde_json::to_vec(&Line { n, prev: &prev, event: &event.bounded() })?;
        prev = hash(&line);
        text.extend_from_slice(&line);
        text.push(b'\n');
    }
    if let Err(cause) = (&mut &*log).write_all(&text) {
        // A full disk takes a part of it. What cannot be taken back either is found by the next writer.
        let _ = log.set_len(at.length);
        return Err(cause);
    }
    *at = Head { n, hash: prev, length: at.length + text.len() as u64, ..at.clone() };
    Ok(())
}

/// Where the chain ends, and what must be said about how that was found.
fn settle(dir: &AbsPath, head: &File, log: &File) -> io::Result<(Head, Vec<Event>)> {
    let length = log.metadata()?.len();
    let (head, mut found) = match Head::load(head)? {
        StoredHead::Whole(head) if head.length == length => return Ok((head, Vec::new())),
        StoredHead::Whole(head) => (head, None),
        StoredHead::Missing if length == 0 && parts(dir)?.is_empty() => return Ok((Head::START(), Vec::new())),
        StoredHead::Missing => (Head::START(), Some("the head was gone")),
        StoredHead::Damaged(_) => (Head::START(), Some("the head was unreadable")),
    };
    if length == 0 && is_put_away(dir, &head)? {
        // The writer was stopped between putting a part away and saying so.
        return Ok((Head { length: 0, ..head }, Vec::new()));
    }
    let mut text = Vec::new();
    (&mut &*log).rewind()?;
    (&mut &*log).read_to_end(&mut text)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (text, torn) = text.split_at(whole);
    let (at, follows) = last_line(dir, text, &head)?;
    if found.is_none() && !follows {
        found = Some("lines are missing at the end, or others stand there");
    }
    let mut notes = Vec::new();
    if !torn.is_empty() {
        log.set_len(whole as u64)?;
        let text = Bytes::new(&torn[..torn.len().min(MOST_TORN)]);
        notes.push(note(What::Torn { text, bytes: torn.len() as u64 }));
    }
    if let Some(found) = found {
        let found = format!("{found}: line {} was the last, and line {} is", head.n, at.n);
        notes.push(note(What::Broken { found }));
    }
    Ok((at, notes))
}

pub(super) fn note(what: What) -> Event {
    Event { session: None, at_ms: now_ms(), what }
}

/// The last line that stands there, and whether everything after the head follows from it.
fn last_line(dir: &AbsPath, text: &[u8], head: &Head) -> io::Result<(Head, bool)> {
    let at = |n, hash| Head { n, hash, length: text.len() as u64, ..head.clone() };
    let known = usize::try_from(head.length).ok().and_then(|length| text.get(length..));
    if let Some(new) = known {
        let (mut n, mut prev) = (head.n, head.hash.clone());
        let follows = lines(new).all(|line| {
            let follows = serde_json::from_slice::<Link>(line).is_ok_and(|link| link.n == n + 1 && link.prev == prev);
            (n, prev) = end_of(line).unwrap_or_else(|| (n + 1, hash(line)));
            follows
        });
        if follows {
            return Ok((at(n, prev), true));
        }
    }
    let last = match lines(text).last() {
        Some(line) => Some(line.to_vec()),
        None => parts(dir)?.last().map(last_of).transpose()?,
    };
    Ok(match last {
        Some(line) => {
            let (n, hash) = end_of(&line).unwrap_or_else(|| (head.n, hash(&line)));
            (at(n, hash), false)
        }
        None => (at(0, NOTHING.to_owned()), false),
    })
}

pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn is_put_away(dir: &AbsPath, head: &Head) -> io::Result<bool> {
    let parts = parts(dir)?;
    let Some(last) = parts.last() else { return Ok(false) };
    Ok(end_of(&last_of(last)?).is_some_and(|(_, hash)| hash == head.hash))
}

/// The number and the hash by which the next line follows a line: its own, or those of the last line in whose place it stands.
pub(super) fn end_of(line: &[u8]) -> Option<(u64, String)> {
    match serde_json::from_slice::<What>(line) {
        Ok(What::Gone { through, hash }) => Some((through, hash)),
        _ => serde_json::from_slice::<Link>(line).ok().map(|link| (link.n, hash(line))),
    }
}

/// The last line of a part.
pub(super) fn last_of(part: &AbsPath) -> io::Result<Vec<u8>> {
    let text = fs::read(os_path(part))?;
    Ok(lines(&text).last().unwrap_or_default().to_vec())
}

/// The parts that were put away, the oldest first.
pub(super) fn parts(dir: &AbsPath) -> io::Result<Vec<AbsPath>> {
    let mut names: Vec<String> = Vec::new();
    let entries = match fs::read_dir(os_path(dir)) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    for entry in entries {
        if let Some(name) = entry?.file_name().to_str()
            && name.starts_with("log-")
            && name.ends_with(".jsonl")
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| dir.join(&name)).collect())
}

/// Was a part last written to before this moment? Then it says nothing of what came later. A clock that was set back may keep one
/// that says nothing, and never leaves one out.
pub(super) fn is_before(part: &File, since_ms: u64) -> bool {
    const SLACK: u64 = 2_000;
    let written = part.metadata().and_then(|metadata| metadata.modified());
    let written = written.ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    written.is_some_and(|at| at.as_millis() + u128::from(SLACK) < u128::from(since_ms))
}

/// Puts the current part away under the number of its last line, and makes room where there is too much.
fn put_away(dir: &AbsPath, head: &File, at: Head, kept: u64) -> io::Result<()> {
    let part = dir.join(&format!("log-{:012}.jsonl", at.n));
    fs::rename(os_path(&dir.join(LOG)), os_path(&part))?;
    let mut at = Head { length: 0, ..at };
    at.store(head)?;
    room::make(dir, kept, |event| {
        let log = open(&dir.join(LOG), OFlags::RDWR | OFlags::CREATE | OFlags::APPEND)?;
        write(&log, &mut at, [event].into_iter())?;
        at.store(head)
    })
}
