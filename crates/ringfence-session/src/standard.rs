//! The three descriptors that come along.
//!
//! They were opened outside, on mounts without masks: through `/proc/self/fd/0` a protected file could be opened for writing,
//! and a directory would lead past every mask. So a file of the project is opened again inside, where the guards are; a
//! directory, and a file that a rule denies or protects, are refused. What lies outside the surface was handed in by the
//! caller and stays as it is. By way of `/proc/self/fd` it could be opened again, to be read where it may only be written, or
//! emptied where it may only be read; no mount of the view is in the way. So where there is such a file, Landlock handles
//! every right, and stops that.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use ringfence_surface::{AbsPath, Access, Because, Effect, Role, Surface, Word};
use ringfence_sys::process;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};

/// One that is opened again.
#[derive(Debug)]
pub(crate) struct Standard {
    pub(crate) number: i32,
    pub(crate) path: CString,
    pub(crate) flags: OFlags,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// What the three are.
#[derive(Debug)]
pub(crate) struct Standards {
    /// Those that are files of the surface.
    pub(crate) reopened: Vec<Standard>,
    /// Is there a place of the host's among them?
    pub(crate) lent: Lent,
}

/// Whether a place of the host's comes along that no mount of the view stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lent {
    /// None: only pipes, sockets, terminals and the like.
    Nothing,
    /// One that could be opened again in another way.
    Place,
}

impl Standards {
    /// None at all: others will be made.
    pub(crate) const NONE: fn() -> Self = || Self { reopened: Vec::new(), lent: Lent::Nothing };

    /// Looks at the three.
    pub(crate) fn find(surface: &Surface) -> io::Result<Self> {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let mut found = Self::NONE();
        for (number, fd) in [(0, stdin.as_fd()), (1, stdout.as_fd()), (2, stderr.as_fd())] {
            let (standard, lent) = standard(number, fd, surface)?;
            found.reopened.extend(standard);
            found.lent = found.lent.max(lent);
        }
        Ok(found)
    }
}

fn standard(number: i32, fd: BorrowedFd<'_>, surface: &Surface) -> io::Result<(Option<Standard>, Lent)> {
    // A closed one is none.
    let Ok(status) = rustix::fs::fstat(fd) else { return Ok((None, Lent::Nothing)) };
    let flags = rustix::fs::fcntl_getfl(fd)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "a directory would lead past the fence"));
        }
        _ if flags.contains(OFlags::PATH) => return Err(io::ErrorKind::InvalidInput.into()),
        FileType::RegularFile => {}
        kind => return Ok((None, special(fd, kind, &status, flags)?)),
    }
    let path = rustix::fs::readlink(format!("/proc/self/fd/{number}"), Vec::new())?;
    let Ok(place) = AbsPath::lexical(path.as_bytes()) else { return Ok((None, Lent::Place)) };
    let access = if flags & OFlags::ACCMODE == OFlags::RDONLY { Access::Read } else { Access::Write };
    let verdict = surface.decide(&place, access);
    let lent = match verdict.because {
        // A directory that is private inside does not have it there.
        Because::Rule(rule) if verdict.is_allowed() && rule.effect == Effect::Write(Role::Private) => Lent::Place,
        _ if verdict.is_allowed() => Lent::Nothing,
        Because::Rule(rule) => {
            let why = format!(
                "{place} is taken away: {rule} (for one run, name it yourself: --ref {})",
                Word(place.as_bytes())
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Because::OnlyReadable(_) | Because::View(_) => return Ok((None, Lent::Place)),
    };
    let flags = flags & (OFlags::ACCMODE | OFlags::APPEND);
    Ok((Some(Standard { number, path, flags, device: status.st_dev, inode: status.st_ino }), lent))
}

/// What is no file: has it a place, and could it be opened there for more than it is open for now?
fn special(fd: BorrowedFd<'_>, kind: FileType, status: &Stat, flags: OFlags) -> io::Result<Lent> {
    const PIPEFS_MAGIC: rustix::fs::FsWord = 0x5049_5045;
    /// `/dev/null` and its like.
    const MEMORY: u32 = 1;
    let has_place = match kind {
        FileType::Socket => false,
        FileType::Fifo => rustix::fs::fstatfs(fd)?.f_type != PIPEFS_MAGIC,
        // Terminals are open for both, and nothing of a device is emptied.
        FileType::CharacterDevice => {
            rustix::fs::major(status.st_rdev) != MEMORY && flags & OFlags::ACCMODE != OFlags::RDWR
        }
        _ => true,
    };
    Ok(if has_place { Lent::Place } else { Lent::Nothing })
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
