//! What a session left in repositories that the user's own git would execute, check out or continue: compared with the state at its start.
//!
//! Inside, a commit is made of any content by plumbing (`git hash-object`, `git mktree`, `git commit-tree`), without a file in the work tree
//! that the rules could protect. The user's merge or checkout then writes it. So at the end every ref and index that changed is
//! compared with the start, and what the rules protect is named. Nothing is read where refs and index are unchanged. Git itself is not
//! run: the objects are read as an attacker could have written them.

mod compare;
mod disk;
mod foresee;
mod gain;
mod logs;
mod placed;
mod planted;
mod revision;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ringfence_git::entry_mode::EntryMode;
use ringfence_git::index::{Index, IndexEntry};
use ringfence_git::object_id::{ObjectFormat, ObjectId};
use ringfence_surface::{AbsPath, Access, Cursor, Rule, Source, Standing, Surface};

use self::disk::{Disk, FileState};
use self::logs::Logs;
use self::placed::PlacedFiles;
use crate::git_files::WaysOfStart;
use crate::place::open_root;
use crate::used_paths::UsedPaths;

pub use self::gain::{Gain, GainKind, Operation};
pub(crate) use self::versions::{KnownVersions, Unknown};

/// More repositories of a project are not compared; the report says so.
const MOST_REPOSITORIES: usize = 256;

/// The repositories that a session may change, as they are when it starts.
#[derive(Debug)]
pub struct GitSnapshot {
    disk: Disk,
    /// When it was taken, as the kernel dates changes.
    since: (i64, i64),
    repositories: Vec<Repository>,
    work_trees: Vec<AbsPath>,
    /// Where files of git lead.
    ways: WaysOfStart,
    /// Repositories that are not among them.
    left_out: usize,
    /// Which paths tools outside may trust.
    used_paths: Arc<UsedPaths>,
    /// Protected files that git put into new repositories.
    placed: Mutex<PlacedFiles>,
}

/// A repository: its refs, and its work trees.
#[derive(Debug)]
struct Repository {
    common_dir: AbsPath,
    format: ObjectFormat,
    refs: BTreeMap<Vec<u8>, ObjectId>,
    logs: Logs,
    /// By git directory.
    trees: BTreeMap<AbsPath, TreeState>,
}

/// What belongs to one work tree.
#[derive(Debug)]
struct TreeState {
    /// The top of the work tree; a bare repository has none.
    tree: Option<AbsPath>,
    index: Option<FileState>,
    /// The entries of the index that the rules speak of, gitlinks, and links that lead into protected places.
    notable: BTreeMap<Vec<u8>, (EntryMode, ObjectId)>,
    /// Content of protected files that the user has edited since they were last staged.
    edited: BTreeMap<Vec<u8>, ObjectId>,
    operations: BTreeSet<Operation>,
}

/// A denied file whose content git has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrackedSecret {
    /// The rule that denies it.
    pub(crate) pattern: String,
    /// The file.
    pub(crate) path: AbsPath,
}

impl GitSnapshot {
    /// Looks at the repositories of these work trees.
    ///
    /// # Errors
    /// When `/` cannot be opened.
    pub(crate) fn take(surface: &Surface, work_trees: &[AbsPath]) -> rustix::io::Result<(Self, Vec<TrackedSecret>)> {
        let (disk, since) = (Disk::new(open_root()?), planted::now());
        let mut by_common: BTreeMap<AbsPath, Vec<(AbsPath, AbsPath)>> = BTreeMap::new();
        for tree in work_trees {
            if let Some((git_dir, common_dir)) = disk.git_directories(tree) {
                by_common.entry(common_dir).or_default().push((git_dir, tree.clone()));
            }
        }
        let left_out = by_common.len().saturating_sub(MOST_REPOSITORIES);
        let (mut repositories, mut secrets) = (Vec::new(), Vec::new());
        for (common_dir, known) in by_common.into_iter().take(MOST_REPOSITORIES) {
            let format = disk.object_format(&common_dir);
            let mut trees = BTreeMap::new();
            for (git_dir, tree) in disk.work_trees(&common_dir, &known) {
                let mut state = disk.tree_state(&git_dir, tree);
                if let (Some(tree), Some(Ok(index))) = (&state.tree, disk.index(&git_dir, format)) {
                    let mut paths = ClassifiedPaths::new(surface, tree);
                    for entry in &index.entries {
                        let Some(class) = paths.classify(&entry.path, entry.mode) else { continue };
                        // A work tree in ringfence's own state directory is hidden with the directory, not for its content.
                        if let PathClass::Denied(rule) = class
                            && !matches!(rule.source, Source::Host { .. })
                            && surface.decide(&common_dir.join("objects/pack"), Access::Read).is_allowed()
                        {
                            let path = joined(tree, &entry.path);
                            secrets.push(TrackedSecret { pattern: rule.pattern.to_string(), path });
                        }
                        if matches!(class, PathClass::Protected)
                            && let Some(id) = disk.edited(&joined(tree, &entry.path), entry, format)
                        {
                            state.edited.insert(entry.path.clone(), id);
                        }
                        state.notable.insert(entry.path.clone(), (entry.mode, entry.id));
                    }
                }
                trees.insert(git_dir, state);
            }
            // What may not be written inside does not change. (Of the refs, a session in a work tree of its own may write a few.)
            if surface.decide(&common_dir.join("objects/pack"), Access::Write).is_allowed() {
                let (refs, logs) = (disk.refs(&common_dir), Logs::read(&disk, &common_dir, format));
                repositories.push(Repository { refs, logs, common_dir, format, trees });
            }
        }
        let (used_paths, placed) = (Arc::new(UsedPaths::unknown()), Mutex::new(PlacedFiles::new()));
        let (work_trees, ways) = (work_trees.to_vec(), WaysOfStart::take(&*disk.root(), work_trees));
        Ok((Self { disk, since, repositories, work_trees, ways, left_out, used_paths, placed }, secrets))
    }

    /// Repositories may be made inside, with protected files, at paths that are not in use.
    pub(crate) fn with_used_paths(self, used_paths: Arc<UsedPaths>) -> Self {
        Self { used_paths, ..self }
    }
}

impl Disk {
    /// The git directories of a repository, each with the top of its work tree.
    fn work_trees(&self, common_dir: &AbsPath, known: &[(AbsPath, AbsPath)]) -> BTreeMap<AbsPath, Option<AbsPath>> {
        let mut trees: BTreeMap<AbsPath, Option<AbsPath>> = BTreeMap::new();
        let main = common_dir.parent().filter(|_| common_dir.file_name() == Some(b".git"));
        trees.insert(common_dir.clone(), main);
        let linked = common_dir.child(b"worktrees");
        for (name, _) in self.names(&linked).into_iter().filter(|(_, is_directory)| *is_directory) {
            let git_dir = linked.child(&name);
            let dot_git = self.line(&git_dir.child(b"gitdir")).and_then(|named| AbsPath::lexical(&named).ok());
            trees.insert(git_dir, dot_git.and_then(|dot_git| dot_git.parent()));
        }
        for (git_dir, tree) in known {
            trees.insert(git_dir.clone(), Some(tree.clone()));
        }
        trees
    }

    fn tree_state(&self, git_dir: &AbsPath, tree: Option<AbsPath>) -> TreeState {
        let operations = Operation::ALL.iter().copied().filter(|operation| self.is_unfinished(git_dir, *operation));
        let operations = operations.collect();
        TreeState {
            tree,
            index: self.state(&git_dir.child(b"index")),
            notable: BTreeMap::new(),
            edited: BTreeMap::new(),
            operations,
        }
    }

    fn is_unfinished(&self, git_dir: &AbsPath, operation: Operation) -> bool {
        operation.markers().iter().any(|name| self.is_there(&git_dir.join(name)))
    }

    /// The index of a git directory, with the part that it shares with others.
    fn index(&self, git_dir: &AbsPath, format: ObjectFormat) -> Option<Result<Index, String>> {
        let text = self.read(&git_dir.child(b"index"))?;
        let parse = || {
            let index = Index::parse(format, &text).map_err(|fault| fault.to_string())?;
            let Some(base) = &index.base else { return Ok(index) };
            let shared = self.read(&git_dir.child(format!("sharedindex.{}", base.checksum).as_bytes()));
            let shared = shared.ok_or_else(|| "the part that several share is missing".to_owned())?;
            let shared = Index::parse(format, &shared).map_err(|fault| fault.to_string())?;
            index.merge(&shared).map_err(|fault| fault.to_string())
        };
        Some(parse())
    }
}

/// What an entry of an index or a tree is to the rules.
#[derive(Debug, Clone, Copy)]
enum PathClass<'s> {
    /// It may not be read inside.
    Denied(&'s Rule),
    /// It may not be written inside.
    Protected,
    /// A commit of another repository.
    Gitlink,
    /// A symbolic link in the place of a directory in which something is protected.
    Link,
    /// A file that git, or a program that git runs, reads from a commit if the work tree has none.
    ReadFromCommit,
}

/// Files that are read from the index or from `HEAD` where the work tree has none.
const READ_FROM_COMMIT: &[&[u8]] = &[b".gitattributes", b".gitmodules", b".lfsconfig", b".mailmap"];

/// Classifies paths in their order: what the rules know of a directory is kept until a path lies outside of it.
struct ClassifiedPaths<'s> {
    stack: Vec<Directory<'s>>,
}

struct Directory<'s> {
    name: Vec<u8>,
    cursor: Cursor<'s>,
    /// What the rules say of everything in it.
    class: Option<PathClass<'s>>,
}

impl<'s> ClassifiedPaths<'s> {
    fn new(surface: &'s Surface, tree: &AbsPath) -> Self {
        Self { stack: vec![Directory { name: Vec::new(), cursor: surface.cursor(tree), class: None }] }
    }

    fn classify(&mut self, path: &[u8], mode: EntryMode) -> Option<PathClass<'s>> {
        // A directory of a sparse index ends with a slash.
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        let parts: Vec<&[u8]> = above.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let is_same = |(part, directory): (&&[u8], &Directory<'_>)| **part == directory.name;
        let common = parts.iter().zip(&self.stack[1..]).take_while(|(part, dir)| is_same((part, dir))).count();
        self.stack.truncate(1 + common);
        for part in &parts[common..] {
            let Some(last) = self.stack.last() else { break };
            let class = last.class.or_else(|| class_of(&last.cursor, part));
            self.stack.push(Directory { name: part.to_vec(), cursor: last.cursor.enter(part), class });
        }
        let last = self.stack.last()?;
        let class = last.class.or_else(|| class_of(&last.cursor, name));
        class.or_else(|| match mode {
            EntryMode::Gitlink => Some(PathClass::Gitlink),
            EntryMode::SymbolicLink if last.cursor.begins(name).is_some() => Some(PathClass::Link),
            _ if READ_FROM_COMMIT.contains(&name) => Some(PathClass::ReadFromCommit),
            _ => None,
        })
    }
}

fn class_of<'s>(cursor: &Cursor<'s>, name: &[u8]) -> Option<PathClass<'s>> {
    match cursor.standing(name) {
        Standing::Denied(rule) => Some(PathClass::Denied(rule)),
        Standing::Protected(_) => Some(PathClass::Protected),
        Standing::Open => None,
    }
}

/// A path of a repository below the top of a work tree.
fn joined(tree: &AbsPath, path: &[u8]) -> AbsPath {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).fold(tree.clone(), |at, name| at.child(name))
}

/// An entry that differs from the start: its path, what it is now, and its content unless it was removed.
type Changed = (Vec<u8>, EntryMode, Option<ObjectId>);

fn changed(entry: &IndexEntry) -> Changed {
    (entry.path.clone(), entry.mode, Some(entry.id))
}
