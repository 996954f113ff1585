//! Protected files that git put into repositories that were made in the session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};

use ringfence_surface::AbsPath;

use super::disk::Disk;
use super::gain::{Gain, GainKind};
use super::{GitSnapshot, joined};
use crate::clones::rebased;

/// More paths are not remembered; the report counts them.
const MOST: usize = 4096;

/// By work tree.
#[derive(Debug)]
pub(super) struct PlacedFiles {
    trees: BTreeMap<AbsPath, BTreeSet<Vec<u8>>>,
    seen: usize,
    left_out: usize,
}

impl PlacedFiles {
    pub(super) fn new() -> Self {
        Self { trees: BTreeMap::new(), seen: 0, left_out: 0 }
    }
}

impl GitSnapshot {
    fn placed(&self) -> MutexGuard<'_, PlacedFiles> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Git puts a protected file into a new work tree.
    pub(super) fn note_placed(&self, tree: &AbsPath, path: &AbsPath) {
        let mut placed = self.placed();
        let below = path.as_bytes().get(tree.as_bytes().len()..).and_then(|below| below.strip_prefix(b"/"));
        if placed.seen >= MOST {
            placed.left_out += 1;
        } else if let Some(below) = below {
            placed.seen += usize::from(placed.trees.entry(tree.clone()).or_default().insert(below.to_vec()));
        }
    }

    /// A directory was moved.
    pub(super) fn placed_moved(&self, from: &AbsPath, to: &AbsPath) {
        let mut placed = self.placed();
        let moved: Vec<AbsPath> = placed.trees.keys().filter(|tree| tree.is_within(from)).cloned().collect();
        for tree in moved {
            if let (Some(files), Some(tree)) = (placed.trees.remove(&tree), rebased(&tree, from, to)) {
                placed.trees.entry(tree).or_default().extend(files);
            }
        }
    }

    /// The protected files that are there now in new repositories.
    pub(super) fn placed_gains(&self, disk: &Disk) -> Vec<Gain> {
        let placed = self.placed();
        let mut gains = Vec::new();
        for (tree, files) in &placed.trees {
            let there: Vec<Vec<u8>> = files.iter().filter(|file| disk.is_there(&joined(tree, file))).cloned().collect();
            if !there.is_empty() {
                let kind = GainKind::Cloned { files: there, left_out: placed.left_out };
                gains.push(Gain { repository: tree.clone(), kind });
            }
        }
        gains
    }
}
