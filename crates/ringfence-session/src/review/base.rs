//! What the host looked like when a session began: enough to tell whether somebody else changed a file since.

use std::collections::HashMap;
use std::io;

use ringfence_surface::AbsPath;
use rustix::fs::{FileType, Stat};

use super::files::{list, status};
use crate::bytes::{Reader, Writer};
use crate::walk::os_path;

/// What is remembered of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    mode: u32,
    size: u64,
    inode: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl Seen {
    pub(super) fn of(status: &Stat) -> Self {
        let kind = FileType::from_raw_mode(status.st_mode);
        if kind == FileType::Directory {
            // What is in it is looked at by itself.
            return Self { mode: status.st_mode, size: 0, inode: 0, modified: (0, 0), changed: (0, 0) };
        }
        let nanoseconds = |ns: u64| u32::try_from(ns).unwrap_or(0);
        // Of a file with other names the kernel also says that it changed when one of them goes.
        let changed = if status.st_nlink > 1 { (0, 0) } else { (status.st_ctime, nanoseconds(status.st_ctime_nsec)) };
        Self {
            mode: status.st_mode,
            size: status.st_size.unsigned_abs(),
            inode: status.st_ino,
            modified: (status.st_mtime, nanoseconds(status.st_mtime_nsec)),
            changed,
        }
    }

    /// What it is, and who may do what with it.
    pub(super) fn mode(&self) -> u32 {
        self.mode
    }

    /// Is this the same thing, as far as it matters?
    pub(super) fn is_still(&self, now: &Self) -> bool {
        let kind = |mode| FileType::from_raw_mode(mode);
        if kind(self.mode) == FileType::Directory {
            return kind(now.mode) == FileType::Directory;
        }
        let either_linked = self.changed == (0, 0) || now.changed == (0, 0);
        Self { changed: (0, 0), ..*self } == Self { changed: (0, 0), ..*now }
            && (either_linked || self.changed == now.changed)
    }
}

/// Writes down what is at a place and everything below it. What cannot be listed is hidden inside, and is left out.
pub(super) fn write(to: &AbsPath, over: &AbsPath) -> io::Result<()> {
    let mut out = Writer::new();
    let mut ahead = vec![over.clone()];
    put(&mut out, over, &status(over)?);
    while let Some(dir) = ahead.pop() {
        for (name, status) in list(&dir).unwrap_or_default() {
            let path = dir.child(&name);
            put(&mut out, &path, &status);
            if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
                ahead.push(path);
            }
        }
    }
    std::fs::write(os_path(to), out.finish())
}

fn put(out: &mut Writer, path: &AbsPath, status: &Stat) {
    let Seen { mode, size, inode, modified, changed } = Seen::of(status);
    out.bytes(path.as_bytes());
    for number in [u64::from(mode), size, inode] {
        out.number(number);
    }
    for (seconds, nanoseconds) in [modified, changed] {
        out.number(seconds.cast_unsigned());
        out.number(u64::from(nanoseconds));
    }
}

/// Reads it back, by path.
pub(super) fn read(from: &AbsPath) -> io::Result<HashMap<Vec<u8>, Seen>> {
    let text = std::fs::read(os_path(from))?;
    let mut rest = Reader::new(&text);
    let mut seen = HashMap::new();
    while !rest.is_done() {
        let (path, one) = next(&mut rest).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is damaged"))?;
        seen.insert(path, one);
    }
    Ok(seen)
}

fn next(rest: &mut Reader<'_>) -> Option<(Vec<u8>, Seen)> {
    let path = rest.bytes()?.to_vec();
    let mode = u32::try_from(rest.number()?).ok()?;
    let (size, inode) = (rest.number()?, rest.number()?);
    let mut time = || Some((rest.number()?.cast_signed(), u32::try_from(rest.number()?).ok()?));
    let (modified, changed) = (time()?, time()?);
    Some((path, Seen { mode, size, inode, modified, changed }))
}
