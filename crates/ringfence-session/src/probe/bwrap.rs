//! bubblewrap, the fallback where it alone is permitted to make namespaces.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_surface::Shown;

use super::program::{self, NoProgram, SYSTEM_DIRECTORIES};

/// A bubblewrap that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bwrap {
    /// Its file, without links.
    pub path: PathBuf,
    /// As it prints it: `0.11.0`.
    pub version: String,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoBwrap {
    /// It is not installed.
    #[error("bubblewrap is not installed")]
    Absent,
    /// Somebody beside the administrator can change it.
    #[error("{} can be changed by others than the administrator", Shown(path.as_os_str().as_encoded_bytes()))]
    Untrusted {
        /// Which.
        path: PathBuf,
    },
    /// It cannot do its work here.
    #[error("{}: {said}", Shown(path.as_os_str().as_encoded_bytes()))]
    Fails {
        /// Which.
        path: PathBuf,
        /// The first line that it printed, or why it could not be started.
        said: String,
    },
    /// It did not end in time.
    #[error("{} did not end in time", Shown(path.as_os_str().as_encoded_bytes()))]
    TimedOut {
        /// Which.
        path: PathBuf,
    },
}

/// It takes a hundredth of this.
const LIMIT: Duration = Duration::from_secs(2);

/// A sandbox as a session would make it, of which the command is bubblewrap itself: it says its version from inside.
const SANDBOX: &[&str] = &[
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--",
];

/// The bubblewrap of this system, if a sandbox can be made with it. Only directories of the system are looked at.
///
/// # Errors
/// When there is none, or it does not work here.
pub fn bwrap() -> Result<Bwrap, NoBwrap> {
    let directories: Vec<&Path> = SYSTEM_DIRECTORIES.iter().map(Path::new).collect();
    bwrap_in(&directories)
}

/// The same, with other directories.
///
/// # Errors
/// As [`bwrap`].
pub fn bwrap_in(directories: &[&Path]) -> Result<Bwrap, NoBwrap> {
    let path = program::find("bwrap", directories).map_err(|missing| match missing {
        NoProgram::Absent => NoBwrap::Absent,
        NoProgram::Untrusted(path) => NoBwrap::Untrusted { path },
    })?;
    let inside = [path.as_os_str(), OsStr::new("--version")];
    let arguments: Vec<&OsStr> = SANDBOX.iter().map(OsStr::new).chain(inside).collect();
    let ran = match program::run(&path, &arguments, LIMIT) {
        Ok(ran) => ran,
        Err(cause) if cause.kind() == io::ErrorKind::TimedOut => return Err(NoBwrap::TimedOut { path }),
        Err(cause) => return Err(NoBwrap::Fails { path, said: cause.to_string() }),
    };
    let first = ran.said.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match first.strip_prefix(b"bubblewrap ") {
        Some(version) if ran.status.success() => Ok(Bwrap { path, version: Shown(version).to_string() }),
        _ if first.is_empty() => Err(NoBwrap::Fails { path, said: ran.status.to_string() }),
        _ => Err(NoBwrap::Fails { path, said: Shown(first).to_string() }),
    }
}
