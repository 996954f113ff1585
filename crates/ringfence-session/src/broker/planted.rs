//! Directories that git would take for a repository, under names that nobody guards.
//!
//! Whoever enters such a directory and runs git, or has a file `.git` that names it, runs what its settings and hooks say. Below
//! names such as `.git` and `x.git` these are guarded; below others they are not. So a directory of the project does not
//! become a repository under such a name: the last of the names that make it one is refused. Repositories of their own have
//! the session's own directories, where tools keep them under names of their own.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_surface::{AbsPath, Access, Because, Effect, Role};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::caller::c_string;
use super::resolve::Place;
use super::work::{Stop, Work};

/// More names than these are not looked at: such a directory does not leave the names that guard it.
const MOST_NAMES: usize = 50_000;

/// Is this one of the names by which git knows a repository, or one that makes it run something?
pub(super) fn is_part(name: &[u8]) -> bool {
    matches!(name, b"HEAD" | b"commondir" | b"config" | b"hooks" | b"objects" | b"refs")
}

/// Would git take a directory with these names for a repository, or for what repositories share, and run what it says?
fn is_repository(at: &AbsPath, has: impl Fn(&[u8]) -> bool) -> bool {
    let is_whole = has(b"objects") && has(b"refs") && (has(b"HEAD") || has(b"config") || has(b"hooks"));
    // Where a repository keeps its work trees they are made of these; what they share is elsewhere, and judged there.
    let is_tie = at.parent().is_some_and(|above| above.file_name() == Some(b"worktrees"))
        && at.components().any(|name| name.ends_with(b".git"));
    is_whole || !is_tie && has(b"HEAD") && has(b"commondir")
}

impl Work<'_, '_> {
    /// May a new name be made, with what is beside it?
    pub(super) fn may_plant(&mut self, place: &Place) -> Result<(), Stop> {
        if !is_part(&place.name) || self.keeps_repositories(&place.at) {
            return Ok(());
        }
        // Of two that are made at once each would miss the other.
        self.alone()?;
        let has = |name: &[u8]| name == place.name || is_there(place.dir.as_fd(), name);
        if place.look().is_ok() || !is_repository(&place.at, has) {
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
            let is_bare = is_repository(&path, |name| is_there(dir.as_fd(), name)) && !self.keeps_repositories(&path);
            if is_bare || seen > MOST_NAMES {
                return self.refuse_planting(&path);
            }
            for entry in Dir::read_from(&dir)? {
                let entry = entry?;
                let name = entry.file_name();
                seen += 1;
                if entry.file_type() == FileType::Directory && !matches!(name.to_bytes(), b"." | b"..") {
                    left.push((rustix::fs::openat(&dir, name, flags, Mode::empty())?, path.child(name.to_bytes())));
                }
            }
        }
        Ok(())
    }

    /// Are the settings of a repository guarded here, or is this the session's own?
    fn keeps_repositories(&self, dir: &AbsPath) -> bool {
        let own = [Role::Scratch, Role::Private, Role::Cache].map(Effect::Write);
        // A policy of the user's may protect one of them for another reason.
        [b"config".as_slice(), b"hooks"].iter().all(|name| {
            let verdict = self.surface().decide(&dir.child(name), Access::Write);
            !verdict.is_allowed() || matches!(verdict.because, Because::Rule(rule) if own.contains(&rule.effect))
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_takes_for_a_repository() {
        for (at, expected) in [("/p/x", true), ("/p/.git/worktrees/x", false), ("/p/worktrees/x", true)] {
            let at = AbsPath::lexical(at.as_bytes()).unwrap();
            assert_eq!(is_repository(&at, |name| matches!(name, b"HEAD" | b"commondir")), expected, "{at}");
            assert!(is_repository(&at, |name| matches!(name, b"config" | b"objects" | b"refs")), "{at}");
        }
        for (names, expected) in [
            ("HEAD objects refs", true),
            ("objects refs config", true),
            ("objects refs hooks", true),
            ("HEAD commondir", true),
            ("HEAD commondir gitdir index", true),
            ("objects refs", false),
            ("HEAD objects", false),
            ("config hooks", false),
            ("HEAD config", false),
            ("commondir gitdir", false),
            ("", false),
        ] {
            let has = |name: &[u8]| names.split(' ').any(|one| one.as_bytes() == name);
            assert_eq!(is_repository(&AbsPath::root(), has), expected, "{names}");
        }
    }
}
