//! Where files of git directories lead: the `.git` file of a work tree, `core.worktree` of a submodule, `gitdir` and `commondir` of a
//! linked work tree, further directories of objects, and repositories of the local file system that are remotes.
//!
//! Git follows links, and resolves a path anew with each command. An attacker has such a file judged, and makes the path lead elsewhere
//! afterwards: a directory on its way is replaced by a symbolic link, or the file is moved to where its `../` count from another directory.
//! So a path is accepted only where it can be resolved by its text alone, and no link is on its way. Every accepted reference is
//! remembered, with those of the user at the start. From then on no link may be made on the way of one, and a move of directories may not lead one
//! to where it would not have been accepted.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ringfence_git::address::{self, Address};
use ringfence_git::{config, grammar};
use ringfence_surface::{AbsPath, folded_name};
use rustix::fs::{Dir, DirEntry, FileType, OFlags};
use rustix::io::Errno;

use super::{LONGEST_SETTINGS, read_all};
use crate::clones::rebased;
use crate::folded::folds_at;
use crate::place::{open_beneath, relative};

/// More references of one session are not accepted.
const MOST: usize = 4096;
/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// Settings that may name a repository of the local file system.
const REMOTES: &[&str] =
    &["branch.pushremote", "branch.remote", "remote.pushdefault", "remote.pushurl", "remote.url", "submodule.url"];

/// The path that an address names. The name of a remote is a path if there is no such remote.
fn local_path(value: Vec<u8>) -> Option<Vec<u8>> {
    match address::parse(&value) {
        Address::Local(path) => Some(path).filter(|path| path.contains(&b'/') || path.starts_with(b".")),
        Address::Host { .. } | Address::Helper | Address::Malformed => None,
    }
}

/// What names a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReferenceKind {
    /// `.git` of a work tree names a git directory.
    GitFile,
    /// `commondir` names the repository of a linked work tree.
    CommonDir,
    /// `gitdir` names the `.git` file of a linked work tree.
    WorkTreeFile,
    /// `core.worktree` names the work tree of a submodule.
    WorkTree,
    /// `objects/info/alternates`.
    ObjectDirectory,
    /// The address of a remote or of a submodule.
    Remote,
}

impl ReferenceKind {
    /// The names that the file may have.
    fn files(self) -> &'static [&'static [u8]] {
        match self {
            Self::GitFile => &[b".git"],
            Self::CommonDir => &[b"commondir"],
            Self::WorkTreeFile => &[b"gitdir"],
            Self::WorkTree => &[b"config", b"config.worktree"],
            Self::ObjectDirectory => &[b"alternates"],
            Self::Remote => &[b"config", b"config.worktree", b".gitmodules"],
        }
    }

    /// The paths that a file of this kind names.
    fn named(self, text: &[u8]) -> Vec<Vec<u8>> {
        match self {
            Self::GitFile => grammar::git_file(text).map(<[u8]>::to_vec).into_iter().collect(),
            Self::CommonDir | Self::WorkTreeFile => vec![text.trim_ascii_end().to_vec()],
            Self::ObjectDirectory => text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect(),
            Self::WorkTree => {
                let entries = config::parse(text).into_iter().filter(|entry| entry.is("core", "worktree"));
                entries.filter_map(|entry| entry.value).collect()
            }
            Self::Remote => {
                let entries =
                    config::parse(text).into_iter().filter(|entry| entry.matches_any(REMOTES.iter().copied()));
                entries.filter_map(|entry| local_path(entry.value?)).collect()
            }
        }
    }
}

/// A file names a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GitReference {
    pub(crate) kind: ReferenceKind,
    /// The directory of the file.
    pub(crate) dir: AbsPath,
    /// What a relative path begins at.
    pub(crate) base: AbsPath,
    /// The path, as the file names it.
    pub(crate) text: Vec<u8>,
}

impl GitReference {
    /// Where the path leads if no link is on its way.
    ///
    /// None where that cannot be said by its text alone: `..` behind the name of a link is not the directory that has the link. Git
    /// itself writes that only into the two kinds for which [`Self::corners`] are remembered: `git clone --shared ../a`.
    pub(crate) fn target(&self) -> Option<AbsPath> {
        if !matches!(self.kind, ReferenceKind::ObjectDirectory | ReferenceKind::Remote) && !self.corners().is_empty() {
            return None;
        }
        AbsPath::lexical(&self.whole()).ok()
    }

    fn whole(&self) -> Vec<u8> {
        match self.text.first() {
            Some(b'/') => self.text.clone(),
            _ => [self.base.as_bytes(), b"/", self.text.as_slice()].concat(),
        }
    }

    /// The directories from which `..` leads back, that the text names. If they are no links, the path leads where its text says.
    pub(crate) fn corners(&self) -> Vec<AbsPath> {
        let mut here = if self.text.first() == Some(&b'/') { AbsPath::root() } else { self.base.clone() };
        let (mut is_named, mut corners) = (self.text.first() == Some(&b'/'), Vec::new());
        for name in self.text.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => {
                    corners.extend(is_named.then(|| here.clone()));
                    here = here.parent().unwrap_or_else(AbsPath::root);
                }
                name => {
                    here = here.child(name);
                    is_named = true;
                }
            }
        }
        corners
    }

    /// The same after a move.
    pub(crate) fn after(&self, change: DirectoryMove<'_>) -> Self {
        let path = |path: &AbsPath| change.after(path).into_owned();
        Self { dir: path(&self.dir), base: path(&self.base), ..self.clone() }
    }

    /// The file that names it, by the first of the names that it may have.
    pub(crate) fn file(&self) -> AbsPath {
        self.dir.child(self.kind.files()[0])
    }

    /// Does its file still name it?
    pub(crate) fn stands(&self, root: impl AsFd) -> bool {
        self.kind.files().iter().any(|name| {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
            let file = open_beneath(root.as_fd(), &relative(&self.dir.child(name)), flags);
            let text = file.ok().and_then(|file| read_all(file.as_fd(), LONGEST_SETTINGS).ok()?);
            text.is_some_and(|text| self.kind.named(&text).contains(&self.text))
        })
    }
}

/// A directory is renamed, or two are exchanged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectoryMove<'m> {
    pub(crate) from: &'m AbsPath,
    pub(crate) to: &'m AbsPath,
    pub(crate) is_exchange: bool,
}

impl DirectoryMove<'_> {
    /// Where something will be.
    pub(crate) fn after<'p>(&self, path: &'p AbsPath) -> Cow<'p, AbsPath> {
        let back = || rebased(path, self.to, self.from).filter(|_| self.is_exchange);
        rebased(path, self.from, self.to).or_else(back).map_or(Cow::Borrowed(path), Cow::Owned)
    }

    /// Where now is what will be at a path. None where nothing will be: it is below the old name.
    pub(crate) fn before<'p>(&self, path: &'p AbsPath) -> Option<Cow<'p, AbsPath>> {
        if let Some(path) = rebased(path, self.to, self.from) {
            return Some(Cow::Owned(path));
        }
        match rebased(path, self.from, self.to) {
            Some(path) if self.is_exchange => Some(Cow::Owned(path)),
            Some(_) => None,
            None => Some(Cow::Borrowed(path)),
        }
    }
}

#[derive(Debug, Clone)]
struct Known {
    reference: GitReference,
    /// Where a new link would lead it elsewhere: the links that were on its way at the start, and its end.
    ways: Vec<AbsPath>,
}

/// What is known of references.
#[derive(Debug)]
pub(crate) struct References {
    known: RwLock<Vec<Known>>,
    /// Held alone from before a file is judged until it is in place: a reference counts only as long as its file stands, so a link could be
    /// made between the two (TOCTOU).
    placing: RwLock<()>,
}

/// While this exists no reference is accepted: a link that is on the way of none may be made.
#[derive(Debug)]
pub(crate) struct NoneAccepted<'r>(
    RwLockReadGuard<'r, Vec<Known>>,
    #[expect(dead_code, reason = "a lock")] RwLockReadGuard<'r, ()>,
);

impl Known {
    /// `links` are on the way to `target`.
    fn new(reference: GitReference, mut links: Vec<AbsPath>, target: AbsPath) -> Self {
        // Git looks for a repository by both names.
        links.extend((reference.kind == ReferenceKind::Remote).then(|| with_git(&target)));
        links.push(target);
        Self { reference, ways: links }
    }
}

/// A path with `.git` behind it.
pub(crate) fn with_git(path: &AbsPath) -> AbsPath {
    let (above, name) = path.parent().zip(path.file_name()).unwrap_or((AbsPath::root(), b""));
    above.child(&[name, b".git"].concat())
}

impl NoneAccepted<'_> {
    /// Is a path on the way of a reference?
    pub(crate) fn pass(&self, path: &AbsPath) -> bool {
        self.0.iter().any(|one| one.ways.iter().any(|way| is_on_way(path, way)))
    }

    /// The file that a link at a path would lead elsewhere.
    pub(crate) fn led_elsewhere(&self, root: impl AsFd, link: &AbsPath) -> Option<AbsPath> {
        let is_led =
            |one: &&Known| one.ways.iter().any(|way| is_on_way(link, way)) && one.reference.stands(root.as_fd());
        self.0.iter().find(is_led).map(|one| one.reference.file())
    }

    /// The references that a move concerns, because of where they are or of where they lead, with their ways.
    pub(crate) fn concerned(&self, change: DirectoryMove<'_>) -> Vec<(GitReference, Vec<AbsPath>)> {
        let is_moved = |path: &AbsPath| {
            let is_near = |name: &AbsPath| path.is_within(name) || is_on_way(name, path);
            is_near(change.from) || is_near(change.to)
        };
        let is_concerned = |one: &&Known| is_moved(&one.reference.dir) || one.ways.iter().any(is_moved);
        self.0.iter().filter(is_concerned).map(|one| (one.reference.clone(), one.ways.clone())).collect()
    }
}

impl References {
    pub(crate) fn new() -> Self {
        Self { known: RwLock::new(Vec::new()), placing: RwLock::new(()) }
    }

    /// The references of the start, which the user has. Links that are on their way stay.
    pub(crate) fn of_start(root: impl AsFd, all: impl IntoIterator<Item = GitReference>) -> Self {
        let known = all.into_iter().take(MOST).filter_map(|reference| {
            let mut links = ways(root.as_fd(), &reference)?;
            let target = links.pop()?;
            Some(Known::new(reference, links, target))
        });
        Self { known: RwLock::new(known.collect()), placing: RwLock::new(()) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a reference whose target is `target`, if no link is on its way. No link is made meanwhile, as long as [`Self::place`] is held.
    pub(crate) fn accept(&self, root: impl AsFd, reference: &GitReference, target: AbsPath) -> bool {
        let mut known = self.write();
        let is_remote = reference.kind == ReferenceKind::Remote;
        let is_plain = |path: &AbsPath| {
            is_without_links(root.as_fd(), path) && !(is_remote && names_git_directory(root.as_fd(), path))
        };
        let corners = reference.corners();
        let is_straight = corners.iter().all(|corner| is_without_links(root.as_fd(), corner));
        if !is_straight || !is_plain(&target) || is_remote && !is_plain(&with_git(&target)) {
            return false;
        }
        if known.iter().any(|one| one.reference == *reference && one.ways.last() == Some(&target)) {
            return true;
        }
        if known.len() >= MOST {
            known.retain(|one| one.reference.stands(root.as_fd()));
        }
        if known.len() < MOST {
            known.push(Known::new(reference.clone(), corners, target));
            return true;
        }
        false
    }

    /// Is it one that was accepted, or that the user has?
    pub(crate) fn knows(&self, root: impl AsFd, reference: &GitReference) -> bool {
        self.read().iter().any(|one| one.reference == *reference && one.reference.stands(root.as_fd()))
    }

    /// No reference is accepted as long as this is held.
    pub(crate) fn hold(&self) -> NoneAccepted<'_> {
        let placed = self.placing.read().unwrap_or_else(PoisonError::into_inner);
        NoneAccepted(self.read(), placed)
    }

    /// As long as this is held no link is made: a file is judged, and put in place.
    pub(crate) fn place(&self) -> RwLockWriteGuard<'_, ()> {
        self.placing.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Would git take a regular file at this path for one that names a git directory? It does where it looks for a remote.
    pub(crate) fn is_remote(&self, path: &AbsPath) -> bool {
        self.read().iter().any(|one| one.reference.kind == ReferenceKind::Remote && one.ways.contains(path))
    }

    /// A directory was moved.
    pub(crate) fn moved(&self, change: DirectoryMove<'_>) {
        for one in self.write().iter_mut() {
            let before = one.reference.target();
            one.reference = one.reference.after(change);
            // The old ways stay: the directory may come back.
            match one.reference.target() {
                Some(target) if Some(&target) != before.as_ref() => {
                    let mut ways = std::mem::take(&mut one.ways);
                    ways.extend(one.reference.corners());
                    let moved = Known::new(one.reference.clone(), ways, target);
                    one.ways = moved.ways;
                }
                _ => {}
            }
        }
    }
}

/// Is a path a way, or a directory on it? Where a directory folds names, in any spelling.
pub(crate) fn is_on_way(path: &AbsPath, way: &AbsPath) -> bool {
    if way.is_within(path) {
        return true;
    }
    let mut above = AbsPath::root();
    let mut way = way.components();
    for name in path.components() {
        let is_it = way
            .next()
            .is_some_and(|other| name == other || folded_name(name) == folded_name(other) && folds_at(&above));
        if !is_it {
            return false;
        }
        above = above.child(name);
    }
    true
}

/// Is no link on the way to a path, as far as it exists?
pub(crate) fn is_without_links(root: impl AsFd, path: &AbsPath) -> bool {
    for above in path.ancestors() {
        match open_beneath(root.as_fd(), &relative(&above), OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(found) => return !is_link(&found),
            Err(Errno::NOENT) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Is there nothing at a path, and no link on the way to it?
pub(crate) fn is_missing(root: impl AsFd, path: &AbsPath) -> bool {
    matches!(open_beneath(root, &relative(path), OFlags::PATH | OFlags::NOFOLLOW), Err(Errno::NOENT))
}

/// Is this a regular file by which git would find a git directory?
fn names_git_directory(root: impl AsFd, path: &AbsPath) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let Ok(file) = open_beneath(root.as_fd(), &relative(path), flags) else { return false };
    let mut start = [0; 7];
    rustix::io::read(&file, &mut start).is_ok_and(|read| start[..read] == *b"gitdir:")
}

fn is_link(found: &OwnedFd) -> bool {
    rustix::fs::fstat(found).map_or(true, |status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
}

/// The links that are on the way of a reference, and its end.
fn ways(root: impl AsFd, reference: &GitReference) -> Option<Vec<AbsPath>> {
    let mut left: Vec<Vec<u8>> = reference.whole().split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec).collect();
    let (mut here, mut links) = (AbsPath::root(), Vec::new());
    while let Some(name) = left.pop() {
        match name.as_slice() {
            b"" | b"." => continue,
            b".." => here = here.parent().unwrap_or_else(AbsPath::root),
            name => {
                let next = here.child(name);
                let text = rustix::fs::readlinkat(root.as_fd(), relative(&next), Vec::new());
                let Ok(text) = text else {
                    here = next;
                    continue;
                };
                if links.len() >= MOST_LINKS {
                    return None;
                }
                if text.to_bytes().first() == Some(&b'/') {
                    here = AbsPath::root();
                }
                left.extend(text.to_bytes().split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
                links.push(next);
            }
        }
    }
    links.push(here);
    Some(links)
}

/// A path of the user that leads elsewhere since the start, or by way of a new link.
#[derive(Debug)]
pub(crate) struct Redirected {
    pub(crate) file: AbsPath,
    /// The last new link on the way, if there is one.
    pub(crate) link: Option<AbsPath>,
    pub(crate) end: AbsPath,
}

/// Where references lead, to be compared later.
#[derive(Debug, Clone)]
pub(crate) struct WaysOfStart(Vec<(GitReference, Vec<AbsPath>)>);

impl WaysOfStart {
    pub(crate) fn take(root: impl AsFd, work_trees: &[AbsPath]) -> Self {
        let all = standing(root.as_fd(), work_trees).into_iter();
        Self(
            all.filter_map(|reference| Some((ways(root.as_fd(), &reference)?, reference)))
                .map(|(ways, one)| (one, ways))
                .collect(),
        )
    }

    /// What the same files name now, and leads elsewhere, and what they name since, by way of a link.
    pub(crate) fn redirected(&self, root: impl AsFd, work_trees: &[AbsPath]) -> Vec<Redirected> {
        let before =
            |reference: &GitReference| self.0.iter().find(|(other, _)| other == reference).map(|(_, ways)| ways);
        let now = Self::take(root.as_fd(), work_trees).0.into_iter();
        let changed = now.filter_map(|(reference, mut now)| {
            let known = before(&reference);
            if known == Some(&now) || known.is_none() && now.len() == 1 {
                return None;
            }
            let end = now.pop()?;
            let link = now.into_iter().rfind(|link| known.is_none_or(|known| !known.contains(link)));
            Some(Redirected { file: reference.file(), link, end })
        });
        changed.collect()
    }
}

/// The references of repositories that the user has, by the tops of their work trees.
pub(crate) fn standing(root: impl AsFd, work_trees: &[AbsPath]) -> Vec<GitReference> {
    let disk = Disk { root: root.as_fd() };
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for tree in work_trees {
        let dot_git = tree.child(b".git");
        let mut add = |kind, text| found.push(GitReference { kind, dir: tree.clone(), base: tree.clone(), text });
        let git_dir = match disk.read(&dot_git) {
            Some(text) => {
                let Some(named) = grammar::git_file(&text) else { continue };
                add(ReferenceKind::GitFile, named.to_vec());
                let reference = GitReference {
                    kind: ReferenceKind::GitFile,
                    dir: tree.clone(),
                    base: tree.clone(),
                    text: named.to_vec(),
                };
                let Some(end) = ways(disk.root, &reference).and_then(|mut ways| ways.pop()) else { continue };
                end
            }
            None => dot_git,
        };
        let above = git_dir.parent().filter(|above| above.file_name() == Some(b"worktrees"));
        let common_dir = above.and_then(|above| above.parent()).unwrap_or(git_dir);
        disk.of_repository(&common_dir, &mut found, &mut seen);
    }
    found.sort();
    found.dedup();
    found
}

/// The tops of the work trees of a repository, from which the addresses of its remotes are relative; of a bare one itself.
pub(crate) fn tops(root: impl AsFd, git_dir: &AbsPath) -> Vec<AbsPath> {
    let disk = Disk { root: root.as_fd() };
    let named = |kind: ReferenceKind, dir: &AbsPath| {
        let text = kind
            .files()
            .iter()
            .find_map(|name| disk.read(&dir.child(name)).and_then(|text| kind.named(&text).pop()))?;
        GitReference { kind, dir: dir.clone(), base: dir.clone(), text }.target()
    };
    let linked = |dir: &AbsPath| named(ReferenceKind::WorkTreeFile, dir).and_then(|file| file.parent());
    let main = || match git_dir.file_name() {
        Some(b".git") => git_dir.parent(),
        _ => named(ReferenceKind::WorkTree, git_dir),
    };
    let main = linked(git_dir).or_else(main).unwrap_or_else(|| git_dir.clone());
    let others = disk.directories(&git_dir.child(b"worktrees"));
    [main].into_iter().chain(others.iter().filter_map(linked)).collect()
}

/// The remotes of a repository.
#[derive(Debug)]
pub(crate) struct Remotes {
    /// Paths of the local file system, from which addresses of submodules may be relative.
    pub(crate) local: Vec<Vec<u8>>,
    /// Every path that its settings name for the exchange of commits.
    pub(crate) named: Vec<Vec<u8>>,
    /// Is there one on another host?
    pub(crate) has_host: bool,
}

pub(crate) fn remotes(root: impl AsFd, git_dir: &AbsPath) -> Remotes {
    let text = Disk { root: root.as_fd() }.read(&git_dir.child(b"config")).unwrap_or_default();
    let mut remotes = Remotes { local: Vec::new(), named: ReferenceKind::Remote.named(&text), has_host: false };
    let urls = config::parse(&text).into_iter().filter(|entry| entry.is("remote", "url"));
    for address in urls.filter_map(|entry| entry.value) {
        match address::parse(&address) {
            Address::Local(path) => remotes.local.push(path),
            Address::Host { .. } | Address::Helper | Address::Malformed => remotes.has_host = true,
        }
    }
    remotes
}

/// The git directory of a work tree.
pub(crate) fn git_directory(root: impl AsFd, tree: &AbsPath) -> Option<AbsPath> {
    let dot_git = tree.child(b".git");
    match (Disk { root: root.as_fd() }).read(&dot_git) {
        Some(text) => {
            let text = grammar::git_file(&text)?.to_vec();
            GitReference { kind: ReferenceKind::GitFile, dir: tree.clone(), base: tree.clone(), text }.target()
        }
        None => Some(dot_git),
    }
}

/// Directories of submodules in which further ones are looked for.
const DEEPEST: usize = 16;

struct Disk<'d> {
    root: BorrowedFd<'d>,
}

impl Disk<'_> {
    fn read(&self, path: &AbsPath) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = open_beneath(self.root, &relative(path), flags).ok()?;
        read_all(file.as_fd(), LONGEST_SETTINGS).ok()?
    }

    /// The directories in a directory.
    fn directories(&self, dir: &AbsPath) -> Vec<AbsPath> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let entries = open_beneath(self.root, &relative(dir), flags).and_then(Dir::new);
        let names = entries.into_iter().flatten().flatten();
        let is_one = |entry: &DirEntry| {
            matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
                && !matches!(entry.file_name().to_bytes(), b"." | b"..")
        };
        names.filter(is_one).take(MOST).map(|entry| dir.child(entry.file_name().to_bytes())).collect()
    }

    /// What the files of a repository name, of its linked work trees and of its submodules.
    fn of_repository(&self, common_dir: &AbsPath, found: &mut Vec<GitReference>, seen: &mut BTreeSet<AbsPath>) {
        if found.len() >= MOST || !seen.insert(common_dir.clone()) {
            return;
        }
        let trees = self.directories(&common_dir.child(b"worktrees"));
        for dir in trees.iter().chain([common_dir]) {
            let kinds = [ReferenceKind::CommonDir, ReferenceKind::WorkTreeFile, ReferenceKind::WorkTree];
            for kind in kinds {
                for name in kind.files() {
                    let named = self.read(&dir.child(name)).map(|text| kind.named(&text)).unwrap_or_default();
                    let all =
                        named.into_iter().map(|text| GitReference { kind, dir: dir.clone(), base: dir.clone(), text });
                    found.extend(all);
                }
            }
            self.of_submodules(&dir.child(b"modules"), DEEPEST, found, seen);
        }
        let remotes = remotes(self.root, common_dir).named;
        for base in tops(self.root, common_dir).into_iter().filter(|_| !remotes.is_empty()) {
            let (kind, dir) = (ReferenceKind::Remote, common_dir);
            let one = |text: &Vec<u8>| GitReference { kind, dir: dir.clone(), base: base.clone(), text: text.clone() };
            found.extend(remotes.iter().map(one));
        }
        let objects = common_dir.child(b"objects");
        let (kind, dir) = (ReferenceKind::ObjectDirectory, objects.child(b"info"));
        let named = self.read(&dir.child(b"alternates")).map(|text| kind.named(&text)).unwrap_or_default();
        let named = named.into_iter().filter(|text| !text.is_empty() && text[0] != b'#');
        found.extend(named.map(|text| GitReference { kind, dir: dir.clone(), base: objects.clone(), text }));
    }

    /// The name of a submodule may have slashes.
    fn of_submodules(&self, dir: &AbsPath, depth: usize, found: &mut Vec<GitReference>, seen: &mut BTreeSet<AbsPath>) {
        for inner in self.directories(dir) {
            if self.read(&inner.child(b"HEAD")).is_some() {
                self.of_repository(&inner, found, seen);
            } else if depth > 0 {
                self.of_submodules(&inner, depth - 1, found, seen);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    fn reference(base: &str, text: &str) -> GitReference {
        GitReference { kind: ReferenceKind::GitFile, dir: path(base), base: path(base), text: text.into() }
    }

    #[test]
    fn a2_only_a_path_that_links_do_not_change_is_resolved() {
        for (text, target) in [
            ("../G", Some("/p/G")),
            ("./.././G//", Some("/p/G")),
            ("/p/G", Some("/p/G")),
            ("../../../../x", Some("/x")),
            ("..", Some("/p")),
            ("...", Some("/p/sub/...")),
            ("L/../G", None),
            ("../L/../G", None),
            ("/p/L/../G", None),
            ("/..", None),
            ("L/..", None),
        ] {
            assert_eq!(reference("/p/sub", text).target(), target.map(path), "{text}");
        }
        let corners = |text| reference("/p/sub", text).corners();
        assert_eq!(corners("../L/../G"), [path("/p/L")]);
        assert_eq!(corners("/p/a/b/../../G"), [path("/p/a/b"), path("/p/a")]);
        assert_eq!(corners("../../G"), []);
        let objects = GitReference { kind: ReferenceKind::ObjectDirectory, ..reference("/p/sub", "/p/sub/../G") };
        assert_eq!(objects.target(), Some(path("/p/G")));
    }

    #[test]
    fn a2_where_things_are_after_a_move_and_were_before() {
        let (from, to) = (path("/p/a"), path("/p/b/c"));
        let change = DirectoryMove { from: &from, to: &to, is_exchange: false };
        assert_eq!(*change.after(&path("/p/a/x")), path("/p/b/c/x"));
        assert_eq!(*change.after(&path("/p/ab")), path("/p/ab"));
        assert_eq!(change.before(&path("/p/b/c/x")).as_deref(), Some(&path("/p/a/x")));
        assert_eq!(change.before(&path("/p/a/x")), None);
        assert_eq!(change.before(&path("/p/b")).as_deref(), Some(&path("/p/b")));
        let change = DirectoryMove { is_exchange: true, ..change };
        assert_eq!(*change.after(&path("/p/b/c/x")), path("/p/a/x"));
        assert_eq!(change.before(&path("/p/a/x")).as_deref(), Some(&path("/p/b/c/x")));
    }

    #[test]
    fn a2_a_link_on_the_way_of_a_reference_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let top = AbsPath::lexical(dir.path().canonicalize().unwrap().to_str().unwrap().as_bytes()).unwrap();
        let root = crate::place::open_root().unwrap();
        std::fs::create_dir_all(dir.path().join("sub")).unwrap();
        std::fs::write(
            dir.path().join("sub/.git"),
            "gitdir: ../a/b/G
",
        )
        .unwrap();
        let sub = top.child(b"sub");
        let one =
            GitReference { kind: ReferenceKind::GitFile, dir: sub.clone(), base: sub, text: b"../a/b/G".to_vec() };
        let references = References::new();
        assert!(references.accept(&root, &one, one.target().unwrap()));
        for (link, expected) in
            [("a", false), ("a/b", false), ("a/b/G", false), ("a/b/G/x", true), ("a/c", true), ("ab", true)]
        {
            assert_eq!(references.hold().led_elsewhere(&root, &top.join(link)).is_none(), expected, "{link}");
        }
        std::os::unix::fs::symlink("/", dir.path().join("l")).unwrap();
        let other = GitReference { text: b"../l/b".to_vec(), ..one.clone() };
        assert!(!references.accept(&root, &other, other.target().unwrap()));
        // A file that names it no longer has no say.
        std::fs::write(
            dir.path().join("sub/.git"),
            "gitdir: ../c
",
        )
        .unwrap();
        assert!(references.hold().led_elsewhere(&root, &top.join("a")).is_none());
    }

    #[test]
    fn j7_what_leads_elsewhere_at_the_end_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let top = AbsPath::lexical(dir.path().canonicalize().unwrap().to_str().unwrap().as_bytes()).unwrap();
        let root = crate::place::open_root().unwrap();
        std::fs::create_dir_all(dir.path().join("a/G")).unwrap();
        std::fs::write(dir.path().join(".git"), "gitdir: a/G\n").unwrap();
        let before = WaysOfStart::take(&root, std::slice::from_ref(&top));
        assert!(before.redirected(&root, std::slice::from_ref(&top)).is_empty());
        std::fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        std::os::unix::fs::symlink("/elsewhere", dir.path().join("a")).unwrap();
        let found = before.redirected(&root, std::slice::from_ref(&top));
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].file, &found[0].end), (&top.join(".git"), &path("/elsewhere/G")));
        assert_eq!(found[0].link, Some(top.join("a")));
    }

    #[test]
    fn j7_the_references_that_the_user_has_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let top = AbsPath::lexical(dir.path().canonicalize().unwrap().to_str().unwrap().as_bytes()).unwrap();
        let root = crate::place::open_root().unwrap();
        let put = |name: &str, text: &str| {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        put(".git/HEAD", "ref: refs/heads/main\n");
        put(".git/worktrees/w/gitdir", "/elsewhere/w/.git\n");
        put(".git/worktrees/w/commondir", "../..\n");
        put(".git/modules/a/b/HEAD", "ref: refs/heads/main\n");
        put(".git/modules/a/b/config", "[core]\n\tworktree = ../../../../link/tree\n");
        put(".git/objects/info/alternates", "/srv/objects\n");
        put("real/tree/.git", "gitdir: ../../.git/modules/a/b\n");
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        let found = standing(&root, &[top.clone(), top.join("real/tree")]);
        let names: Vec<_> = found.iter().map(|one| (one.kind, String::from_utf8(one.text.clone()).unwrap())).collect();
        assert_eq!(
            names,
            [
                (ReferenceKind::GitFile, "../../.git/modules/a/b".to_owned()),
                (ReferenceKind::CommonDir, "../..".to_owned()),
                (ReferenceKind::WorkTreeFile, "/elsewhere/w/.git".to_owned()),
                (ReferenceKind::WorkTree, "../../../../link/tree".to_owned()),
                (ReferenceKind::ObjectDirectory, "/srv/objects".to_owned()),
            ]
        );
        let references = References::of_start(&root, found);
        // The link is the user's. Neither it nor where it leads to is exchanged for another.
        for (link, expected) in [("link", false), ("real", false), ("real/tree", false), ("real/x", true)] {
            assert_eq!(references.hold().led_elsewhere(&root, &top.join(link)).is_none(), expected, "{link}");
        }
    }
}
