//! Where files of git directories lead: the `.git` file of a work tree, `core.worktree` of a submodule, `gitdir` and `commondir` of a
//! linked work tree, and further directories of objects.
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
    /// Where the path leads if no link is on its way. None where that cannot be said by its text alone: `..` behind the name of a link
    /// is not the directory that has the link.
    pub(crate) fn target(&self) -> Option<AbsPath> {
        let is_up = |name: &[u8]| name == b"..";
        let mut names = self.text.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        if self.text.first() == Some(&b'/') {
            return if names.any(is_up) { None } else { AbsPath::lexical(&self.text).ok() };
        }
        if names.skip_while(|name| is_up(name)).any(is_up) {
            return None;
        }
        AbsPath::lexical(&[self.base.as_bytes(), b"/", self.text.as_slice()].concat()).ok()
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
}

/// While this exists no reference is accepted: a link that is on the way of none may be made.
#[derive(Debug)]
pub(crate) struct NoneAccepted<'r>(RwLockReadGuard<'r, Vec<Known>>);

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
        Self { known: RwLock::new(Vec::new()) }
    }

    /// The references of the start, which the user has. Links that are on their way stay.
    pub(crate) fn of_start(root: impl AsFd, all: impl IntoIterator<Item = GitReference>) -> Self {
        let known = all.into_iter().take(MOST).filter_map(|reference| {
            let ways = ways(root.as_fd(), &reference)?;
            Some(Known { reference, ways })
        });
        Self { known: RwLock::new(known.collect()) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a reference whose target is `target`, if no link is on its way. No link is made meanwhile.
    pub(crate) fn accept(&self, root: impl AsFd, reference: &GitReference, target: AbsPath) -> bool {
        let mut known = self.write();
        if !is_without_links(root.as_fd(), &target) {
            return false;
        }
        if known.iter().any(|one| one.reference == *reference && one.ways.last() == Some(&target)) {
            return true;
        }
        if known.len() >= MOST {
            known.retain(|one| one.reference.stands(root.as_fd()));
        }
        if known.len() < MOST {
            known.push(Known { reference: reference.clone(), ways: vec![target] });
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
        NoneAccepted(self.read())
    }

    /// A directory was moved.
    pub(crate) fn moved(&self, change: DirectoryMove<'_>) {
        for one in self.write().iter_mut() {
            let before = one.reference.target();
            one.reference = one.reference.after(change);
            // The old ways stay: the directory may come back.
            match one.reference.target() {
                Some(target) if Some(&target) != before.as_ref() => one.ways.push(target),
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

fn is_link(found: &OwnedFd) -> bool {
    rustix::fs::fstat(found).map_or(true, |status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
}

/// The links that are on the way of a reference, and its end.
fn ways(root: impl AsFd, reference: &GitReference) -> Option<Vec<AbsPath>> {
    let whole = match reference.text.first() {
        Some(b'/') => reference.text.clone(),
        _ => [reference.base.as_bytes(), b"/", reference.text.as_slice()].concat(),
    };
    let mut left: Vec<Vec<u8>> = whole.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec).collect();
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
