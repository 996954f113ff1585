//! Putting changes into the work tree.
//!
//! Each file is made anew beside its place and renamed there, so whoever looks sees the old one or the new one; a directory that
//! takes the place of a file, or the other way round, changes places with it. Only when everything is on the disk it is noted as
//! done. Whoever is killed before has nothing to repair: what has landed is no difference any more when it is compared again.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use ringfence_surface::{AbsPath, Access};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use crate::beside::{Beside, Within};
use crate::git_gains::Gain;

use super::base::Seen;
use super::changes::{Change, Node, What};
use super::files::{directory, file, found, status, target};
use super::{Review, ReviewError};

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
        let before = self.snapshot(&chosen)?;
        for change in chosen {
            match self.apply_one(&change, &beside) {
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
        let state = self.dir.parent().and_then(|reviews| reviews.parent()).unwrap_or_else(AbsPath::root);
        Beside::join(&state).map_err(|source| ReviewError::Layer { path: state, source })
    }

    fn apply_one(&self, change: &Change, beside: &Beside) -> io::Result<()> {
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
        let place = Place { dir: &dir, path: &parent, name, beside };
        match change.node {
            Node::Directory if now.is_some() && change.was.is_none() => Ok(()),
            Node::File => self.put(change, &place, now.as_ref(), |new| self.copy(change, &dir, new, now.as_ref())),
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

    /// Makes something beside its place, and puts it there.
    fn put(
        &self,
        change: &Change,
        place: &Place<'_>,
        now: Option<&Stat>,
        make: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Place { dir, name, .. } = *place;
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let new = format!(".ringfence-{:016x}", u64::from_ne_bytes(random));
        let is_directory = |status: &Stat| FileType::from_raw_mode(status.st_mode) == FileType::Directory;
        let made = make(new.as_bytes()).and_then(|()| {
            let _among = place.hold()?;
            match now {
                // Neither can take the place of the other.
                Some(old) if is_directory(old) != (change.node == Node::Directory) => {
                    rustix::fs::renameat_with(dir, new.as_str(), dir, name, RenameFlags::EXCHANGE)?;
                    let flags = if is_directory(old) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                    if let Err(errno) = rustix::fs::unlinkat(dir, new.as_str(), flags) {
                        // Something came into it: it goes back.
                        rustix::fs::renameat_with(dir, new.as_str(), dir, name, RenameFlags::EXCHANGE)?;
                        return Err(errno.into());
                    }
                    Ok(())
                }
                Some(_) => Ok(rustix::fs::renameat(dir, new.as_str(), dir, name)?),
                // Nobody's file is replaced that came meanwhile.
                None => match rustix::fs::renameat_with(dir, new.as_str(), dir, name, RenameFlags::NOREPLACE) {
                    Err(Errno::EXIST) => Err(Errno::STALE.into()),
                    // Not every file system knows how.
                    Err(Errno::INVAL) => Ok(rustix::fs::renameat(dir, new.as_str(), dir, name)?),
                    other => Ok(other?),
                },
            }
        });
        if made.is_err() {
            let flags = if change.node == Node::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            // The first failure is the one to tell.
            let _ = rustix::fs::unlinkat(dir, new.as_str(), flags);
        }
        made
    }

    fn copy(&self, change: &Change, dir: &OwnedFd, new: &[u8], old: Option<&Stat>) -> io::Result<()> {
        let from = file(source(change)?)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = File::from(rustix::fs::openat(dir, new, flags, Mode::RUSR | Mode::WUSR)?);
        io::copy(&mut &from, &mut &to)?;
        self.give(change, dir, new, old)?;
        let mode = rustix::fs::fstat(&from)?.st_mode & 0o777;
        rustix::fs::fchmod(&to, Mode::from_raw_mode(mode))?;
        to.sync_data()
    }

    /// Gives something that root made to whom it belongs: the owner of what it replaces, or as the session left it.
    fn give(&self, change: &Change, dir: &OwnedFd, new: &[u8], old: Option<&Stat>) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let (uid, gid) = match old {
            Some(old) => (old.st_uid, old.st_gid),
            None => self.owner(change)?,
        };
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        Ok(rustix::fs::chownat(dir, new, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
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
                let place =
                    directory(&layer.over).or_else(|_| directory(&layer.over.parent().unwrap_or_else(AbsPath::root)));
                let synced = place.and_then(rustix::fs::syncfs);
                synced.map_err(|errno| ReviewError::Layer { path: layer.over.clone(), source: errno.into() })?;
            }
        }
        Ok(())
    }
}

/// Where something is put: a directory that is held, and a name in it.
struct Place<'p> {
    dir: &'p OwnedFd,
    path: &'p AbsPath,
    name: &'p [u8],
    beside: &'p Beside,
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
