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
    #[error("{} did not end within {} s", Shown(path.as_os_str().as_encoded_bytes()), LIMIT.as_secs())]
    TimedOut {
        /// Which.
        path: PathBuf,
    },
}

/// It takes a thousandth of this. On a busy host it takes longer, and is not refused.
const LIMIT: Duration = Duration::from_secs(10);

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

/// The file of the system's own bubblewrap. Whether it works is another question.
pub(crate) fn find() -> Result<PathBuf, NoBwrap> {
    find_in(&SYSTEM_DIRECTORIES.iter().map(Path::new).collect::<Vec<_>>())
}

fn find_in(directories: &[&Path]) -> Result<PathBuf, NoBwrap> {
    program::find("bwrap", directories).map_err(|missing| match missing {
        NoProgram::Absent => NoBwrap::Absent,
        NoProgram::Untrusted(path) => NoBwrap::Untrusted { path },
    })
}

/// The same, with other directories.
///
/// # Errors
/// As [`bwrap`].
pub fn bwrap_in(directories: &[&Path]) -> Result<Bwrap, NoBwrap> {
    let path = find_in(directories)?;
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

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A directory with a program of this name, as only root can make one that counts.
    fn fake(script: &str) -> (tempfile::TempDir, Result<Bwrap, NoBwrap>) {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::write(path.join("bwrap"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path.join("bwrap"), Permissions::from_mode(0o755)).unwrap();
        (dir, bwrap_in(&[&path]))
    }

    /// A9: that it is there says nothing; it has to make a sandbox and run something in it.
    #[test]
    fn a9_a_bubblewrap_that_does_not_work() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(bwrap_in(&[empty.path()]), Err(NoBwrap::Absent));
        assert_eq!(bwrap_in(&[]), Err(NoBwrap::Absent));
        let denied = "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1";
        for (script, expected) in [
            (denied, "bwrap: setting up uid map: Permission denied"),
            ("exit 3", "exit status: 3"),
            ("echo bubblewrap 0.11.0; exit 1", "bubblewrap 0.11.0"),
            ("echo something else", "something else"),
        ] {
            let (_dir, found) = fake(script);
            match found {
                Err(NoBwrap::Fails { said, .. }) => assert_eq!(said, expected),
                // Whoever owns it could have put anything there.
                Err(NoBwrap::Untrusted { .. }) if !rustix::process::geteuid().is_root() => {}
                other => panic!("{script}: {other:?}"),
            }
        }
        let (_dir, found) = fake("test \"$1\" = --unshare-all && echo bubblewrap 0.11.0");
        if rustix::process::geteuid().is_root() {
            assert_eq!(found.unwrap().version, "0.11.0");
        }
    }

    /// A9: the system's own, if it is there, is found without PATH and works where the tests run.
    #[test]
    fn a9_the_systems_own_bubblewrap() {
        let found = bwrap().unwrap();
        assert!(found.path.ends_with("bwrap") && found.version.starts_with(|c: char| c.is_ascii_digit()), "{found:?}");
    }
}
