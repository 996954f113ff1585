//! Reading and writing where an agent may have been.
//!
//! A private cache lasts from session to session and is the agent's to write, so anything in it may be a link to somewhere
//! else by now. Every step from its root is opened by name without following, and a file is made anew under a name of its own
//! before it takes its place. What is read is opened by its real path, where links are an error.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_surface::AbsPath;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use crate::place::{open_by_names, open_root};

/// Who owns what is made, where that is not the caller.
pub(crate) type Owner = Option<(Uid, Gid)>;

/// A directory that is written to.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    owner: Owner,
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The name under which a file is made. Only we use it; what an agent puts there is removed.
const NEW: &str = ".ringfence-new";

impl Dir {
    /// An existing directory of ours, by a path that no agent can change.
    pub(crate) fn open(path: &AbsPath, owner: Owner) -> io::Result<Self> {
        let fd = rustix::fs::open(path.as_bytes(), OFlags::RDONLY | DIRECTORY, Mode::empty())?;
        Ok(Self { fd, owner })
    }

    /// A directory below, made where it is missing. `relative` has plain names only.
    pub(crate) fn below(&self, relative: &[u8]) -> io::Result<Self> {
        let mut at = Self { fd: self.fd.try_clone()?, owner: self.owner };
        for name in relative.split(|byte| *byte == b'/') {
            at = at.child(name)?;
        }
        Ok(at)
    }

    fn child(&self, name: &[u8]) -> io::Result<Self> {
        if matches!(name, b"" | b"." | b"..") {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let is_new = match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        let fd = rustix::fs::openat(&self.fd, name, OFlags::RDONLY | DIRECTORY, Mode::empty())?;
        if let (true, Some((uid, gid))) = (is_new, self.owner) {
            rustix::fs::fchown(&fd, Some(uid), Some(gid))?;
        }
        Ok(Self { fd, owner: self.owner })
    }

    /// Does anything have this name?
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Writes a small file, in place of what had its name.
    pub(crate) fn put(&self, name: &[u8], content: &[u8]) -> io::Result<()> {
        match self.create(name) {
            // Where nothing is replaced there is no need for a name in between, and a session starts sooner.
            Ok(mut file) => file.write_all(content).and_then(|()| self.hand_over(&file)),
            Err(Errno::EXIST) => self.make(name, |mut file| file.write_all(content)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Writes a small file that only its owner reads.
    pub(crate) fn put_secret(&self, name: &[u8], content: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        file.write_all(content).and_then(|()| self.hand_over(&file))
    }

    /// Makes a symbolic link.
    pub(crate) fn link(&self, name: &[u8], target: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.fd, name)?)
    }

    /// Copies a file.
    pub(crate) fn copy(&self, name: &[u8], mut from: &File) -> io::Result<()> {
        self.make(name, |mut file| io::copy(&mut from, &mut file).map(drop))
    }

    fn make(&self, name: &[u8], fill: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let new = format!("{NEW}-{}", std::process::id());
        let file = match self.create(new.as_bytes()) {
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&self.fd, &new, AtFlags::empty())?;
                self.create(new.as_bytes())?
            }
            other => other?,
        };
        let filled = fill(&file).and_then(|()| self.hand_over(&file));
        let placed = filled.and_then(|()| Ok(rustix::fs::renameat(&self.fd, &new, &self.fd, name)?));
        if placed.is_err() {
            // The first failure is the one to tell.
            let _ = rustix::fs::unlinkat(&self.fd, &new, AtFlags::empty());
        }
        placed
    }

    fn create(&self, name: &[u8]) -> rustix::io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o644)).map(File::from)
    }

    fn hand_over(&self, file: &File) -> io::Result<()> {
        match self.owner {
            Some((uid, gid)) => Ok(rustix::fs::fchown(file, Some(uid), Some(gid))?),
            None => Ok(()),
        }
    }
}

/// A directory that is read from. Nothing below it is reached through a link: in a cache that lies in some project, an agent
/// would choose where it leads.
#[derive(Debug)]
pub(crate) struct Tree {
    fd: OwnedFd,
}

impl Tree {
    /// A directory, by its real path.
    pub(crate) fn open(path: &AbsPath) -> io::Result<Self> {
        Ok(Self { fd: without_links(CWD, path.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY)? })
    }

    /// A regular file below, of at most `most` bytes.
    pub(crate) fn file(&self, relative: &[u8], most: u64) -> io::Result<File> {
        regular(without_links(self.fd.as_fd(), relative, QUIETLY)?, most)
    }

    /// What such a file holds.
    pub(crate) fn read(&self, relative: &[u8], most: u64) -> io::Result<Vec<u8>> {
        content(self.file(relative, most)?, most)
    }

    /// The names in a directory below; none where it cannot be listed.
    pub(crate) fn names(&self, relative: &[u8]) -> Vec<Vec<u8>> {
        let dir = without_links(self.fd.as_fd(), relative, OFlags::RDONLY | OFlags::DIRECTORY);
        let entries = dir.ok().and_then(|dir| rustix::fs::Dir::new(dir).ok()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_bytes().to_vec());
        names.filter(|name| name != b"." && name != b"..").collect()
    }
}

/// Reads a regular file of at most `most` bytes by its real path: a link that appeared meanwhile is an error.
pub(crate) fn read_real(path: &AbsPath, most: u64) -> io::Result<Vec<u8>> {
    content(regular(without_links(CWD, path.as_bytes(), QUIETLY)?, most)?, most)
}

/// Nothing that could block is opened.
const QUIETLY: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn without_links(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // Somebody renames something at the same time, again and again: that is no reason to try for ever.
    for _ in 0..16 {
        match rustix::fs::openat2(dir, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Inside a fence not every descriptor can be had by this call.
            Err(Errno::NOSYS | Errno::PERM) => return Ok(by_names(dir, path, flags)?),
            other => return Ok(other?),
        }
    }
    Err(Errno::AGAIN.into())
}

fn by_names(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let is_absolute = path.first() == Some(&b'/');
    let below = path.iter().position(|byte| *byte != b'/').map_or(b".".as_slice(), |at| &path[at..]);
    let below = CString::new(below).map_err(|_| Errno::INVAL)?;
    if is_absolute { open_by_names(open_root()?.as_fd(), &below, flags) } else { open_by_names(dir, &below, flags) }
}

fn regular(file: OwnedFd, most: u64) -> io::Result<File> {
    let status = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || status.st_size.unsigned_abs() > most {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(File::from(file))
}

fn content(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn path(path: &std::path::Path) -> AbsPath {
        AbsPath::lexical(path.as_os_str().as_bytes()).unwrap()
    }

    #[test]
    fn files_and_directories_are_made_and_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(&path(temp.path()), None).unwrap();
        let inner = dir.below(b"a/b").unwrap();
        inner.put(b"f", b"one").unwrap();
        inner.put(b"f", b"two").unwrap();
        inner.copy(b"g", &File::open(temp.path().join("a/b/f")).unwrap()).unwrap();
        assert_eq!(fs::read(temp.path().join("a/b/g")).unwrap(), b"two");
        assert!(inner.has(b"f") && !inner.has(b"h"));
        assert_eq!(fs::read_dir(temp.path().join("a/b")).unwrap().count(), 2, "nothing else is left");
    }

    /// What an agent planted leads nowhere.
    #[test]
    fn links_are_not_followed() {
        let (temp, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("f"), "kept").unwrap();
        symlink(outside.path(), temp.path().join("dir")).unwrap();
        symlink(outside.path().join("f"), temp.path().join("f")).unwrap();
        symlink(outside.path().join("f"), temp.path().join(format!("{NEW}-{}", std::process::id()))).unwrap();
        let dir = Dir::open(&path(temp.path()), None).unwrap();
        assert!(dir.below(b"dir").is_err() && dir.below(b"dir/x").is_err());
        assert!(dir.below(b"../x").is_err() && dir.below(b"").is_err());
        dir.put(b"f", b"new").unwrap();
        assert_eq!(fs::read(outside.path().join("f")).unwrap(), b"kept");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        assert!(fs::symlink_metadata(temp.path().join("f")).unwrap().is_file());
    }

    #[test]
    fn only_small_regular_files_are_read() {
        let temp = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temp.path()).unwrap();
        fs::create_dir(base.join("d")).unwrap();
        fs::write(base.join("d/f"), "12345").unwrap();
        symlink("f", base.join("d/l")).unwrap();
        symlink("d", base.join("e")).unwrap();
        let tree = Tree::open(&path(&base)).unwrap();
        assert_eq!(tree.read(b"d/f", 5).unwrap(), b"12345");
        assert_eq!(read_real(&path(&base.join("d/f")), 5).unwrap(), b"12345");
        for (name, most) in [("d/l", 5), ("e/f", 5), ("d/f", 4), ("d", 5), ("x", 5)] {
            assert!(tree.read(name.as_bytes(), most).is_err(), "{name}");
            assert!(read_real(&path(&base.join(name)), most).is_err(), "{name}");
        }
        let mut names = tree.names(b"d");
        names.sort();
        assert_eq!(names, [b"f", b"l"]);
        assert!(tree.names(b"e").is_empty());
    }
}
