//! Files by their whole paths, opened without following a link anywhere on the way.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use ringfence_surface::AbsPath;
use rustix::fs::{AtFlags, FileType, OFlags, RawDir, Stat};
use rustix::io::Errno;

use crate::place::{open_beneath, open_place, open_root, relative};
use crate::sparse;

/// What stands at a path.
pub(super) fn status(path: &AbsPath) -> rustix::io::Result<Stat> {
    rustix::fs::fstat(open_place(open_root()?, &relative(path))?)
}

/// The same; `None` where nothing does.
pub(super) fn found(path: &AbsPath) -> rustix::io::Result<Option<Stat>> {
    match status(path) {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        other => other.map(Some),
    }
}

/// A directory, to make and remove names in.
pub(super) fn directory(path: &AbsPath) -> rustix::io::Result<OwnedFd> {
    open_beneath(open_root()?, &relative(path), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)
}

/// A regular file, to read. Nothing is waited for.
pub(super) fn file(path: &AbsPath) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = open_beneath(open_root()?, &relative(path), flags)?;
    if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(fd.into())
}

/// Where a link leads to.
pub(super) fn target(path: &AbsPath) -> io::Result<Vec<u8>> {
    let link = open_place(open_root()?, &relative(path))?;
    Ok(rustix::fs::readlinkat(&link, c"", Vec::new())?.into_bytes())
}

/// The names in a directory, sorted, and what stands there.
pub(super) fn list(path: &AbsPath) -> rustix::io::Result<Vec<(Vec<u8>, Stat)>> {
    let dir = directory(path)?;
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    let mut listing = RawDir::new(&dir, &mut buffer);
    let mut all = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        match rustix::fs::statat(&dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => all.push((entry.file_name().to_bytes().to_vec(), status)),
            // It went meanwhile.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(all)
}

/// Do two files hold the same?
pub(super) fn is_same(one: &AbsPath, other: &AbsPath) -> io::Result<bool> {
    let (one, other) = (file(one)?, file(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut at = 0;
    // What is a hole in both is not read: the agent may have made one of a tebibyte.
    while let Some(data) = first(sparse::next_data(&one, at)?, sparse::next_data(&other, at)?) {
        let got = fill(&one, data, &mut a)?;
        if got != fill(&other, data, &mut b)? || a[..got] != b[..got] {
            return Ok(false);
        }
        if got == 0 {
            break;
        }
        at = data + got as u64;
    }
    Ok(true)
}

fn first(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// Reads from there until there is no room or nothing left.
fn fill(from: &File, at: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match from.read_at(&mut into[got..], at + got as u64) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(got)
}

/// What a file holds, if that is not more than so much.
pub(super) fn content(path: &AbsPath, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}
