//! The last of the names that make a directory a repository is refused where nobody guards its settings. Repositories of their own
//! have the session's own directories, where tools keep them under names of their own.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_surface::{AbsPath, Access};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::caller::c_string;
use super::names::is_directory;
use super::resolve::Place;
use super::work::{Stop, Work};
use crate::repository::{is_own, is_part, is_planted};

/// More names than these are not looked at: such a directory does not leave the names that guard it.
const MOST_NAMES: usize = 50_000;

impl Work<'_, '_> {
    /// May a new name be made, with what is beside it?
    pub(super) fn may_plant(&mut self, place: &Place) -> Result<(), Stop> {
        if !is_part(&place.name) || is_own(self.surface(), &place.at) {
            return Ok(());
        }
        // Of two that are made at once each would miss the other.
        self.alone()?;
        let has = |name: &[u8]| name == place.name || is_there(place.dir.as_fd(), name);
        if place.look().is_ok() || !is_planted(self.surface(), &place.at, has) {
            return Ok(());
        }
        self.refuse_planting(&place.path())
    }

    /// May a directory be moved to where nobody guards the repositories in it?
    pub(super) fn may_bare(&mut self, old: &Place, new: &AbsPath) -> Result<(), Stop> {
        let is_guarded = |path: &AbsPath| path.components().any(|name| name.ends_with(b".git"));
        if !is_guarded(&old.path()) {
            return Ok(());
        }
        if !is_guarded(new) {
            // Nobody puts a directory in the place of what is looked at.
            self.alone()?;
        }
        if !old.look().is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Directory) {
            return Ok(());
        }
        self.alone()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&old.dir, c_string(&old.name)?.as_c_str(), flags, Mode::empty())?;
        let mut left: Vec<(OwnedFd, AbsPath)> = vec![(dir, new.clone())];
        let mut seen = 0;
        while let Some((dir, path)) = left.pop() {
            let is_bare = is_planted(self.surface(), &path, |name| is_there(dir.as_fd(), name));
            if is_bare || seen > MOST_NAMES {
                return self.refuse_planting(&path);
            }
            for entry in Dir::read_from(&dir)? {
                let entry = entry?;
                let name = entry.file_name();
                seen += 1;
                if !matches!(name.to_bytes(), b"." | b"..") && is_directory(&dir, name, entry.file_type()) {
                    left.push((rustix::fs::openat(&dir, name, flags, Mode::empty())?, path.child(name.to_bytes())));
                }
            }
        }
        Ok(())
    }

    fn refuse_planting(&self, path: &AbsPath) -> Result<(), Stop> {
        // What would guard it under a name that is guarded.
        let verdict = self.surface().decide(&path.child(b".git").child(b"config"), Access::Write);
        self.tell_refused(path, (Access::Write, &verdict), Errno::ACCESS);
        Err(Errno::ACCESS.into())
    }
}

/// Is there something of this name, be it a link that leads nowhere yet?
fn is_there(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    c_string(name).and_then(|name| rustix::fs::statat(dir, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)).is_ok()
}
