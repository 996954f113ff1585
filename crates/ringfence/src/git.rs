//! What a repository says of itself on this host: where its git directory is.
//!
//! A `.git` file and everything it leads to may have been written by an agent, so a git directory counts only where its place
//! and its own words agree: a linked work tree's lies in `worktrees/` of the repository and names the work tree back.

use std::path::Path;

use ringfence_git::config;
use ringfence_surface::{AbsPath, GitFact, Look, PathFact, follow};

use crate::host::{os_path, read_bounded};

/// The longest file of settings that is read.
pub(crate) const LONGEST_SETTINGS: u64 = 1 << 20;

/// Where a `.git` that is no directory leads.
pub(crate) fn fact(dot_git: &AbsPath, look: &mut dyn Look) -> Option<GitFact> {
    let tree = dot_git.parent()?;
    let git_dir = match look.path(dot_git) {
        PathFact::File => real(&tree, line(dot_git)?.strip_prefix(b"gitdir: ")?, look)?,
        PathFact::Link(_) => real(&tree, b".git", look)?,
        _ => return None,
    };
    let vouched = |common_dir: AbsPath, vouched: bool| GitFact { git_dir: git_dir.clone(), common_dir, vouched };
    if let Some(common_dir) = worktree_of(&git_dir, dot_git, look) {
        let is_repository = is_git_directory(&common_dir, look);
        return Some(vouched(common_dir, is_repository));
    }
    let is_submodule = names_tree(&git_dir, &tree, look) && is_git_directory(&git_dir, look);
    Some(vouched(git_dir.clone(), is_submodule))
}

/// The repository of a linked work tree. It is never taken from what `commondir` says alone: whoever planted the `.git` file
/// would have written that too.
fn worktree_of(git_dir: &AbsPath, dot_git: &AbsPath, look: &mut dyn Look) -> Option<AbsPath> {
    let worktrees = git_dir.parent().filter(|dir| dir.file_name() == Some(b"worktrees"))?;
    let repository = worktrees.parent()?;
    let common_dir = real(git_dir, &line(&git_dir.child(b"commondir"))?, look)?;
    let named_back = real(git_dir, &line(&git_dir.child(b"gitdir"))?, look)?;
    (common_dir == repository && named_back == *dot_git).then_some(common_dir)
}

fn is_git_directory(dir: &AbsPath, look: &mut dyn Look) -> bool {
    look.path(&dir.child(b"HEAD")) == PathFact::File
        && look.path(&dir.child(b"objects")) == PathFact::Directory
        && look.path(&dir.child(b"refs")) == PathFact::Directory
}

/// A submodule's git directory names its work tree in `core.worktree`.
fn names_tree(git_dir: &AbsPath, tree: &AbsPath, look: &mut dyn Look) -> bool {
    let Ok(text) = read_bounded(os_path(&git_dir.child(b"config")), LONGEST_SETTINGS) else { return false };
    let entries = config::parse(&text);
    let mut values =
        entries.iter().filter(|entry| entry.is("core", "worktree")).filter_map(|entry| entry.value.as_ref());
    values.any(|value| real(git_dir, value, look).as_ref() == Some(tree))
}

/// The one line of a small file.
fn line(path: &AbsPath) -> Option<Vec<u8>> {
    let path: &Path = os_path(path);
    Some(read_bounded(path, 8192).ok()?.trim_ascii_end().to_vec())
}

fn real(dir: &AbsPath, raw: &[u8], look: &mut dyn Look) -> Option<AbsPath> {
    if raw.is_empty() {
        return None;
    }
    Some(follow(dir, raw, look).ok()?.path)
}
