//! What may be changed beneath a root. Somebody has to say it: there is no default.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use ringfence_surface::{GlobListError, WritableGlobs};

use crate::error::{FileError, Operation};
use crate::path::RelPath;

/// What may be changed beneath a root. Everything beneath it may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writable(Extent);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Extent {
    Nothing,
    Everything,
    Globs(WritableGlobs),
}

impl Writable {
    /// The root can be read only.
    pub fn nothing() -> Self {
        Self(Extent::Nothing)
    }

    /// Everything beneath the root.
    pub fn everything() -> Self {
        Self(Extent::Everything)
    }

    /// What these globs match, seen from the root. A glob without wildcards covers what it names and everything below it; with
    /// wildcards it is exact: `src/*` is what stands in `src`, `src/**` everything below it.
    ///
    /// ```
    /// use ringfence_fs::{GlobListError, Writable};
    ///
    /// assert!(Writable::globs(["src/**", "docs", "*.md"]).is_ok());
    /// assert!(matches!(Writable::globs(["../x"]), Err(GlobListError::Escape { .. })));
    /// assert!(matches!(Writable::globs(["a/**b"]), Err(GlobListError::Malformed { .. })));
    /// assert!(matches!(Writable::globs::<&str>([]), Err(GlobListError::EmptyList)));
    /// ```
    ///
    /// # Errors
    /// In three classes: there is none, one leads out of the root, one cannot be understood.
    pub fn globs<G: AsRef<OsStr>>(globs: impl IntoIterator<Item = G>) -> Result<Self, GlobListError> {
        let globs: Vec<G> = globs.into_iter().collect();
        Ok(Self(Extent::Globs(WritableGlobs::new(globs.iter().map(|glob| glob.as_ref().as_bytes()))?)))
    }

    /// Asks for leave. Nothing is looked at, so this comes before every change.
    ///
    /// # Errors
    /// `PathNotAllowed`, and `BadPath` for the root itself.
    pub(crate) fn allow(&self, path: &RelPath, operation: Operation) -> Result<(), FileError> {
        if path.is_root() && operation != Operation::CreateDirectory {
            return Err(FileError::BadPath { path: path.to_path(), fault: "it is the root itself" });
        }
        let allowed = match &self.0 {
            Extent::Nothing => false,
            Extent::Everything => true,
            // A directory in which something may be written would be made by that write.
            Extent::Globs(globs) => {
                globs.covers(path.bytes())
                    || (operation == Operation::CreateDirectory && globs.leads_through(path.bytes()))
            }
        };
        allowed.then_some(()).ok_or_else(|| FileError::PathNotAllowed { path: path.to_path(), operation })
    }

    /// May everything that could be below it be changed as well?
    pub(crate) fn covers_tree(&self, path: &RelPath) -> bool {
        match &self.0 {
            Extent::Nothing => false,
            Extent::Everything => true,
            Extent::Globs(globs) => globs.covers_tree(path.bytes()),
        }
    }
}
