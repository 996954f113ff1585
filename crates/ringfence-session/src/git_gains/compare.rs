//! The comparison of refs and indexes with those of the start.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use ringfence_git::entry_mode::EntryMode;
use ringfence_git::history::{History, Incomplete};
use ringfence_git::object::{Commit, ObjectKind, ReadBudget, Tag, tree_entries};
use ringfence_git::object_id::ObjectId;
use ringfence_surface::{AbsPath, Shown, Surface};

use crate::git_files::Redirected;

use super::disk::{Disk, DiskObjects};
use super::gain::{Gain, GainKind, Operation};
use super::logs::LoggedIds;
use super::{Changed, ClassifiedPaths, GitSnapshot, PathClass, Repository, TreeState, changed, joined};

/// More new commits are not compared one by one.
const MOST_COMMITS: usize = 500;
/// More commits of the start are not collected to find out whether a commit was there before.
const MOST_OLD_COMMITS: usize = 50_000;
/// More refs of the start are not searched for a file that a commit has.
const MOST_OLD_REFS: usize = 100;
/// More differing entries of one commit are not looked at.
const MOST_CHANGES: usize = 200_000;
/// Directories may not be nested deeper than paths can be long.
const DEEPEST: usize = 2048;
/// What is read of one repository.
const BUDGET: ReadBudget = ReadBudget { objects: 400_000, bytes: 2 << 30 };

impl GitSnapshot {
    /// What every repository gained since.
    #[must_use]
    pub fn gains(&self, surface: &Surface) -> Vec<Gain> {
        // First, as a report may be shortened: git would run it at once.
        let mut gains = self.planted(surface);
        for repository in &self.repositories {
            gains.extend(repository.gains(&self.disk, surface));
        }
        gains.extend(self.placed_gains(&self.disk));
        for Redirected { file, link, end } in self.ways.redirected(&*self.disk.root(), &self.work_trees) {
            gains.push(Gain { repository: file, kind: GainKind::Redirected { link, end } });
        }
        if let Some(first) = self.repositories.first().filter(|_| self.left_out > 0) {
            let kind = GainKind::Unknown(format!("{} more repositories were not compared", self.left_out));
            gains.push(Gain { repository: first.common_dir.clone(), kind });
        }
        gains
    }
}

/// Paths of each kind, and where each was found first.
#[derive(Debug, Default)]
struct Found {
    protected: BTreeMap<Vec<u8>, String>,
    gitlinks: BTreeMap<Vec<u8>, String>,
    links: BTreeMap<Vec<u8>, String>,
    only_committed: BTreeMap<Vec<u8>, String>,
    unknown: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, class: PathClass<'_>, path: &[u8], place: &str) {
        let paths = match class {
            PathClass::Denied(_) | PathClass::Protected => &mut self.protected,
            PathClass::Gitlink => &mut self.gitlinks,
            PathClass::Link => &mut self.links,
            PathClass::ReadFromCommit => &mut self.only_committed,
        };
        paths.entry(path.to_vec()).or_insert_with(|| place.to_owned());
    }

    fn into_gains(self, repository: &AbsPath) -> impl Iterator<Item = Gain> {
        let list = |paths: BTreeMap<Vec<u8>, String>| paths.into_iter().collect::<Vec<_>>();
        let kinds = [
            GainKind::Protected(list(self.protected)),
            GainKind::Gitlinks(list(self.gitlinks)),
            GainKind::Links(list(self.links)),
            GainKind::OnlyCommitted(list(self.only_committed)),
        ];
        let kinds = kinds.into_iter().filter(|kind| !kind.paths().is_empty());
        let unknown = self.unknown.into_iter().map(GainKind::Unknown);
        let repository = repository.clone();
        kinds.chain(unknown).map(move |kind| Gain { repository: repository.clone(), kind })
    }
}

impl Repository {
    fn gains(&self, disk: &Disk, surface: &Surface) -> Vec<Gain> {
        let refs = disk.refs(&self.common_dir);
        let known: Vec<(AbsPath, AbsPath)> =
            self.trees.iter().filter_map(|(dir, state)| Some((dir.clone(), state.tree.clone()?))).collect();
        let now: BTreeMap<AbsPath, TreeState> = disk
            .work_trees(&self.common_dir, &known)
            .into_iter()
            .map(|(git_dir, tree)| (git_dir.clone(), disk.tree_state(&git_dir, tree)))
            .collect();
        let before = |git_dir: &AbsPath| self.trees.get(git_dir);
        let changed_indexes: Vec<(&AbsPath, &TreeState)> =
            now.iter().filter(|(dir, state)| before(dir).and_then(|state| state.index) != state.index).collect();
        let mut gains: Vec<Gain> = Vec::new();
        for (git_dir, state) in &now {
            gains.extend(unfinished(git_dir, state, before(git_dir)));
        }
        // Patterns hold below the roots of the session: a work tree of its own comes before that of the repository.
        let mut tops: Vec<&AbsPath> = self.trees.values().filter_map(|state| state.tree.as_ref()).collect();
        tops.sort_by_key(|tree| !surface.roots().any(|root| tree.is_within(root)));
        let top = tops.first().map_or_else(|| self.common_dir.clone(), |top| (*top).clone());
        let logged = self.logs.gained(disk, &self.common_dir, self.format);
        let is_logged = !logged.new.is_empty() || logged.unread.is_some();
        if refs != self.refs || is_logged || !changed_indexes.is_empty() {
            let mut comparison = Comparison {
                repository: self,
                history: History::open(self.format, disk.objects(&self.common_dir)),
                budget: BUDGET,
                old_commits: None,
                found: Found::default(),
            };
            comparison.refs(disk, surface, &refs, logged, &top);
            for (git_dir, state) in changed_indexes {
                let head = comparison.old_head(disk, &refs, git_dir);
                comparison.index(disk, surface, git_dir, state, head);
            }
            gains.extend(comparison.found.into_gains(&top));
        }
        gains
    }
}

/// Operations that were not unfinished before. A cherry-pick in the middle of a rebase belongs to it.
fn unfinished<'t>(
    git_dir: &AbsPath,
    now: &'t TreeState,
    before: Option<&'t TreeState>,
) -> impl Iterator<Item = Gain> + use<'t> {
    let has = |operation: &Operation| now.operations.contains(operation);
    let is_part = move |operation: &Operation| match operation {
        Operation::CherryPick | Operation::Revert | Operation::Merge => has(&Operation::Rebase),
        Operation::Rebase => has(&Operation::Am),
        Operation::Sequencer => has(&Operation::CherryPick) || has(&Operation::Revert),
        Operation::Am | Operation::Bisect => false,
    };
    let repository = now.tree.clone().unwrap_or_else(|| git_dir.clone());
    let is_new = move |operation: &&Operation| before.is_none_or(|before| !before.operations.contains(operation));
    let new = now.operations.iter().filter(is_new).filter(move |operation| !is_part(operation));
    new.map(move |operation| Gain { repository: repository.clone(), kind: GainKind::Unfinished(*operation) })
}

/// The entries in which two trees differ. What the history was read with comes back.
pub(super) fn differing(
    repository: &Repository,
    history: History<DiskObjects>,
    budget: ReadBudget,
    (old, new): (Option<ObjectId>, ObjectId),
) -> (History<DiskObjects>, ReadBudget, Result<Vec<Changed>, Incomplete>) {
    let mut comparison = Comparison { repository, history, budget, old_commits: None, found: Found::default() };
    let mut changes = Vec::new();
    let done = comparison.differences(old, Some(new), &mut Vec::new(), 0, &mut changes);
    (comparison.history, comparison.budget, done.map(|()| changes))
}

/// A comparison in progress.
struct Comparison<'r> {
    repository: &'r Repository,
    history: History<DiskObjects>,
    budget: ReadBudget,
    /// Every commit that refs of the start lead to, once that is needed.
    old_commits: Option<HashSet<ObjectId>>,
    found: Found,
}

impl Comparison<'_> {
    /// Compares what refs and reflogs lead to that they did not lead to at the start.
    fn refs(
        &mut self,
        disk: &Disk,
        surface: &Surface,
        refs: &BTreeMap<Vec<u8>, ObjectId>,
        logged: LoggedIds,
        top: &AbsPath,
    ) {
        let old: HashSet<ObjectId> = self.repository.refs.values().copied().collect();
        let base = self.base_tree();
        let mut visited = HashSet::new();
        for (name, tip) in refs.iter().filter(|(_, tip)| !old.contains(tip)) {
            // A tree of notes has paths of its own, so nothing is missing in it.
            let base = base.filter(|_| !name.starts_with(b"refs/notes/"));
            self.tip(disk, surface, (tip, base, &Shown(name).to_string()), (&old, &mut visited), top);
        }
        // Most entries are in the history of a ref, which is compared already.
        for (tip, places) in logged.new.iter().filter(|(tip, _)| !old.contains(tip)) {
            let compared = self.tip(disk, surface, (tip, base, &places.join(", ")), (&old, &mut visited), top);
            if compared == Compared::InPart {
                break;
            }
        }
        if let Some(name) = logged.unread {
            self.found.unknown.insert(format!("the reflog of {name} is too long to be compared"));
        }
    }

    /// Compares what a ref, or an entry of a reflog, leads to.
    fn tip(
        &mut self,
        disk: &Disk,
        surface: &Surface,
        (tip, base, place): (&ObjectId, Option<ObjectId>, &str),
        (old, visited): (&HashSet<ObjectId>, &mut HashSet<ObjectId>),
        top: &AbsPath,
    ) -> Compared {
        let mut queue = VecDeque::from([*tip]);
        while let Some(id) = queue.pop_front() {
            if old.contains(&id) || !visited.insert(id) {
                continue;
            }
            if visited.len() > MOST_COMMITS {
                if !self.is_old(&id) {
                    let why = format!("more than {MOST_COMMITS} new commits; {place} was not compared to its end");
                    self.found.unknown.insert(why);
                    return Compared::InPart;
                }
                break;
            }
            match self.commit(&id) {
                Ok(Some(commit)) => {
                    if self.tree(disk, surface, top, (&id, &commit), base, place) == Age::New {
                        queue.extend(commit.parents);
                    }
                }
                Ok(None) => {}
                // A shallow clone ends somewhere, and a ref may name anything.
                Err(Incomplete::Missing(missing)) if missing != *tip => {}
                Err(cause) => {
                    self.found.unknown.insert(format!("{place} leads to {}", words(cause)));
                }
            }
        }
        Compared::Whole
    }

    /// The tree of what was checked out at the start.
    fn base_tree(&mut self) -> Option<ObjectId> {
        let repository = self.repository;
        let refs = &repository.refs;
        let usual: [&[u8]; 4] = [b"HEAD", b"refs/heads/main", b"refs/heads/master", b"ORIG_HEAD"];
        let branches = refs.iter().filter(|(name, _)| name.starts_with(b"refs/heads/")).map(|(_, id)| id);
        let tips: Vec<ObjectId> =
            usual.iter().filter_map(|name| refs.get(*name)).chain(branches).take(MOST_OLD_REFS).copied().collect();
        tips.iter().find_map(|tip| Some(self.commit(tip).ok()??.tree))
    }

    /// The commit that an object is, or that a tag names.
    fn commit(&mut self, id: &ObjectId) -> Result<Option<Commit>, Incomplete> {
        let (mut id, format) = (*id, self.repository.format);
        loop {
            let object = self.history.read(&id, &mut self.budget)?;
            match object.kind {
                ObjectKind::Commit => {
                    return Commit::parse(format, &object.content).map(Some).map_err(|_| Incomplete::Damaged(id));
                }
                ObjectKind::Tag => {
                    id = Tag::parse(format, &object.content).map_err(|_| Incomplete::Damaged(id))?.target;
                }
                ObjectKind::Tree | ObjectKind::Blob => return Ok(None),
            }
        }
    }

    /// Compares the tree of a commit with the one that was checked out at the start.
    fn tree(
        &mut self,
        disk: &Disk,
        surface: &Surface,
        top: &AbsPath,
        (id, commit): (&ObjectId, &Commit),
        base: Option<ObjectId>,
        place: &str,
    ) -> Age {
        let mut changes = Vec::new();
        if let Err(cause) = self.differences(base, Some(commit.tree), &mut Vec::new(), 0, &mut changes) {
            self.found.unknown.insert(format!("{place} leads to {}", words(cause)));
        }
        let notable = self.notable(disk, surface, top, changes, None);
        // A commit that the user had already lands nothing new.
        if !notable.is_empty() && self.is_old(id) {
            return Age::Old;
        }
        notable.into_iter().for_each(|(class, path)| self.found.add(class, &path, place));
        Age::New
    }

    /// The differing entries that the rules speak of, and that neither a ref of the start nor `old_commit` has.
    fn notable<'s>(
        &mut self,
        disk: &Disk,
        surface: &'s Surface,
        top: &AbsPath,
        changes: Vec<Changed>,
        old_commit: Option<ObjectId>,
    ) -> Vec<(PathClass<'s>, Vec<u8>)> {
        let mut paths = ClassifiedPaths::new(surface, top);
        let mut notable = Vec::new();
        for (path, mode, id) in changes {
            let Some(class) = paths.classify(&path, mode) else { continue };
            let is_harmless = match class {
                PathClass::Denied(_) | PathClass::Protected => false,
                PathClass::Gitlink | PathClass::Link => id.is_none(),
                PathClass::ReadFromCommit => id.is_none() || disk.is_there(&joined(top, &path)),
            };
            let is_old = |this: &mut Self| {
                let commit = old_commit.filter(|commit| this.has_entry(commit, &path, mode, id));
                commit.is_some() || this.is_known(&path, mode, id)
            };
            if !is_harmless && !is_old(self) {
                notable.push((class, path));
            }
        }
        notable
    }

    /// Does a ref of the start have this entry, or lack it where it was removed? What the user had edited is known too.
    fn is_known(&mut self, path: &[u8], mode: EntryMode, id: Option<ObjectId>) -> bool {
        let is_edited = |tree: &TreeState| id.is_some() && tree.edited.get(path) == id.as_ref();
        if self.repository.trees.values().any(is_edited) {
            return true;
        }
        let tips: BTreeSet<ObjectId> = self.repository.refs.values().copied().collect();
        tips.into_iter().take(MOST_OLD_REFS).any(|tip| self.has_entry(&tip, path, mode, id))
    }

    /// Does a commit have this entry, or lack it where it was removed?
    fn has_entry(&mut self, commit: &ObjectId, path: &[u8], mode: EntryMode, id: Option<ObjectId>) -> bool {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let entry = self.history.entry_at(commit, path, &mut self.budget);
        entry.is_ok_and(|entry| entry == id.map(|id| (mode, id)))
    }

    /// Do refs of the start lead to this commit?
    fn is_old(&mut self, id: &ObjectId) -> bool {
        if self.old_commits.is_none() {
            let mut queue: VecDeque<ObjectId> = self.repository.refs.values().copied().collect();
            let mut old = HashSet::new();
            while let Some(next) = queue.pop_front().filter(|_| old.len() < MOST_OLD_COMMITS) {
                if old.insert(next)
                    && let Ok(Some(commit)) = self.commit(&next)
                {
                    queue.extend(commit.parents);
                }
            }
            self.old_commits = Some(old);
        }
        self.old_commits.as_ref().is_some_and(|old| old.contains(id))
    }

    /// The entries in which two trees differ.
    fn differences(
        &mut self,
        base: Option<ObjectId>,
        tree: Option<ObjectId>,
        path: &mut Vec<u8>,
        depth: usize,
        changes: &mut Vec<Changed>,
    ) -> Result<(), Incomplete> {
        if base == tree {
            return Ok(());
        }
        if depth > DEEPEST || changes.len() > MOST_CHANGES {
            return Err(Incomplete::Budget);
        }
        // What is missing of the start's makes more differences, not fewer.
        let old = base.and_then(|id| self.entries(&id).ok()).unwrap_or_default();
        let new = tree.map(|id| self.entries(&id)).transpose()?.unwrap_or_default();
        let names: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
        let length = path.len();
        for name in names {
            let (was, is) = (old.get(name), new.get(name));
            if was == is {
                continue;
            }
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let tree_of = |entry: Option<&(EntryMode, ObjectId)>| {
                entry.filter(|(mode, _)| *mode == EntryMode::Directory).map(|(_, id)| *id)
            };
            let (was_tree, is_tree) = (tree_of(was), tree_of(is));
            match (is, was) {
                (Some((mode, id)), _) if is_tree.is_none() => changes.push((path.clone(), *mode, Some(*id))),
                (None, Some((mode, _))) if was_tree.is_none() => changes.push((path.clone(), *mode, None)),
                _ => {}
            }
            if was_tree.is_some() || is_tree.is_some() {
                self.differences(was_tree, is_tree, path, depth + 1, changes)?;
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn entries(&mut self, tree: &ObjectId) -> Result<BTreeMap<Vec<u8>, (EntryMode, ObjectId)>, Incomplete> {
        let object = self.history.read(tree, &mut self.budget)?;
        let damaged = Incomplete::Damaged(*tree);
        if object.kind != ObjectKind::Tree {
            return Err(damaged);
        }
        let entries = tree_entries(self.repository.format, &object.content).map_err(|_| damaged)?;
        Ok(entries.into_iter().map(|entry| (entry.name.to_vec(), (entry.mode, entry.id))).collect())
    }

    /// What is checked out now, if it is a commit that was there at the start.
    fn old_head(&mut self, disk: &Disk, refs: &BTreeMap<Vec<u8>, ObjectId>, git_dir: &AbsPath) -> Option<ObjectId> {
        let line = disk.line(&git_dir.child(b"HEAD"))?;
        let head = match line.strip_prefix(b"ref:") {
            Some(name) => *refs.get(name.trim_ascii())?,
            None => ObjectId::from_hex(&line)?,
        };
        self.is_old(&head).then_some(head)
    }

    /// Compares an index with the one of the start. Entries of an old commit that is checked out are not new: `git switch`, `git reset`.
    fn index(
        &mut self,
        disk: &Disk,
        surface: &Surface,
        git_dir: &AbsPath,
        state: &TreeState,
        old_head: Option<ObjectId>,
    ) {
        let Some(tree) = &state.tree else { return };
        let index = match disk.index(git_dir, self.repository.format) {
            Some(Ok(index)) => index,
            // Without an index git would commit nothing.
            None => return,
            Some(Err(why)) => {
                self.found.unknown.insert(format!("its index cannot be read ({why})"));
                return;
            }
        };
        let before = self.repository.trees.get(git_dir).map(|state| &state.notable);
        let is_new = |(path, mode, id): &Changed| {
            before.and_then(|before| before.get(path)).is_none_or(|was| Some(*was) != id.map(|id| (*mode, id)))
        };
        let mut changes: Vec<Changed> = index.entries.iter().map(changed).filter(is_new).collect();
        let removed = before.into_iter().flatten().filter(|(path, _)| index.entry(path).is_none());
        changes.extend(removed.map(|(path, (mode, _))| (path.clone(), *mode, None)));
        let notable = self.notable(disk, surface, tree, changes, old_head);
        notable.into_iter().for_each(|(class, path)| self.found.add(class, &path, "the index"));
    }
}

/// How much of a history was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    Whole,
    InPart,
}

/// Was a commit there at the start?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    Old,
    New,
}

fn words(cause: Incomplete) -> String {
    match cause {
        Incomplete::Budget => "more than is read for a comparison".to_owned(),
        Incomplete::Missing(id) => format!("the object {id}, which is missing"),
        Incomplete::Damaged(id) => format!("the object {id}, which is damaged"),
    }
}
