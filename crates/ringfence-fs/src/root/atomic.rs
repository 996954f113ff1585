//! Putting a whole file in place.
//!
//! The new file is made without a name, filled, brought to the disk, and only then given one: whoever kills us before that leaves
//! nothing behind. A name that is taken cannot be given twice, so a file that replaces another gets a name that nobody has for the
//! moment before it is renamed. Where files without names cannot be had, it has that name from the start. A reader sees the old
//! file or the new one. Whatever fails, the new one is removed again.
//!
//! What the new file takes over from the old one: its permission bits, its owner and group, its access control list and its
//! `user.` attributes. Not taken over, as they would not outlive a write into the old file either: set-user-id and
//! set-group-id bits, file capabilities. Other names of the old file keep the old content, so what is linked from a store
//! outside the root is never changed.
//!
//! A file that the caller may not write is not replaced: the right to change a directory would be a way around it.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use super::kernel::regular;
use super::{Root, io, name, own_path};
use crate::error::{FileError, Operation};
use crate::path::RelPath;
use crate::temporary::RecordNames;

const OLD: OFlags = OFlags::WRONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);
const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const NAMELESS: OFlags = OFlags::WRONLY.union(OFlags::TMPFILE).union(OFlags::CLOEXEC);

/// The access control list. Without it the group would get what the list gives to somebody else.
const ACL: &[u8] = b"system.posix_acl_access";

/// How often another name is tried.
const NAMES: usize = 16;

impl Root {
    /// Puts a file there, whole or not at all, in place of one that has the name. Missing directories are made. What it takes
    /// over from the old file: permission bits, owner, access control list and `user.` attributes; other names of the old file
    /// keep the old content.
    ///
    /// It has reached the disk when this returns.
    ///
    /// # Errors
    /// `PathEscape`, `PathNotAllowed`; `WrongKind` for what is no regular file; a plain `Io` where the caller may not write the
    /// old file, may not give the new one its owner, or the disk is full. The old file is then as it was.
    pub fn write(&self, path: impl AsRef<Path>, content: &[u8]) -> Result<(), FileError> {
        let path = RelPath::new(path.as_ref())?;
        self.writable.allow(&path, Operation::Write)?;
        let old = self.old_file(&path)?;
        let (parent, last) =
            path.split().ok_or(FileError::BadPath { path: path.to_path(), fault: "it is the root" })?;
        let dir = self.make_directories(&parent)?;
        put(&dir, last, content, old.as_ref(), (&path, self.names.as_deref()))?;
        // The name is on the disk only when the directory is. One that may be written and not listed cannot be opened for that.
        match rustix::fs::openat(&dir, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(dir) => rustix::fs::fsync(&dir).map_err(|errno| io("fsync", &path, errno)),
            Err(Errno::ACCESS) => Ok(()),
            Err(errno) => Err(io("openat", &path, errno)),
        }
    }

    /// What has the name now, opened as a write into it would: it has to be a file, and the caller's to write.
    fn old_file(&self, path: &RelPath) -> Result<Option<(OwnedFd, Stat)>, FileError> {
        match self.try_open(path, OLD, Mode::empty()) {
            Ok(fd) => {
                let status = regular(&fd, path, Operation::Write)?;
                Ok(Some((fd, status)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.not_opened(path, Operation::Write, errno)),
        }
    }
}

/// Makes, fills and places the file.
fn put(
    dir: &OwnedFd,
    last: &[u8],
    content: &[u8],
    old: Option<&(OwnedFd, Stat)>,
    (path, names): (&RelPath, Option<&dyn RecordNames>),
) -> Result<(), FileError> {
    // Where there is an old file, nobody else reads the new one before it has the old one's permissions.
    let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
    if let Ok(file) = rustix::fs::openat(dir, c".", NAMELESS, mode).map(File::from) {
        fill(&file, content, old, path)?;
        if old.is_none() && link(&file, dir, last).is_ok() {
            return Ok(());
        }
        let placed = with_name(names, dir, |name| {
            link(&file, dir, name.as_bytes())?;
            Ok(Beside { dir, name: Some(name.to_owned()) }.place(last, path))
        });
        if let Ok(placed) = placed {
            return placed;
        }
    }
    // Neither files without names, nor a mounted /proc, nor the right to link can be taken for granted. What is wrong otherwise
    // goes wrong here once more.
    let placed = with_name(names, dir, |name| {
        let file = File::from(rustix::fs::openat(dir, name, NEW, mode)?);
        let new = Beside { dir, name: Some(name.to_owned()) };
        Ok(fill(&file, content, old, path).and_then(|()| new.place(last, path)))
    });
    placed.unwrap_or_else(|source| Err(FileError::Io { call: "openat", path: path.to_path(), source }))
}

/// Gives a file without a name one that is free.
fn link(file: &File, dir: &OwnedFd, last: &[u8]) -> Result<(), Errno> {
    rustix::fs::linkat(CWD, own_path(file.as_fd()), dir, name(last), AtFlags::SYMLINK_FOLLOW)
}

/// Tries names until one is free, each recorded where that is possible.
fn with_name<T>(
    names: Option<&dyn RecordNames>,
    dir: &OwnedFd,
    mut work: impl FnMut(&str) -> Result<T, Errno>,
) -> std::io::Result<T> {
    for _ in 0..NAMES {
        let mut done = Err(Errno::EXIST);
        match names {
            Some(names) => {
                let recorded = names.with_name(dir.as_fd(), &mut |name| {
                    done = work(name);
                    Ok(())
                });
                recorded?;
            }
            None => {
                let mut random = [0; 8];
                rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
                done = work(&format!(".ringfence-{:016x}", u64::from_ne_bytes(random)));
            }
        }
        match done {
            Err(Errno::EXIST | Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
    Err(Errno::EXIST.into())
}

/// A new file beside the place that it is for. Dropped, it is removed.
struct Beside<'d> {
    dir: &'d OwnedFd,
    name: Option<String>,
}

impl Beside<'_> {
    /// Gives it the name that it is for. A link that has the name by now is replaced, and not followed.
    fn place(mut self, last: &[u8], path: &RelPath) -> Result<(), FileError> {
        if let Some(new) = &self.name {
            rustix::fs::renameat(self.dir, new.as_str(), self.dir, name(last))
                .map_err(|errno| io("renameat", path, errno))?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The failure that led here is the one to report.
            let _ = rustix::fs::unlinkat(self.dir, name.as_str(), AtFlags::empty());
        }
    }
}

fn fill(mut file: &File, content: &[u8], old: Option<&(OwnedFd, Stat)>, path: &RelPath) -> Result<(), FileError> {
    file.write_all(content).map_err(|source| FileError::Io { call: "write", path: path.to_path(), source })?;
    if let Some((old, status)) = old {
        take_over(file, old, status, path)?;
    }
    rustix::fs::fsync(file).map_err(|errno| io("fsync", path, errno))
}

fn take_over(file: &File, old: &OwnedFd, status: &Stat, path: &RelPath) -> Result<(), FileError> {
    let ours = rustix::fs::fstat(file).map_err(|errno| io("fstat", path, errno))?;
    let uid = (ours.st_uid != status.st_uid).then(|| Uid::from_raw(status.st_uid));
    let gid = (ours.st_gid != status.st_gid).then(|| Gid::from_raw(status.st_gid));
    if uid.is_some() || gid.is_some() {
        rustix::fs::fchown(file, uid, gid).map_err(|errno| io("fchown", path, errno))?;
    }
    for attribute in attributes(old).map_err(|errno| io("flistxattr", path, errno))? {
        let value = value(old, &attribute).map_err(|errno| io("fgetxattr", path, errno))?;
        rustix::fs::fsetxattr(file, name(&attribute), &value, XattrFlags::empty())
            .map_err(|errno| io("fsetxattr", path, errno))?;
    }
    // Last, since giving a file away or giving it a list changes what it permits.
    let mode = Mode::from_raw_mode(status.st_mode & 0o777);
    rustix::fs::fchmod(file, mode).map_err(|errno| io("fchmod", path, errno))
}

/// The attributes that are taken over. A file system without any has none.
fn attributes(file: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    // The kernel never gives more than 64 KiB of names, nor of a value.
    let mut names = vec![0; 1 << 16];
    let length = match rustix::fs::flistxattr(file, &mut names) {
        Err(Errno::NOTSUP | Errno::NOSYS) => 0,
        other => other?,
    };
    let names = names[..length].split(|byte| *byte == 0);
    Ok(names.filter(|name| *name == ACL || name.starts_with(b"user.")).map(<[u8]>::to_vec).collect())
}

fn value(file: &OwnedFd, attribute: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 1 << 16];
    let length = rustix::fs::fgetxattr(file, name(attribute), &mut value)?;
    value.truncate(length);
    Ok(value)
}
