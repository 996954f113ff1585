//! Changes to git directories: what is applied there is judged by the closed list and the grammars by which the broker judges it.
//!
//! Inside, the broker has judged most of it when it was written. Without a broker nothing has, and a file that was judged then may mean
//! something else on the host as it is now.

use std::collections::HashMap;
use std::sync::Arc;

use ringfence_git::layout::{self, FileKind, file_kind};
use ringfence_git::settings::Age;
use ringfence_surface::AbsPath;

use super::changes::{Change, Node, What};
use super::files::{content, found};
use super::{Review, ReviewError};
use crate::git_files::{
    Content, ContentJudge, GitPlace, LONGEST, References, Refusal, Regions, is_git_directory, is_own,
};
use crate::git_gains::{Gain, GitSnapshot};
use crate::place::open_root;

impl Review {
    /// Refuses what may not come to a git directory: links, files that git does not write there, and content that does not follow its
    /// grammar.
    pub(super) fn refuse_in_git(&self, changes: &mut [Change]) {
        let roots = self.git_roots(changes);
        let (regions, references) = (Regions::new(), References::new());
        let Ok(root) = open_root().map(Arc::new) else {
            changes.iter_mut().for_each(|change| change.refused = Some("`/` cannot be opened".to_owned()));
            return;
        };
        let judge = ContentJudge { surface: &self.surface, regions: &regions, references: &references, root: &root };
        let is_open = |change: &&mut Change| change.refused.is_none() && change.what != What::Deleted;
        for change in changes.iter_mut().filter(is_open) {
            let git = change.path.parent().and_then(|dir| roots.get(&dir).cloned().flatten());
            let misplaced = git.as_ref().filter(|root| is_misplaced(root, &roots)).cloned().map(Refusal::Misplaced);
            let refusal = misplaced.or_else(|| refusal(&judge, change, git.as_ref()));
            change.refused = refusal.map(|refusal| format!("git: {refusal}"));
        }
    }

    /// The git directory that each directory with changes is in, as it will be once they are applied.
    fn git_roots(&self, changes: &[Change]) -> HashMap<AbsPath, Option<AbsPath>> {
        // What is refused already does not come.
        let comes = changes.iter().filter(|change| change.refused.is_none());
        let whats: HashMap<&AbsPath, What> = comes.map(|change| (&change.path, change.what)).collect();
        let is_there = |path: &AbsPath| match whats.get(path) {
            Some(what) => *what != What::Deleted,
            None => is_on_host(path),
        };
        let mut known: HashMap<AbsPath, Option<AbsPath>> = HashMap::new();
        for dir in changes.iter().filter_map(|change| change.path.parent()) {
            let above: Vec<AbsPath> = dir.ancestors().take_while(|above| !known.contains_key(above)).collect();
            // From the top: what a directory is depends on the one above.
            for dir in above.into_iter().rev() {
                let root =
                    self.git_root(&dir, &is_there, dir.parent().and_then(|above| known.get(&above).cloned().flatten()));
                known.insert(dir, root);
            }
        }
        known
    }

    /// The git directory that a directory is in, if the one above is in `outer`.
    fn git_root(&self, dir: &AbsPath, has: &dyn Fn(&AbsPath) -> bool, outer: Option<AbsPath>) -> Option<AbsPath> {
        if is_own(&self.surface, dir) {
            return None;
        }
        if dir.file_name() == Some(b".git") || is_git_directory(|name| has(&dir.child(name))) {
            return Some(dir.clone());
        }
        // The user's work tree in a bare repository. A session makes none there.
        let is_tree =
            |root: &AbsPath| layout::is_foreign_directory(&below(root, dir)) && is_on_host(&dir.child(b".git"));
        outer.filter(|root| !is_tree(root))
    }

    /// The repositories of which something is applied, as they are before.
    pub(super) fn snapshot(&self, changes: &[Change]) -> Result<GitSnapshot, ReviewError> {
        let git_dirs = self.git_roots(changes).into_values().flatten();
        let mut trees: Vec<AbsPath> = git_dirs.filter_map(|dir| dir.parent()).collect();
        trees.sort();
        trees.dedup();
        let failed = |errno: rustix::io::Errno| ReviewError::Layer { path: AbsPath::root(), source: errno.into() };
        Ok(GitSnapshot::take(&self.surface, &trees).map_err(failed)?.0)
    }

    /// What they gained by it.
    pub(super) fn gains(&self, before: &GitSnapshot) -> Vec<Gain> {
        before.gains(&self.surface)
    }
}

/// Would a change make a git directory where git keeps none: below `logs` of another one, say?
fn is_misplaced(root: &AbsPath, roots: &HashMap<AbsPath, Option<AbsPath>>) -> bool {
    let outer = root.parent().and_then(|above| roots.get(&above).cloned().flatten());
    let was_one = || {
        root.file_name() == Some(b".git") && is_on_host(root) || is_git_directory(|name| is_on_host(&root.child(name)))
    };
    outer.is_some_and(|outer| !layout::is_place_of_git_directory(&below(&outer, root))) && !was_one()
}

fn refusal(judge: &ContentJudge<'_>, change: &Change, git_dir: Option<&AbsPath>) -> Option<Refusal> {
    let Some(git_dir) = git_dir else {
        return match (change.path.file_name(), change.node) {
            (Some(b".git"), Node::Link) => Some(Refusal::Link),
            (Some(b".git"), Node::File) => judged(judge, Content::GitFile, change, None).err(),
            _ => None,
        };
    };
    let relative = below(git_dir, &change.path);
    let kind = file_kind(&relative);
    let content = match (change.node, kind) {
        (Node::Link | Node::Other, _) => return Some(Refusal::Link),
        (Node::Directory, _) if layout::is_directory(&relative) || kind == FileKind::Forming => return None,
        (Node::Directory, _) | (Node::File, FileKind::Closed) => return Some(Refusal::Closed),
        (Node::File, FileKind::Free | FileKind::Object(_) | FileKind::Forming) => return None,
        (Node::File, FileKind::Vetted(grammar)) => Content::Vetted(grammar),
        (Node::File, FileKind::Settings) => Content::Settings,
        (Node::File, FileKind::Index | FileKind::SharedIndex) => Content::Index,
    };
    let age = if found(&git_dir.child(b"HEAD")).is_ok_and(|head| head.is_some()) { Age::Existing } else { Age::New };
    judged(judge, content, change, Some(&GitPlace { root: git_dir.clone(), relative, age })).err()
}

/// A path, relative to a directory that it is in.
fn below(dir: &AbsPath, path: &AbsPath) -> Vec<u8> {
    let rest = path.as_bytes().get(dir.as_bytes().len()..).unwrap_or_default();
    rest.strip_prefix(b"/").unwrap_or(rest).to_vec()
}

fn is_on_host(path: &AbsPath) -> bool {
    found(path).is_ok_and(|found| found.is_some())
}

fn judged(judge: &ContentJudge<'_>, kind: Content, change: &Change, git: Option<&GitPlace>) -> Result<(), Refusal> {
    let (Some(dir), Some(from)) = (change.path.parent(), &change.from) else { return Err(Refusal::Unreadable) };
    let read = |path: &AbsPath| content(path, LONGEST as u64).ok().flatten();
    let text = read(from).ok_or(Refusal::Unreadable)?;
    let before = read(&change.path).unwrap_or_default();
    match judge.judge(kind, (&dir, git), &text, &before)? {
        None => Ok(()),
        // Git and we might read it differently, and it is not written anew here.
        Some(_) => Err(Refusal::Unreadable),
    }
}
