//! Changes to the view of a running session: a place of the host is attached to it at its own path, or detached.
//!
//! What is given to be written lies over what could be read there before, and goes by itself: below it nothing has changed.
//!
//! A short-lived copy of the supervisor does it, since it changes its own namespaces. It has the rights over the view because
//! the supervisor's user made it; the payload has none. The place is put together outside, with what is denied in it
//! masked, and arrives in one step: there is no moment at which more is seen.
//!
//! The view's own directories are made of nothing and are read-only. Where a place needs more of them they are made through a
//! clone of that mount which nobody else has, and they are removed again when the place is taken away.

mod mend;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use ringfence_plan::Found;
use ringfence_surface::AbsPath;
use ringfence_sys::mount::{MountAttr, Reach, mount_thaw};
use ringfence_sys::process::{self, Child, Namespaces};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, OpenTreeFlags, UnmountFlags, mount_change, open_tree, unmount};

use crate::late::Network;
use crate::launch::{Identity, pipe};
use crate::place::{Id, open_place, open_root, relative};
use crate::steps::{failed, next_report, report};
use crate::view::{Failed, attach, clone_tree, make_masks, set};
use crate::ways;

pub(crate) use self::mend::{Cover, Mended};

/// The view of a running session, and the right to change it.
#[derive(Debug)]
pub(crate) struct LiveView {
    pub(crate) mounts: OwnedFd,
    /// Whose rights are over it, where that is a namespace of its own.
    pub(crate) user: Option<OwnedFd>,
    /// The network of a session that has no way out yet.
    pub(crate) space: Option<OwnedFd>,
}

/// What a place is attached for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    Read,
    Write,
}

/// What is to be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where, inside and outside.
    pub(crate) path: AbsPath,
    /// What stands there, by device and inode.
    pub(crate) id: (u64, u64),
    /// What in it is denied.
    pub(crate) masked: Vec<(AbsPath, Found)>,
    pub(crate) right: Right,
}

/// Why a place was not attached or detached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LiveError {
    /// Something else stands there.
    #[error("{path} is moved or replaced while it is given")]
    Changing {
        /// Which.
        path: AbsPath,
    },
    /// The place is within one that the session has already.
    #[error("{path} lies in a directory that the session has already, or has its own of")]
    Within {
        /// Which.
        path: AbsPath,
    },
    /// Something that the session has is below the place.
    #[error("the session has something below {path} already, which would be covered")]
    Covers {
        /// Which.
        path: AbsPath,
    },
    /// A call failed.
    #[error("{step}({path})")]
    Call {
        /// Which.
        step: &'static str,
        /// Where.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
}

const DONE: u32 = 0;
const ENTER: u32 = 1;
const OPEN: u32 = 2;
const MASK: u32 = 3;
const VIEW: u32 = 4;
const MAKE: u32 = 5;
const ATTACH: u32 = 6;
const DETACH: u32 = 7;
const STEPS: [&str; 8] =
    ["done", "setns", "open_tree", "masking in", "setns into the view", "mkdirat", "move_mount", "umount2"];

/// A change that is being made.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) child: Child,
    /// Says how it went.
    pub(crate) report: OwnedFd,
    path: AbsPath,
}

impl LiveView {
    /// Hands the right out. Runs in the first process, while it has it. Allocates nothing.
    pub(crate) fn hand_out(alive: &OwnedFd, identity: Identity, lacks_way_out: bool) -> io::Result<()> {
        let open = |path: &CStr| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let mounts = open(c"/proc/self/ns/mnt")?;
        let user = match identity {
            Identity::Caller { .. } => Some(open(c"/proc/self/ns/user")?),
            Identity::Other { .. } => None,
        };
        let space = if lacks_way_out { Some(open(c"/proc/self/ns/net")?) } else { None };
        let (mut fds, mut count) = ([mounts.as_fd(); 3], 1);
        for more in [&user, &space].into_iter().flatten() {
            fds[count] = more.as_fd();
            count += 1;
        }
        ways::send(alive, &[u8::from(user.is_some()), u8::from(space.is_some())], &fds[..count])
    }

    /// Takes what the first process handed out; nothing where it did not.
    pub(crate) fn receive(alive: &OwnedFd) -> Option<Self> {
        rustix::io::ioctl_fionbio(alive, true).ok()?;
        let mut has = [0; 2];
        let mut fds = ways::receive(alive, &mut has).ok()?.into_iter();
        let mounts = fds.next()?;
        let [user, space] = has.map(|has| if has == 1 { fds.next() } else { None });
        Some(Self { mounts, user, space })
    }

    /// The network, where the session has no way out yet.
    pub(crate) fn network(&self) -> Option<io::Result<Network>> {
        let space = self.space.as_ref()?;
        let user = self.user.as_ref().map(OwnedFd::try_clone).transpose();
        Some(user.and_then(|user| Ok(Network { space: space.try_clone()?, user })))
    }

    /// The view alone, for whoever keeps its guards.
    pub(crate) fn of_mounts(&self) -> io::Result<Self> {
        let user = self.user.as_ref().map(OwnedFd::try_clone).transpose()?;
        Ok(Self { mounts: self.mounts.try_clone()?, user, space: None })
    }

    /// Begins to attach a place.
    pub(crate) fn attach(&self, place: &Place) -> io::Result<Change> {
        let (from, id) = (relative(&place.path), Id::from_numbers(place.id));
        let below = |path: &AbsPath| {
            let rest = path.as_bytes().strip_prefix(place.path.as_bytes())?.strip_prefix(b"/")?;
            CString::new(rest).ok()
        };
        let masks: Option<Vec<(CString, Found)>> =
            place.masked.iter().map(|(path, kind)| Some((below(path)?, *kind))).collect();
        let masks = masks.ok_or(io::ErrorKind::InvalidInput)?;
        let (parents, right) = (parents(&place.path), place.right);
        self.begin(&place.path, || {
            let tree = self.assemble(&from, id, &masks, right)?;
            self.enter()?;
            let root = open_root().map_err(at(VIEW))?;
            let kind =
                rustix::fs::fstat(&tree).map(|status| FileType::from_raw_mode(status.st_mode)).map_err(at(OPEN))?;
            let target = target(&root, &from, &parents, (id, kind, right))?;
            attach(&tree, target.as_fd()).map_err(at(ATTACH))
        })
    }

    /// Begins to detach what was attached last at a place.
    pub(crate) fn detach(&self, path: &AbsPath) -> io::Result<Change> {
        let (from, parents) = (relative(path), parents(path));
        let name = path.file_name().and_then(|name| CString::new(name).ok()).ok_or(io::ErrorKind::InvalidInput)?;
        self.begin(path, || {
            self.enter_user()?;
            self.enter()?;
            let root = open_root().map_err(at(VIEW))?;
            // No link is on the way: above may be a directory of the host's, which somebody else can move.
            let above = match parents.last() {
                Some(above) => open_place(&root, above).map_err(at(DETACH))?,
                None => root.try_clone().map_err(|e| failed(DETACH, &e))?,
            };
            rustix::process::fchdir(&above).map_err(at(DETACH))?;
            unmount(name.as_c_str(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).map_err(at(DETACH))?;
            let device = own_device(&root).map_err(at(MAKE))?;
            match open_place(&root, &from).and_then(rustix::fs::fstat) {
                // Something is there that was there before.
                Ok(below) if below.st_dev != device => Ok(()),
                _ => remove_place(&root, &from, &parents).map_err(at(MAKE)),
            }
        })
    }

    fn begin(&self, path: &AbsPath, steps: impl FnOnce() -> Result<(), Failed>) -> io::Result<Change> {
        let (read, write) = pipe()?;
        let run = || {
            let made = process::die_with_parent().map_err(|e| failed(ENTER, &e)).and_then(|()| steps());
            // Said before the namespace that was needed for it goes away, which takes its time.
            report(&write, made.err().unwrap_or(Failed { step: DONE, errno: Errno::PERM }))
        };
        let child = process::clone_into(Namespaces::NONE, None, run)?;
        rustix::io::ioctl_fionbio(&read, true)?;
        Ok(Change { child, report: read, path: path.clone() })
    }

    fn enter_user(&self) -> Result<(), Failed> {
        match &self.user {
            Some(user) => process::enter_namespace(user.as_fd()).map_err(|e| failed(ENTER, &e)),
            None => Ok(()),
        }
    }

    fn enter(&self) -> Result<(), Failed> {
        process::enter_namespace(self.mounts.as_fd()).map_err(|e| failed(VIEW, &e))
    }

    /// The place with its masks, attached nowhere that anybody sees. Allocates nothing.
    fn assemble(&self, from: &CStr, id: Id, masks: &[(CString, Found)], right: Right) -> Result<OwnedFd, Failed> {
        self.enter_user()?;
        // Mounts of the host can only be cloned in a namespace that is ours. This one goes away with the process.
        process::unshare_mounts().map_err(|e| failed(ENTER, &e))?;
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(at(ENTER))?;
        let host = open_root().map_err(at(OPEN))?;
        let place = open_place(&host, from).map_err(at(OPEN))?;
        if Id::of(&rustix::fs::fstat(&place).map_err(at(OPEN))?) != id {
            return Err(Failed { step: OPEN, errno: Errno::STALE });
        }
        let tree = clone_tree(place.as_fd()).map_err(at(OPEN))?;
        let attributes = match right {
            Right::Read => MountAttr::READ_ONLY,
            Right::Write => MountAttr::TAME,
        };
        set(&tree, attributes, Reach::Recursive).map_err(at(OPEN))?;
        if masks.is_empty() {
            return Ok(tree);
        }
        // Both are mounted on the host's root, where no path leads.
        let unreadable = make_masks(host.as_fd(), &[]).map_err(at(MASK))?;
        attach(&tree, host.as_fd()).map_err(at(MASK))?;
        for (below, kind) in masks {
            let name = if *kind == Found::Directory { c"directory" } else { c"file" };
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let over = open_place(&tree, below).map_err(at(MASK))?;
            let mask = open_tree(&unreadable, name, flags).map_err(at(MASK))?;
            attach(&mask, over.as_fd()).map_err(at(MASK))?;
        }
        clone_tree(tree.as_fd()).map_err(at(MASK))
    }
}

impl Change {
    /// How it went, once it is done; `None` while it is not.
    pub(crate) fn result(&self) -> Option<Result<(), LiveError>> {
        let path = || self.path.clone();
        match next_report(&self.report) {
            Ok(None) => {
                Some(Err(LiveError::Call { step: "clone", path: path(), source: io::ErrorKind::UnexpectedEof.into() }))
            }
            Ok(Some((DONE, _))) => Some(Ok(())),
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => None,
            Err(source) => Some(Err(LiveError::Call { step: "read", path: path(), source })),
            Ok(Some((step, source))) => Some(Err(match (step, Errno::from_io_error(&source)) {
                (OPEN | MASK, Some(Errno::STALE | Errno::LOOP | Errno::NOENT)) => LiveError::Changing { path: path() },
                (MAKE, Some(Errno::XDEV)) => LiveError::Within { path: path() },
                (MAKE, Some(Errno::NOTEMPTY)) => LiveError::Covers { path: path() },
                _ => {
                    let step = STEPS.get(step as usize).copied().unwrap_or("?");
                    LiveError::Call { step, path: path(), source }
                }
            })),
        }
    }
}

fn at(step: u32) -> impl Fn(Errno) -> Failed {
    move |errno| Failed { step, errno }
}

/// The directories above a place, seen from the root, the outermost first.
fn parents(path: &AbsPath) -> Vec<CString> {
    let mut above: Vec<CString> =
        path.ancestors().skip(1).filter(|dir| !dir.is_root()).map(|dir| relative(&dir)).collect();
    above.reverse();
    above
}

/// Where to attach: an empty place of the view's own, made where it is missing; and for what is to be written also the same
/// place, where it can be read already. Allocates nothing.
fn target(
    root: &OwnedFd,
    path: &CStr,
    parents: &[CString],
    (id, kind, right): (Id, FileType, Right),
) -> Result<OwnedFd, Failed> {
    let device = own_device(root).map_err(at(MAKE))?;
    if right == Right::Write
        && let Ok(place) = open_place(root, path)
        && rustix::fs::fstat(&place).is_ok_and(|status| Id::of(&status) == id)
    {
        return Ok(place);
    }
    let is_own = |place: &OwnedFd| Ok(rustix::fs::fstat(place)?.st_dev == device);
    for above in parents {
        match open_place(root, above) {
            Ok(dir) if is_own(&dir).map_err(at(MAKE))? => {}
            Err(Errno::NOENT) => break,
            // Somebody else's files: what is not there outside is not there inside, and what the session has of its own stays.
            Ok(_) => return Err(Failed { step: MAKE, errno: Errno::XDEV }),
            Err(errno) => return Err(Failed { step: MAKE, errno }),
        }
    }
    match open_place(root, path) {
        Ok(place) if !is_own(&place).map_err(at(MAKE))? => return Err(Failed { step: MAKE, errno: Errno::XDEV }),
        Ok(place) if is_empty(&place, kind).map_err(at(MAKE))? => return Ok(place),
        Ok(_) => return Err(Failed { step: MAKE, errno: Errno::NOTEMPTY }),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(Failed { step: MAKE, errno }),
    }
    let own = writable(root).map_err(at(MAKE))?;
    let mask = rustix::process::umask(Mode::empty());
    let made = make_place(&own, path, parents, kind);
    rustix::process::umask(mask);
    made.map_err(at(MAKE))?;
    open_place(root, path).map_err(at(MAKE))
}

/// The number of the file system that the view's own directories are on. Only one of nothing is ours.
fn own_device(root: &OwnedFd) -> rustix::io::Result<u64> {
    const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
    if rustix::fs::statfs(c"/")?.f_type == TMPFS_MAGIC { Ok(rustix::fs::fstat(root)?.st_dev) } else { Err(Errno::XDEV) }
}

/// The view's own directories without what is mounted on them, to be written by us alone.
fn writable(root: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let own = open_tree(root, c"", flags)?;
    mount_thaw(own.as_fd()).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    Ok(own)
}

fn make_place(own: &OwnedFd, path: &CStr, parents: &[CString], kind: FileType) -> rustix::io::Result<()> {
    for above in parents {
        match rustix::fs::mkdirat(own, above.as_c_str(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    if kind == FileType::Directory {
        return rustix::fs::mkdirat(own, path, Mode::from_raw_mode(0o755));
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(own, path, flags, Mode::from_raw_mode(0o644)).map(drop)
}

/// Removes a place and the directories above it, as far as nothing else needs them.
fn remove_place(root: &OwnedFd, path: &CStr, parents: &[CString]) -> rustix::io::Result<()> {
    let own = writable(root)?;
    match rustix::fs::unlinkat(&own, path, AtFlags::REMOVEDIR) {
        Err(Errno::NOTDIR) => rustix::fs::unlinkat(&own, path, AtFlags::empty())?,
        other => other?,
    }
    // The first that is not empty, or that something is mounted on, is needed.
    for above in parents.iter().rev() {
        if rustix::fs::unlinkat(&own, above.as_c_str(), AtFlags::REMOVEDIR).is_err() {
            break;
        }
    }
    Ok(())
}

/// Is this of a kind that the place can be attached to, with nothing in it that would be covered?
fn is_empty(place: &OwnedFd, kind: FileType) -> rustix::io::Result<bool> {
    let is_directory = FileType::from_raw_mode(rustix::fs::fstat(place)?.st_mode) == FileType::Directory;
    if !is_directory {
        return Ok(kind != FileType::Directory);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(place, c".", flags, Mode::empty())?;
    let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
    let mut listing = RawDir::new(&dir, &mut buffer);
    while let Some(entry) = listing.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(kind == FileType::Directory)
}
