//! The view: a script of mounts that a new process carries out, and the move into it.
//!
//! Everything that is mounted from or over is opened without following a link, and compared with what was seen when the
//! script was laid out: somebody who puts another thing in its place makes the start fail. Nothing here allocates.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_plan::Found;
use ringfence_sys::mount::{MountAttr, Reach, mount_idmap, mount_setattr};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount, mount_change, move_mount, open_tree,
    unmount,
};

use crate::layer::Layer;
use crate::place::{Id, open_place, open_root};
use crate::script::{Absent, Base, Script, Step, Target};

/// The whole view.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) script: Script,
    /// Whose files the writable directories show, where that differs from who works on them.
    pub(crate) idmap: Option<OwnedFd>,
}

/// Where in the script something failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed {
    /// The number of the step; those below are made before the first.
    pub(crate) step: u32,
    pub(crate) errno: Errno,
}

pub(crate) const PROPAGATION: u32 = u32::MAX;
pub(crate) const NEW_ROOT: u32 = u32::MAX - 1;
pub(crate) const MASKS: u32 = u32::MAX - 2;
pub(crate) const PIVOT: u32 = u32::MAX - 3;

/// What another process put in the place of what was seen.
const REPLACED: Errno = Errno::STALE;

/// The descriptors that a script is carried out with.
struct Ends<'e> {
    /// The host's root.
    host: BorrowedFd<'e>,
    /// The new one.
    root: BorrowedFd<'e>,
    /// One unreadable file and one unreadable directory.
    masks: BorrowedFd<'e>,
    /// What becomes of descriptors that were used.
    used: Used,
    /// The view's `/proc`, detached and writable. Everything inside sees a read-only mount of it; the broker opens by this one what a
    /// process may write of itself.
    own_proc: &'e Cell<Option<OwnedFd>>,
}

/// What becomes of descriptors that were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Used {
    /// They stay open until whoever enters the view closes all that it does not know, in one call.
    Stay,
    /// They are closed one by one: so many might be too many.
    Close,
}

impl Used {
    /// For so many steps: each leaves three, and some are open already.
    fn by(steps: usize) -> Self {
        const MOST: u64 = 1_024;
        let limit = ringfence_sys::process::getrlimit(rustix::process::Resource::Nofile);
        let limit = limit.ok().and_then(|limit| limit.current).unwrap_or(MOST).min(MOST);
        if steps as u64 * 3 + 100 <= limit { Self::Stay } else { Self::Close }
    }
}

impl View {
    /// The words for a step of the view.
    pub(crate) fn words(&self, step: u32) -> String {
        match step {
            PROPAGATION => "mount(/, MS_REC|MS_PRIVATE)".into(),
            NEW_ROOT => "mounting the new root".into(),
            MASKS => "mounting what masks are made of".into(),
            PIVOT => "pivot_root".into(),
            number => self.script.steps.get(number as usize).map_or_else(|| "?".into(), Step::words),
        }
    }

    /// Does the error of a step mean that something else stands there than was seen: another thing, a link, nothing?
    pub(crate) fn is_replaced(&self, step: u32, error: &io::Error) -> bool {
        let is_of_the_script = self.script.steps.get(step as usize).is_some();
        is_of_the_script && matches!(errno(error), REPLACED | Errno::LOOP | Errno::NOENT)
    }

    /// The file system that a step mounts, if it does.
    pub(crate) fn file_system(&self, step: u32) -> Option<&'static str> {
        match self.script.steps.get(step as usize)? {
            Step::Mount { kind, .. } => kind.to_str().ok(),
            _ => None,
        }
    }

    /// Makes the view and moves into it. Runs in the new process, in its own mount namespace, with the rights over it.
    /// Leaves descriptors open, which the caller closes with all others that it does not know. Allocates nothing.
    ///
    /// Returns a detached mount of the view's `/proc` that is writable, where the host permits one.
    pub(crate) fn enter(&self) -> Result<Option<OwnedFd>, Failed> {
        // What is made here has the rights that it is given, whatever the caller's files get.
        let caller = rustix::process::umask(Mode::empty());
        let made = self.make_all();
        rustix::process::umask(caller);
        made
    }

    fn make_all(&self) -> Result<Option<OwnedFd>, Failed> {
        let at = |step: u32| move |errno: Errno| Failed { step, errno };
        // Nothing travels either way: an unmount inside would reach the host, and what the host mounts later would arrive here
        // without a mask and writable.
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change(c"/", private).map_err(at(PROPAGATION))?;
        let host = open_root().map_err(at(NEW_ROOT))?;
        let root = match self.script.base {
            Base::Nothing => tmpfs(c"0755", MountAttrFlags::empty()),
            Base::Host => clone_tree(host.as_fd())
                .and_then(|tree| set(&tree, MountAttr::READ_ONLY, Reach::Recursive).map(|()| tree)),
        };
        let root = root.map_err(at(NEW_ROOT))?;
        // Both are mounted on the host's root, where no path leads: lookups begin below them, and no clone takes them along.
        let masks = make_masks(host.as_fd(), &self.script.texts).map_err(at(MASKS))?;
        attach(&root, host.as_fd()).map_err(at(NEW_ROOT))?;
        let used = Used::by(self.script.steps.len());
        let own_proc = Cell::new(None);
        let ends = Ends { host: host.as_fd(), root: root.as_fd(), masks: masks.as_fd(), used, own_proc: &own_proc };
        for (number, step) in (0..).zip(&self.script.steps) {
            self.make(step, &ends).map_err(at(number))?;
        }
        // Each unmount waits for the kernel to be done with what it was. Below the old root, what masks were made of goes along
        // with it; where there is no such place it is unmounted by itself.
        let _ = move_mount(&masks, c"", &host, c"proc", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
        rustix::process::fchdir(&root).map_err(at(PIVOT))?;
        rustix::process::pivot_root(c".", c".").map_err(at(PIVOT))?;
        leave_old_root(&root).map_err(at(PIVOT))?;
        set(&root, MountAttr::FROZEN, Reach::One).map_err(at(PIVOT))?;
        Ok(own_proc.take())
    }

    fn make(&self, step: &Step, ends: &Ends<'_>) -> rustix::io::Result<()> {
        match step {
            Step::Mkdir { path, mode } => {
                match rustix::fs::mkdirat(ends.root, path.as_c_str(), Mode::from_raw_mode(*mode)) {
                    Err(Errno::EXIST) => Ok(()),
                    other => other,
                }
            }
            Step::Touch { path } => {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                rustix::fs::openat(ends.root, path.as_c_str(), flags, Mode::from_raw_mode(0o644)).map(drop)
            }
            Step::Symlink { target, path } => rustix::fs::symlinkat(target.as_c_str(), ends.root, path.as_c_str()),
            Step::Bind { source, from, to, attributes, idmap } => {
                let place = same(open_place(ends.host, source)?, Some(*from))?;
                let tree = clone_tree(place.as_fd())?;
                if let (true, Some(namespace)) = (*idmap, &self.idmap) {
                    mount_idmap(tree.as_fd(), namespace.as_fd()).map_err(|e| errno(&e))?;
                }
                set(&tree, *attributes, Reach::Recursive)?;
                ends.is_used(place);
                match open_target(to, ends) {
                    Err(Errno::NOENT) if to.absent == Absent::Fine => Ok(()),
                    target => ends.attach(tree, target?),
                }
            }
            Step::Layer { to, layer } => {
                // What is below is named by where we stand: nobody can put another in its place.
                let below = open_target(to, ends)?;
                rustix::process::fchdir(&below)?;
                ends.attach(overlay(layer)?, below)
            }
            Step::Pin { to } => mask(Found::Directory, to, ends),
            Step::Put { to, name } => attach_of_masks(name, to, ends),
            Step::Mask { to, kind } => match mask(*kind, to, ends) {
                Err(Errno::NOENT) if to.absent == Absent::Fine => Ok(()),
                other => other,
            },
            Step::Again { to, attributes } => {
                let place = open_target(to, ends)?;
                let tree = clone_tree(place.as_fd())?;
                set(&tree, *attributes, Reach::Recursive)?;
                ends.attach(tree, place)
            }
            Step::Mount { kind, to, flags, data } if *kind == c"proc" => {
                // Where the host's own `/proc` is read-only, the kernel permits no writable one (EPERM).
                match mount_proc(to, *flags - MountFlags::RDONLY, data, ends) {
                    Err(Errno::PERM) => return mount_proc(to, *flags, data, ends),
                    other => other?,
                }
                let mounted = open_place(ends.root, &to.path)?;
                ends.own_proc.set(Some(clone_tree(mounted.as_fd())?));
                set(&mounted, MountAttr::FROZEN, Reach::One)
            }
            Step::Mount { kind, to, flags, data } => {
                let target = open_target(to, ends)?;
                rustix::process::fchdir(&target)?;
                mount(*kind, c".", *kind, *flags, *data)
            }
            Step::Seal { path } => set(&open_place(ends.root, path)?, MountAttr::FROZEN, Reach::One),
        }
    }
}

impl Ends<'_> {
    fn attach(&self, tree: OwnedFd, target: OwnedFd) -> rustix::io::Result<()> {
        let attached = attach(&tree, target.as_fd());
        self.is_used(tree);
        self.is_used(target);
        attached
    }

    fn is_used(&self, descriptor: OwnedFd) {
        if self.used == Used::Stay {
            std::mem::forget(descriptor);
        }
    }
}

/// One unreadable file and one unreadable directory, both empty: masks are made of them. Beside them stand the session's own
/// texts, which can be read. They are mounted on `host`, where no path leads.
pub(crate) fn make_masks(host: BorrowedFd<'_>, texts: &[(CString, Vec<u8>)]) -> rustix::io::Result<OwnedFd> {
    let masks = tmpfs(c"0755", MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
    rustix::fs::mkdirat(&masks, c"directory", Mode::empty())?;
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(&masks, c"file", create, Mode::empty())?;
    for (name, content) in texts {
        let file = rustix::fs::openat(&masks, name.as_c_str(), create, Mode::from_raw_mode(0o644))?;
        let mut rest = content.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(&file, rest) {
                Ok(0) => return Err(Errno::IO),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    // Each clone of it is as it is: nothing more has to be set on a mask.
    set(&masks, MountAttr::DATA_ONLY, Reach::One)?;
    attach(&masks, host)?;
    Ok(masks)
}

/// Unmounts what is stacked on the new root: the old one, and what masks were made of. `/..` shows the topmost of the stack,
/// so nothing is left of it when that is the root itself.
fn leave_old_root(root: &OwnedFd) -> rustix::io::Result<()> {
    let number = |dir: BorrowedFd<'_>, path: &CStr| {
        let status = rustix::fs::statx(dir, path, AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT, StatxFlags::MNT_ID)?;
        let is_known = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::MNT_ID);
        if is_known { Ok(status.stx_mnt_id) } else { Err(Errno::NOSYS) }
    };
    let own = number(root.as_fd(), c"")?;
    for _ in 0..MOST_STACKED {
        rustix::process::chdir(c"/")?;
        if number(CWD, c"/..")? == own {
            return Ok(());
        }
        unmount(c".", UnmountFlags::DETACH)?;
    }
    Err(Errno::BUSY)
}

/// More than this is never stacked on one root.
const MOST_STACKED: u32 = 64;

/// A new file system of nothing, mounted nowhere yet.
fn tmpfs(mode: &CStr, attributes: MountAttrFlags) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"mode", mode)?;
    fsconfig_create(context.as_fd())?;
    let tame = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, tame | attributes)
}

/// What stands in the working directory, with everything that is written to it in a layer.
fn overlay(layer: &Layer) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"lowerdir", c".")?;
    fsconfig_set_string(context.as_fd(), c"upperdir", layer.upper.as_c_str())?;
    fsconfig_set_string(context.as_fd(), c"workdir", layer.work.as_c_str())?;
    // Attributes of the overlay's own are those that any user may set.
    rustix::mount::fsconfig_set_flag(context.as_fd(), c"userxattr")?;
    fsconfig_create(context.as_fd())?;
    let tame = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, tame)
}

/// Opens a place below the new root, if it is what was seen there.
fn mount_proc(to: &Target, flags: MountFlags, data: &CStr, ends: &Ends<'_>) -> rustix::io::Result<()> {
    rustix::process::fchdir(&open_target(to, ends)?)?;
    mount(c"proc", c".", c"proc", flags, data)
}

fn open_target(to: &Target, ends: &Ends<'_>) -> rustix::io::Result<OwnedFd> {
    same(open_place(ends.root, &to.path)?, to.id)
}

/// Is this what was seen? What was moved here meanwhile is something else.
fn same(place: OwnedFd, seen: Option<Id>) -> rustix::io::Result<OwnedFd> {
    match seen {
        Some(seen) if Id::of(&rustix::fs::fstat(&place)?) != seen => Err(REPLACED),
        _ => Ok(place),
    }
}

fn mask(kind: Found, to: &Target, ends: &Ends<'_>) -> rustix::io::Result<()> {
    attach_of_masks(if kind == Found::Directory { c"directory" } else { c"file" }, to, ends)
}

fn attach_of_masks(name: &CStr, to: &Target, ends: &Ends<'_>) -> rustix::io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let target = open_target(to, ends)?;
    ends.attach(open_tree(ends.masks, name, flags)?, target)
}

/// Everything that is mounted at a place and below it: in a user namespace the mounts of the host hang together, and one of
/// them alone cannot be had.
pub(crate) fn clone_tree(place: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(place, c"", flags)
}

pub(crate) fn attach(tree: &OwnedFd, target: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, c"", target, c"", flags)
}

pub(crate) fn set(tree: &OwnedFd, attributes: MountAttr, reach: Reach) -> rustix::io::Result<()> {
    mount_setattr(tree.as_fd(), attributes, reach).map_err(|e| errno(&e))
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
