//! Directories that git would take for a repository, under names that nobody guards.
//!
//! Whoever enters such a directory and runs git, or has a file `.git` that names it, runs what its settings and hooks say. Below
//! names such as `.git` and `x.git` these are guarded; below others they are not. So nothing of a session's makes a directory of
//! the project a repository under such a name: not a call inside, not a file of a tool, not a change that is applied.

use ringfence_surface::{AbsPath, Access, Because, Effect, Role, Surface};

/// Is this one of the names by which git knows a repository, or one that makes it run something?
pub(crate) fn is_part(name: &[u8]) -> bool {
    matches!(name, b"HEAD" | b"commondir" | b"config" | b"hooks" | b"objects" | b"refs")
}

/// Would git take a directory with these names for a repository, or for what repositories share, and run what nobody guards?
pub(crate) fn is_planted(surface: &Surface, at: &AbsPath, has: impl Fn(&[u8]) -> bool) -> bool {
    match guard_of(surface, at) {
        Guard::Own => false,
        // Its own settings and hooks are guarded, and git would take those of another directory.
        Guard::Rules => is_tied(at, &has),
        Guard::Nobody => is_repository(at, has),
    }
}

fn is_repository(at: &AbsPath, has: impl Fn(&[u8]) -> bool) -> bool {
    let is_whole = has(b"objects") && has(b"refs") && (has(b"HEAD") || has(b"config") || has(b"hooks"));
    is_whole || is_tied(at, &has)
}

/// Does git take settings and hooks from where this directory says?
fn is_tied(at: &AbsPath, has: &impl Fn(&[u8]) -> bool) -> bool {
    // Where a repository keeps its work trees they are made of these; what they share is elsewhere, and judged there. A submodule may be
    // called as if it were one of them, and has objects of its own.
    let is_work_tree = at.parent().is_some_and(|above| above.file_name() == Some(b"worktrees"))
        && at.components().any(|name| name.ends_with(b".git"))
        && !has(b"objects");
    !is_work_tree && has(b"HEAD") && has(b"commondir")
}

/// Would a file of this name send jj to another repository, with its settings and hooks? As a directory it is the repository itself.
pub(crate) fn is_redirect_of_jj(parent: &AbsPath, name: &[u8]) -> bool {
    name == b"repo" && parent.file_name() == Some(b".jj")
}

/// Is this the session's own directory, where tools keep repositories as they like?
pub(crate) fn is_own(surface: &Surface, dir: &AbsPath) -> bool {
    guard_of(surface, dir) == Guard::Own
}

/// Who guards the settings and hooks of a repository in some directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// It is the session's own, where nobody needs to.
    Own,
    Rules,
    Nobody,
}

fn guard_of(surface: &Surface, dir: &AbsPath) -> Guard {
    let own = [Role::Scratch, Role::Private, Role::Cache].map(Effect::Write);
    let guards = [b"config".as_slice(), b"hooks"].map(|name| {
        let verdict = surface.decide(&dir.child(name), Access::Write);
        match verdict.because {
            Because::Rule(rule) if own.contains(&rule.effect) => Guard::Own,
            _ if verdict.is_allowed() => Guard::Nobody,
            _ => Guard::Rules,
        }
    });
    // A policy of the user's may protect one of them for another reason.
    [Guard::Nobody, Guard::Own].into_iter().find(|guard| guards.contains(guard)).unwrap_or(Guard::Rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_takes_for_a_repository() {
        for (at, expected) in [("/p/x", true), ("/p/.git/worktrees/x", false), ("/p/worktrees/x", true)] {
            let at = AbsPath::lexical(at.as_bytes()).unwrap();
            assert_eq!(is_repository(&at, |name| matches!(name, b"HEAD" | b"commondir")), expected, "{at}");
            assert!(is_repository(&at, |name| matches!(name, b"config" | b"objects" | b"refs")), "{at}");
            assert!(is_tied(&at, &|name: &[u8]| matches!(name, b"HEAD" | b"commondir" | b"objects")), "{at}");
        }
        for (names, expected) in [
            ("HEAD objects refs", true),
            ("objects refs config", true),
            ("objects refs hooks", true),
            ("HEAD commondir", true),
            ("HEAD commondir gitdir index", true),
            ("objects refs", false),
            ("HEAD objects", false),
            ("config hooks", false),
            ("HEAD config", false),
            ("commondir gitdir", false),
            ("", false),
        ] {
            let has = |name: &[u8]| names.split(' ').any(|one| one.as_bytes() == name);
            assert_eq!(is_repository(&AbsPath::root(), has), expected, "{names}");
        }
    }
}
