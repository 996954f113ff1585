//! Files that are written whole or not at all.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// Writes a file in the place of what is there. Whoever could read and write that can read and write this, and nobody else.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = written(path, bytes)?;
    if let Some(old) = std::fs::symlink_metadata(path).ok().filter(Metadata::is_file) {
        if old.uid() != file.as_file().metadata()?.uid() {
            // Only root can give it back; whoever else may replace it has it from now on.
            let _ = std::os::unix::fs::fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
        }
        file.as_file().set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
    }
    let file = file.persist(path).map_err(|refused| refused.error)?;
    is_there(path, &file)
}

/// Writes a file if nothing is there.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = written(path, bytes)?.persist_noclobber(path).map_err(|refused| refused.error)?;
    is_there(path, &file)
}

/// Is it what was written? Whoever may make names beside it could have put another file in the place of the passing one.
fn is_there(path: &Path, file: &File) -> io::Result<()> {
    let (ours, there) = (file.metadata()?, std::fs::symlink_metadata(path)?);
    if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
        Ok(())
    } else {
        Err(io::Error::other("somebody put something else there meanwhile"))
    }
}

/// A file beside `path`, complete and on the disk; it goes away unless it is given a name. It is opened and written by our
/// own calls: the errors of `tempfile` name the passing file, which means nothing to anybody.
fn written(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let open = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
    let mut file = Builder::new().prefix(".ringfence-").make_in(dir, open)?;
    file.as_file_mut().write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
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
