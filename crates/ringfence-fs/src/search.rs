//! What a search or a listing found.

use std::path::PathBuf;

use crate::error::FileKind;

/// Something in the tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Below the root.
    pub path: PathBuf,
    /// What it is, itself: a link is a link.
    pub kind: FileKind,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What matches, sorted by path.
    pub entries: Vec<Entry>,
    /// There was more than the caller takes, or more to look at than anybody waits for.
    pub is_cut: bool,
    /// Directories that could not be looked into: no right, gone meanwhile, or nested deeper than a path can say.
    pub skipped: Vec<PathBuf>,
}
