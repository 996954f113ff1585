//! Layers that take what a session writes: its project and other writable places stay as they are on the host.
//!
//! A directory is shown through an overlay whose upper part is in the session's own directory; a file as a copy. What is in them
//! goes with the session, or waits for a review: see [`crate::review`].

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};

use ringfence_surface::AbsPath;

use crate::launch::Identity;
use crate::review;
use crate::walk::os_path;

/// Does what is written stay?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Landing {
    /// It lands where it is written.
    InPlace,
    /// It goes with the session. Who works in it is known: what is on top belongs to them.
    Nowhere(Identity),
    /// It waits until somebody says that it may land.
    Review(Identity),
}

/// The parts of an overlay that are the session's.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) upper: CString,
    pub(crate) work: CString,
}

/// Where the layers of a session are.
pub(crate) const LAYERS: &str = "layers";
/// What was written, in a layer's own directory: over a directory, and over a file.
pub(crate) const UPPER: &str = "upper";
pub(crate) const COPY: &str = "file";

/// One layer: over what, its number, and who works in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Over<'o> {
    pub(crate) session: &'o AbsPath,
    pub(crate) number: usize,
    pub(crate) path: &'o AbsPath,
    pub(crate) landing: Landing,
    /// Is what belongs to the project's owner shown as theirs?
    pub(crate) idmap: bool,
}

impl Over<'_> {
    fn dir(&self) -> AbsPath {
        self.session.join(LAYERS).join(&self.number.to_string())
    }

    fn owner(&self) -> Option<(u32, u32)> {
        match self.landing {
            Landing::Nowhere(Identity::Other { uid, gid }) | Landing::Review(Identity::Other { uid, gid }) => {
                Some((uid, gid))
            }
            _ => None,
        }
    }

    /// Makes the parts for the overlay over a directory.
    pub(crate) fn make(&self) -> io::Result<Layer> {
        let dir = self.dir();
        let (upper, work) = (dir.join(UPPER), dir.join("work"));
        for path in [&upper, &work] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(os_path(path))?;
        }
        // What the top looks like is what the whole looks like.
        let below = fs::metadata(os_path(self.path))?;
        if let Some((uid, gid)) = self.owner() {
            std::os::unix::fs::chown(os_path(&upper), Some(uid), Some(gid))?;
        }
        fs::set_permissions(os_path(&upper), fs::Permissions::from_mode(below.mode() & 0o7777))?;
        self.remember(&dir)?;
        let name = |path: &AbsPath| CString::new(path.as_bytes()).map_err(io::Error::from);
        Ok(Layer { upper: name(&upper)?, work: name(&work)? })
    }

    /// Copies a file, to be shown in its place.
    pub(crate) fn copy(&self) -> io::Result<AbsPath> {
        let dir = self.dir();
        fs::DirBuilder::new().recursive(true).mode(0o711).create(os_path(&dir))?;
        self.remember(&dir)?;
        let copy = dir.join(COPY);
        fs::copy(os_path(self.path), os_path(&copy))?;
        if let Some((uid, gid)) = self.owner() {
            std::os::unix::fs::chown(os_path(&copy), Some(uid), Some(gid))?;
        }
        Ok(copy)
    }

    /// What a review needs to know later.
    fn remember(&self, dir: &AbsPath) -> io::Result<()> {
        match self.landing {
            Landing::Review(_) => review::remember(dir, self.path, self.owner().filter(|_| self.idmap)),
            Landing::InPlace | Landing::Nowhere(_) => Ok(()),
        }
    }
}
