//! Whether a command of git will need a version of a protected file that is refused, before it has changed anything.

use std::sync::Arc;

use ringfence_git::entry_mode::EntryMode;
use ringfence_git::history::History;
use ringfence_git::object::ReadBudget;
use ringfence_git::object_id::ObjectId;
use ringfence_git::replacement::{Replacement, of_command};
use ringfence_surface::{AbsPath, Surface};

use super::compare::differing;
use super::disk::DiskObjects;
use super::revision::Revisions;
use super::versions::{KnownVersions, Unknown};
use super::{ClassifiedPaths, GitSnapshot, PathClass, Repository, joined};

/// What is read for one command. The caller waits meanwhile; where it is not enough, the command is refused late.
const BUDGET: ReadBudget = ReadBudget { objects: 50_000, bytes: 256 << 20 };

/// One commit takes the place of another.
#[derive(Debug, Clone, Copy)]
struct Change {
    from: Option<ObjectId>,
    to: ObjectId,
}

impl KnownVersions {
    /// The first protected file for which a command needs a version that is refused, and why. The command line is a hint: what is not
    /// understood is refused later.
    pub(crate) fn foresee(
        &mut self,
        surface: &Surface,
        git_dir: &AbsPath,
        command: &[u8],
    ) -> Option<(AbsPath, Unknown)> {
        let snapshot = Arc::clone(&self.snapshot);
        let replacement = of_command(command.strip_suffix(b"\0").unwrap_or(command).split(|byte| *byte == 0))?;
        let (repository, tree) = snapshot.work_tree_of(git_dir)?;
        let index = snapshot.disk.index(git_dir, repository.format)?.ok()?;
        if index.is_sparse || index.entries.iter().any(|entry| entry.skip_worktree) {
            return None;
        }
        let mut history = History::open(repository.format, snapshot.disk.objects(&repository.common_dir));
        let mut budget = BUDGET;
        for Change { from, to } in snapshot.changes_by(repository, git_dir, &replacement, &mut history, &mut budget)? {
            let tree_of = |history: &mut History<DiskObjects>, budget: &mut ReadBudget, commit: &ObjectId| {
                history.commit(commit, budget).ok().map(|commit| commit.tree)
            };
            let old = match &from {
                Some(from) => Some(tree_of(&mut history, &mut budget, from)?),
                None => None,
            };
            let new = tree_of(&mut history, &mut budget, &to)?;
            let (back, left, changed) = differing(repository, history, budget, (old, new));
            (history, budget) = (back, left);
            let mut paths = ClassifiedPaths::new(surface, &tree);
            for (path, mode, id) in changed.ok()? {
                let is_file = matches!(mode, EntryMode::Regular | EntryMode::Executable);
                let (Some(PathClass::Protected), true, Some(id)) = (paths.classify(&path, mode), is_file, id) else {
                    continue;
                };
                if !replacement.covers(&path) {
                    continue;
                }
                // What the index has in a third version git leaves as it is, merges, or refuses to replace itself.
                let now = index.entry(&path).map(|entry| (entry.mode, entry.id));
                let before = match &from {
                    Some(from) => history.entry_at(from, &path, &mut budget).ok()?,
                    None => None,
                };
                let is_any = matches!(replacement, Replacement::Paths(..));
                if now == Some((mode, id)) || !is_any && now != before {
                    continue;
                }
                let full = joined(&tree, &path);
                if let Err(cause) = self.find_id(&full, mode, id) {
                    return Some((full, cause));
                }
            }
        }
        None
    }
}

impl GitSnapshot {
    /// The repository that a git directory belongs to, and the top of its work tree.
    fn work_tree_of(&self, git_dir: &AbsPath) -> Option<(&Repository, AbsPath)> {
        self.repositories.iter().find_map(|repository| {
            let known = || repository.trees.get(git_dir)?.tree.clone();
            let made = || {
                let entries = repository.common_dir.child(b"worktrees");
                git_dir.parent().filter(|parent| *parent == entries)?;
                let dot_git = self.disk.line(&git_dir.child(b"gitdir"))?;
                AbsPath::lexical(&dot_git).ok()?.parent()
            };
            Some((repository, known().or_else(made)?))
        })
    }

    fn changes_by(
        &self,
        repository: &Repository,
        git_dir: &AbsPath,
        replacement: &Replacement,
        history: &mut History<DiskObjects>,
        budget: &mut ReadBudget,
    ) -> Option<Vec<Change>> {
        let revisions = Revisions::read(&self.disk, git_dir, &repository.common_dir);
        let mut resolve = |word: &[u8]| revisions.resolve(word, history, budget);
        Some(match replacement {
            Replacement::Switch(to) | Replacement::Paths(to, _) => {
                vec![Change { from: resolve(b"HEAD"), to: resolve(to)? }]
            }
            Replacement::Rebase(onto) => {
                let (head, onto) = (resolve(b"HEAD")?, resolve(onto)?);
                // Nothing is done where the branch is up to date.
                if history.merge_base(&head, &onto, budget).ok()? == Some(onto) {
                    return None;
                }
                vec![Change { from: Some(head), to: onto }]
            }
            Replacement::Merge(with) => {
                let (ours, theirs) = (resolve(b"HEAD")?, resolve(with)?);
                let base = history.merge_base(&ours, &theirs, budget).ok()??;
                vec![Change { from: Some(base), to: theirs }]
            }
            Replacement::Pick(words) => {
                let commits: Option<Vec<ObjectId>> = words.iter().map(|word| resolve(word)).collect();
                let change = |to| Some(Change { from: Some(*history.commit(&to, budget).ok()?.parents.first()?), to });
                commits?.into_iter().map(change).collect::<Option<Vec<_>>>()?
            }
            Replacement::Revert(word) => {
                let from = resolve(word)?;
                vec![Change { from: Some(from), to: *history.commit(&from, budget).ok()?.parents.first()? }]
            }
        })
    }
}
