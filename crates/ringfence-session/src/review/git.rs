//! Changes to git directories: what is applied there is judged by the closed list and the grammars by which the broker judges it.
//!
//! Inside, the broker has judged most of it when it was written. Without a broker nothing has, and a file that was judged then may mean
//! something else on the host as it is now.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use ringfence_git::layout::{self, FileKind, Grammar, ObjectFile, file_kind};
use ringfence_git::settings::Age;
use ringfence_surface::AbsPath;

use super::changes::{Change, Node, What};
use super::files::{content, directory, found};
use super::{Review, ReviewError};
use crate::git_files::{
    Content, ContentJudge, GitPlace, HostPaths, LONGEST, References, Refusal, Regions, is_git_directory, is_own,
    standing,
};
use crate::git_gains::{Gain, GitSnapshot};
use crate::place::open_root;

impl Review {
    /// Refuses what may not come to a git directory: links, files that git does not write there, and content that does not follow its
    /// grammar.
    pub(super) fn refuse_in_git(&self, changes: &mut [Change]) {
        let roots = self.git_roots(changes);
        let regions = Regions::new();
        let Ok(root) = open_root().map(Arc::new) else {
            changes.iter_mut().for_each(|change| change.refused = Some("`/` cannot be opened".to_owned()));
            return;
        };
        let trees: Vec<AbsPath> = roots.values().flatten().filter_map(AbsPath::parent).collect();
        let references = References::of_start(&root, standing(&root, &trees));
        let host = &HostPaths::new(&root, &self.surface);
        let judge =
            ContentJudge { surface: &self.surface, regions: &regions, references: &references, host, root: &root };
        let is_open = |change: &&mut Change| change.refused.is_none();
        let mut on_host = HashMap::new();
        for change in changes.iter_mut().filter(is_open) {
            if change.what == What::Deleted {
                let git = change.path.parent().and_then(|dir| git_root_on_host(&dir, &mut on_host));
                let refusal = git.and_then(|git_dir| refused_deletion(change, &git_dir));
                change.refused = refusal.map(|refusal| format!("git: {refusal}"));
                continue;
            }
            let git = change.path.parent().and_then(|dir| roots.get(&dir).cloned().flatten());
            let misplaced = git.as_ref().filter(|root| is_misplaced(root, &roots)).cloned().map(Refusal::Misplaced);
            let refusal = misplaced.or_else(|| refusal(&judge, change, git.as_ref()));
            change.refused = refusal.map(|refusal| format!("git: {refusal}"));
        }
        // What files of git name was checked on the host as it is, and links come with the same changes.
        let known = references.hold();
        for change in changes.iter_mut().filter(is_open) {
            let is_link = change.node == Node::Link && change.what != What::Deleted;
            let is_on_way = is_link && known.pass(&change.path);
            change.refused = is_on_way.then(|| format!("git: {}", Refusal::Redirects(change.path.clone())));
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
        (Node::File, FileKind::Object(kind)) => return object(judge, kind, change, (git_dir, relative)).err(),
        (Node::File, FileKind::Free | FileKind::Forming) => return None,
        (Node::File, FileKind::Vetted(grammar)) => Content::Vetted(grammar),
        (Node::File, FileKind::Settings) => Content::Settings,
        (Node::File, FileKind::Index | FileKind::SharedIndex) => Content::Index,
    };
    judged(judge, content, change, Some(&GitPlace { root: git_dir.clone(), relative, age: age_of(git_dir) })).err()
}

/// Is it a repository that the host has?
fn age_of(git_dir: &AbsPath) -> Age {
    if found(&git_dir.child(b"HEAD")).is_ok_and(|head| head.is_some()) { Age::Existing } else { Age::New }
}

/// The git directory on the host that a directory is in, whatever is removed there.
fn git_root_on_host(dir: &AbsPath, known: &mut HashMap<AbsPath, Option<AbsPath>>) -> Option<AbsPath> {
    if let Some(root) = known.get(dir) {
        return root.clone();
    }
    let is_one = dir.file_name() == Some(b".git") || is_git_directory(|name| is_on_host(&dir.child(name)));
    let root = if is_one { Some(dir.clone()) } else { dir.parent().and_then(|above| git_root_on_host(&above, known)) };
    known.insert(dir.clone(), root.clone());
    root
}

/// What a repository of the host keeps: its objects, the files that make it one, and what only the user may change. An object that is
/// packed anew inside comes, and the old one stays as well.
fn refused_deletion(change: &Change, git_dir: &AbsPath) -> Option<Refusal> {
    let relative = below(git_dir, &change.path);
    let makes_it_one = matches!(relative.as_slice(), b"HEAD" | b"objects" | b"refs");
    let is_kept = match file_kind(&relative) {
        _ if change.node == Node::Directory => relative.starts_with(b"objects/"),
        FileKind::Object(_) | FileKind::Settings | FileKind::Vetted(Grammar::Alternates) => true,
        FileKind::Closed => change.node == Node::File,
        _ => false,
    };
    (is_kept || makes_it_one).then_some(Refusal::Kept)
}

/// May an object, or a part of a pack, come? It is verified as the broker verifies it, and takes the place of none.
fn object(
    judge: &ContentJudge<'_>,
    kind: ObjectFile,
    change: &Change,
    (git_dir, relative): (&AbsPath, Vec<u8>),
) -> Result<(), Refusal> {
    let git = GitPlace { root: git_dir.clone(), relative, age: age_of(git_dir) };
    if git.age == Age::New {
        return Ok(());
    }
    if change.what != What::Added {
        return Err(Refusal::Object);
    }
    let (Some(from), Some(name)) = (&change.from, change.path.file_name()) else { return Err(Refusal::Unreadable) };
    let open = |path: Option<AbsPath>| directory(&path?).ok();
    let layer = open(from.parent()).ok_or(Refusal::Unreadable)?;
    let host = match open(change.path.parent()) {
        None if kind == ObjectFile::Loose => None,
        None => return Err(Refusal::Unreadable),
        host => host,
    };
    // In a directory that the host does not have yet nothing is in the way of an object.
    let host = host.as_ref().unwrap_or(&layer).as_fd();
    let read = || content(from, LONGEST as u64).ok().flatten().ok_or(Refusal::Unreadable);
    match kind {
        ObjectFile::Loose => judge.judge_object(kind, (host, name), &git, &read()?),
        ObjectFile::PackIndex => judge.judge_pack_index((host, layer.as_fd(), name), &git, &read()?),
        ObjectFile::Pack | ObjectFile::PackCache | ObjectFile::PackKeep | ObjectFile::PackPromisor => {
            judge.judge_object(kind, (host, name), &git, &[])
        }
    }
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
