//! What a native session does at its start, done on nothing.

use std::ffi::CStr;
use std::fmt;
use std::os::fd::{AsFd as _, OwnedFd};

use ringfence_plan::features::Feature;
use ringfence_sys::mount::{MountAttr, Reach, mount_setattr};
use ringfence_sys::process::Namespaces;
use ringfence_sys::{bpf, ns, process, seccomp};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change, move_mount,
    open_tree, unmount,
};

use super::attempt::{Progress, Stop, attempt, errno};
use super::cause::{Cause, cause};
use super::signs::Signs;
use crate::payload::map_oneself;

/// A native session is not to be had here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", said(self))]
pub struct Blocked {
    /// The step that failed.
    pub step: Step,
    /// What the kernel said.
    pub errno: Errno,
    /// Why, as far as the host shows it.
    pub cause: Cause,
}

/// The cause first: it is what whoever reads this can act on.
fn said(Blocked { step, errno, cause }: &Blocked) -> String {
    let error = std::io::Error::from(*errno);
    match cause {
        Cause::Killed | Cause::TimedOut => format!("{step} did not come back: {cause}"),
        Cause::Unknown => format!("{step}: {error}, and {cause}"),
        _ => format!("{cause} ({step}: {error})"),
    }
}

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $call:literal,)*) => {
        /// One step of a native start, in order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Step { $($(#[$doc])* $name,)* }

        impl Step {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The call, as its error names it.
            pub const fn call(self) -> &'static str {
                match self { $(Self::$name => $call,)* }
            }
        }
    };
}

steps! {
    /// A process in new namespaces.
    Clone = "clone3(CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWNET|..)",
    /// Its own user in its own user namespace.
    Maps = "writing uid_map and gid_map",
    /// A loopback of its own.
    Loopback = "ioctl(SIOCSIFFLAGS, lo)",
    /// Mounts that concern nobody else.
    Propagation = "mount(/, MS_REC|MS_PRIVATE)",
    /// An empty root.
    Tmpfs = "mount(tmpfs)",
    /// A detached copy of what is to be shown.
    OpenTree = "open_tree(OPEN_TREE_CLONE|AT_RECURSIVE)",
    /// Made read-only, with all that is mounted below.
    Attributes = "mount_setattr(AT_RECURSIVE, MOUNT_ATTR_RDONLY)",
    /// Put in its place.
    MoveMount = "move_mount",
    /// Its own processes.
    Proc = "mount(proc)",
    /// Its own terminals.
    Devpts = "mount(devpts)",
    /// The old root goes away.
    Pivot = "pivot_root",
    /// Root becomes somebody else.
    Identity = "setresuid",
    /// No rights are left.
    Capabilities = "capset",
    /// The filter.
    Seccomp = "seccomp(SECCOMP_SET_MODE_FILTER)",
}

impl Step {
    /// The feature that it tries.
    pub const fn feature(self) -> Feature {
        match self {
            Self::Clone | Self::Maps => Feature::Namespaces,
            Self::Loopback => Feature::Loopback,
            Self::Propagation | Self::Tmpfs => Feature::Mounts,
            Self::OpenTree | Self::MoveMount => Feature::DetachedMounts,
            Self::Attributes => Feature::MountAttributes,
            Self::Proc => Feature::Proc,
            Self::Devpts => Feature::Devpts,
            Self::Pivot => Feature::PivotRoot,
            Self::Identity | Self::Capabilities => Feature::Credentials,
            Self::Seccomp => Feature::SeccompFilter,
        }
    }

    fn numbered(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Clone)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.call())
    }
}

/// Who works for root while it is tried.
const NOBODY: u32 = 65_534;

/// Can a native session start here? Does what one does at its start, in a process that ends at once. Takes some milliseconds.
///
/// # Errors
/// The first step that fails.
pub fn native() -> Result<(), Blocked> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let filter = seccomp::compile(&ringfence_plan::syscalls(ringfence_plan::Fence::Namespaces))
        .map_err(|_| Blocked { step: Step::Seccomp, errno: Errno::NOSYS, cause: Cause::UnknownArchitecture })?;
    let namespaces = if uid == 0 { Namespaces::FENCE } else { Namespaces::FENCE.with_user() };
    attempt(namespaces, |progress| script(progress, uid, gid, &filter.program)).map_err(|(step, stop)| {
        let step = Step::numbered(step);
        let (errno, cause) = match stop {
            Stop::Errno(errno) => (errno, cause(step, errno, &Signs::read())),
            Stop::Threads => (Errno::INVAL, Cause::Threads),
            Stop::Killed => (Errno::INTR, Cause::Killed),
            Stop::TimedOut => (Errno::TIMEDOUT, Cause::TimedOut),
        };
        Blocked { step, errno, cause }
    })
}

/// Runs in the new process. Allocates nothing.
fn script(progress: &Progress, uid: u32, gid: u32, filter: &bpf::Program) -> Result<(), Errno> {
    let step = |step: Step, call: &mut dyn FnMut() -> Result<(), Errno>| progress.step(step as u8, call);
    if uid != 0 {
        step(Step::Maps, &mut || map_oneself(uid, gid).map_err(|e| errno(&e)))?;
    }
    step(Step::Loopback, &mut || ns::loopback_up().map_err(|e| errno(&e)))?;
    step(Step::Propagation, &mut || mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC))?;
    let place = progress.step(Step::Tmpfs as u8, new_root)?;
    for (name, source) in SHOWN {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let tree = progress.step(Step::OpenTree as u8, || open_tree(CWD, *source, flags))?;
        step(Step::Attributes, &mut || {
            mount_setattr(tree.as_fd(), MountAttr::READ_ONLY, Reach::Recursive).map_err(|e| errno(&e))
        })?;
        let attach = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        step(Step::MoveMount, &mut || move_mount(&tree, c"", &place, *name, attach))?;
    }
    let tame = MountFlags::NOSUID | MountFlags::NOEXEC;
    step(Step::Proc, &mut || mount_in(&place, c"proc", c"proc", tame | MountFlags::NODEV, c""))?;
    let own = c"newinstance,ptmxmode=0666,mode=620";
    step(Step::Devpts, &mut || mount_in(&place, c"pts", c"devpts", tame, own))?;
    step(Step::Pivot, &mut || pivot(&place))?;
    step(Step::Capabilities, &mut || process::drop_bounding_set().map_err(|e| errno(&e)))?;
    if uid == 0 {
        step(Step::Identity, &mut || process::become_user(NOBODY, NOBODY).map_err(|e| errno(&e)))?;
    }
    step(Step::Capabilities, &mut || rustix::thread::set_no_new_privs(true))?;
    step(Step::Capabilities, &mut || process::drop_capabilities().map_err(|e| errno(&e)))?;
    step(Step::Seccomp, &mut || seccomp::install(filter, seccomp::Flags::NONE).map_err(|e| errno(&e)))
}

/// What the new root shows: where, and of what.
const SHOWN: &[(&CStr, &CStr)] = &[(c"shown", c"/"), (c"null", c"/dev/null")];

/// Mounts an empty root over a directory that every system has; the host does not see it.
fn new_root() -> Result<OwnedFd, Errno> {
    let tame = MountFlags::NOSUID | MountFlags::NODEV;
    let over = |place: &'static CStr| mount(c"tmpfs", place, c"tmpfs", tame, c"mode=0755").map(|()| place);
    let place = match over(c"/tmp") {
        Err(Errno::NOENT | Errno::NOTDIR) => over(c"/etc"),
        done => done,
    }?;
    mount_change(place, MountPropagationFlags::UNBINDABLE)?;
    let path_only = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(place, path_only, Mode::empty())?;
    for dir in [c"proc", c"pts", c"shown"] {
        mkdirat(&root, dir, Mode::from_raw_mode(0o755))?;
    }
    let create = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(&root, c"null", create, Mode::from_raw_mode(0o644))?;
    Ok(root)
}

fn mount_in(root: &OwnedFd, dir: &CStr, kind: &CStr, flags: MountFlags, data: &CStr) -> Result<(), Errno> {
    let path_only = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::process::fchdir(rustix::fs::openat(root, dir, path_only, Mode::empty())?)?;
    mount(kind, c".", kind, flags, data)
}

fn pivot(root: &OwnedFd) -> Result<(), Errno> {
    rustix::process::fchdir(root)?;
    rustix::process::pivot_root(c".", c".")?;
    unmount(c".", UnmountFlags::DETACH)?;
    rustix::process::chdir(c"/")?;
    let root = open_tree(CWD, c"/", OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    mount_setattr(root.as_fd(), MountAttr::FROZEN, Reach::One).map_err(|e| errno(&e))
}
