//! Which paths led to a directory when the session started.
//!
//! Tools outside trust paths: an editor runs the tasks of a workspace that the user trusts, a shell reads the `.envrc` of a directory that the
//! user has allowed. A clone made inside may hold such files only at a path that no tool can have seen. An attacker can rename the user's
//! directory and clone under its old name, so what counts is not what exists now but what the walk found at the start. A symbolic link
//! counts as well, and so does everything below one: it can have led to any directory.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use ringfence_surface::{AbsPath, Surface};

use crate::folded::folds_at;

/// A name that no rule speaks of.
const NEUTRAL: &[u8] = b"\x01ringfence";

/// Hashes of the paths that a walk found. A collision among `directories` or `links` causes a refusal. One among `targets` would permit a
/// link, which a keyed hash of 64 bits makes improbable.
#[derive(Debug)]
pub(crate) struct UsedPaths {
    hasher: RandomState,
    /// Sorted.
    directories: Vec<u64>,
    links: HashSet<u64>,
    /// Links together with what they contain.
    targets: HashSet<u64>,
    /// What was walked. Of what lies outside nothing is known.
    searched: Vec<AbsPath>,
}

/// The links that a walk has met.
#[derive(Debug, Default)]
pub(crate) struct MetLinks {
    links: HashSet<u64>,
    targets: HashSet<u64>,
}

impl MetLinks {
    /// Notes a symbolic link.
    pub(crate) fn add(&mut self, hasher: &RandomState, path: &AbsPath, text: &[u8]) {
        self.links.insert(hasher.hash_one(path.as_bytes()));
        self.targets.insert(hasher.hash_one((path.as_bytes(), text)));
    }
}

impl UsedPaths {
    /// What a walk found: hashes of the paths of its directories by this hasher, links, and where the walk began.
    pub(crate) fn new(
        hasher: RandomState,
        directories: impl Iterator<Item = u64>,
        links: MetLinks,
        searched: impl Iterator<Item = AbsPath>,
    ) -> Self {
        let mut directories: Vec<u64> = directories.collect();
        directories.sort_unstable();
        directories.dedup();
        Self { hasher, directories, links: links.links, targets: links.targets, searched: searched.collect() }
    }

    /// Nothing was walked, so every path counts as used.
    pub(crate) fn unknown() -> Self {
        Self::new(RandomState::new(), std::iter::empty(), MetLinks::default(), std::iter::empty())
    }

    /// Could this path have led to a directory when the session started?
    pub(crate) fn was_used(&self, path: &AbsPath) -> bool {
        let hash = |path: &AbsPath| self.hasher.hash_one(path.as_bytes());
        !self.searched.iter().any(|root| path.is_within(root))
            || self.directories.binary_search(&hash(path)).is_ok()
            || path.ancestors().any(|above| self.links.contains(&hash(&above)))
    }

    /// Was there a link with this text at this path?
    pub(crate) fn had_link(&self, path: &AbsPath, text: &[u8]) -> bool {
        self.targets.contains(&self.hasher.hash_one((path.as_bytes(), text)))
    }

    /// Can the top of a new work tree with protected files be here? No tool has seen the path, and rules speak of what is below it only by names
    /// below it: a clone called `.cargo` would put `config.toml` where cargo reads it in the project of the user.
    pub(crate) fn is_free(&self, surface: &Surface, path: &AbsPath) -> bool {
        if self.was_used(path) {
            return false;
        }
        let roots = surface.roots().filter(|root| path.is_within(root) && path != *root);
        let Some(root) = roots.max_by_key(|root| root.as_bytes().len()) else { return false };
        let is_neutral = surface.cursor(path).adds_nothing_to(&surface.cursor(&root.child(NEUTRAL)));
        // Where names are folded, `.CARGO` is one that rules speak of.
        is_neutral && !path.ancestors().skip(1).take_while(|above| above.is_within(root)).any(|above| folds_at(&above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_a_path_is_used_by_directories_and_links_of_the_start() {
        let path = |text: &str| AbsPath::lexical(text.as_bytes()).unwrap();
        let hasher = RandomState::new();
        let mut links = MetLinks::default();
        links.add(&hasher, &path("/p/current"), b"releases/1");
        let directories: Vec<u64> =
            ["/p", "/p/app"].iter().map(|text| hasher.hash_one(path(text).as_bytes())).collect();
        let used = UsedPaths::new(hasher, directories.into_iter(), links, [path("/p")].into_iter());
        for (text, expected) in [
            ("/p", true),
            ("/p/app", true),
            ("/p/app/new", false),
            ("/p/new", false),
            ("/p/current", true),
            ("/p/current/web", true),
            ("/elsewhere", true),
        ] {
            assert_eq!(used.was_used(&path(text)), expected, "{text}");
        }
        assert!(used.had_link(&path("/p/current"), b"releases/1"));
        assert!(!used.had_link(&path("/p/current"), b"releases/2"));
        assert!(UsedPaths::unknown().was_used(&path("/p/new")));
    }
}
