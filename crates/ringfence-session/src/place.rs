//! Places in the tree, opened without following a link anywhere on the way, and what stands there.
//!
//! A path is only a name: between a look and a mount somebody else may put another thing there. So what was looked at is
//! remembered by device and inode, and compared before anything is mounted over it or from it. An inode keeps its number
//! while it exists, so what is moved away never compares equal to what takes its place.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_surface::AbsPath;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;

/// What stands at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    device: u64,
    inode: u64,
}

impl Id {
    /// From what the kernel says of it.
    pub(crate) fn of(status: &Stat) -> Self {
        Self { device: status.st_dev, inode: status.st_ino }
    }

    /// As somebody else said it: device and inode.
    pub(crate) fn from_numbers((device, inode): (u64, u64)) -> Self {
        Self { device, inode }
    }

    /// For somebody else: device and inode.
    pub(crate) fn numbers(self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Of what a descriptor leads to, with the number of the mount that it was opened through.
    pub(crate) fn with_mount(place: &OwnedFd) -> rustix::io::Result<(u64, Self)> {
        let flags = StatxFlags::INO | StatxFlags::MNT_ID;
        let status = rustix::fs::statx(place, c"", AtFlags::EMPTY_PATH, flags)?;
        let device = rustix::fs::makedev(status.stx_dev_major, status.stx_dev_minor);
        Ok((status.stx_mnt_id, Self { device, inode: status.stx_ino }))
    }
}

/// How often a lookup is tried again that met a rename: the kernel cannot tell whether it stayed beneath.
const TRIES: u32 = 64;

/// Opens `path` below `dir`: no link is followed, not even a magic one, and nothing above `dir` is reached. With `O_PATH` and
/// `O_NOFOLLOW` a link at the end is opened itself. Allocates nothing.
///
/// # Errors
/// `ELOOP` where a link is on the way, `EXDEV` where the path leads out.
pub(crate) fn open_beneath(dir: impl AsFd, path: &CStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(dir.as_fd(), path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN) if tries < TRIES => tries += 1,
            // Inside a fence such a descriptor cannot be had by this call: whoever carries it out cannot hand one over.
            // Older container engines answer EPERM to calls that they do not know.
            Err(Errno::NOSYS | Errno::PERM) => return open_by_names(dir.as_fd(), path, flags),
            other => return other,
        }
    }
}

/// The same, one name after the other. Allocates nothing.
pub(crate) fn open_by_names(dir: BorrowedFd<'_>, path: &CStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = rustix::fs::openat(dir, c".", step | OFlags::DIRECTORY, Mode::empty())?;
    let mut names = path.to_bytes().split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")).peekable();
    if path.to_bytes().first() == Some(&b'/') {
        return Err(Errno::XDEV);
    }
    if names.peek().is_none() {
        return rustix::fs::openat(here, c".", flags | OFlags::CLOEXEC, Mode::empty());
    }
    while let Some(name) = names.next() {
        if name == b".." {
            return Err(Errno::XDEV);
        }
        let mut held = [0_u8; 256];
        held.get_mut(..name.len()).ok_or(Errno::NAMETOOLONG)?.copy_from_slice(name);
        let name = CStr::from_bytes_until_nul(&held).map_err(|_| Errno::NAMETOOLONG)?;
        if names.peek().is_none() {
            return rustix::fs::openat(here, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        }
        let next = rustix::fs::openat(&here, name, step, Mode::empty())?;
        if rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&next)?.st_mode) == rustix::fs::FileType::Symlink {
            return Err(Errno::LOOP);
        }
        here = next;
    }
    Err(Errno::NOENT)
}

/// Opens a place by itself, to be mounted over or compared. Allocates nothing.
///
/// # Errors
/// As [`open_beneath`].
pub(crate) fn open_place(dir: impl AsFd, path: &CStr) -> rustix::io::Result<OwnedFd> {
    open_beneath(dir, path, OFlags::PATH | OFlags::NOFOLLOW)
}

/// The host's own root.
///
/// # Errors
/// What open says.
pub(crate) fn open_root() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(c"/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Seen from the root; the root itself is `.`. Paths of a Surface hold no NUL.
pub(crate) fn relative(path: &AbsPath) -> CString {
    let below = path.as_bytes().strip_prefix(b"/").filter(|rest| !rest.is_empty()).unwrap_or(b".");
    CString::new(below).unwrap_or_default()
}
