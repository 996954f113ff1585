//! Puts versions of protected files in place that their repository had when the session began.
//!
//! Git replaces a file by removing it and making it anew. Both are done here, on the host, since the file, or the directory that it is in,
//! is mounted read-only inside. What is put in place is the copy that was judged. A file that git removed and whose new version is refused is
//! put back.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use ringfence_git::entry_mode::EntryMode;
use ringfence_surface::{AbsPath, Access, Because, Effect, Rule, Surface};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::lander::Failure;
use super::wire::{EntryChange, NotLanded, Repositories};
use crate::git_files::{ContentJudge, HostPaths, References, Region, Regions, is_own, put, read_all};
use crate::git_gains::{KnownVersions, Unknown};
use crate::temporary::Journal;

/// The longest protected file that is put in place.
pub(crate) const LONGEST_VERSION: usize = 16 << 20;
/// What was removed is kept up to this size, all files together, so that it can be put back.
const MOST_KEPT: usize = 64 << 20;

/// The files that are put in place.
#[derive(Debug)]
pub(super) struct Versions {
    known: KnownVersions,
    /// What git removed last, by path.
    removed: HashMap<AbsPath, File>,
    size: usize,
}

/// A file as it was.
#[derive(Debug)]
struct File {
    text: Vec<u8>,
    mode: Mode,
    owner: (u32, u32),
}

/// The host's files, and what may be changed there.
#[derive(Clone, Copy)]
pub(super) struct Host<'h> {
    pub(super) surface: &'h Surface,
    pub(super) root: &'h Arc<OwnedFd>,
    pub(super) journal: &'h Journal,
}

/// The directory that an entry is in, held.
struct Parent<'p> {
    dir: OwnedFd,
    name: &'p [u8],
}

impl Versions {
    pub(super) fn new(known: KnownVersions) -> Self {
        Self { known, removed: HashMap::new(), size: 0 }
    }

    /// Puts a file in place.
    pub(super) fn put(
        &mut self,
        host: Host<'_>,
        (path, repositories): (&AbsPath, Repositories),
        (mode, text): (Mode, &[u8]),
        until: Instant,
    ) -> Result<(), Failure> {
        let parent = self.parent(host, path)?;
        if parent.status().is_ok() {
            return Err(Errno::EXIST.into());
        }
        let surface = surface_for(host, repositories);
        if let Err(cause) = self.known.find(surface, path, entry_mode(mode), text) {
            if let Some(before) = self.removed.remove(path) {
                self.size -= before.text.len();
                let metadata = (before.mode, Some(before.owner));
                put(parent.dir.as_fd(), parent.name, &before.text, metadata, Some(host.journal))?;
            }
            return Err(NotLanded::Version(cause).into());
        }
        in_time(until)?;
        let status = rustix::fs::fstat(&parent.dir)?;
        let owner = self.removed.get(path).map_or((status.st_uid, status.st_gid), |before| before.owner);
        Ok(put(parent.dir.as_fd(), parent.name, text, (mode, Some(owner)), Some(host.journal))?)
    }

    /// Makes or removes an entry.
    pub(super) fn change(
        &mut self,
        host: Host<'_>,
        (path, repositories): (&AbsPath, Repositories),
        change: EntryChange,
        until: Instant,
    ) -> Result<(), Failure> {
        let parent = self.parent(host, path)?;
        let name = parent.name()?;
        match change {
            EntryChange::RemoveFile => {
                let before = self.saved(surface_for(host, repositories), path, &parent)?;
                in_time(until)?;
                rustix::fs::unlinkat(&parent.dir, name.as_c_str(), AtFlags::empty())?;
                self.keep(path, before);
            }
            EntryChange::RemoveDirectory => {
                rustix::fs::unlinkat(&parent.dir, name.as_c_str(), AtFlags::REMOVEDIR)?;
            }
            EntryChange::MakeDirectory => {
                let surface = surface_for(host, repositories);
                self.known.may_have_protected(surface, path).map_err(NotLanded::Version)?;
                rustix::fs::mkdirat(&parent.dir, name.as_c_str(), Mode::from_raw_mode(0o755))?;
                let (above, flags) = (rustix::fs::fstat(&parent.dir)?, OFlags::DIRECTORY | OFlags::NOFOLLOW);
                let made = rustix::fs::openat(&parent.dir, name.as_c_str(), flags | OFlags::CLOEXEC, Mode::empty())?;
                if rustix::process::geteuid().is_root() {
                    rustix::fs::fchown(&made, Some(Uid::from_raw(above.st_uid)), Some(Gid::from_raw(above.st_gid)))?;
                }
            }
        }
        Ok(())
    }

    /// The first version that a command will need and not get.
    pub(super) fn foresee(&mut self, host: Host<'_>, git_dir: &AbsPath, command: &[u8]) -> Option<(AbsPath, Unknown)> {
        self.known.foresee(host.surface, git_dir, command)
    }

    /// A directory with a clone in it was moved.
    pub(super) fn moved(&mut self, from: &AbsPath, to: &AbsPath) {
        self.known.moved(from, to);
    }

    /// Reads a file that is about to be removed. It must be in the repository: an uncommitted change of the user's is not lost.
    fn saved(&mut self, surface: Option<&Surface>, path: &AbsPath, parent: &Parent<'_>) -> Result<File, Failure> {
        let status = parent.status()?;
        let (text, mode) = match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&parent.dir, parent.name()?.as_c_str(), flags, Mode::empty())?;
                let text = read_all(file.as_fd(), LONGEST_VERSION)?.ok_or(NotLanded::Unsaved)?;
                (text, Mode::from_raw_mode(status.st_mode & 0o777))
            }
            _ => return Err(NotLanded::Path.into()),
        };
        match self.known.is_saved(surface, path, entry_mode(mode), &text) {
            Ok(true) => {
                self.known.note_replaced(path, entry_mode(mode), &text);
                Ok(File { text, mode, owner: (status.st_uid, status.st_gid) })
            }
            Ok(false) => Err(NotLanded::Unsaved.into()),
            Err(cause) => Err(NotLanded::Version(cause).into()),
        }
    }

    fn keep(&mut self, path: &AbsPath, file: File) {
        if self.size + file.text.len() > MOST_KEPT {
            self.removed.clear();
            self.size = 0;
        }
        self.size += file.text.len();
        if let Some(before) = self.removed.insert(path.clone(), file) {
            self.size -= before.text.len();
        }
    }

    /// The directory that holds an entry, if this session may change it but for the built-in rules that protect it.
    fn parent<'p>(&self, Host { surface, root, .. }: Host<'_>, path: &'p AbsPath) -> Result<Parent<'p>, Failure> {
        let (above, name) = path.parent().zip(path.file_name()).ok_or(NotLanded::Path)?;
        let tree = self.known.work_tree(path).ok_or(NotLanded::Path)?;
        if !is_open_but_for_protection(surface, path, &tree) || is_own(surface, &above) {
            return Err(NotLanded::Path.into());
        }
        // The agent may have moved directories since the last request.
        let (regions, references) = (Regions::new(), References::new());
        let host = &HostPaths::new(root, surface);
        let judge = ContentJudge { surface, regions: &regions, references: &references, host, root };
        let dir = judge.open_without_links(&above, OFlags::RDONLY | OFlags::DIRECTORY).ok_or(NotLanded::Path)?;
        match regions.of(surface, dir.as_fd(), &above)? {
            Region::Ordinary => Ok(Parent { dir, name }),
            Region::Git(_) => Err(NotLanded::Path.into()),
        }
    }
}

impl Parent<'_> {
    fn name(&self) -> rustix::io::Result<std::ffi::CString> {
        std::ffi::CString::new(self.name).map_err(|_| Errno::INVAL)
    }

    fn status(&self) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.dir, self.name()?.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// By which surface new repositories are judged, where their versions count.
fn surface_for(host: Host<'_>, repositories: Repositories) -> Option<&Surface> {
    (repositories == Repositories::AlsoNew).then_some(host.surface)
}

/// The broker refuses a call that it no longer waits for; then nothing may change either.
fn in_time(until: Instant) -> Result<(), Failure> {
    if Instant::now() < until { Ok(()) } else { Err(NotLanded::Late.into()) }
}

/// How git sees a file with these permissions.
fn entry_mode(mode: Mode) -> EntryMode {
    if mode.contains(Mode::XUSR) { EntryMode::Executable } else { EntryMode::Regular }
}

/// Is this a rule that protects files of a work tree because of what they are? What a policy protects stays as it is, and so does the
/// policy itself: an old version of it could allow more.
pub(crate) fn is_replaceable(rule: &Rule) -> bool {
    rule.effect == Effect::Protect
        && !rule.source.is_written()
        && !rule.is_of_git_directory()
        && rule.pattern.to_string() != "**/ringfence.toml"
}

/// May this session write a path in a work tree but for the rules that [`is_replaceable`] accepts?
pub(crate) fn is_open_but_for_protection(surface: &Surface, path: &AbsPath, tree: &AbsPath) -> bool {
    for place in path.ancestors().take_while(|above| above.is_within(tree)) {
        // A directory is judged by what could be made in it.
        let place = if place == *path { place } else { place.child(b"x") };
        let verdict = surface.decide(&place, Access::Write);
        match verdict.because {
            _ if verdict.is_allowed() => return true,
            Because::Rule(rule) if is_replaceable(rule) => {}
            Because::Rule(_) | Because::OnlyReadable(_) | Because::View(_) => return false,
        }
    }
    false
}
