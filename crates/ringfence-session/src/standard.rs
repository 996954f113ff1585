//! The three descriptors that come along.
//!
//! They were opened outside, on mounts without masks: through `/proc/self/fd/0` a protected file could be opened for writing,
//! and a directory would lead past every mask. So a file of the project is opened again inside, where the guards are; a
//! directory, and a file that a rule denies or protects, are refused. What lies outside the surface was handed in by the
//! caller and stays as it is: Landlock stops whoever would open it again in another way.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use ringfence_surface::{AbsPath, Access, Because, Surface};
use ringfence_sys::process;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};

/// One that is opened again.
#[derive(Debug)]
pub(crate) struct Standard {
    pub(crate) number: i32,
    pub(crate) path: CString,
    pub(crate) flags: OFlags,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Those of the three that are files of the surface.
pub(crate) fn standards(surface: &Surface) -> io::Result<Vec<Standard>> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let mut found = Vec::new();
    for (number, fd) in [(0, stdin.as_fd()), (1, stdout.as_fd()), (2, stderr.as_fd())] {
        found.extend(standard(number, fd, surface)?);
    }
    Ok(found)
}

fn standard(number: i32, fd: BorrowedFd<'_>, surface: &Surface) -> io::Result<Option<Standard>> {
    // A closed one is none.
    let Ok(status) = rustix::fs::fstat(fd) else { return Ok(None) };
    let flags = rustix::fs::fcntl_getfl(fd)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "a directory would lead past the fence"));
        }
        _ if flags.contains(OFlags::PATH) => return Err(io::ErrorKind::InvalidInput.into()),
        FileType::RegularFile => {}
        _ => return Ok(None),
    }
    let path = rustix::fs::readlink(format!("/proc/self/fd/{number}"), Vec::new())?;
    let Ok(place) = AbsPath::lexical(path.as_bytes()) else { return Ok(None) };
    let access = if flags & OFlags::ACCMODE == OFlags::RDONLY { Access::Read } else { Access::Write };
    let verdict = surface.decide(&place, access);
    match verdict.because {
        _ if verdict.is_allowed() => {}
        Because::Rule(rule) => {
            let why = format!("{place} is taken away: {rule} (for one run, name it yourself: --ref {place})");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Because::OnlyReadable(_) | Because::View(_) => return Ok(None),
    }
    let flags = flags & (OFlags::ACCMODE | OFlags::APPEND);
    Ok(Some(Standard { number, path, flags, device: status.st_dev, inode: status.st_ino }))
}

impl Standard {
    /// Puts the same file, opened inside, in its place. Allocates nothing.
    pub(crate) fn reopen(&self) -> rustix::io::Result<()> {
        let flags = self.flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY;
        let new = match rustix::fs::open(self.path.as_c_str(), flags, Mode::empty()) {
            // It was removed, or lies in a directory that is private inside: nothing there to guard.
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            other => other?,
        };
        let status = rustix::fs::fstat(&new)?;
        if (status.st_dev, status.st_ino) != (self.device, self.inode) {
            return Err(rustix::io::Errno::STALE);
        }
        let old = process::standard(self.number);
        if let Ok(offset) = rustix::fs::seek(old, SeekFrom::Current(0)) {
            rustix::fs::seek(&new, SeekFrom::Start(offset))?;
        }
        process::put_at(new.as_fd(), self.number)
            .map_err(|e| rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO))
    }
}
