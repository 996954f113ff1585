//! The index, versions 2 to 4: what git takes for the content of the work tree and of the next commit.
//!
//! [`Index::parse`] accepts what git writes and no more. Git itself believes an index: it checks no path, and takes from the extensions
//! `EOIE` and `IEOT` where its threads start to read, so that an index can hold other entries for a machine with more processors. Here
//! every path is verified, and the two extensions must agree with the entries.
//!
//! [`Index::verify_cache_tree`] compares the trees of `TREE` with the entries. What other extensions cache is not checked (`UNTR`, `FSMN`,
//! which let git overlook changed files), nor is the state of files: [`Index::write`] leaves extensions out, and git computes them again.

mod cache_tree;
mod ewah;
mod extensions;
mod parse;
mod split;
mod write;

use std::ops::Range;

pub use crate::index::cache_tree::{CacheTree, CacheTreeFault};
pub use crate::index::split::{BaseLink, MergeFault};
pub use crate::index::write::WriteFault;

use crate::entry_mode::EntryMode;
use crate::entry_path;
use crate::object_id::{ObjectFormat, ObjectId};

/// An index as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// 2, 3 or 4.
    pub version: u32,
    /// The hash function of its ids.
    pub format: ObjectFormat,
    /// In the order of their paths and stages. Of a split index, first those without path that replace entries of the base.
    pub entries: Vec<IndexEntry>,
    /// In the order of the file.
    pub extensions: Vec<IndexExtension>,
    /// The base of a split index. Before [`Index::merge`] the entries are only a part of what git sees.
    pub base: Option<BaseLink>,
    /// The trees that git takes the entries for (the extension `TREE`): see [`Index::verify_cache_tree`].
    pub cache_tree: Option<CacheTree>,
    /// Whether entries may be directories (the extension `sdir`).
    pub is_sparse: bool,
    /// The last bytes of the file; zero where `index.skipHash` is set. A base is found by it.
    pub checksum: ObjectId,
}

/// A path and what git knows about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// From the top of the work tree. A directory of a sparse index ends with a slash.
    pub path: Vec<u8>,
    /// What it is.
    pub mode: EntryMode,
    /// The blob; of a gitlink the commit, of a directory the tree.
    pub id: ObjectId,
    /// Which side of a merge it is.
    pub stage: MergeStage,
    /// Git does not look whether the file has changed (`update-index --assume-unchanged`).
    pub assume_valid: bool,
    /// Git leaves the file out of the work tree (sparse checkout).
    pub skip_worktree: bool,
    /// Only the path was added (`add --intent-to-add`).
    pub intent_to_add: bool,
    /// The file as it was when git last compared it. Git trusts a file whose state is still this, without reading it.
    pub stat: StatData,
}

/// The side of a merge that an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MergeStage {
    /// No merge, or one that is done.
    Merged,
    /// The common ancestor.
    Ancestor,
    /// The branch that is checked out.
    Ours,
    /// The branch that is merged.
    Theirs,
}

/// What `stat` said about a file, each number cut to 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatData {
    /// Seconds and nanoseconds.
    pub ctime: (u32, u32),
    /// Seconds and nanoseconds.
    pub mtime: (u32, u32),
    /// The device.
    pub dev: u32,
    /// The inode.
    pub ino: u32,
    /// The owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// The size; 0 makes git compare the content.
    pub size: u32,
}

/// A part of the file after the entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexExtension {
    /// Git ignores one that it does not know if the first byte is a capital letter.
    pub signature: [u8; 4],
    /// Where its content stands in the file.
    pub content: Range<usize>,
}

/// Why a file is not accepted as an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is too short for what it says it holds.
    #[error("byte {offset}: the file ends too early")]
    Truncated {
        /// Of the part that is not there.
        offset: usize,
    },
    /// It does not begin with `DIRC`.
    #[error("it is no index")]
    Signature,
    /// Not 2, 3 or 4.
    #[error("version {version} of the index is unknown")]
    Version {
        /// As it is written.
        version: u32,
    },
    /// The checksum is neither right nor zero.
    #[error("the checksum is wrong")]
    Checksum,
    /// A mode that git does not write.
    #[error("byte {offset}: mode {bits:o}")]
    Mode {
        /// Of the entry.
        offset: usize,
        /// As it is written.
        bits: u32,
    },
    /// Flags that git does not write, or a length of the path that is not its length.
    #[error("byte {offset}: the flags of the entry are wrong")]
    Flags {
        /// Of the entry.
        offset: usize,
    },
    /// Other bytes than 0 after a path, or a path of version 4 that shares more than there is.
    #[error("byte {offset}: the path of the entry is malformed")]
    Name {
        /// Of the entry.
        offset: usize,
    },
    /// A path that git must not check out.
    #[error("byte {offset}: {}: {cause}", path.escape_ascii())]
    Path {
        /// Of the entry.
        offset: usize,
        /// The path.
        path: Vec<u8>,
        /// What is wrong with it.
        cause: entry_path::Fault,
    },
    /// A directory in an index that is not sparse, or that is not left out of the work tree.
    #[error("byte {offset}: a directory as an entry")]
    Directory {
        /// Of the entry.
        offset: usize,
    },
    /// Not after the entry before it.
    #[error("byte {offset}: the entry is out of order")]
    Order {
        /// Of the entry.
        offset: usize,
    },
    /// A path that is a file and a directory.
    #[error("byte {offset}: {} is a file and a directory", path.escape_ascii())]
    FileAndDirectory {
        /// Of the entry below the directory.
        offset: usize,
        /// Of the file.
        path: Vec<u8>,
    },
    /// An extension that git would have to understand, a second one of its kind, or bytes after the last.
    #[error("byte {offset}: an extension that no git has written")]
    Extension {
        /// Of its signature.
        offset: usize,
    },
    /// Offsets that are not those of the entries.
    #[error("byte {offset}: the table of offsets disagrees with the entries")]
    Offsets {
        /// Of its signature.
        offset: usize,
    },
    /// The paths together are many times longer than the file.
    #[error("byte {offset}: the paths are longer than what git writes")]
    Long {
        /// Of the entry.
        offset: usize,
    },
}

impl Index {
    /// The entry without conflict at this path.
    #[must_use]
    pub fn entry(&self, path: &[u8]) -> Option<&IndexEntry> {
        let at = self.position(path, MergeStage::Merged)?;
        self.entries.get(at)
    }

    fn position(&self, path: &[u8], stage: MergeStage) -> Option<usize> {
        self.entries.binary_search_by(|entry| entry.key().cmp(&(path, stage))).ok()
    }
}

impl IndexEntry {
    /// What entries are ordered by.
    fn key(&self) -> (&[u8], MergeStage) {
        (&self.path, self.stage)
    }

    /// Whether it needs version 3 or 4.
    const fn is_extended(&self) -> bool {
        self.skip_worktree || self.intent_to_add
    }
}

#[cfg(test)]
mod tests;
