//! Looking beneath a root. Everything has a bound that the caller names, and nothing waits for anybody.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use ringfence_surface::{PATH_MAX, Progress, RelativeGlob};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::kernel::{failed, kind, kind_of, regular};
use super::{Root, io, name};
use crate::error::{FileError, FileKind, Operation};
use crate::path::RelPath;
use crate::search::{Entry, Found, Part};

/// A pipe without a writer does not make us wait, and no terminal becomes ours.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);
const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NONBLOCK);

/// How many entries a search looks at before it gives up: a tree of more is hostile, or nobody waits for the answer.
const MOST_LOOKED_AT: usize = 5_000_000;

/// How many bytes of paths a search remembers beside its answer: what is still to be looked into, and what could not be. Ten
/// thousand directories at the end of a path of four kilobytes cost nothing to make.
const MOST_HELD: usize = 32 << 20;

impl Root {
    /// What a regular file holds, if that is at most `most` bytes.
    ///
    /// # Errors
    /// `TooLarge`, also for a file that grows meanwhile or only pretends to be small; `WrongKind` for pipes, devices, sockets and
    /// directories; `PathEscape`; and what the kernel says.
    pub fn read(&self, path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, FileError> {
        let path = RelPath::new(path.as_ref())?;
        let (file, size) = self.open_to_read(&path)?;
        let too_large = || FileError::TooLarge { path: path.to_path(), most, unit: "bytes" };
        if size > most {
            return Err(too_large());
        }
        // One byte more than there should be tells the end of the file in the same call.
        let mut bytes = room(size.saturating_add(1), &path)?;
        let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|source| FileError::Io { call: "read", path: path.to_path(), source })?;
        if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
    }

    /// A part of a regular file, however large it is: at most `most` bytes from `offset` on.
    ///
    /// # Errors
    /// As [`Root::read`], without `TooLarge`.
    pub fn read_part(&self, path: impl AsRef<Path>, offset: u64, most: usize) -> Result<Part, FileError> {
        let path = RelPath::new(path.as_ref())?;
        let (file, size) = self.open_to_read(&path)?;
        let there = size.saturating_sub(offset).min(most as u64);
        let (mut bytes, mut got) = (room(there, &path)?, 0);
        bytes.resize(usize::try_from(there).unwrap_or(0), 0);
        while got < bytes.len() {
            match file.read_at(&mut bytes[got..], offset.saturating_add(got as u64)) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(FileError::Io { call: "pread", path: path.to_path(), source }),
            }
        }
        bytes.truncate(got);
        Ok(Part { bytes, size })
    }

    fn open_to_read(&self, path: &RelPath) -> Result<(File, u64), FileError> {
        let fd = self.try_open(path, READ, Mode::empty());
        let fd = fd.map_err(|errno| self.not_opened(path, Operation::Read, errno))?;
        let status = regular(&fd, path, Operation::Read)?;
        Ok((File::from(fd), status.st_size.unsigned_abs()))
    }

    /// What stands in a directory, sorted.
    ///
    /// # Errors
    /// `TooLarge` for more than `most` entries, `PathEscape`, and what the kernel says.
    pub fn list(&self, path: impl AsRef<Path>, most: usize) -> Result<Vec<Entry>, FileError> {
        let path = RelPath::new(path.as_ref())?;
        let dir = self.open_at(&path, LIST)?;
        let mut entries = Vec::new();
        let listed = each_entry(&dir, |name, kind| {
            entries.push(Entry { path: path.join(name).to_path(), kind });
            entries.len() <= most
        });
        listed.map_err(|errno| io("getdents64", &path, errno))?;
        if entries.len() > most {
            let most = most as u64;
            return Err(FileError::TooLarge { path: path.to_path(), most, unit: "entries" });
        }
        entries.sort();
        Ok(entries)
    }

    /// What matches a pattern, sorted: `*.md`, `src/**/*.rs`, `[a-z]*/**`. A leading dot is not special. Links are found, and
    /// never followed.
    ///
    /// Every directory is looked into once, whatever the pattern, so no pattern makes the work grow beyond the tree.
    ///
    /// # Errors
    /// `Pattern` where it cannot be used, `PathEscape` where its part before the first wildcard leads through a link.
    pub fn glob(&self, pattern: impl AsRef<Path>, most: usize) -> Result<Found, FileError> {
        let glob = RelativeGlob::search(pattern.as_ref().as_os_str().as_bytes())?;
        let top = RelPath::new(Path::new(name(&glob.literal().path)))?;
        let mut search = Search {
            root: self,
            glob: &glob,
            most,
            queue: VecDeque::new(),
            looked_at: 0,
            held: 0,
            found: Found::nothing(),
        };
        if glob.literal().is_whole {
            search.one(&top)?;
        } else {
            search.below(&top)?;
        }
        search.found.entries.sort();
        search.found.skipped.sort();
        Ok(search.found)
    }
}

/// Memory for so many bytes. A file costs nothing and can say any size, so there may be none, and that must not end the process.
fn room(size: u64, path: &RelPath) -> Result<Vec<u8>, FileError> {
    let none = || FileError::Io { call: "read", path: path.to_path(), source: ErrorKind::OutOfMemory.into() };
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(size).map_err(|_| none())?).map_err(|_| none())?;
    Ok(bytes)
}

struct Search<'s> {
    root: &'s Root,
    glob: &'s RelativeGlob,
    most: usize,
    /// Directories by their paths. Descriptors would be fewer than a tree can be deep.
    queue: VecDeque<(RelPath, Progress)>,
    looked_at: usize,
    /// In bytes.
    held: usize,
    found: Found,
}

impl Search<'_> {
    /// A pattern that names one place.
    fn one(&mut self, path: &RelPath) -> Result<(), FileError> {
        let place = self.root.try_open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty());
        match place.and_then(kind_of) {
            Ok((kind, _)) if !path.is_root() => self.take(path.to_path(), kind),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(failed(path, errno)),
        }
        Ok(())
    }

    fn below(&mut self, top: &RelPath) -> Result<(), FileError> {
        match self.root.try_open(top, LIST, Mode::empty()) {
            Ok(dir) => self.look_into(&dir, top, self.glob.after(top.bytes())),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(failed(top, errno)),
        }
        while let Some((path, progress)) = self.queue.pop_front() {
            self.held = self.held.saturating_sub(path.bytes().len());
            match self.root.try_open(&path, LIST, Mode::empty()) {
                Ok(dir) => self.look_into(&dir, &path, progress),
                Err(_) => self.skip(&path),
            }
        }
        Ok(())
    }

    fn look_into(&mut self, dir: &OwnedFd, path: &RelPath, progress: Progress) {
        let looked = each_entry(dir, |name, kind| {
            self.looked_at += 1;
            if self.looked_at > MOST_LOOKED_AT {
                self.stop();
                return false;
            }
            let here = self.glob.step(progress, name);
            if self.glob.is_match(here) {
                self.take(path.join(name).to_path(), kind);
            }
            if kind == FileKind::Directory && self.glob.goes_on(here) && !self.found.is_cut {
                self.descend(path.join(name), here);
            }
            !self.found.is_cut
        });
        if looked.is_err() {
            self.skip(path);
        }
    }

    fn descend(&mut self, path: RelPath, progress: Progress) {
        if path.bytes().len() >= PATH_MAX {
            self.skip(&path);
        } else if self.hold(&path) {
            self.queue.push_back((path, progress));
        }
    }

    fn skip(&mut self, path: &RelPath) {
        if self.hold(path) {
            self.found.skipped.push(path.to_path());
        }
    }

    /// Is there room to remember it? The search ends where there is not.
    fn hold(&mut self, path: &RelPath) -> bool {
        self.held += path.bytes().len();
        let fits = self.held <= MOST_HELD;
        if !fits {
            self.stop();
        }
        fits
    }

    fn take(&mut self, path: PathBuf, kind: FileKind) {
        if self.found.entries.len() < self.most {
            self.found.entries.push(Entry { path, kind });
        } else {
            self.stop();
        }
    }

    fn stop(&mut self) {
        self.found.is_cut = true;
        self.queue.clear();
    }
}

/// Visits the entries of a directory until it is told to stop.
fn each_entry(dir: &OwnedFd, mut visit: impl FnMut(&[u8], FileKind) -> bool) -> Result<(), Errno> {
    let mut buffer = Vec::with_capacity(1 << 15);
    let mut listing = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let last = entry.file_name();
        if matches!(last.to_bytes(), b"." | b"..") {
            continue;
        }
        let found = match entry.file_type() {
            // Some file systems do not say.
            FileType::Unknown => rustix::fs::statat(dir, last, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |status| FileType::from_raw_mode(status.st_mode)),
            known => known,
        };
        if !visit(last.to_bytes(), kind(found)) {
            break;
        }
    }
    Ok(())
}
