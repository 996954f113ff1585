//! The calls of the mount interface that rustix does not have.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// What a mount does not permit, as the kernel's own bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountAttr(u64);

impl MountAttr {
    /// No set-user-ID, no devices.
    pub const TAME: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    /// The same, and no writing.
    pub const READ_ONLY: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_RDONLY);
    /// The same, and no programs.
    pub const DATA_ONLY: Self =
        Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOEXEC);
    /// No writing; what else the mount permits stays.
    pub const FROZEN: Self = Self(libc::MOUNT_ATTR_RDONLY);
    /// No set-user-ID; device nodes work.
    pub const DEVICE: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC);
}

/// How far it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// This mount.
    One,
    /// This mount and everything mounted below it.
    Recursive,
}

/// Changes what a mount permits. Allocates nothing.
///
/// # Errors
/// What mount_setattr says; `EPERM` where a mount above locks the flags.
pub fn mount_setattr(tree: BorrowedFd<'_>, attributes: MountAttr, reach: Reach) -> io::Result<()> {
    set(tree, attributes.0, 0, 0, reach)
}

/// Permits writing on one mount again. Allocates nothing.
///
/// # Errors
/// What mount_setattr says; `EPERM` where a mount above locks the flags.
pub fn mount_thaw(tree: BorrowedFd<'_>) -> io::Result<()> {
    set(tree, 0, libc::MOUNT_ATTR_RDONLY, 0, Reach::One)
}

/// Shows files as if they had another owner, by the mapping of a user namespace. Allocates nothing.
///
/// # Errors
/// What mount_setattr says; `EINVAL` where the file system cannot.
pub fn mount_idmap(tree: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let namespace = u64::try_from(user_namespace.as_raw_fd()).unwrap_or(u64::MAX);
    set(tree, libc::MOUNT_ATTR_IDMAP, 0, namespace, Reach::Recursive)
}

fn set(tree: BorrowedFd<'_>, bits: u64, cleared: u64, user_namespace: u64, reach: Reach) -> io::Result<()> {
    const EMPTY: &CStr = c"";
    let attributes = libc::mount_attr { attr_set: bits, attr_clr: cleared, propagation: 0, userns_fd: user_namespace };
    let flags = libc::AT_EMPTY_PATH | if reach == Reach::Recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a NUL-terminated empty string and the struct outlives the call, with its own size beside it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            EMPTY.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
