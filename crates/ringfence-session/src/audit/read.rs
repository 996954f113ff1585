//! Reads the chain: what happened, to whom, where and since when.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};

use ringfence_surface::AbsPath;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::log::{self, Head, StoredHead};
use super::{Event, What};
use crate::text::Bytes;

/// What is asked for. Everything where nothing is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Sessions whose name begins with this.
    pub session: Option<String>,
    /// What speaks of this path or something below it.
    pub path: Option<AbsPath>,
    /// Not before this, in milliseconds since 1970.
    pub since_ms: Option<u64>,
}

impl Query {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Self { session: None, path: None, since_ms: None }
    }

    fn matches(&self, event: &Event) -> bool {
        let session = |prefix: &String| event.session.as_ref().is_some_and(|id| id.starts_with(prefix.as_str()));
        let path =
            |above: &AbsPath| path_of(&event.what).and_then(Bytes::path).is_some_and(|path| path.is_within(above));
        self.session.as_ref().is_none_or(session)
            && self.path.as_ref().is_none_or(path)
            && self.since_ms.is_none_or(|since| event.at_ms >= since)
    }
}

fn path_of(what: &What) -> Option<&Bytes> {
    match what {
        What::Start { path, .. } | What::Grant { path, .. } | What::Revoke { path, .. } => Some(path),
        What::Verdict { path, .. } => path.as_ref(),
        What::Violation(counted) => counted.violation.path.as_ref(),
        _ => None,
    }
}

/// A line of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Its number.
    pub n: u64,
    /// The hash of the line before.
    pub prev: String,
    /// What it says.
    #[serde(flatten)]
    pub event: Event,
}

/// A part that is open: it stays what it is when another writer puts it away or removes it.
pub(super) struct Part {
    pub(super) path: AbsPath,
    pub(super) file: File,
    /// How long it is, where it is still written to.
    pub(super) length: u64,
}

/// Opens every part, the oldest first, in one moment in which nobody writes.
pub(super) fn open_all(dir: &AbsPath) -> io::Result<(Vec<Part>, StoredHead)> {
    let lock = match log::lock(dir, std::time::Duration::from_secs(5)) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), StoredHead::Missing)),
        lock => lock?,
    };
    let mut open = Vec::new();
    for path in log::parts(dir)?.into_iter().chain([dir.join(log::LOG)]) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: File = match rustix::fs::open(path.as_bytes(), flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) if path == dir.join(log::LOG) => continue,
            file => file?.into(),
        };
        open.push(Part { length: file.metadata()?.len(), path, file });
    }
    Ok((open, Head::load(&lock)?))
}

impl Part {
    /// Each line with its end, if it has one.
    pub(super) fn each(self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(1 << 16, self.file.take(self.length));
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            each(&line);
            line.clear();
        }
        Ok(())
    }
}

pub(super) fn query(dir: &AbsPath, query: &Query) -> io::Result<(Vec<Stored>, usize)> {
    let (mut found, mut unread) = (Vec::new(), 0);
    for part in open_all(dir)?.0 {
        if query.since_ms.is_some_and(|since| log::is_before(&part.file, since)) {
            continue;
        }
        part.each(|line| match serde_json::from_slice::<Stored>(line) {
            Ok(stored) if query.matches(&stored.event) => found.push(stored),
            Ok(_) => {}
            Err(_) => unread += 1,
        })?;
    }
    Ok((found, unread))
}
