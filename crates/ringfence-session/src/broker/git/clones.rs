//! Clones with protected files: where git may make them, and that they come to no path that tools outside trust.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_surface::{AbsPath, Access, Because};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::super::caller::c_string;
use super::super::judge::Ruling;
use super::super::names::{Inner, listed};
use super::super::resolve::{Place, directory_of};
use super::super::work::{Stop, Work};
use super::JudgedBy;
use crate::git_files::is_own;
use crate::landing::is_replaceable;

/// Why a clone, or a directory with protected files, stays where it is.
const TRUSTED: &str = "git: there are protected files in it, and tools outside may trust the new path";

/// What a directory holds that matters where it goes.
#[derive(Debug, Default)]
struct Cargo {
    /// The first protected entry that is in no clone of this session.
    protected: Option<AbsPath>,
    has_clones: bool,
    has_links: bool,
}

impl Work<'_, '_> {
    /// Git puts protected files into this work tree. If its path is new, it is remembered as a clone.
    pub(super) fn note_clone(&self, tree: &AbsPath) {
        let broker = self.broker();
        // Without the shared memory other brokers would not know of it.
        if let Some(beside) = broker.beside.filter(|_| broker.clones.is_free(self.surface(), tree)) {
            beside.note_clone();
            broker.clones.add(tree.clone());
        }
    }

    /// May this protected entry be removed because it came with a clone of this session?
    pub(in super::super) fn is_of_clone(&self, path: &AbsPath) -> bool {
        let Some(top) = self.broker().clones.around(path) else { return false };
        let Ruling::Refused(verdict) = self.judge(path, Access::Write) else { return false };
        matches!(verdict.because, Because::Rule(rule) if is_replaceable(rule))
            && self.broker().clones.is_free(self.surface(), &top)
    }

    /// May a symbolic link with this text be at a path? A link at a path that tools trust would show them a clone.
    pub(in super::super) fn may_link_to(&self, place: &Place, text: &[u8]) -> Result<(), Stop> {
        let (path, broker) = (place.path(), self.broker());
        let Some(beside) = broker.beside.filter(|_| !is_own(self.surface(), &place.at)) else { return Ok(()) };
        let is_noted = beside.has_redirects() && !beside.has_clones();
        if !broker.clones.was_used(&path) || broker.clones.had_link(&path, text) || is_noted {
            return Ok(());
        }
        // What leads to a place that the session cannot write leads to no clone.
        let hold = OFlags::PATH | OFlags::CLOEXEC;
        let target = rustix::fs::openat(&place.dir, c_string(text)?.as_c_str(), hold, Mode::empty());
        let real = target.and_then(|fd| directory_of(fd.as_fd())).ok().and_then(|real| AbsPath::lexical(&real).ok());
        if real.is_some_and(|real| !self.can_hold_clones(&real)) {
            return Ok(());
        }
        self.alone()?;
        if !beside.has_clones() {
            beside.note_redirect();
            return Ok(());
        }
        let why = "git: repositories with protected files were cloned in this session, and tools outside may trust what is at this path";
        self.stop(&path, why, "make this link yourself, outside the fence")
    }

    fn can_hold_clones(&self, path: &AbsPath) -> bool {
        let surface = self.surface();
        let is_open = surface.decide(&path.child(b"x"), Access::Write).is_allowed() && !is_own(surface, path);
        is_open || surface.roots().any(|root| root.is_within(path))
    }

    /// The same for an existing link that gets another name: the link itself, or the entry `name` of a directory.
    pub(in super::super) fn may_link_like(&self, (dir, name): (BorrowedFd<'_>, &[u8]), to: &Place) -> Result<(), Stop> {
        let text = rustix::fs::readlinkat(dir, c_string(name)?.as_c_str(), Vec::new());
        text.map_or(Ok(()), |text| self.may_link_to(to, text.as_bytes()))
    }

    /// May a directory be moved with the protected files in it?
    pub(in super::super) fn may_move_clones(&self, old: &Place, new: &Place) -> Result<(), Stop> {
        let broker = self.broker();
        let Some(beside) = broker.beside.filter(|_| !is_own(self.surface(), &new.at)) else { return Ok(()) };
        let status = old.look()?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Symlink => return self.may_link_like((old.dir.as_fd(), &old.name), new),
            FileType::Directory => {}
            _ => return Ok(()),
        }
        let (from, to) = (old.path(), new.path());
        let is_free = broker.clones.is_free(self.surface(), &to);
        if !beside.has_clones() && (is_free || beside.has_redirects() || broker.clones.is_nested()) {
            return Ok(());
        }
        self.alone()?;
        if !beside.has_clones() {
            if self.cargo_of(old, &from)?.has_links {
                beside.note_redirect();
            }
            return Ok(());
        }
        let cargo = self.cargo_of(old, &from)?;
        let is_in_clone = broker.clones.around(&from).is_some();
        let is_refused = match &cargo.protected {
            Some(_) => true,
            None => cargo.has_clones && (!is_free || is_in_clone) || cargo.has_links && broker.clones.was_used(&to),
        };
        if is_refused {
            return self.stop(&to, TRUSTED, "move it yourself, outside the fence, or clone to the new path");
        }
        Ok(())
    }

    /// Two directories exchange their paths: a clone stays out of that.
    pub(in super::super) fn may_exchange_clones(&self, one: &AbsPath, other: &AbsPath) -> Result<(), Stop> {
        let clones = &self.broker().clones;
        if clones.are_within(one) || clones.are_within(other) {
            return self.stop(other, TRUSTED, "move it to a new path");
        }
        Ok(())
    }

    /// Directories were moved: clones in them are known by their new paths.
    pub(in super::super) fn moved_clones(&self, from: &AbsPath, to: &AbsPath) {
        if self.broker().clones.moved(from, to) {
            self.broker().judge.tell_moved(from, to);
        }
    }

    fn cargo_of(&self, place: &Place, from: &AbsPath) -> Result<Cargo, Stop> {
        let (mut cargo, mut seen) = (Cargo::default(), 0);
        let clones = &self.broker().clones;
        cargo.has_clones = clones.are_within(from);
        let listed_inside = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut left: Vec<(OwnedFd, AbsPath, _)> = vec![(listed(place)?, from.clone(), self.surface().cursor(from))];
        while let Some((dir, path, cursor)) = left.pop() {
            for Inner { name, kind, is_directory } in self.names_in(&dir, &mut seen, from)? {
                let (c_name, below) = (name.as_c_str(), path.child(name.to_bytes()));
                let name = c_name.to_bytes();
                cargo.has_links |= matches!(kind, FileType::Symlink | FileType::Unknown) && !is_directory;
                // What these hold is judged wherever they are.
                if matches!(name, b".git" | b".gitmodules") || cursor.is_exhausted() {
                    continue;
                }
                if !self.is_permitted(&below, JudgedBy::Place)
                    && !clones.around(&below).is_some_and(|top| top.is_within(from))
                {
                    cargo.protected.get_or_insert(below.clone());
                }
                if is_directory {
                    let inner = rustix::fs::openat(&dir, c_name, listed_inside, Mode::empty())?;
                    left.push((inner, below, cursor.enter(name)));
                }
            }
        }
        Ok(cargo)
    }

    fn stop(&self, path: &AbsPath, why: &str, remedy: &str) -> Result<(), Stop> {
        let (judge, call) = self.teller();
        judge.stopped(self.caller.known(), call, path.clone(), (why.to_owned(), remedy.to_owned()));
        Err(Errno::ACCESS.into())
    }
}
