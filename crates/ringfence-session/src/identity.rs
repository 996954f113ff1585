//! Who works: the caller, or somebody who is not root.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

use ringfence_surface::AbsPath;
use rustix::fs::{Gid, Uid};

use crate::beneath::Owner;
use crate::idmap::mapping;
use crate::launch::Identity;
use crate::walk::os_path;

/// Without our own mounts nothing is shown as somebody else's.
pub(crate) fn unmapped(root: &AbsPath, identity: Identity) -> io::Result<Option<OwnedFd>> {
    let Identity::Other { uid, .. } = identity else { return Ok(None) };
    let owner = fs::metadata(os_path(root))?.uid();
    if owner == uid { Ok(None) } else { Err(io::Error::other("only a native fence can show it as another's")) }
}

/// The caller, or where the caller is root somebody who is not: the user behind `sudo`, or the project's owner.
pub(crate) fn identity(root: &AbsPath) -> Identity {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if uid != 0 || !is_initial_user_namespace() {
        return Identity::Caller { uid, gid };
    }
    let number =
        |name: &str| std::env::var_os(name).and_then(|value| value.to_str()?.parse::<u32>().ok()).filter(|id| *id != 0);
    let owner = fs::metadata(os_path(root)).ok().map(|m| (m.uid(), m.gid())).filter(|(uid, _)| *uid != 0);
    let (uid, gid) = match (number("SUDO_UID"), number("SUDO_GID"), owner) {
        (Some(uid), Some(gid), _) => (uid, gid),
        (_, _, Some((uid, gid))) => (uid, gid),
        // A number that belongs to nobody.
        _ => (NOBODY, NOBODY),
    };
    // A project may belong to a user and to root's group; that group reads more than the user does.
    Identity::Other { uid, gid: if gid == 0 { NOBODY } else { gid } }
}

/// Who owns what is made for the payload, where that is not the caller.
pub(crate) fn owner(identity: Identity) -> Owner {
    let Identity::Other { uid, gid } = identity else { return None };
    Some((Uid::from_raw(uid), Gid::from_raw(gid)))
}

/// Root of a user namespace is an ordinary user with another number: it can neither become anybody else, where nobody else is
/// mapped, nor does it need to.
pub(crate) fn is_initial_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Who works for root in root's own project.
const NOBODY: u32 = 65_534;

/// Where root's own project is worked on by somebody else, it is shown as theirs.
pub(crate) fn idmap_for(root: &AbsPath, identity: Identity) -> io::Result<Option<OwnedFd>> {
    let Identity::Other { uid, gid } = identity else { return Ok(None) };
    let owner = fs::metadata(os_path(root)).map(|m| (m.uid(), m.gid()))?;
    if owner.0 == uid { Ok(None) } else { mapping(root, owner, (uid, gid)).map(Some) }
}
