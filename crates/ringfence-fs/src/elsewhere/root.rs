//! On systems without `openat2` nothing keeps a path beneath a root, so there is no root: opening one is refused, and the rest is
//! here so that programs build.

use std::convert::Infallible;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{FileError, RootError};
use crate::search::{Entry, Found, Part};
use crate::temporary::RecordNames;
use crate::writable::Writable;

/// A directory beneath which files are read and changed. There is none on this system.
#[derive(Debug)]
pub struct Root(Infallible);

/// As on Linux; every one of these needs a root, and there is none.
impl Root {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn open(_path: impl AsRef<Path>, _writable: Writable) -> Result<Self, RootError> {
        Err(RootError::NotLinux)
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn open_within(
        _session_root: impl AsRef<Path>,
        _working_dir: impl AsRef<Path>,
        _writable: Writable,
    ) -> Result<Self, RootError> {
        Err(RootError::NotLinux)
    }

    /// See Linux.
    #[must_use]
    pub fn on_one_file_system(self) -> Self {
        match self.0 {}
    }

    /// See Linux.
    #[must_use]
    pub fn recording_names(self, _names: Arc<dyn RecordNames>) -> Self {
        match self.0 {}
    }

    /// See Linux.
    pub fn path(&self) -> &Path {
        match self.0 {}
    }

    /// See Linux.
    pub fn writable(&self) -> &Writable {
        match self.0 {}
    }

    /// See Linux.
    pub fn below<'p>(&self, _path: &'p Path) -> &'p Path {
        match self.0 {}
    }

    pub(crate) fn open_directory(&self, _path: &Path) -> Result<OwnedFd, FileError> {
        match self.0 {}
    }

    /// See Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn open_for_write(&self, _path: impl AsRef<Path>) -> Result<File, FileError> {
        match self.0 {}
    }

    /// See Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn write(&self, _path: impl AsRef<Path>, _content: &[u8]) -> Result<(), FileError> {
        match self.0 {}
    }

    /// See Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn create_dir_all(&self, _path: impl AsRef<Path>) -> Result<(), FileError> {
        match self.0 {}
    }

    /// See Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn remove(&self, _path: impl AsRef<Path>) -> Result<(), FileError> {
        match self.0 {}
    }

    /// See Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn remove_dir(&self, _path: impl AsRef<Path>) -> Result<(), FileError> {
        match self.0 {}
    }

    /// See Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn rename(&self, _from: impl AsRef<Path>, _to: impl AsRef<Path>) -> Result<(), FileError> {
        match self.0 {}
    }

    /// See Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn read(&self, _path: impl AsRef<Path>, _most: u64) -> Result<Vec<u8>, FileError> {
        match self.0 {}
    }

    /// See Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn read_part(&self, _path: impl AsRef<Path>, _offset: u64, _most: usize) -> Result<Part, FileError> {
        match self.0 {}
    }

    /// See Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn list(&self, _path: impl AsRef<Path>, _most: usize) -> Result<Vec<Entry>, FileError> {
        match self.0 {}
    }

    /// See Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn glob(&self, _pattern: impl AsRef<Path>, _most: usize) -> Result<Found, FileError> {
        match self.0 {}
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

/// Never asked for: it takes a descriptor of something beneath a root.
pub(crate) fn own_path(_fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t10_elsewhere_there_is_no_root() {
        assert!(matches!(Root::open("/", Writable::nothing()), Err(RootError::NotLinux)));
        assert!(matches!(Root::open_within("/", "x", Writable::everything()), Err(RootError::NotLinux)));
    }
}
