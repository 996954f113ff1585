//! Repositories that were made inside, and that hold protected files.
//!
//! Git may put protected files into a clone that no tool outside uses yet (see [`crate::used_paths`]). From then on a directory with such files
//! must not come to a path that tools trust. The broker of the session remembers its clones: it lets them be moved to other new paths and be
//! removed. Every other broker of the user learns by [`crate::beside`] that there are any, and moves no directory with protected files at all.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_surface::{AbsPath, Surface};

use crate::used_paths::UsedPaths;

/// More are not remembered: these can be neither moved nor removed inside.
const MOST: usize = 1024;

/// What the broker of one session or call knows of clones.
#[derive(Debug)]
pub(crate) struct Clones {
    /// Of a session. A nested call walks later: the session may have moved directories by then.
    used_paths: Option<Arc<UsedPaths>>,
    /// The tops of work trees in which git put protected files.
    tops: Mutex<BTreeSet<AbsPath>>,
}

impl Clones {
    pub(crate) fn new(used_paths: Option<Arc<UsedPaths>>) -> Self {
        Self { used_paths, tops: Mutex::new(BTreeSet::new()) }
    }

    fn tops(&self) -> MutexGuard<'_, BTreeSet<AbsPath>> {
        self.tops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Can the top of a clone with protected files be here?
    pub(crate) fn is_free(&self, surface: &Surface, path: &AbsPath) -> bool {
        self.used_paths.as_ref().is_some_and(|used| used.is_free(surface, path))
    }

    /// Can this path have led to a directory before? In a nested call any path can.
    pub(crate) fn was_used(&self, path: &AbsPath) -> bool {
        self.used_paths.as_ref().is_none_or(|used| used.was_used(path))
    }

    /// Was there a link with this text at this path when the session started?
    pub(crate) fn had_link(&self, path: &AbsPath, text: &[u8]) -> bool {
        self.used_paths.as_ref().is_some_and(|used| used.had_link(path, text))
    }

    /// Is this the broker of a nested call?
    pub(crate) fn is_nested(&self) -> bool {
        self.used_paths.is_none()
    }

    /// Git puts protected files into the work tree that has this top.
    pub(crate) fn add(&self, top: AbsPath) {
        let mut tops = self.tops();
        if tops.len() < MOST {
            tops.insert(top);
        }
    }

    /// The top of the clone that a path is in. The top itself is in none.
    pub(crate) fn around(&self, path: &AbsPath) -> Option<AbsPath> {
        let tops = self.tops();
        path.ancestors().skip(1).find(|above| tops.contains(above))
    }

    /// Is a directory a clone, or are there any below it?
    pub(crate) fn are_within(&self, dir: &AbsPath) -> bool {
        self.tops().iter().any(|top| top.is_within(dir))
    }

    /// A directory was moved. Returns whether there was a clone in it.
    pub(crate) fn moved(&self, from: &AbsPath, to: &AbsPath) -> bool {
        let mut tops = self.tops();
        let moved: Vec<AbsPath> = tops.iter().filter(|top| top.is_within(from)).cloned().collect();
        for top in &moved {
            tops.remove(top);
            tops.extend(rebased(top, from, to));
        }
        !moved.is_empty()
    }

    /// A directory was removed.
    pub(crate) fn removed(&self, path: &AbsPath) {
        self.tops().remove(path);
    }
}

/// Where something that is in `from`, or is `from`, lies once that is called `to`.
pub(crate) fn rebased(path: &AbsPath, from: &AbsPath, to: &AbsPath) -> Option<AbsPath> {
    let below = path.as_bytes().get(from.as_bytes().len()..).filter(|_| path.is_within(from))?;
    AbsPath::lexical(&[to.as_bytes(), below].concat()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_clones_are_found_where_they_were_moved() {
        let path = |text: &str| AbsPath::lexical(text.as_bytes()).unwrap();
        let clones = Clones::new(None);
        clones.add(path("/p/a/clone"));
        assert_eq!(clones.around(&path("/p/a/clone/.github/x")), Some(path("/p/a/clone")));
        assert_eq!(clones.around(&path("/p/a/clone")), None);
        assert!(clones.moved(&path("/p/a"), &path("/p/b")) && !clones.moved(&path("/p/a"), &path("/p/b")));
        assert!(clones.are_within(&path("/p/b")) && clones.are_within(&path("/p/b/clone")));
        assert!(!clones.are_within(&path("/p/b/clone/.github")));
        clones.removed(&path("/p/b/clone"));
        assert!(!clones.are_within(&path("/p")));
    }
}
