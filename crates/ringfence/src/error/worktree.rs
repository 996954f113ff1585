//! What can be done about a work tree that cannot be had.

use ringfence_session::worktree::{GitError, WorktreeError};
use ringfence_surface::Word;

pub(super) fn hint(cause: &WorktreeError) -> Option<String> {
    Some(match cause {
        WorktreeError::Git(GitError::Endless { .. })
        | WorktreeError::NoRepository { source: GitError::Endless { .. }, .. } => {
            "git waits for ever where one of its files is a pipe: `find . -type p` finds them".into()
        }
        WorktreeError::Name { .. } => "`--worktree fix-42`, or no name at all".into(),
        WorktreeError::NoRepository { .. } => {
            "go to a work tree of a git repository; of a bare one `git worktree add` makes one".into()
        }
        WorktreeError::NoCommits { .. } => "make a first commit".into(),
        WorktreeError::Branch { branch } => {
            format!("name another, or merge it and `git branch -D {branch}`; `git worktree list` shows where it is")
        }
        WorktreeError::There { path } => {
            let (tree, name) = (Word(path.as_bytes()), Word(path.file_name().unwrap_or_default()));
            format!(
                "name another; or `git worktree remove {tree}` and `git branch -D ringfence/{name}`, if nothing in it is needed"
            )
        }
        WorktreeError::PoolInside { .. } => "name a `worktrees_dir` beside the repository".into(),
        WorktreeError::Git(_) | WorktreeError::File { .. } => return None,
    })
}
