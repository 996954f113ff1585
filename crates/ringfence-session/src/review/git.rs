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
            change.refused = refusal(&judge, change, git.as_ref()).map(|refusal| format!("git: {refusal}"));
        }
    }

    /// The git directory that each directory with changes is in, as it will be once they are applied.
    fn git_roots(&self, changes: &[Change]) -> HashMap<AbsPath, Option<AbsPath>> {
        // What is refused already does not come.
        let comes = changes.iter().filter(|change| change.refused.is_none());
        let whats: HashMap<&AbsPath, What> = comes.map(|change| (&change.path, change.what)).collect();
        let is_there = |path: &AbsPath| match whats.get(path) {
            Some(what) => *what != What::Deleted,
            None => found(path).is_ok_and(|found| found.is_some()),
        };
        let mut known: HashMap<AbsPath, Option<AbsPath>> = HashMap::new();
        for dir in changes.iter().filter_map(|change| change.path.parent()) {
            let mut passed = Vec::new();
            let mut root = None;
            for above in dir.ancestors() {
                if let Some(found) = known.get(&above) {
                    root.clone_from(found);
                    break;
                }
                passed.push(above.clone());
                if is_own(&self.surface, &above) {
                    break;
                }
                let has = |name: &[u8]| is_there(&above.child(name));
                if above.file_name() == Some(b".git") || is_git_directory(has) {
                    root = Some(above);
                    break;
                }
                // A work tree in the directory of a bare repository.
                if has(b".git") {
                    break;
                }
            }
            known.extend(passed.into_iter().map(|above| (above, root.clone())));
        }
        known
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

fn refusal(judge: &ContentJudge<'_>, change: &Change, git_dir: Option<&AbsPath>) -> Option<Refusal> {
    let Some(git_dir) = git_dir else {
        return match (change.path.file_name(), change.node) {
            (Some(b".git"), Node::Link) => Some(Refusal::Link),
            (Some(b".git"), Node::File) => judged(judge, Content::GitFile, change, None).err(),
            _ => None,
        };
    };
    let relative = change.path.as_bytes().get(git_dir.as_bytes().len() + 1..).unwrap_or_default().to_vec();
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
