//! Root in a state directory that is somebody else's: `sudo` may keep `HOME`, and then whoever owns it could have put links there.
//!
//! By such a link root would make, move and remove what the other may not. So where root works, a link is followed only if it is
//! root's own, and what was arrived at is held. Everybody else goes by the path: what they own is theirs to lead elsewhere.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ringfence_surface::AbsPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::walk::os_path;

/// The kernel's own bound.
const MOST_LINKS: u32 = 40;

/// A directory that is held, where root works in it.
#[derive(Debug)]
pub(crate) struct Held {
    path: AbsPath,
    dir: Option<OwnedFd>,
}

impl Held {
    /// Finds a directory; with a mode it is made, and those above it, where they are missing.
    ///
    /// # Errors
    /// What the kernel says, and where a link of somebody else's is on the way of root.
    pub(crate) fn open(path: &AbsPath, make: Option<Mode>) -> io::Result<Self> {
        if rustix::process::geteuid().is_root() {
            return Ok(Self { path: path.clone(), dir: Some(walk(path, make)?) });
        }
        if let Some(mode) = make {
            super::make(os_path(path), mode)?;
        }
        Ok(Self { path: path.clone(), dir: None })
    }

    /// A path that leads to it, whatever somebody puts in its place. It is one for this process only.
    pub(crate) fn at(&self) -> AbsPath {
        match &self.dir {
            Some(dir) => AbsPath::root().join(&format!("proc/self/fd/{}", dir.as_raw_fd())),
            None => self.path.clone(),
        }
    }

    /// Where it is, without links.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn real(&self) -> io::Result<AbsPath> {
        let path = match std::fs::canonicalize(os_path(&self.at())) {
            // Without `/proc` nothing is started, which is said later.
            Err(_) if !Path::new("/proc/self").exists() => std::fs::canonicalize(os_path(&self.path))?,
            other => other?,
        };
        AbsPath::lexical(path.as_os_str().as_bytes()).map_err(io::Error::other)
    }
}

/// Refuses a state directory in which root would come across somebody else's links.
///
/// # Errors
/// Where there is one.
pub(crate) fn no_foreign_links(state: &AbsPath) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let held = match Held::open(state, None) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let Some(dir) = &held.dir else { return Ok(()) };
    let listing = rustix::fs::openat(dir, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for entry in rustix::fs::Dir::new(listing)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => is_followed(&status, &state.child(name.to_bytes()))?,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Goes to a directory, name by name.
fn walk(path: &AbsPath, make: Option<Mode>) -> io::Result<OwnedFd> {
    let hold = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = || rustix::fs::open(c"/", hold | OFlags::DIRECTORY, Mode::empty());
    let names = |path: &[u8]| -> Vec<Vec<u8>> {
        path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).rev().map(<[u8]>::to_vec).collect()
    };
    let (mut here, mut left, mut links) = (top()?, names(path.as_bytes()), 0);
    while let Some(name) = left.pop() {
        let open = || rustix::fs::openat(&here, name.as_slice(), hold, Mode::empty());
        let next = match (open(), make) {
            (Err(Errno::NOENT), Some(mode)) => match rustix::fs::mkdirat(&here, name.as_slice(), mode) {
                Ok(()) | Err(Errno::EXIST) => open()?,
                Err(errno) => return Err(errno.into()),
            },
            (other, _) => other?,
        };
        let status = rustix::fs::fstat(&next)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => here = next,
            FileType::Symlink => {
                is_followed(&status, path)?;
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let text = rustix::fs::readlinkat(&next, c"", Vec::new())?.into_bytes();
                if text.first() == Some(&b'/') {
                    here = top()?;
                }
                left.extend(names(&text));
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(here)
}

/// A link that belongs to somebody else is not.
fn is_followed(status: &Stat, path: &AbsPath) -> io::Result<()> {
    let is_link = FileType::from_raw_mode(status.st_mode) == FileType::Symlink;
    if !is_link || status.st_uid == 0 {
        return Ok(());
    }
    let owner = status.st_uid;
    Err(io::Error::other(format!(
        "a link of user {owner} leads on from {path}, and root follows only its own: name the place itself (XDG_STATE_HOME, XDG_CACHE_HOME)"
    )))
}
