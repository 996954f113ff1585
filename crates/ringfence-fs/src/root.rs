//! A directory, held by its descriptor, and everything beneath it.
//!
//! Every path is walked by the kernel with `openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)`, in the same
//! call that opens what stands at its end. There is no moment between a check and a use, so whoever changes the tree meanwhile
//! can make a call fail and cannot lead it elsewhere. Calls that have no such form (make, remove, rename) are given the parent's
//! descriptor and one name, and the kernel follows no link at a last name in any of them.
//!
//! A directory that is moved out of the root while a call works in it stays the directory that it was: the outcome is that of a
//! call that came first and a move that came after it.

mod atomic;
mod change;
mod kernel;
mod look;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{FileError, RootError};
use crate::path::RelPath;
use crate::temporary::RecordNames;
use crate::writable::Writable;

/// A directory beneath which files are read and changed, wherever its path leads later.
///
/// ```
/// use ringfence_fs::{FileError, Root, Writable};
///
/// let dir = tempfile::tempdir()?;
/// let root = Root::open(dir.path(), Writable::globs(["src/**"])?)?;
///
/// root.write("src/deep/main.rs", b"fn main() {}")?;
/// assert_eq!(root.read("src/deep/main.rs", 1 << 20)?, b"fn main() {}");
///
/// assert!(matches!(root.write("../x", b""), Err(FileError::PathEscape { .. })));
/// assert!(matches!(root.write("etc/x", b""), Err(FileError::PathNotAllowed { .. })));
/// assert!(!dir.path().join("etc").exists(), "what is refused leaves no directory");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    path: PathBuf,
    real: PathBuf,
    writable: Writable,
    resolve: ResolveFlags,
    names: Option<Arc<dyn RecordNames>>,
}

const ANCHOR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Root {
    /// Opens a directory. Links in its own path are followed: it is the caller who names it.
    ///
    /// # Errors
    /// When it cannot be opened, and where the kernel cannot keep anything beneath it: there is no lesser root.
    pub fn open(path: impl AsRef<Path>, writable: Writable) -> Result<Self, RootError> {
        let path = path.as_ref();
        let failed = |source| RootError::Open { path: path.to_owned(), source };
        let fd = rustix::fs::open(path, ANCHOR, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        Self::at(fd, std::path::absolute(path).map_err(failed)?, writable)
    }

    /// Opens a working directory that must lie beneath the root of a session: somebody who may name it must not move the root
    /// elsewhere with it. It is relative to the session's root, or absolute and below it, and no link below that root is followed.
    ///
    /// # Errors
    /// `WorkingDirEscapes` where it leads out, and as [`Root::open`].
    pub fn open_within(
        session_root: impl AsRef<Path>,
        working_dir: impl AsRef<Path>,
        writable: Writable,
    ) -> Result<Self, RootError> {
        let working_dir = working_dir.as_ref();
        let session = Self::open(session_root, Writable::nothing())?;
        let failed = |cause| match cause {
            FileError::Io { source, .. } => RootError::Open { path: working_dir.to_owned(), source },
            FileError::NoOpenat2 => RootError::NoOpenat2,
            cause => RootError::WorkingDirEscapes {
                session_root: session.path.clone(),
                working_dir: working_dir.to_owned(),
                source: Box::new(cause),
            },
        };
        let below = RelPath::new(session.below(working_dir)).map_err(failed)?;
        let fd = session.open_at(&below, ANCHOR).map_err(failed)?;
        let path = if below.is_root() { session.path.clone() } else { session.path.join(below.to_path()) };
        Self::at(fd, path, writable)
    }

    /// Refuses to cross into another file system beneath the root: what somebody mounts there is then an escape.
    #[must_use]
    pub fn on_one_file_system(mut self) -> Self {
        self.resolve |= ResolveFlags::NO_XDEV;
        self
    }

    /// Has temporary names recorded. Without it a process that is killed while [`Root::write`] replaces a file can leave a name
    /// `.ringfence-` and 16 hexadecimal digits beside that file.
    #[must_use]
    pub fn recording_names(mut self, names: Arc<dyn RecordNames>) -> Self {
        self.names = Some(names);
        self
    }

    /// The directory, as it was named. Something else may stand there by now; no call here looks.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What may be changed.
    pub fn writable(&self) -> &Writable {
        &self.writable
    }

    /// A path as tools give it: an absolute one is taken from the root if it is named below it. Only the spelling changes;
    /// whether the rest stays beneath is for the kernel to say.
    pub fn below<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.real)).unwrap_or(path)
    }

    /// A directory beneath the root, to start something in.
    pub(crate) fn open_directory(&self, path: &Path) -> Result<OwnedFd, FileError> {
        self.open_at(&RelPath::new(path)?, ANCHOR)
    }

    fn at(fd: OwnedFd, path: PathBuf, writable: Writable) -> Result<Self, RootError> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match kernel::openat2(fd.as_fd(), b".", ANCHOR, Mode::empty(), resolve) {
            Ok(_) => {}
            // Engines with old filters answer EPERM to calls that they do not know.
            Err(Errno::NOSYS | Errno::PERM) => return Err(RootError::NoOpenat2),
            Err(errno) => return Err(RootError::Open { path, source: errno.into() }),
        }
        let real = rustix::fs::readlinkat(CWD, own_path(fd.as_fd()), Vec::new());
        let real = real.map_or_else(|_| path.clone(), |real| std::ffi::OsString::from_vec(real.into_bytes()).into());
        Ok(Self { fd, path, real, writable, resolve, names: None })
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Where this process finds what a descriptor holds.
pub(crate) fn own_path(fd: BorrowedFd<'_>) -> PathBuf {
    use std::os::fd::AsRawFd as _;
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// A plain failure, as the kernel says it.
fn io(call: &'static str, path: &RelPath, errno: Errno) -> FileError {
    FileError::Io { call, path: path.to_path(), source: errno.into() }
}

/// A name for the kernel.
fn name(bytes: &[u8]) -> &std::ffi::OsStr {
    std::ffi::OsStr::from_bytes(bytes)
}
