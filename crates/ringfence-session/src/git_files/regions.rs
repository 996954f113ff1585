//! Which directories are below a git directory, by what is in them.
//!
//! A directory is a git directory if it is called `.git`, or if git would take it for one: it has `HEAD`, and either `objects` and
//! `refs` or `commondir`. One with `objects`, `refs` and `worktrees` is one too: linked work trees take their settings and hooks from it,
//! whether it has `HEAD` or not. Where it lies and how it is called does not matter: `modules/NAME`, `worktrees/NAME`, a bare repository
//! of any name. What is known of a directory is remembered until a name that this depends on is made, moved or removed, which is done
//! alone: no other call is carried out meanwhile.
//!
//! Every call after which a directory would be one, and was not, has all of it judged first. So each directory that git would take for one
//! was judged as a whole, or existed when the session began.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

use ringfence_git::layout;
use ringfence_git::settings::Age;
use ringfence_surface::{AbsPath, Surface};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::{c_string, is_own};

/// More directories are not remembered at once.
const MOST: usize = 8192;

/// Where a directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Region {
    /// In no git directory, or in a directory that only the session uses.
    Ordinary,
    /// In a git directory, or the git directory itself.
    Git(GitRegion),
}

/// A directory in a git directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GitRegion {
    /// The git directory.
    pub(crate) root: AbsPath,
    /// The path below it; empty for the git directory itself.
    pub(crate) below: Vec<u8>,
}

impl GitRegion {
    /// The path of an entry, relative to the git directory.
    pub(crate) fn entry(&self, name: &[u8]) -> Vec<u8> {
        if self.below.is_empty() { name.to_vec() } else { [self.below.as_slice(), b"/", name].concat() }
    }
}

/// What is known of directories.
#[derive(Debug)]
pub(crate) struct Regions {
    known: RwLock<BTreeMap<AbsPath, Region>>,
    /// Git directories that were made in this session.
    new: RwLock<BTreeSet<AbsPath>>,
    /// Since when it is known, as all sessions of the user count.
    generation: AtomicU32,
}

impl Regions {
    pub(crate) fn new() -> Self {
        Self { known: RwLock::new(BTreeMap::new()), new: RwLock::new(BTreeSet::new()), generation: AtomicU32::new(0) }
    }

    /// Where a directory is, which is held and whose path is known.
    pub(crate) fn of(&self, surface: &Surface, dir: BorrowedFd<'_>, at: &AbsPath) -> rustix::io::Result<Region> {
        if let Some(region) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(at) {
            return Ok(region.clone());
        }
        let region = self.find(surface, dir, at)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(at.clone(), region.clone());
        Ok(region)
    }

    fn find(&self, surface: &Surface, dir: BorrowedFd<'_>, at: &AbsPath) -> rustix::io::Result<Region> {
        let Some((parent, name)) = at.parent().zip(at.file_name()) else { return Ok(Region::Ordinary) };
        if is_own(surface, at) {
            return Ok(Region::Ordinary);
        }
        if name == b".git" || self.is_new(at) || is_git_directory(|name| is_there(dir, name)) {
            return Ok(Region::Git(GitRegion { root: at.clone(), below: Vec::new() }));
        }
        let above = rustix::fs::openat(dir, c"..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(match self.of(surface, above.as_fd(), &parent)? {
            // The work tree of a bare repository that lies in it. `.git` cannot be made there by the session. In a directory of git's own
            // `.git` means nothing there.
            Region::Git(region) if layout::is_foreign_directory(&region.entry(name)) && is_there(dir, b".git") => {
                Region::Ordinary
            }
            Region::Git(region) => Region::Git(GitRegion { below: region.entry(name), root: region.root }),
            Region::Ordinary => Region::Ordinary,
        })
    }

    /// Forgets everything if another session has moved directories, or made one a git directory, since the last time.
    pub(crate) fn keep_up(&self, generation: u32) {
        if self.generation.swap(generation, Ordering::SeqCst) != generation {
            self.forget();
        }
    }

    /// A name that regions depend on was made, moved or removed.
    pub(crate) fn forget(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A git directory was made in this session.
    pub(crate) fn made(&self, root: AbsPath) {
        self.new.write().unwrap_or_else(PoisonError::into_inner).insert(root);
    }

    /// Was a git directory made in this session? Then it was judged as a whole.
    pub(crate) fn is_new(&self, root: &AbsPath) -> bool {
        self.new.read().unwrap_or_else(PoisonError::into_inner).contains(root)
    }

    /// A directory was moved, and what is in it.
    pub(crate) fn moved(&self, from: &AbsPath, to: &AbsPath) {
        let mut new = self.new.write().unwrap_or_else(PoisonError::into_inner);
        let moved: Vec<AbsPath> = new.iter().filter(|root| root.is_within(from)).cloned().collect();
        new.retain(|root| !root.is_within(to));
        for root in moved {
            let below = root.as_bytes()[from.as_bytes().len()..].to_vec();
            new.remove(&root);
            if let Ok(root) = AbsPath::lexical(&[to.as_bytes(), below.as_slice()].concat()) {
                new.insert(root);
            }
        }
        drop(new);
        self.forget();
    }

    /// A directory was removed.
    pub(crate) fn removed(&self, path: &AbsPath) {
        self.new.write().unwrap_or_else(PoisonError::into_inner).remove(path);
    }

    /// Since when a git directory exists.
    pub(crate) fn age(&self, root: &AbsPath) -> Age {
        let new = self.new.read().unwrap_or_else(PoisonError::into_inner);
        // The directory of a work tree or of a submodule is as old as its repository. Nothing else is as old as what it lies in: an
        // attacker can make a git directory of the one above.
        let is_part = |above: &AbsPath| {
            let below = root.as_bytes().get(above.as_bytes().len()..).unwrap_or_default();
            below.starts_with(b"/worktrees/") || below.starts_with(b"/modules/")
        };
        let is_new = |above: &AbsPath| new.contains(above) && (above == root || is_part(above));
        if root.ancestors().any(|above| is_new(&above)) { Age::New } else { Age::Existing }
    }
}

/// Would git take a directory with these names for a git directory, or for the one that linked work trees belong to?
pub(crate) fn is_git_directory(has: impl Fn(&[u8]) -> bool) -> bool {
    has(b"HEAD") && has(b"commondir") || has(b"objects") && has(b"refs") && (has(b"HEAD") || has(b"worktrees"))
}

/// Does it depend on this name whether a directory is a git directory, or has a work tree's?
pub(crate) fn is_telling(name: &[u8]) -> bool {
    matches!(name, b".git" | b"HEAD" | b"commondir" | b"objects" | b"refs" | b"worktrees")
}

/// Is there something of this name, be it a link that leads nowhere?
pub(crate) fn is_there(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    c_string(name).and_then(|name| rustix::fs::statat(dir, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)).is_ok()
}
