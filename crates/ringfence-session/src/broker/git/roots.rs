//! Directories that become git directories, and directories that are moved.
//!
//! Git, run by the user outside, takes any directory with certain names for a repository, and runs what its settings and hooks say. So no
//! call makes a directory one before everything in it was judged as in a git directory, and none can then be found where git keeps none.
//! The calls that do it are those that make a name (create, mkdir, link, bind), and those that move one: a file, a directory that takes the
//! name `.git` or completes the directory above it, and an exchange in both directions. They are carried out alone, so that nothing is
//! put in after the check (TOCTOU).

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use ringfence_git::layout::{self, FileKind, file_kind};
use ringfence_git::settings::Age;
use ringfence_surface::AbsPath;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::super::caller::c_string;
use super::super::names::is_directory;
use super::super::resolve::Place;
use super::super::work::{Stop, Work};
use super::{Content, GitPlace, Refusal, is_telling};
use crate::git_files::{Frozen, GitRegion, LONGEST, NotFrozen, Region, is_git_directory, is_own, is_there};

/// More names than these are not looked at when a directory becomes a git directory, or is exchanged.
const MOST_NAMES: usize = 200_000;
const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory that is judged as a part of a git directory.
#[derive(Debug)]
struct Part {
    /// The directory that it is in, and its name there; `.` is the descriptor's own directory.
    dir: Arc<OwnedFd>,
    name: Vec<u8>,
    /// Its path now.
    at: AbsPath,
    region: GitRegion,
}

impl Part {
    fn new(dir: OwnedFd, at: AbsPath, region: GitRegion) -> Self {
        Self { dir: Arc::new(dir), name: b".".to_vec(), at, region }
    }

    fn open(&self) -> Result<OwnedFd, Stop> {
        Ok(rustix::fs::openat(&self.dir, c_string(&self.name)?.as_c_str(), LISTED, Mode::empty())?)
    }
}

fn is_shaped(dir: &OwnedFd) -> bool {
    is_git_directory(|name| is_there(dir.as_fd(), name))
}

impl Work<'_, '_> {
    /// A name is about to appear that may make its directory a git directory: then everything in there is judged. Nothing else is
    /// carried out meanwhile. Does it become one?
    pub(in super::super) fn may_become(&mut self, place: &Place) -> Result<bool, Stop> {
        self.may_become_with(place, None)
    }

    /// The same where a directory, which has the path `brought` until then, gets the name.
    fn may_become_with(&mut self, place: &Place, brought: Option<(OwnedFd, &AbsPath)>) -> Result<bool, Stop> {
        self.alone()?;
        if place.name == b".git" {
            return Ok(false);
        }
        let has = |name: &[u8]| name == place.name || is_there(place.dir.as_fd(), name);
        if !is_git_directory(has) {
            return Ok(false);
        }
        let is_one =
            place.at.file_name() == Some(b".git") || is_git_directory(|name| is_there(place.dir.as_fd(), name));
        let region = match self.region(place)? {
            Region::Ordinary if is_own(self.surface(), &place.at) => return Ok(false),
            // It was judged when it became one.
            Region::Git(region) if region.below.is_empty() && is_one => return Ok(false),
            // What belongs to a linked work tree is as old as its repository, and judged as a part of it.
            Region::Git(region) if region.below.starts_with(b"worktrees/") && is_place(&region) => region,
            Region::Git(region) if !region.below.is_empty() && !is_place(&region) => {
                let misplaced = Refusal::Misplaced(place.at.clone());
                return self.refuse_in_git(place, &misplaced).map(|()| false);
            }
            Region::Ordinary | Region::Git(_) => GitRegion { root: place.at.clone(), below: Vec::new() },
        };
        let is_root = region.below.is_empty();
        let mut parts = Vec::new();
        if let Some((dir, path)) = brought {
            if is_shaped(&dir) || path.file_name() == Some(b".git") {
                return self.refuse_in_git(place, &Refusal::Misplaced(place.path())).map(|()| false);
            }
            let below = region.entry(&place.name);
            parts.push(Part::new(dir, path.clone(), GitRegion { root: region.root.clone(), below }));
        }
        let dir = rustix::io::fcntl_dupfd_cloexec(&place.dir, 3)?;
        parts.push(Part::new(dir, place.at.clone(), region));
        if let Some(odd) = self.odd_in(parts)? {
            return self.refuse_in_git(place, &Refusal::Becomes(odd)).map(|()| false);
        }
        if is_root {
            // From here on it is one, also while the last of its files is still being written.
            self.regions().made(place.at.clone());
        }
        self.regions().forget();
        Ok(true)
    }

    /// The first thing in these directories that git does not write in a git directory during ordinary work.
    fn odd_in(&mut self, mut left: Vec<Part>) -> Result<Option<AbsPath>, Stop> {
        let mut seen = 0;
        while let Some(part) = left.pop() {
            let dir = Arc::new(part.open()?);
            for entry in Dir::read_from(&dir)? {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                seen += 1;
                let at = part.at.child(name.to_bytes());
                let relative = part.region.entry(name.to_bytes());
                if seen > MOST_NAMES {
                    return Ok(Some(at));
                }
                if !is_directory(&dir, name, entry.file_type()) {
                    let git = GitPlace { root: part.region.root.clone(), relative, age: Age::New };
                    if self.is_odd(&dir, name.to_bytes(), &part.at, &git)? {
                        return Ok(Some(at));
                    }
                    continue;
                }
                let inner = rustix::fs::openat(&dir, name, LISTED, Mode::empty())?;
                let kind = file_kind(&relative);
                if !layout::is_directory(&relative) && kind != FileKind::Forming {
                    return Ok(Some(at));
                }
                let mut region = GitRegion { root: part.region.root.clone(), below: relative };
                if is_shaped(&inner) {
                    if !is_place(&region) {
                        return Ok(Some(at));
                    }
                    if kind == FileKind::Forming {
                        // That of a submodule, which was judged when it became one.
                        if self.regions().is_new(&at) {
                            continue;
                        }
                        region = GitRegion { root: at.clone(), below: Vec::new() };
                    }
                }
                left.push(Part { dir: Arc::clone(&dir), name: name.to_bytes().to_vec(), at, region });
            }
        }
        Ok(None)
    }

    /// Is this no file that git writes there?
    fn is_odd(&self, dir: &OwnedFd, name: &[u8], at: &AbsPath, git: &GitPlace) -> Result<bool, Stop> {
        let content = match file_kind(&git.relative) {
            FileKind::Closed => return Ok(true),
            FileKind::Free | FileKind::Object(_) | FileKind::Forming => {
                let status = rustix::fs::statat(dir, c_string(name)?.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
                return Ok(FileType::from_raw_mode(status.st_mode) != FileType::RegularFile);
            }
            FileKind::Vetted(grammar) => Content::Vetted(grammar),
            FileKind::Settings => Content::Settings,
            FileKind::Index | FileKind::SharedIndex => Content::Index,
        };
        let frozen = match Frozen::of(self.perform(|| Frozen::open(dir.as_fd(), name)), LONGEST) {
            Ok(frozen) if frozen.is_leased() => frozen,
            // A process may still hold a descriptor for writing.
            Ok(_) | Err(NotFrozen::NotPlain | NotFrozen::Long) => return Ok(true),
            Err(NotFrozen::Failed(errno)) => return Err(errno.into()),
        };
        Ok(self.content_judge().judge(content, (at, Some(git)), &frozen.content, b"").is_err())
    }

    /// May a directory be moved: out of a git directory, into one, to the name `.git`, or to one that makes a git directory of the one
    /// above?
    pub(super) fn may_move_directory(
        &mut self,
        old: &Place,
        new: &Place,
        (from, to): (Option<&GitPlace>, Option<&GitPlace>),
    ) -> Result<(), Stop> {
        let (old_path, surface) = (old.path(), self.surface());
        let dir = rustix::fs::openat(&old.dir, c_string(&old.name)?.as_c_str(), LISTED, Mode::empty())?;
        let (was_own, is_own_then) = (is_own(surface, &old.at), is_own(surface, &new.at));
        if was_own && is_own_then {
            return Ok(());
        }
        let is_shaped = is_shaped(&dir);
        let is_whole = old.name == b".git" || is_shaped;
        // `commondir` was judged by where it lies: elsewhere the same text names another repository. Git never moves such a directory.
        if is_shaped && is_there(dir.as_fd(), b"commondir") {
            return self.refuse_in_git(old, &Refusal::Closed);
        }
        if let Some(git) = from.filter(|_| !is_whole)
            && !may_leave(git, to)
        {
            return self.refuse_in_git(old, &Refusal::Closed);
        }
        if let Some(git) = to.filter(|_| is_whole || from.is_none())
            && !(is_whole && file_kind(&git.relative) == FileKind::Forming)
        {
            return self.refuse_in_git(new, &Refusal::Closed);
        }
        if is_own_then {
            return Ok(());
        }
        if was_own && let Some(found) = self.first_of_git(&dir, &old_path)? {
            // In a directory of the session's own nothing was judged.
            return self.refuse_in_git(new, &Refusal::Misplaced(found));
        }
        if new.name == b".git" {
            // What is a git directory already was judged when it became one, or is the user's.
            if is_shaped {
                return Ok(());
            }
            let region = GitRegion { root: old_path.clone(), below: Vec::new() };
            if let Some(odd) = self.odd_in(vec![Part::new(dir, old_path, region)])? {
                return self.refuse_in_git(new, &Refusal::Becomes(odd));
            }
        } else if is_telling(&new.name) {
            let _ = self.may_become_with(new, Some((dir, &old_path)))?;
        }
        Ok(())
    }

    /// May two entries be exchanged? Both are moved at once, and neither is looked at as a move looks at it: so not where one of them is
    /// of a git directory, decides which repository git finds, or has a repository in it.
    pub(super) fn may_exchange(&mut self, old: &Place, new: &Place) -> Result<(), Stop> {
        let statuses = [old.look()?, new.look()?];
        if is_own(self.surface(), &old.at) && is_own(self.surface(), &new.at) {
            return Ok(());
        }
        self.alone()?;
        for (place, status) in [old, new].into_iter().zip(statuses) {
            let git = self.git_place(place)?;
            let is_of_git = is_telling(&place.name) || git.is_some() || self.content_of(place, None).is_some();
            let mut found = is_of_git.then(|| place.path());
            if found.is_none() && FileType::from_raw_mode(status.st_mode) == FileType::Directory {
                let dir = rustix::fs::openat(&place.dir, c_string(&place.name)?.as_c_str(), LISTED, Mode::empty())?;
                found = self.first_of_git(&dir, &place.path())?;
            }
            if let Some(found) = found {
                return self.refuse_in_git(new, &Refusal::Exchange(found));
            }
        }
        Ok(())
    }

    /// The first git directory, or `.git` file, that a directory is or has in it. A directory with too many names counts as one.
    fn first_of_git(&self, dir: &OwnedFd, at: &AbsPath) -> Result<Option<AbsPath>, Stop> {
        let dir = rustix::io::fcntl_dupfd_cloexec(dir, 3)?;
        let region = GitRegion { root: at.clone(), below: Vec::new() };
        let (mut left, mut seen) = (vec![Part::new(dir, at.clone(), region)], 0);
        while let Some(part) = left.pop() {
            let dir = Arc::new(part.open()?);
            if self.regions().is_new(&part.at) || is_shaped(&dir) {
                return Ok(Some(part.at));
            }
            for entry in Dir::read_from(&dir)? {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                seen += 1;
                let at = part.at.child(name.to_bytes());
                if name.to_bytes() == b".git" || seen > MOST_NAMES {
                    return Ok(Some(at));
                }
                if is_directory(&dir, name, entry.file_type()) {
                    let region = part.region.clone();
                    left.push(Part { dir: Arc::clone(&dir), name: name.to_bytes().to_vec(), at, region });
                }
            }
        }
        Ok(None)
    }
}

/// May a git directory be here?
fn is_place(region: &GitRegion) -> bool {
    layout::is_place_of_git_directory(&region.below)
}

/// May a directory in a git directory, which is none itself, be moved? Git moves what is below `logs` and `refs`, and what is still being made.
/// What refers to its repository by where it lies (`worktrees`) stays, and so does all else of a repository that the user has.
fn may_leave(from: &GitPlace, to: Option<&GitPlace>) -> bool {
    let first = |path: &[u8]| path.split(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
    match to {
        Some(to) => {
            let is_permitted = layout::is_directory(&to.relative) || file_kind(&to.relative) == FileKind::Forming;
            let is_below =
                [b"logs/".as_slice(), b"refs/", b"modules/"].iter().any(|name| from.relative.starts_with(name));
            let is_top = matches!(from.relative.as_slice(), b"logs" | b"refs" | b"modules");
            to.root == from.root && first(&to.relative) == first(&from.relative) && (is_below || is_top) && is_permitted
        }
        None => from.age == Age::New && first(&from.relative).as_deref() != Some(b"worktrees"),
    }
}
