//! Which versions of protected files git may put in place while a session runs: those that the repository had when it began.
//!
//! A version is a mode and content at a path. It is known if the index of the start has it, or a commit that the refs of the start lead to, or if
//! it was in the work tree until git replaced it in this session (`git stash`, `git stash pop`). Refs, grafts, replacements and
//! alternates of now count for nothing: the agent can write them. It can write objects too, but every object is hashed when it is read.
//!
//! A repository that was made since has no such versions. Git may put any file that is one of its objects into its work tree, if no tool outside
//! can know the path of that: see [`crate::used_paths`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ringfence_git::entry_mode::EntryMode;
use ringfence_git::history::{FileVersion, History, HistoryAnswer, Incomplete};
use ringfence_git::object::{ObjectKind, ReadBudget, id_of};
use ringfence_git::object_id::{ObjectFormat, ObjectId};
use ringfence_surface::{AbsPath, Access, Surface};

use super::disk::DiskObjects;
use super::{GitSnapshot, Repository};
use crate::git_files::is_own;

/// What is read to find one version. The caller waits meanwhile.
const BUDGET: ReadBudget = ReadBudget { objects: 150_000, bytes: 512 << 20 };
/// Of more versions it is not remembered that they are unknown.
const MOST_ANSWERS: usize = 4096;

/// Why a version is not put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The path is in no repository that existed at the start.
    Repository,
    /// The repository did not have it.
    Absent,
    /// There is more history than is read.
    Budget,
    /// A part of the history is missing or damaged.
    Damaged,
    /// The repository was made in the session, and tools outside may trust files at its path.
    UsedPath,
    /// The repository was made in the session, and has no object with this content.
    NotStored,
}

impl From<Incomplete> for Unknown {
    fn from(cause: Incomplete) -> Self {
        match cause {
            Incomplete::Budget => Self::Budget,
            Incomplete::Missing(_) | Incomplete::Damaged(_) => Self::Damaged,
        }
    }
}

/// Searches the state of the start. It is read when the first version is asked for.
#[derive(Debug)]
pub(crate) struct KnownVersions {
    pub(super) snapshot: Arc<GitSnapshot>,
    /// By git directory.
    histories: HashMap<AbsPath, History<DiskObjects>>,
    unknown: HashMap<(AbsPath, EntryMode, ObjectId), Unknown>,
    /// What was in the work tree before git replaced it.
    replaced: HashSet<(AbsPath, EntryMode, ObjectId)>,
    /// The repository made inside that was asked for last.
    made: Option<(MadeRepository, History<DiskObjects>)>,
}

/// A repository that was made in the session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MadeRepository {
    tree: AbsPath,
    common_dir: AbsPath,
    format: ObjectFormat,
}

/// A path in a work tree of a repository.
struct TreePath<'r> {
    repository: &'r Repository,
    /// From the top of the work tree.
    relative: Vec<u8>,
}

impl KnownVersions {
    pub(crate) fn new(snapshot: Arc<GitSnapshot>) -> Self {
        Self { snapshot, histories: HashMap::new(), unknown: HashMap::new(), replaced: HashSet::new(), made: None }
    }

    /// The top of the work tree that a path is in.
    pub(crate) fn work_tree(&self, path: &AbsPath) -> Option<AbsPath> {
        path.ancestors().skip(1).find(|above| self.snapshot.disk.is_there(&above.child(b".git")))
    }

    /// Is this a version that the repository had? With a surface, repositories that were made since count too.
    pub(crate) fn find(
        &mut self,
        surface: Option<&Surface>,
        path: &AbsPath,
        mode: EntryMode,
        content: &[u8],
    ) -> Result<(), Unknown> {
        let snapshot = Arc::clone(&self.snapshot);
        let place = match self.tree_path(&snapshot, path) {
            Err(Unknown::Repository) => {
                let made = self.made_repository(surface, path)?;
                let tree = made.tree.clone();
                if !self.has_object(made, content)? {
                    return Err(Unknown::NotStored);
                }
                snapshot.note_placed(&tree, path);
                return Ok(());
            }
            place => place?,
        };
        let id = id_of(place.repository.format, ObjectKind::Blob, content).map_err(|_| Unknown::Absent)?;
        self.find_id(path, mode, id)
    }

    /// The same for the id of a content, in a repository that existed.
    pub(super) fn find_id(&mut self, path: &AbsPath, mode: EntryMode, id: ObjectId) -> Result<(), Unknown> {
        let snapshot = Arc::clone(&self.snapshot);
        let place = self.tree_path(&snapshot, path)?;
        let key = (path.clone(), mode, id);
        if self.replaced.contains(&key) || place.repository.has_in_index(&place.relative, mode, &id) {
            return Ok(());
        }
        if let Some(cause) = self.unknown.get(&key) {
            return Err(*cause);
        }
        let found = self.find_in_history(&snapshot, &place, mode, id);
        if let Err(cause) = found
            && self.unknown.len() < MOST_ANSWERS
        {
            self.unknown.insert(key, cause);
        }
        found
    }

    fn find_in_history(
        &mut self,
        snapshot: &GitSnapshot,
        place: &TreePath<'_>,
        mode: EntryMode,
        id: ObjectId,
    ) -> Result<(), Unknown> {
        let wanted = FileVersion { path: &place.relative, mode, id };
        let tips = place.repository.tips();
        let mut answer = HistoryAnswer::Absent;
        // Objects may have moved to a pack since the packs were opened (`git gc`).
        for attempt in 0..2 {
            if attempt > 0 {
                self.histories.remove(&place.repository.common_dir);
            }
            answer = self.history(snapshot, place.repository).find(&tips, &wanted, &mut { BUDGET });
            if !matches!(answer, HistoryAnswer::Unknown(Incomplete::Missing(_))) {
                break;
            }
        }
        match answer {
            HistoryAnswer::InCommit(_) => Ok(()),
            HistoryAnswer::Absent => Err(Unknown::Absent),
            HistoryAnswer::Unknown(cause) => Err(cause.into()),
        }
    }

    /// Is this content in the repository, so that it is not lost with the file?
    pub(crate) fn is_saved(
        &mut self,
        surface: Option<&Surface>,
        path: &AbsPath,
        mode: EntryMode,
        content: &[u8],
    ) -> Result<bool, Unknown> {
        let snapshot = Arc::clone(&self.snapshot);
        let place = match self.tree_path(&snapshot, path) {
            Err(Unknown::Repository) => {
                let made = self.made_repository(surface, path)?;
                return self.has_object(made, content);
            }
            place => place?,
        };
        let id = id_of(place.repository.format, ObjectKind::Blob, content).map_err(|_| Unknown::Absent)?;
        if place.repository.has_in_index(&place.relative, mode, &id) {
            return Ok(true);
        }
        for attempt in 0..2 {
            if attempt > 0 {
                self.histories.remove(&place.repository.common_dir);
            }
            if self.history(&snapshot, place.repository).read(&id, &mut { BUDGET }).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Git removes this version, and may put it back.
    pub(crate) fn note_replaced(&mut self, path: &AbsPath, mode: EntryMode, content: &[u8]) {
        let snapshot = Arc::clone(&self.snapshot);
        let Ok(place) = self.tree_path(&snapshot, path) else { return };
        if let Ok(id) = id_of(place.repository.format, ObjectKind::Blob, content) {
            self.replaced.insert((path.clone(), mode, id));
        }
    }

    /// The repository that a path is in, if that was made in the session, at a path where its work tree may have protected files.
    fn made_repository(&self, surface: Option<&Surface>, path: &AbsPath) -> Result<MadeRepository, Unknown> {
        let snapshot = &self.snapshot;
        let tree = self.work_tree(path).ok_or(Unknown::Repository)?;
        let (_, common_dir) = snapshot.disk.git_directories(&tree).ok_or(Unknown::Repository)?;
        // The user's repository with another work tree (`git worktree`, `--separate-git-dir`) keeps its own versions.
        let is_made = |surface: &Surface| {
            !snapshot.used_paths.was_used(&common_dir)
                && !is_own(surface, &common_dir)
                && surface.decide(&common_dir.join("objects/pack"), Access::Write).is_allowed()
        };
        match surface {
            Some(surface) if is_made(surface) && snapshot.used_paths.is_free(surface, &tree) => {
                let format = snapshot.disk.object_format(&common_dir);
                Ok(MadeRepository { tree, common_dir, format })
            }
            _ => Err(Unknown::UsedPath),
        }
    }

    /// May there be protected files in the work tree that a path is in?
    pub(crate) fn may_have_protected(&self, surface: Option<&Surface>, path: &AbsPath) -> Result<(), Unknown> {
        match self.tree_path(&self.snapshot, path) {
            Err(Unknown::Repository) => self.made_repository(surface, path).map(|_| ()),
            other => other.map(|_| ()),
        }
    }

    /// Has a repository made inside a blob with this content? That it is stored shows that git checks it out.
    fn has_object(&mut self, made: MadeRepository, content: &[u8]) -> Result<bool, Unknown> {
        let id = id_of(made.format, ObjectKind::Blob, content).map_err(|_| Unknown::NotStored)?;
        let is_open = self.made.as_ref().is_some_and(|(open, _)| *open == made);
        // Objects may have come since its packs were opened.
        for attempt in usize::from(!is_open)..2 {
            if attempt == 1 {
                let history = History::open(made.format, self.snapshot.disk.objects(&made.common_dir));
                self.made = Some((made.clone(), history));
            }
            if let Some((_, history)) = &mut self.made
                && history.read(&id, &mut { BUDGET }).is_ok_and(|object| object.kind == ObjectKind::Blob)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A directory with a clone in it was moved.
    pub(crate) fn moved(&mut self, from: &AbsPath, to: &AbsPath) {
        self.snapshot.placed_moved(from, to);
    }

    fn tree_path<'r>(&self, snapshot: &'r GitSnapshot, path: &AbsPath) -> Result<TreePath<'r>, Unknown> {
        let tree = self.work_tree(path).ok_or(Unknown::Repository)?;
        let (_, common_dir) = snapshot.disk.git_directories(&tree).ok_or(Unknown::Repository)?;
        let repository = snapshot.repositories.iter().find(|repository| repository.common_dir == common_dir);
        let relative = path.as_bytes()[tree.as_bytes().len()..].strip_prefix(b"/").ok_or(Unknown::Repository)?;
        Ok(TreePath { repository: repository.ok_or(Unknown::Repository)?, relative: relative.to_vec() })
    }

    fn history(&mut self, snapshot: &GitSnapshot, repository: &Repository) -> &mut History<DiskObjects> {
        self.histories
            .entry(repository.common_dir.clone())
            .or_insert_with(|| History::open(repository.format, snapshot.disk.objects(&repository.common_dir)))
    }
}

impl Repository {
    fn has_in_index(&self, path: &[u8], mode: EntryMode, id: &ObjectId) -> bool {
        self.trees.values().any(|tree| tree.notable.get(path) == Some(&(mode, *id)))
    }

    /// What refs led to at the start: what is checked out first, then branches.
    fn tips(&self) -> Vec<ObjectId> {
        let rank = |name: &[u8]| match name {
            b"HEAD" => 0,
            _ if name.starts_with(b"refs/heads/") => 1,
            _ if name.starts_with(b"refs/remotes/") => 2,
            _ => 3,
        };
        let mut refs: Vec<(&Vec<u8>, &ObjectId)> = self.refs.iter().collect();
        refs.sort_by_key(|(name, _)| rank(name));
        refs.into_iter().map(|(_, id)| *id).collect()
    }
}
