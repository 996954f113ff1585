//! Changes beneath a root. Each asks for leave first, by the names alone, so that what is refused has touched nothing.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::kernel::{TRIES, failed, regular};
use super::{Root, io, name};
use crate::error::{FileError, FileKind, Operation};
use crate::path::RelPath;

/// Nothing that could block is waited for, no terminal becomes ours, and a link at the end is an error.
const WRITE: OFlags = OFlags::WRONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// What a new file and a new directory can be, before the caller's umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);

impl Root {
    /// Opens a file to be written, empty: it is made where it is missing, with the directories on the way, and otherwise cut
    /// short. Readers see it change; [`Root::write`] is for a file that must be whole at every moment.
    ///
    /// A file with several names is refused, since another of them may lie outside the root. Package managers link files from
    /// their store so; [`Root::write`] replaces such a file and leaves its other names alone.
    ///
    /// # Errors
    /// `PathEscape`, `PathNotAllowed`; `WrongKind` for what is no regular file, `HardLinked`; and what the kernel says.
    pub fn open_for_write(&self, path: impl AsRef<Path>) -> Result<File, FileError> {
        let path = RelPath::new(path.as_ref())?;
        self.writable.allow(&path, Operation::Write)?;
        self.open_allowed(&path)
    }

    fn open_allowed(&self, path: &RelPath) -> Result<File, FileError> {
        let open = || self.try_open(path, WRITE | OFlags::CREATE, FILE_MODE);
        let opened = match open() {
            Err(Errno::NOENT) => {
                if let Some((parent, _)) = path.split() {
                    self.make_directories(&parent)?;
                }
                open()
            }
            opened => opened,
        };
        let fd = opened.map_err(|errno| self.not_opened(path, Operation::Write, errno))?;
        let status = regular(&fd, path, Operation::Write)?;
        // It is cut short only now: O_TRUNC would have emptied a file that turns out to have a name outside.
        if status.st_nlink > 1 {
            return Err(FileError::HardLinked { path: path.to_path() });
        }
        if status.st_size > 0 {
            rustix::fs::ftruncate(&fd, 0).map_err(|errno| io("ftruncate", path, errno))?;
        }
        Ok(File::from(fd))
    }

    /// Makes a directory, and those on the way to it. That it exists already is no failure.
    ///
    /// # Errors
    /// `PathEscape`; `PathNotAllowed` where nothing could ever be written in it; and what the kernel says.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        let path = RelPath::new(path.as_ref())?;
        self.writable.allow(&path, Operation::CreateDirectory)?;
        self.make_directories(&path).map(drop)
    }

    pub(super) fn make_directories(&self, path: &RelPath) -> Result<OwnedFd, FileError> {
        let mut at = match self.try_open(path, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => self.open_at(&RelPath::new(Path::new(""))?, DIRECTORY)?,
            opened => return opened.map_err(|errno| failed(path, errno)),
        };
        for name in path.names() {
            at = self.make_directory(&at, name, path)?;
        }
        Ok(at)
    }

    /// Steps into a directory, which is made if it is missing.
    fn make_directory(&self, dir: &OwnedFd, step: &[u8], path: &RelPath) -> Result<OwnedFd, FileError> {
        for _ in 0..TRIES {
            match self.try_step(dir.as_fd(), step, DIRECTORY) {
                Err(Errno::NOENT) => {}
                opened => return opened.map_err(|errno| failed(path, errno)),
            }
            // The last name is not followed, also where it is a link that leads nowhere.
            match rustix::fs::mkdirat(dir, name(step), DIRECTORY_MODE) {
                Ok(()) | Err(Errno::EXIST | Errno::INTR) => {}
                Err(errno) => return Err(io("mkdirat", path, errno)),
            }
        }
        Err(FileError::KeepsChanging { path: path.to_path(), tries: TRIES })
    }

    /// Removes a file. A link is removed itself.
    ///
    /// # Errors
    /// `PathEscape`, `PathNotAllowed`; `WrongKind` for a directory; and what the kernel says.
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        let path = RelPath::new(path.as_ref())?;
        self.writable.allow(&path, Operation::Remove)?;
        let (dir, last) = self.parent(&path)?;
        match rustix::fs::unlinkat(&dir, name(&last), AtFlags::empty()) {
            Err(Errno::ISDIR) => {
                let (operation, found) = (Operation::Remove, FileKind::Directory);
                Err(FileError::WrongKind { path: path.to_path(), operation, found })
            }
            done => done.map_err(|errno| io("unlinkat", &path, errno)),
        }
    }

    /// Removes a directory that is empty.
    ///
    /// # Errors
    /// `PathEscape`, `PathNotAllowed`, and what the kernel says, also of a directory that is not empty.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        let path = RelPath::new(path.as_ref())?;
        self.writable.allow(&path, Operation::Remove)?;
        let (dir, last) = self.parent(&path)?;
        rustix::fs::unlinkat(&dir, name(&last), AtFlags::REMOVEDIR).map_err(|errno| io("unlinkat", &path, errno))
    }

    /// Gives a file or a directory another name, in place of what has it. Both names must be writable; for a directory also
    /// everything that could lie below them, since all of it moves along.
    ///
    /// # Errors
    /// `PathEscape`, `PathNotAllowed`, and what the kernel says.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), FileError> {
        let (from, to) = (RelPath::new(from.as_ref())?, RelPath::new(to.as_ref())?);
        self.writable.allow(&from, Operation::Rename)?;
        self.writable.allow(&to, Operation::Rename)?;
        let (old, old_name) = self.parent(&from)?;
        let (new, new_name) = self.parent(&to)?;
        for path in [&from, &to] {
            // Somebody who puts a directory there right after this look can write the directory's place anyhow.
            if !self.writable.covers_tree(path) && is_directory(&old, &old_name) {
                return Err(FileError::PathNotAllowed { path: path.to_path(), operation: Operation::Rename });
            }
        }
        rustix::fs::renameat(&old, name(&old_name), &new, name(&new_name)).map_err(|errno| io("renameat", &from, errno))
    }

    /// The directory that a path is in, opened, and the name there.
    pub(super) fn parent(&self, path: &RelPath) -> Result<(OwnedFd, Vec<u8>), FileError> {
        let fault = "it is the root itself";
        let split = path.split().ok_or_else(|| FileError::BadPath { path: path.to_path(), fault })?;
        let dir = self.try_open(&split.0, DIRECTORY, Mode::empty()).map_err(|errno| failed(path, errno))?;
        Ok((dir, split.1.to_vec()))
    }
}

fn is_directory(dir: &OwnedFd, last: &[u8]) -> bool {
    let status = rustix::fs::statat(dir, name(last), AtFlags::SYMLINK_NOFOLLOW);
    status.is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Directory)
}
