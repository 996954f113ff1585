//! What a repository says of itself on this host: where its git directory is, and what git will run for it.
//!
//! A `.git` file and everything it leads to may have been written by an agent, so a git directory counts only where its place
//! and its own words agree: a linked work tree's lies in `worktrees/` of the repository and names the work tree back.

use std::path::Path;

use ringfence_surface::{AbsPath, GitFact, Look, PathFact, follow};

use crate::host::{os_path, read_bounded};

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
    let values: Vec<Vec<u8>> =
        settings(git_dir).into_iter().filter(|(key, _)| key == b"worktree").map(|(_, v)| v).collect();
    values.iter().any(|value| real(git_dir, value, look).as_ref() == Some(tree))
}

/// Keys of a repository's configuration whose value is a program, or a place that git takes programs from.
const RUNS: &[&[u8]] = &[
    b"askpass",
    b"clean",
    b"cmd",
    b"command",
    b"driver",
    b"editor",
    b"fsmonitor",
    b"helper",
    b"hookspath",
    b"pager",
    b"path",
    b"process",
    b"program",
    b"smudge",
    b"sshcommand",
    b"textconv",
];

/// What git runs, or reads its settings from, outside the git directory: a hook that is a link into the work tree,
/// `core.hooksPath`, included files, programs of drivers.
pub(crate) fn runs(git_dir: &AbsPath, tree: &AbsPath, look: &mut dyn Look) -> Vec<AbsPath> {
    let mut found = Vec::new();
    for (key, value) in settings(git_dir).into_iter().filter(|(key, _)| RUNS.contains(&key.as_slice())) {
        let program = value.strip_prefix(b"!").unwrap_or(&value);
        let word = program.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        // A bare word is found on the user's PATH; an included file lies beside the configuration, all else in the work tree.
        let base = if key == b"path" { git_dir } else { tree };
        if word.contains(&b'/') || matches!(key.as_slice(), b"path" | b"hookspath") {
            found.extend(real(base, word, look));
        }
    }
    let hooks = git_dir.child(b"hooks");
    for entry in std::fs::read_dir(os_path(&hooks)).into_iter().flatten().flatten().take(1000) {
        let name = entry.file_name();
        let hook = hooks.child(name.as_encoded_bytes());
        if matches!(look.path(&hook), PathFact::Link(_)) {
            found.extend(real(&hooks, name.as_encoded_bytes(), look));
        }
    }
    found.retain(|path| !path.is_within(&hooks));
    found.sort();
    found.dedup();
    found
}

/// The keys, in lower case, and values of a repository's configuration. Sections do not matter here.
fn settings(git_dir: &AbsPath) -> Vec<(Vec<u8>, Vec<u8>)> {
    let Ok(text) = read_bounded(os_path(&git_dir.child(b"config")), 1 << 20) else { return Vec::new() };
    let setting = |line: &[u8]| {
        let (key, value) = line.split_at(line.iter().position(|b| *b == b'=')?);
        // `[core] hooksPath = x` may stand in one line.
        let key = key.rsplit(|b| *b == b']').next().unwrap_or(key);
        let value = value.get(1..)?.trim_ascii();
        let value = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value);
        Some((key.trim_ascii().to_ascii_lowercase(), value.to_vec()))
    };
    text.split(|b| *b == b'\n').filter_map(setting).collect()
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
