//! Removes what a session leaves, whatever the payload made of it.
//!
//! A payload may leave directories with mode 000, or nested so deep that neither PATH_MAX nor the stack suffices.
//! So every directory is opened below its parent's descriptor without following a link, made accessible by its owner, and
//! moved up before it is emptied: nothing here is ever deeper than two. Mounts in it stay.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::place::{Id, open_beneath};

/// Removes a directory and everything in it. A link is removed, and not what it leads to.
///
/// # Errors
/// The first thing that could not be removed; everything else is gone.
pub(crate) fn remove_tree(dir: &Path) -> io::Result<()> {
    remove_until(dir, None)
}

/// As [`remove_tree`], up to a deadline; the rest is left.
///
/// # Errors
/// As [`remove_tree`]; `ETIMEDOUT` where something is left.
pub(crate) fn remove_until(dir: &Path, until: Option<Instant>) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match rustix::fs::open(dir, flags, Mode::empty()) {
        // Its maker was killed before it could let itself in (umask 0777).
        Err(Errno::ACCESS) => {
            let place = rustix::fs::open(dir, flags | OFlags::PATH, Mode::empty())?;
            let itself = format!("/proc/self/fd/{}", place.as_raw_fd());
            rustix::fs::chmodat(CWD, itself, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::open(dir, flags, Mode::empty())?
        }
        other => other?,
    };
    let (mount, _) = Id::with_mount(&top)?;
    let mut removal =
        Removal { top, mount, until, moved: 0, failed: None, buffer: vec![MaybeUninit::uninit(); 1 << 15] };
    // Each round empties the directories that stand at the top, and moves theirs up for the next.
    loop {
        let moved = removal.moved;
        let is_progress = removal.round()?;
        // Where nothing was moved up, and no process creates anything meanwhile, the tree is empty.
        if removal.moved == moved && removal.failed.is_none() {
            match std::fs::remove_dir(dir) {
                Err(cause) if is_progress && cause.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                other => return other,
            }
        }
        if let Some(errno) = removal.failed.filter(|_| !is_progress) {
            return Err(errno.into());
        }
    }
}

struct Removal {
    top: OwnedFd,
    /// The mount that it is in.
    mount: u64,
    until: Option<Instant>,
    /// How many directories were moved up: their new names.
    moved: u64,
    failed: Option<Errno>,
    buffer: Vec<MaybeUninit<u8>>,
}

impl Removal {
    /// Empties every directory at the top. Was anything done?
    fn round(&mut self) -> io::Result<bool> {
        rustix::fs::seek(&self.top, rustix::fs::SeekFrom::Start(0))?;
        let names = names(&self.top, &mut self.buffer)?;
        let mut is_progress = false;
        for (name, kind) in &names {
            self.is_time()?;
            let was_moved = self.moved;
            match self.remove(name, *kind) {
                Ok(()) => is_progress = true,
                Err(errno) => self.failed = Some(self.failed.unwrap_or(errno)),
            }
            is_progress |= self.moved != was_moved;
        }
        if is_progress {
            // What was in the way may be gone now.
            self.failed = None;
        }
        Ok(is_progress)
    }

    fn is_time(&self) -> rustix::io::Result<()> {
        match self.until {
            Some(until) if Instant::now() >= until => Err(Errno::TIMEDOUT),
            _ => Ok(()),
        }
    }

    /// Removes what stands at the top under a name, after moving up the directories in it.
    fn remove(&mut self, name: &CStr, kind: FileType) -> rustix::io::Result<()> {
        match remove_one(&self.top, name, kind) {
            Err(errno) if is_full(errno) => {}
            other => return other,
        }
        let dir = self.open(&self.top, name)?;
        for (inner, kind) in names(&dir, &mut self.buffer)? {
            self.is_time()?;
            match remove_one(&dir, &inner, kind) {
                Ok(()) => continue,
                Err(errno) if is_full(errno) => {}
                Err(errno) => return Err(errno),
            }
            // A directory without write permission cannot be renamed: its `..` would change.
            drop(self.open(&dir, &inner)?);
            let number = self.moved + 1;
            let to = CString::new(format!(".moved-{}-{number}", std::process::id())).unwrap_or_default();
            rustix::fs::renameat(&dir, &inner, &self.top, &to)?;
            // Only what was moved is progress: where nothing is, this ends.
            self.moved = number;
        }
        rustix::fs::unlinkat(&self.top, name, AtFlags::REMOVEDIR)
    }

    /// Opens a directory to be emptied, and lets its owner do so.
    fn open(&self, dir: &OwnedFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = match open_beneath(dir, name, flags) {
            Err(Errno::ACCESS) => {
                let place = open_beneath(dir, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
                self.is_here(&place)?;
                // By the descriptor: a link that takes its place meanwhile leads nowhere.
                let itself = CString::new(format!("/proc/self/fd/{}", place.as_raw_fd())).unwrap_or_default();
                rustix::fs::chmodat(CWD, &itself, Mode::RWXU, AtFlags::empty())?;
                open_beneath(dir, name, flags)?
            }
            other => other?,
        };
        self.is_here(&opened)?;
        if Mode::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode) & Mode::RWXU != Mode::RWXU {
            rustix::fs::fchmod(&opened, Mode::RWXU)?;
        }
        Ok(opened)
    }

    /// A work tree that an operator has bound into a root would be emptied through it.
    fn is_here(&self, place: &OwnedFd) -> rustix::io::Result<()> {
        if Id::with_mount(place)?.0 == self.mount { Ok(()) } else { Err(Errno::XDEV) }
    }
}

/// Removes a file, or a directory with nothing in it.
fn remove_one(dir: &OwnedFd, name: &CStr, kind: FileType) -> rustix::io::Result<()> {
    if kind == FileType::Directory {
        match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            // Something else took its place.
            Err(Errno::NOTDIR) => {}
            other => return other,
        }
    }
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        // It is a directory after all.
        Err(Errno::ISDIR | Errno::PERM) => rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR),
        other => other,
    }
}

/// Is there something in the directory that could not be removed? What is mounted there is busy, and looked at when it is opened.
fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY)
}

fn names(dir: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> rustix::io::Result<Vec<(CString, FileType)>> {
    let mut names = Vec::new();
    let mut listing = RawDir::new(dir, buffer);
    while let Some(entry) = listing.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn close(path: &Path) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    }

    #[test]
    fn closed_directories_and_links() {
        let world = tempfile::tempdir().unwrap();
        let (dir, outside) = (world.path().join("session"), world.path().join("outside"));
        fs::create_dir_all(dir.join("tmp/closed/deeper/still")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("file"), "kept").unwrap();
        fs::write(dir.join("tmp/closed/file"), "").unwrap();
        fs::write(dir.join("tmp/closed/deeper/file"), "").unwrap();
        symlink(&outside, dir.join("tmp/closed/link")).unwrap();
        symlink(&outside, dir.join("link")).unwrap();
        symlink("nowhere", dir.join("tmp/dangling")).unwrap();
        close(&dir.join("tmp/closed/deeper"));
        close(&dir.join("tmp/closed"));
        close(&dir.join("tmp"));
        remove_tree(&dir).unwrap();
        assert!(!dir.exists());
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"kept");
        assert!(remove_tree(&dir).is_err());
        assert!(remove_tree(&outside.join("file")).is_err());
    }

    #[test]
    fn what_takes_too_long_is_left_for_another_time() {
        let world = tempfile::tempdir().unwrap();
        let dir = world.path().join("session");
        fs::create_dir_all(dir.join("tmp/x")).unwrap();
        let late = remove_until(&dir, Some(Instant::now())).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert!(dir.exists());
        remove_until(&dir, Some(Instant::now() + std::time::Duration::from_secs(60))).unwrap();
        assert!(!dir.exists());
    }

    /// Deeper than a path can say, and than a stack or a table of descriptors goes.
    #[test]
    fn depth_does_not_matter() {
        let world = tempfile::tempdir().unwrap();
        let dir = world.path().join("session");
        fs::create_dir(&dir).unwrap();
        let mut at = rustix::fs::open(&dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "deep", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "deep", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        remove_tree(&dir).unwrap();
        assert!(!dir.exists());
    }
}
