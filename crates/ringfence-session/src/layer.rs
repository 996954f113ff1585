//! Layers that take what a session writes: its project and other writable places stay as they are on the host.
//!
//! A directory is shown through an overlay whose upper part is in the session's own directory, and goes with it; a file as a
//! copy.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};

use ringfence_surface::AbsPath;

use crate::launch::Identity;
use crate::walk::os_path;

/// Does what is written stay?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Landing {
    /// It lands where it is written.
    InPlace,
    /// It goes with the session. Who works in it is known: what is on top belongs to them.
    Nowhere(Identity),
}

/// The parts of an overlay that are the session's.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) upper: CString,
    pub(crate) work: CString,
}

/// Makes the parts for the overlay over a directory, the number of which nobody else has.
pub(crate) fn make(session: &AbsPath, number: usize, over: &AbsPath, identity: Identity) -> io::Result<Layer> {
    let dir = session.join("layers").join(&number.to_string());
    let (upper, work) = (dir.join("upper"), dir.join("work"));
    for path in [&upper, &work] {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(os_path(path))?;
    }
    // What the top looks like is what the whole looks like.
    let below = fs::metadata(os_path(over))?;
    if let Identity::Other { uid, gid } = identity {
        std::os::unix::fs::chown(os_path(&upper), Some(uid), Some(gid))?;
    }
    fs::set_permissions(os_path(&upper), fs::Permissions::from_mode(below.mode() & 0o7777))?;
    let name = |path: &AbsPath| CString::new(path.as_bytes()).map_err(io::Error::from);
    Ok(Layer { upper: name(&upper)?, work: name(&work)? })
}

/// Copies a file, to be shown in its place.
pub(crate) fn copy(session: &AbsPath, number: usize, of: &AbsPath, identity: Identity) -> io::Result<AbsPath> {
    let dir = session.join("layers").join(&number.to_string());
    fs::DirBuilder::new().recursive(true).mode(0o711).create(os_path(&dir))?;
    let copy = dir.join("file");
    fs::copy(os_path(of), os_path(&copy))?;
    if let Identity::Other { uid, gid } = identity {
        std::os::unix::fs::chown(os_path(&copy), Some(uid), Some(gid))?;
    }
    Ok(copy)
}
