//! Files that are written whole or not at all.
//!
//! On Linux a killed command leaves no temporary name for good: see `ringfence_session::temporary`.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write as _};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

#[cfg(target_os = "linux")]
use ringfence_session::temporary::{Journal, NewFile};
#[cfg(target_os = "linux")]
use rustix::fs::{Mode, OFlags};

#[cfg(target_os = "linux")]
use crate::host::own_state;

/// Writes a file in the place of what is there. Whoever could read and write that can read and write this, and nobody else.
#[cfg(target_os = "linux")]
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, |new, name| {
        take_over(path, new.file())?;
        new.replace(name)
    })
}

/// Gives a new file the owner and the mode of what it replaces.
fn take_over(path: &Path, new: &File) -> io::Result<()> {
    let Some(old) = std::fs::symlink_metadata(path).ok().filter(Metadata::is_file) else { return Ok(()) };
    if old.uid() != new.metadata()?.uid() {
        // Only root can give it back; another user who may replace it has it from now on.
        let _ = std::os::unix::fs::fchown(new, Some(old.uid()), Some(old.gid()));
    }
    new.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

/// Writes a file if nothing is there.
#[cfg(target_os = "linux")]
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, |new, name| new.place(name))
}

/// Makes a file, complete and on the disk, and has it given its name.
#[cfg(target_os = "linux")]
fn write(path: &Path, bytes: &[u8], place: impl FnOnce(NewFile<'_, '_>, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let journal = own_state().map(|state| Journal::new(&state));
    let new = NewFile::create(dir.as_fd(), journal.as_ref(), Mode::from_raw_mode(0o644))?;
    let file = new.file().try_clone()?;
    (&file).write_all(bytes)?;
    file.sync_all()?;
    place(new, name.as_bytes())?;
    is_there(path, &file)
}

/// The same where no session runs.
#[cfg(not(target_os = "linux"))]
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = written(path, bytes)?;
    take_over(path, file.as_file())?;
    let file = file.persist(path).map_err(|refused| refused.error)?;
    is_there(path, &file)
}

/// The same where no session runs.
#[cfg(not(target_os = "linux"))]
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = written(path, bytes)?.persist_noclobber(path).map_err(|refused| refused.error)?;
    is_there(path, &file)
}

/// A file beside `path`, complete and on the disk, that is removed unless it is given a name.
#[cfg(not(target_os = "linux"))]
fn written(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::OpenOptionsExt as _;

    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let open = |path: &Path| std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
    let mut file = tempfile::Builder::new().prefix(".ringfence-").make_in(dir, open)?;
    file.as_file_mut().write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Is it what was written? Another process that may make names beside it could have put another file in the place of a temporary name.
fn is_there(path: &Path, file: &File) -> io::Result<()> {
    let (ours, there) = (file.metadata()?, std::fs::symlink_metadata(path)?);
    if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
        Ok(())
    } else {
        Err(io::Error::other("another process put something else there meanwhile"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_replaced_or_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create(&path, b"one").unwrap();
        assert_eq!(create(&path, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        replace(&path, b"three").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o644);
        std::fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        replace(&path, b"four").unwrap();
        assert_eq!((std::fs::read(&path).unwrap().as_slice(), mode()), (b"four".as_slice(), 0o400));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_named_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::create_dir_all(path.join("full")).unwrap();
        let error = replace(&path, b"one").unwrap_err();
        assert!(!error.to_string().contains(".ringfence-"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(path.join("full").is_dir());
    }

    #[test]
    fn the_error_does_not_name_the_passing_file() {
        let error = create(Path::new("/nowhere/at/all"), b"").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(2), "{error}");
    }
}
