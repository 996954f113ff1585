//! Guards of a running view that fell off, put back.
//!
//! A mount hangs on a directory entry. Whoever replaces a file outside takes the entry away, and with it what was mounted there
//! inside. So each place is looked at in the view itself, as everybody inside sees it, and what stands there bare is covered.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use ringfence_surface::AbsPath;
use ringfence_sys::mount::{MountAttr, Reach};
use ringfence_sys::process::{self, Namespaces};
use rustix::fs::{AtFlags, FileType, StatVfsMountFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, OpenTreeFlags, mount_change, open_tree};

use crate::launch::pipe;
use crate::place::{open_place, open_root, relative};
use crate::steps::{failed, report, wait_for_report};
use crate::view::{Failed, attach, clone_tree, make_masks, set};

use super::{ATTACH, DONE, LiveView, MASK, STEPS, VIEW, at};

/// What keeps a place as it is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cover {
    /// It cannot be read or written: something unreadable lies over it.
    Mask,
    /// It cannot be written: it lies over itself, read-only.
    Freeze,
}

/// What became of a place that was looked at.
#[derive(Debug)]
pub(crate) enum Mended {
    /// It was bare, and is covered again. Its number among those that were asked about.
    Covered(usize),
    /// It is bare.
    Bare(usize, io::Error),
    /// It could not be looked at: it may be covered, or bare.
    Unknown(usize, io::Error),
}

/// So many are covered by one process: each needs descriptors.
const AT_ONCE: usize = 200;

/// Reports about the place with the number that follows.
const COVERED: u32 = 1 << 24;
const BARE: u32 = 2 << 24;
const LOOKED: u32 = 3 << 24;
const UNKNOWN: u32 = 4 << 24;
const KIND: u32 = 7 << 24;

impl LiveView {
    /// Looks at every one of these places in the view, and covers those that are bare. Waits until it is done.
    pub(crate) fn mend(&self, guards: &[(AbsPath, Cover)]) -> io::Result<Vec<Mended>> {
        let mut all = Vec::new();
        let mut done = 0;
        while let Some(rest) = guards.get(done..).filter(|rest| !rest.is_empty()) {
            let some = &rest[..rest.len().min(COVERED as usize)];
            let before = all.len();
            let looked = self.mend_some(some, done, &mut all)?;
            // Where as many were covered as one process can, it is begun again with the next.
            done += looked;
            if all.len() == before && looked == 0 {
                break;
            }
        }
        Ok(all)
    }

    /// How many were looked at.
    fn mend_some(&self, guards: &[(AbsPath, Cover)], first: usize, all: &mut Vec<Mended>) -> io::Result<usize> {
        let places: Vec<(CString, Cover)> = guards.iter().map(|(path, cover)| (relative(path), *cover)).collect();
        // What the copy needs is there before it is made: it allocates nothing.
        let mut bare: Vec<Bare> = Vec::with_capacity(AT_ONCE);
        let (read, write) = pipe()?;
        let run = || {
            let done = process::die_with_parent()
                .map_err(|e| failed(VIEW, &e))
                .and_then(|()| self.cover(&places, &mut bare, &write));
            report(&write, done.err().unwrap_or(Failed { step: DONE, errno: Errno::PERM }))
        };
        let child = process::clone_into(Namespaces::NONE, None, run)?;
        drop(write);
        let mut looked = guards.len();
        let result = loop {
            match wait_for_report(&read, child.pidfd.as_fd()) {
                Ok(Some((DONE, _))) => break Ok(()),
                Ok(Some((step, source))) => {
                    let number = (step & (COVERED - 1)) as usize;
                    match step & KIND {
                        COVERED => all.push(Mended::Covered(first + number)),
                        BARE => all.push(Mended::Bare(first + number, source)),
                        UNKNOWN => all.push(Mended::Unknown(first + number, source)),
                        LOOKED => looked = number,
                        _ => {
                            let step = STEPS.get(step as usize).copied().unwrap_or("?");
                            break Err(io::Error::new(source.kind(), format!("{step}: {source}")));
                        }
                    }
                }
                Ok(None) => break Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) => break Err(error),
            }
        };
        // One whose reports cannot be read would wait for room in the pipe.
        child.end();
        result.map(|()| looked)
    }

    /// Runs in a copy of this process. Allocates nothing.
    fn cover(&self, places: &[(CString, Cover)], bare: &mut Vec<Bare>, write: &OwnedFd) -> Result<(), Failed> {
        self.enter_user()?;
        self.enter()?;
        let root = open_root().map_err(at(VIEW))?;
        for (number, (path, cover)) in (0..).zip(places) {
            if bare.len() == AT_ONCE {
                report(write, Failed { step: LOOKED | number, errno: Errno::PERM });
                break;
            }
            match stands_bare(&root, path, *cover) {
                Ok(Some(kind)) => bare.push(Bare { number, kind, mask: None }),
                // What is not there, or cannot be reached, needs no cover.
                Ok(None) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {}
                // That a look fails is no evidence that anything was replaced.
                Err(errno) => {
                    report(write, Failed { step: UNKNOWN | number, errno });
                }
            }
        }
        if bare.is_empty() {
            return Ok(());
        }
        self.make_covers(places, bare)?;
        let root = open_root().map_err(at(VIEW))?;
        for Bare { number, kind, mask } in bare {
            let Some((path, cover)) = places.get(*number as usize) else { continue };
            let step = match cover_one(&root, path, *cover, (*kind, mask.as_ref())) {
                Ok(()) => Failed { step: COVERED | *number, errno: Errno::PERM },
                Err(errno) => Failed { step: BARE | *number, errno },
            };
            report(write, step);
        }
        Ok(())
    }

    /// Masks are made in a copy of the view's mounts, which goes away with this process, and then it is back in the view.
    fn make_covers(&self, places: &[(CString, Cover)], bare: &mut [Bare]) -> Result<(), Failed> {
        let is_mask = |one: &Bare| matches!(places.get(one.number as usize), Some((_, Cover::Mask)));
        if !bare.iter().any(is_mask) {
            return Ok(());
        }
        process::unshare_mounts().map_err(|e| failed(MASK, &e))?;
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(at(MASK))?;
        let top = open_root().map_err(at(MASK))?;
        let masks = make_masks(top.as_fd(), &[]).map_err(at(MASK))?;
        for one in bare.iter_mut().filter(|one| is_mask(one)) {
            let name = if one.kind == FileType::Directory { c"directory" } else { c"file" };
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            one.mask = Some(open_tree(&masks, name, flags).map_err(at(MASK))?);
        }
        self.enter().map_err(|Failed { errno, .. }| Failed { step: ATTACH, errno })
    }
}

/// Something that stands there bare.
struct Bare {
    number: u32,
    kind: FileType,
    mask: Option<OwnedFd>,
}

/// What stands at a place, if it is bare.
fn stands_bare(root: &OwnedFd, path: &CStr, cover: Cover) -> rustix::io::Result<Option<FileType>> {
    let place = open_place(root, path)?;
    let status = rustix::fs::statx(&place, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE | StatxFlags::MODE)?;
    let kind = FileType::from_raw_mode(u32::from(status.stx_mode));
    let is_covered = match cover {
        // Ours are empty and have no rights; nothing that the host mounts there is.
        Cover::Mask => status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) && status.stx_mode & 0o666 == 0,
        Cover::Freeze => rustix::fs::fstatvfs(&place)?.f_flag.contains(StatVfsMountFlags::RDONLY),
    };
    Ok((!is_covered).then_some(kind))
}

fn cover_one(
    root: &OwnedFd,
    path: &CStr,
    cover: Cover,
    (kind, mask): (FileType, Option<&OwnedFd>),
) -> rustix::io::Result<()> {
    // Something else may stand there by now, which the next look finds.
    if stands_bare(root, path, cover)? != Some(kind) {
        return Err(Errno::STALE);
    }
    let place = open_place(root, path)?;
    match (cover, mask) {
        (Cover::Mask, Some(mask)) => attach(mask, place.as_fd()),
        (Cover::Mask, None) => Err(Errno::STALE),
        (Cover::Freeze, _) => {
            let tree = clone_tree(place.as_fd())?;
            set(&tree, MountAttr::FROZEN, Reach::Recursive)?;
            attach(&tree, place.as_fd())
        }
    }
}
