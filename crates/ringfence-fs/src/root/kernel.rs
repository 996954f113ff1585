//! The one call that everything beneath a root goes through.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Root, io};
use crate::error::{Escape, FileError, FileKind, Operation};
use crate::path::RelPath;

/// How often a lookup is tried again. The kernel gives up with EAGAIN when something is renamed on the way, and somebody who
/// renames without end must not hold us for ever.
pub(super) const TRIES: u32 = 128;

/// `openat2`, tried again where the kernel says so.
pub(super) fn openat2(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    for _ in 0..TRIES {
        match rustix::fs::openat2(dir, path, flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

impl Root {
    /// Opens what exists beneath the root.
    pub(super) fn open_at(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, FileError> {
        self.try_open(path, flags, Mode::empty()).map_err(|errno| failed(path, errno))
    }

    /// The same, with the errno.
    pub(super) fn try_open(&self, path: &RelPath, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        openat2(self.fd.as_fd(), path.for_kernel(), flags, mode, self.resolve)
    }

    /// One name further, from a directory that was opened so.
    pub(super) fn try_step(&self, dir: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        openat2(dir, name, flags, Mode::empty(), self.resolve)
    }

    /// The error for a file that could not be opened: the kernel has one errno for what has no reader, is a socket, or lacks its
    /// driver, and none of them is a file.
    pub(super) fn not_opened(&self, path: &RelPath, operation: Operation, errno: Errno) -> FileError {
        if matches!(errno, Errno::NXIO | Errno::NODEV | Errno::ISDIR) {
            let place = self.try_open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty());
            if let Ok(found) = place.and_then(kind_of).map(|(kind, _)| kind)
                && found != FileKind::File
            {
                return FileError::WrongKind { path: path.to_path(), operation, found };
            }
        }
        failed(path, errno)
    }
}

/// What `openat2` says, in our words. Only what the kernel says of the way itself is an escape: a missing permission is not.
pub(super) fn failed(path: &RelPath, errno: Errno) -> FileError {
    let escape = |how| FileError::PathEscape { path: path.to_path(), how };
    match errno {
        Errno::LOOP => escape(Escape::Link),
        Errno::XDEV => escape(Escape::Elsewhere),
        Errno::AGAIN => FileError::KeepsChanging { path: path.to_path(), tries: TRIES },
        Errno::NOSYS => FileError::NoOpenat2,
        errno => io("openat2", path, errno),
    }
}

/// What a descriptor holds, and what is known of it.
pub(super) fn kind_of(fd: OwnedFd) -> Result<(FileKind, rustix::fs::Stat), Errno> {
    let status = rustix::fs::fstat(&fd)?;
    Ok((kind(FileType::from_raw_mode(status.st_mode)), status))
}

/// The kernel's kinds in ours.
pub(super) fn kind(found: FileType) -> FileKind {
    match found {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
        FileType::Unknown => FileKind::Unknown,
    }
}

/// Lets through what is a regular file.
pub(super) fn regular(fd: &OwnedFd, path: &RelPath, operation: Operation) -> Result<rustix::fs::Stat, FileError> {
    let status = rustix::fs::fstat(fd).map_err(|errno| io("fstat", path, errno))?;
    match kind(FileType::from_raw_mode(status.st_mode)) {
        FileKind::File => Ok(status),
        found => Err(FileError::WrongKind { path: path.to_path(), operation, found }),
    }
}
