//! Follows the chain while it is written: what happens from a line on, in order, each line once.
//!
//! Nothing is locked, so no writer ever waits for somebody who follows. Only whole lines are taken, and those whose number was
//! told already are passed over.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use ringfence_surface::AbsPath;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{Mode, OFlags};

use super::Stored;
use super::log::{self, Head, StoredHead};

/// So much is read in one go.
const ONCE: u64 = 4 << 20;

/// Where somebody begins to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// With what happens from now on.
    Now,
    /// After the line of this number.
    After(u64),
    /// With what happened since this moment, in milliseconds since 1970; some of what was before may be told too.
    Moment(u64),
}

/// Somebody who follows.
#[derive(Debug)]
pub struct Follow {
    dir: AbsPath,
    /// The number of the last line that was told.
    told: u64,
    open: Option<Open>,
    /// Readable when something was written; where there is none, one looks again after a while.
    bell: Option<OwnedFd>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Device and inode, by which a part is known under whatever name.
    id: (u64, u64),
    /// Where the next line begins.
    at: u64,
}

impl Follow {
    pub(super) fn from(dir: &AbsPath, start: From) -> io::Result<Self> {
        let bell = bell(dir);
        let told = match start {
            From::After(line) => line,
            From::Now => last(dir)?,
            From::Moment(since_ms) => last_before(dir, since_ms)?,
        };
        Ok(Self { dir: dir.clone(), told, open: None, bell })
    }

    /// The number of the last line that was told.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Readable when there may be more.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(OwnedFd::as_fd)
    }

    /// What has happened since. There may be more where something is returned.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn more(&mut self) -> io::Result<Vec<Stored>> {
        if let Some(bell) = &self.bell {
            // Nothing is in it where nobody rang.
            let _ = rustix::io::read(bell, &mut [0; 4096]);
        } else {
            self.bell = bell(&self.dir);
        }
        let found = self.read()?;
        if !found.is_empty() {
            return Ok(found);
        }
        // Nothing more in the part that is open. Another may have taken its place.
        match self.following()? {
            Some(next) => {
                self.open = Some(next);
                self.read()
            }
            None => Ok(Vec::new()),
        }
    }

    /// The part after the one that is open, if there is one: the oldest with lines that were not told.
    fn following(&self) -> io::Result<Option<Open>> {
        for path in log::parts(&self.dir)?.into_iter().chain([self.dir.join(log::LOG)]) {
            if number_of(&path).is_some_and(|last| last <= self.told) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file: File = match rustix::fs::open(path.as_bytes(), flags, Mode::empty()) {
                // Put away, removed, or not begun yet.
                Err(rustix::io::Errno::NOENT) => continue,
                file => file?.into(),
            };
            let metadata = file.metadata()?;
            let id = (metadata.dev(), metadata.ino());
            if self.open.as_ref().is_none_or(|open| open.id != id) {
                return Ok(Some(Open { file, id, at: 0 }));
            }
        }
        Ok(None)
    }

    /// The lines that were added to the part that is open.
    fn read(&mut self) -> io::Result<Vec<Stored>> {
        let Some(open) = &mut self.open else { return Ok(Vec::new()) };
        let length = open.file.metadata()?.len();
        if length < open.at {
            // Cut by a writer that had no room; what was told stays told.
            open.at = 0;
        }
        let mut found = Vec::new();
        while found.is_empty() {
            let mut text = Vec::new();
            open.file.seek(SeekFrom::Start(open.at))?;
            (&mut open.file).take(ONCE).read_to_end(&mut text)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if whole == 0 {
                break;
            }
            open.at += whole as u64;
            for line in log::lines(&text[..whole]) {
                // One that cannot be read is for `audit verify` to complain about.
                if let Ok(stored) = serde_json::from_slice::<Stored>(line)
                    && stored.n > self.told
                {
                    self.told = stored.n;
                    found.push(stored);
                }
            }
        }
        Ok(found)
    }
}

/// The number of the last line now.
fn last(dir: &AbsPath) -> io::Result<u64> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let head: File = match rustix::fs::open(dir.join(log::HEAD).as_bytes(), flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(0),
        head => head?.into(),
    };
    Ok(match Head::load(&head)? {
        StoredHead::Whole(head) => head.n,
        StoredHead::Missing | StoredHead::Damaged(_) => 0,
    })
}

/// The last line of the newest part that was finished before this moment.
fn last_before(dir: &AbsPath, since_ms: u64) -> io::Result<u64> {
    let mut last = 0;
    for path in log::parts(dir)? {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let part = rustix::fs::open(path.as_bytes(), flags, Mode::empty()).map(File::from);
        if !part.is_ok_and(|part| log::is_before(&part, since_ms)) {
            break;
        }
        last = number_of(&path).unwrap_or(last);
    }
    Ok(last)
}

/// The number of the last line of a part that was put away.
fn number_of(part: &AbsPath) -> Option<u64> {
    let name = std::str::from_utf8(part.file_name()?).ok()?;
    name.strip_prefix("log-")?.strip_suffix(".jsonl")?.parse().ok()
}

fn bell(dir: &AbsPath) -> Option<OwnedFd> {
    let bell = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
    let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR;
    inotify::add_watch(&bell, dir.as_bytes(), flags).ok()?;
    Some(bell)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::time::Duration;

    use super::super::{Event, What};
    use super::*;

    fn append(dir: &AbsPath, count: usize, most: u64) {
        for _ in 0..count {
            let event = Event::now("s", What::Killed);
            log::append_within(dir, &[event], Duration::from_secs(5), most).unwrap();
        }
    }

    fn numbers(follow: &mut Follow) -> Vec<u64> {
        let mut all = Vec::new();
        loop {
            let found = follow.more().unwrap();
            if found.is_empty() {
                return all;
            }
            all.extend(found.iter().map(|stored| stored.n));
        }
    }

    /// Each line once and in order, over parts that are put away meanwhile.
    #[test]
    fn a10_the_chain_is_followed_over_its_parts() {
        let place = tempfile::tempdir().unwrap();
        let dir = AbsPath::lexical(place.path().as_os_str().as_bytes()).unwrap().join("audit");
        let mut early = Follow::from(&dir, From::Now).unwrap();
        assert_eq!(numbers(&mut early), Vec::<u64>::new());
        append(&dir, 3, 1 << 20);
        assert_eq!(numbers(&mut early), [1, 2, 3]);
        let mut now = Follow::from(&dir, From::Now).unwrap();
        let mut second = Follow::from(&dir, From::After(1)).unwrap();
        assert_eq!(numbers(&mut second), [2, 3]);
        append(&dir, 40, 600);
        let rest: Vec<u64> = (4..=43).collect();
        assert_eq!(numbers(&mut now), rest);
        assert_eq!(numbers(&mut early), rest);
        assert!(log::parts(&dir).unwrap().len() > 3);
        assert_eq!(numbers(&mut Follow::from(&dir, From::After(0)).unwrap()), (1..=43).collect::<Vec<_>>());
        assert_eq!(numbers(&mut Follow::from(&dir, From::After(1_000)).unwrap()), Vec::<u64>::new());
        // From a moment on: what was finished long before is left out, and nothing that was not.
        let old = std::time::SystemTime::now() - Duration::from_secs(3_600);
        for part in &log::parts(&dir).unwrap()[..2] {
            File::options().write(true).open(crate::walk::os_path(part)).unwrap().set_modified(old).unwrap();
        }
        let first = numbers(&mut Follow::from(&dir, From::Moment(crate::text::now_ms() - 60_000)).unwrap());
        let before = number_of(&log::parts(&dir).unwrap()[1]).unwrap();
        assert_eq!(first, (before + 1..=43).collect::<Vec<_>>());
        assert_eq!(numbers(&mut Follow::from(&dir, From::Moment(0)).unwrap()).len(), 43);
        assert_eq!((second.told(), now.told()), (3, 43));
        assert!(now.fd().is_some());
    }
}
