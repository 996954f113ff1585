//! Room on the disk for the end of a session.
//!
//! A program inside may fill the disk, by its home, its temporary files or the project. Without room that was set aside before it
//! started, what it was denied and that it ended could not be written down: it would have erased its own evidence.

use std::io;

use ringfence_surface::AbsPath;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

/// The name of the file in a session's directory.
pub(crate) const RESERVE: &str = "reserve";

/// Space that is set aside until it is released.
#[derive(Debug)]
pub(super) struct Reserve(AbsPath);

impl Reserve {
    /// How much is set aside.
    const SIZE: u64 = 256 << 10;
    /// So much of it is for lines of the audit. The rest is for the list of ended sessions, and for what the file system needs.
    pub(super) const FOR_LINES: u64 = 128 << 10;

    /// Sets it aside.
    ///
    /// # Errors
    /// Where there is no room: a session whose end could not be written down does not start. Where the file system cannot set
    /// anything aside, or a limit (`RLIMIT_FSIZE`) forbids it, nothing is.
    pub(super) fn make(session: &AbsPath) -> io::Result<Self> {
        let path = session.join(RESERVE);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?;
        let reserve = Self(path);
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, Self::SIZE) {
            Ok(()) => Ok(reserve),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::FBIG | Errno::INVAL) => {
                reserve.release();
                Ok(reserve)
            }
            Err(errno) => {
                reserve.release();
                Err(errno.into())
            }
        }
    }

    /// Gives it back. Twice is once.
    pub(super) fn release(&self) {
        let _ = rustix::fs::unlink(self.0.as_bytes());
    }
}
