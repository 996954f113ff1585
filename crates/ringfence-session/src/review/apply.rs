//! Putting changes into the work tree.
//!
//! Each file is made anew and then linked or renamed to its place, so a reader sees the old one or the new one; a directory that
//! takes the place of a file, or the other way round, changes places with it. Only when everything is on the disk it is noted as
//! done. After a kill there is nothing to repair: what has landed is no difference any more when it is compared again, and a
//! temporary name is on record (see [`crate::temporary`]). Nothing is changed where there is not room for everything.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_surface::{AbsPath, Access};
use rustix::fs::{AtFlags, FileType, Gid, Mode, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use crate::beside::{Beside, Within};
use crate::git_gains::Gain;
use crate::sparse;
use crate::temporary::{self, Journal, NewFile};

use super::base::Seen;
use super::changes::{Change, Node, What};
use super::files::{directory, file, found, status, target};
use super::{Review, ReviewError};

/// So much of a file system stays free, or this share of a small one: others write there too, and directories and logs need room.
const MARGIN: u64 = 64 << 20;
const MARGIN_SHARE: u64 = 32;

/// Is what somebody else changed meanwhile to be written over?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// No.
    No,
    /// Yes.
    Yes,
}

/// What became of the changes.
#[derive(Debug)]
pub struct Report {
    /// What landed.
    pub applied: Vec<Change>,
    /// What was changed on the host meanwhile, and was left alone.
    pub conflicts: Vec<AbsPath>,
    /// What the rules of the session do not let be written.
    pub refused: Vec<(AbsPath, String)>,
    /// What could not be applied.
    pub failed: Vec<(AbsPath, io::Error)>,
    /// What can never be applied.
    pub skipped: Vec<(AbsPath, String)>,
    /// What repositories gained that the user's git would act on.
    pub gained: Vec<Gain>,
    /// How many changes still wait.
    pub left: usize,
}

impl Review {
    /// Applies changes: all of them, or those at these paths and below.
    ///
    /// # Errors
    /// [`ReviewError`]; applying again finishes what was begun.
    pub fn apply(mut self, paths: &[AbsPath], force: Force) -> Result<Report, ReviewError> {
        let _held = self.hold()?;
        let beside = self.beside()?;
        let is_chosen = |path: &AbsPath| paths.is_empty() || paths.iter().any(|chosen| path.is_within(chosen));
        temporary::sweep(&self.state());
        let found = self.changes();
        let mut report = Report {
            applied: Vec::new(),
            conflicts: Vec::new(),
            refused: Vec::new(),
            failed: Vec::new(),
            skipped: found.skipped.into_iter().filter(|(path, _)| is_chosen(path)).collect(),
            gained: Vec::new(),
            left: 0,
        };
        let mut chosen = Vec::new();
        for change in found.changes.into_iter().filter(|change| is_chosen(&change.path)) {
            match &change.refused {
                Some(rule) => report.refused.push((change.path, rule.clone())),
                None if change.is_conflict && force == Force::No => report.conflicts.push(change.path),
                None => chosen.push(change),
            }
        }
        // What is inside goes before what it is in, and comes after it.
        let turn = |change: &Change| match (change.what, change.node) {
            (What::Deleted, Node::Directory) => 1,
            (What::Deleted, _) => 0,
            (_, Node::Directory) => 2,
            _ => 3,
        };
        chosen.sort_by(|one, other| {
            let paths = if turn(one) == 1 { other.path.cmp(&one.path) } else { one.path.cmp(&other.path) };
            turn(one).cmp(&turn(other)).then(paths)
        });
        self.find_room(&chosen)?;
        let before = self.snapshot(&chosen)?;
        let journal = Journal::new(&self.state());
        for change in chosen {
            match self.apply_one(&change, &beside, &journal) {
                Ok(()) => report.applied.push(change),
                Err(cause) if is(&cause, Errno::STALE) => report.conflicts.push(change.path),
                // What is left in it is told by itself.
                Err(cause) if is(&cause, Errno::NOTEMPTY) && change.what == What::Deleted => {
                    report.conflicts.push(change.path);
                }
                Err(cause) => report.failed.push((change.path, cause)),
            }
        }
        // Last, since nothing could be made in one that its owner may not write.
        for change in report.applied.iter().rev().filter(|change| change.node == Node::Directory) {
            if let Err(cause) = self.set_mode(change) {
                report.failed.push((change.path.clone(), cause));
            }
        }
        report.gained = self.gains(&before);
        self.reach_disk(&report.applied)?;
        self.note_done(report.applied.iter().map(|change| &change.path))?;
        let left = self.changes();
        report.left = left.changes.len();
        if left.changes.is_empty() && report.failed.is_empty() && left.skipped.len() <= report.skipped.len() {
            self.remove()?;
        }
        Ok(report)
    }

    /// A place among those who work: what is applied lands where it was judged, whatever a session moves meanwhile.
    fn beside(&self) -> Result<Beside, ReviewError> {
        let state = self.state();
        Beside::join(&state).map_err(|source| ReviewError::Layer { path: state, source })
    }

    /// Is there room for the changes, in the order in which they are made? What a file needs is what it takes on the disk, without
    /// its holes. The old one is there until the new one is complete.
    fn find_room(&self, chosen: &[Change]) -> Result<(), ReviewError> {
        for (number, layer) in self.layers.iter().enumerate() {
            let (mut taken, mut most) = (0_i128, 0_i128);
            for change in chosen.iter().filter(|change| change.layer == number) {
                taken += change.size().map_or(0, |size| i128::from(size.allocated));
                most = most.max(taken);
                taken -=
                    found(&change.path).ok().flatten().filter(frees).map_or(0, |old| i128::from(old.st_blocks) * 512);
            }
            let Ok(there) = nearest(&layer.over).and_then(rustix::fs::fstatvfs) else { continue };
            // Some network file systems do not know.
            if most == 0 || there.f_blocks == 0 {
                continue;
            }
            let margin = MARGIN.min(there.f_blocks.saturating_mul(there.f_frsize) / MARGIN_SHARE);
            let free = there.f_bavail.saturating_mul(there.f_frsize);
            if most + i128::from(margin) > i128::from(free) {
                let needed = u64::try_from(most).unwrap_or(u64::MAX);
                return Err(ReviewError::NoRoom { path: layer.over.clone(), needed, free });
            }
        }
        Ok(())
    }

    fn apply_one(&self, change: &Change, beside: &Beside, journal: &Journal) -> io::Result<()> {
        let (parent, name) = split(&change.path)?;
        let among = beside.within(|| true)?;
        if change.what != What::Deleted {
            self.make_parents(change, &parent)?;
        }
        let dir = directory(&parent)?;
        // Somebody may have been faster than we are.
        let now = found(&change.path)?;
        if now.as_ref().map(Seen::of).map(Still) != change.seen.map(Still) {
            return Err(Errno::STALE.into());
        }
        if change.what == What::Deleted {
            let flags = if change.node == Node::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            return Ok(rustix::fs::unlinkat(&dir, name, flags)?);
        }
        // What is large takes long, and nobody waits for that.
        drop(among);
        let place = Place { dir: &dir, path: &parent, name, beside, journal };
        match change.node {
            Node::Directory if now.is_some() && change.was.is_none() => Ok(()),
            Node::File => self.put_file(change, &place, now.as_ref()),
            Node::Link => self.put(change, &place, now.as_ref(), |new| {
                let to = target(source(change)?)?;
                rustix::fs::symlinkat(to.as_slice(), &dir, new)?;
                self.give(change, &dir, new, None)
            }),
            Node::Directory => self.put(change, &place, now.as_ref(), |new| {
                rustix::fs::mkdirat(&dir, new, Mode::RWXU)?;
                self.give(change, &dir, new, None)
            }),
            Node::Other => Err(Errno::OPNOTSUPP.into()),
        }
    }

    /// Makes a link or a directory beside its place, and puts it there.
    fn put(
        &self,
        change: &Change,
        place: &Place<'_>,
        now: Option<&Stat>,
        make: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let new = place.journal.name(place.dir.as_fd())?;
        let name = new.as_str();
        let made = make(name.as_bytes()).and_then(|()| {
            let _among = place.hold()?;
            land(change, (place.dir.as_fd(), name, place.name), now)
        });
        if made.is_err() {
            let flags = if change.node == Node::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            // The first failure is the one to tell.
            let _ = rustix::fs::unlinkat(place.dir, name, flags);
        }
        made
    }

    /// Copies a file, and puts it in its place. It has no name while it is copied, where the file system can do that.
    fn put_file(&self, change: &Change, place: &Place<'_>, now: Option<&Stat>) -> io::Result<()> {
        let from = file(source(change)?)?;
        let mut new = NewFile::create(place.dir.as_fd(), Some(place.journal), Mode::RUSR | Mode::WUSR)?;
        sparse::copy(&from, new.file())?;
        if let Some((uid, gid)) = self.owner_of_new(change, now)? {
            rustix::fs::fchown(new.file(), Some(uid), Some(gid))?;
        }
        let mode = rustix::fs::fstat(&from)?.st_mode & 0o777;
        rustix::fs::fchmod(new.file(), Mode::from_raw_mode(mode))?;
        new.file().sync_data()?;
        let _among = place.hold()?;
        if now.is_some() {
            return new.exchange(place.name, |dir, temporary, name| land(change, (dir, temporary, name), now));
        }
        new.place(place.name).map_err(|cause| if is(&cause, Errno::EXIST) { Errno::STALE.into() } else { cause })
    }

    /// Gives something that root made to whom it belongs.
    fn give(&self, change: &Change, dir: &OwnedFd, new: &[u8], old: Option<&Stat>) -> io::Result<()> {
        let Some((uid, gid)) = self.owner_of_new(change, old)? else { return Ok(()) };
        Ok(rustix::fs::chownat(dir, new, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// The owner of what root makes: that of what it replaces, or as the session left it. `None` for other users.
    fn owner_of_new(&self, change: &Change, old: Option<&Stat>) -> io::Result<Option<(Uid, Gid)>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let (uid, gid) = match old {
            Some(old) => (old.st_uid, old.st_gid),
            None => self.owner(change)?,
        };
        Ok(Some((Uid::from_raw(uid), Gid::from_raw(gid))))
    }

    fn owner(&self, change: &Change) -> io::Result<(u32, u32)> {
        let made = status(source(change)?)?;
        let Some(layer) = self.layers.get(change.layer) else { return Ok((made.st_uid, made.st_gid)) };
        let Some((uid, gid)) = layer.mapped else { return Ok((made.st_uid, made.st_gid)) };
        let over = status(&layer.over)?;
        let is = |theirs: u32, made: u32, owners: u32| if made == theirs { owners } else { made };
        Ok((is(uid, made.st_uid, over.st_uid), is(gid, made.st_gid, over.st_gid)))
    }

    /// The directories above a new file that the session made, where only the file was asked for.
    fn make_parents(&self, change: &Change, parent: &AbsPath) -> io::Result<()> {
        let over = self.layers.get(change.layer).map(|layer| &layer.over);
        let mut missing = Vec::new();
        let (mut dir, mut from) = (Some(parent.clone()), change.from.as_ref().and_then(AbsPath::parent));
        while let (Some(path), Some(made)) = (dir.take(), from.take()) {
            if found(&path)?.is_some() || !over.is_some_and(|over| path.is_within(over)) {
                break;
            }
            (dir, from) = (path.parent(), made.parent());
            missing.push((path, made));
        }
        for (path, made) in missing.into_iter().rev() {
            if !self.surface.decide(&path, Access::Write).is_allowed() {
                return Err(Errno::ACCESS.into());
            }
            let (above, name) = split(&path)?;
            let above = directory(&above)?;
            let mode = status(&made)?.st_mode & 0o777 | 0o700;
            rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(mode))?;
            let made = Change { from: Some(made), ..change.clone() };
            self.give(&made, &above, name, None)?;
        }
        Ok(())
    }

    fn set_mode(&self, change: &Change) -> io::Result<()> {
        if change.what == What::Deleted {
            return Ok(());
        }
        let mode = status(source(change)?)?.st_mode & 0o777;
        let dir = directory(&change.path)?;
        let others = rustix::fs::fstat(&dir)?.st_mode & 0o7000;
        Ok(rustix::fs::fchmod(&dir, Mode::from_raw_mode(mode | others))?)
    }

    /// Waits until what was applied is on the disk.
    fn reach_disk(&self, applied: &[Change]) -> Result<(), ReviewError> {
        for (number, layer) in self.layers.iter().enumerate() {
            if applied.iter().any(|change| change.layer == number) {
                let synced = nearest(&layer.over).and_then(rustix::fs::syncfs);
                synced.map_err(|errno| ReviewError::Layer { path: layer.over.clone(), source: errno.into() })?;
            }
        }
        Ok(())
    }
}

/// Renames what was made beside its place.
fn land(change: &Change, (dir, new, name): (BorrowedFd<'_>, &str, &[u8]), now: Option<&Stat>) -> io::Result<()> {
    let is_directory = |status: &Stat| FileType::from_raw_mode(status.st_mode) == FileType::Directory;
    match now {
        // Neither can take the place of the other.
        Some(old) if is_directory(old) != (change.node == Node::Directory) => {
            rustix::fs::renameat_with(dir, new, dir, name, RenameFlags::EXCHANGE)?;
            let flags = if is_directory(old) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            if let Err(errno) = rustix::fs::unlinkat(dir, new, flags) {
                // Something came into it: it goes back.
                rustix::fs::renameat_with(dir, new, dir, name, RenameFlags::EXCHANGE)?;
                return Err(errno.into());
            }
            Ok(())
        }
        Some(_) => Ok(rustix::fs::renameat(dir, new, dir, name)?),
        // A file that appeared meanwhile is not replaced.
        None => match rustix::fs::renameat_with(dir, new, dir, name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => Err(Errno::STALE.into()),
            // Not every file system knows how.
            Err(Errno::INVAL) => Ok(rustix::fs::renameat(dir, new, dir, name)?),
            other => Ok(other?),
        },
    }
}

/// Where something is put: a directory that is held, and a name in it.
struct Place<'p> {
    dir: &'p OwnedFd,
    path: &'p AbsPath,
    name: &'p [u8],
    beside: &'p Beside,
    journal: &'p Journal,
}

impl<'p> Place<'p> {
    /// Until it is let go of the directory stays where it is; it may have been moved before.
    fn hold(&self) -> io::Result<Within<'p>> {
        let among = self.beside.within(|| true)?;
        let (held, there) = (rustix::fs::fstat(self.dir)?, found(self.path)?);
        let is_still = there.is_some_and(|there| (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino));
        if is_still { Ok(among) } else { Err(Errno::STALE.into()) }
    }
}

/// Compared as far as it matters.
struct Still(Seen);

impl PartialEq for Still {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_still(&other.0)
    }
}

/// The directory, or the one that it is in.
fn nearest(path: &AbsPath) -> rustix::io::Result<OwnedFd> {
    directory(path).or_else(|_| directory(&path.parent().unwrap_or_else(AbsPath::root)))
}

/// Does its room become free when it is replaced?
fn frees(old: &Stat) -> bool {
    FileType::from_raw_mode(old.st_mode) == FileType::RegularFile && old.st_nlink == 1
}

fn is(cause: &io::Error, errno: Errno) -> bool {
    cause.raw_os_error() == Some(errno.raw_os_error())
}

fn source(change: &Change) -> io::Result<&AbsPath> {
    change.from.as_ref().ok_or_else(|| Errno::NOENT.into())
}

fn split(path: &AbsPath) -> io::Result<(AbsPath, &[u8])> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(Errno::INVAL.into()),
    }
}
