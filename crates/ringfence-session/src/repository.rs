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

/// Would git take a directory with these names for a repository, or for what repositories share, and run what it says?
pub(crate) fn is_repository(at: &AbsPath, has: impl Fn(&[u8]) -> bool) -> bool {
    let is_whole = has(b"objects") && has(b"refs") && (has(b"HEAD") || has(b"config") || has(b"hooks"));
    // Where a repository keeps its work trees they are made of these; what they share is elsewhere, and judged there.
    let is_tie = at.parent().is_some_and(|above| above.file_name() == Some(b"worktrees"))
        && at.components().any(|name| name.ends_with(b".git"));
    is_whole || !is_tie && has(b"HEAD") && has(b"commondir")
}

/// Are the settings of a repository guarded in this directory, or is it the session's own?
pub(crate) fn keeps_repositories(surface: &Surface, dir: &AbsPath) -> bool {
    let own = [Role::Scratch, Role::Private, Role::Cache].map(Effect::Write);
    // A policy of the user's may protect one of them for another reason.
    [b"config".as_slice(), b"hooks"].iter().all(|name| {
        let verdict = surface.decide(&dir.child(name), Access::Write);
        !verdict.is_allowed() || matches!(verdict.because, Because::Rule(rule) if own.contains(&rule.effect))
    })
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
