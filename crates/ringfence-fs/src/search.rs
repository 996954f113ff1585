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

impl Found {
    #[cfg(target_os = "linux")]
    pub(crate) fn nothing() -> Self {
        Self { entries: Vec::new(), is_cut: false, skipped: Vec::new() }
    }
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The bytes; fewer than asked for at the end of the file.
    pub bytes: Vec<u8>,
    /// How large the whole file is.
    pub size: u64,
}
