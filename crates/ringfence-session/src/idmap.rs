//! Root's own projects: somebody who is not root works on them, and root's files stay root's.
//!
//! A mount can show files as if they had another owner. The mapping is that of a user namespace, which exists only as long
//! as something refers to it: a process is made for it and ended again.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use ringfence_surface::AbsPath;
use ringfence_sys::mount::mount_idmap;
use ringfence_sys::process::{self, Namespaces};
use rustix::mount::{OpenTreeFlags, open_tree};

/// A mapping that shows what belongs to `owner` (user and group) as `payload`'s, if the project's file system can.
///
/// # Errors
/// What the kernel says; `EINVAL` where the file system cannot.
pub(crate) fn mapping(project: &AbsPath, owner: (u32, u32), payload: (u32, u32)) -> io::Result<OwnedFd> {
    let keeper = process::clone_into(Namespaces::NONE.with_user(), None, || {
        let forever = rustix::thread::Timespec { tv_sec: 60, tv_nsec: 0 };
        let _ = process::die_with_parent();
        let _ = rustix::thread::nanosleep(&forever);
        0
    })?;
    let pid = keeper.pid.as_raw_nonzero();
    let namespace = (|| {
        fs::write(format!("/proc/{pid}/uid_map"), format!("{} {} 1", owner.0, payload.0))?;
        fs::write(format!("/proc/{pid}/gid_map"), format!("{} {} 1", owner.1, payload.1))?;
        fs::File::open(format!("/proc/{pid}/ns/user")).map(OwnedFd::from)
    })();
    keeper.end();
    let namespace = namespace?;
    // Tried on the project itself, so that a file system that cannot is known before anything starts.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(rustix::fs::CWD, project.as_bytes(), flags)?;
    mount_idmap(tree.as_fd(), namespace.as_fd())?;
    Ok(namespace)
}
