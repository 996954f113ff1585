//! The extension `TREE`: for each directory that has not changed the tree that its entries make.
//!
//! `git commit` takes these ids for the trees of the new commit, and `git status` compares them with `HEAD`, neither of them with a look
//! at the entries. With a wrong id the user commits files that the index does not have and `git diff --cached` does not show.

use std::collections::HashMap;

use super::parse::{MOST_EXPANSION, Reader};
use super::{Index, IndexEntry, MergeStage};
use crate::entry_mode::EntryMode;
use crate::entry_path;
use crate::object::{ObjectKind, id_of};
use crate::object_id::{ObjectFormat, ObjectId};

/// The directories that the extension lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheTree {
    pub(super) directories: Vec<CachedDirectory>,
}

/// A directory whose tree is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedDirectory {
    /// With a slash at the end; empty for the top.
    pub(super) path: Vec<u8>,
    pub(super) tree: DirectoryTree,
}

/// A tree, and how many entries of the index it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectoryTree {
    pub(super) count: usize,
    pub(super) id: ObjectId,
}

/// A directory whose tree is not what its entries make.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the index caches a tree for {} that its entries do not make", path.escape_ascii())]
pub struct CacheTreeFault {
    /// With a slash at the end; empty for the top.
    pub path: Vec<u8>,
}

impl CacheTree {
    /// Reads the content of the extension; nothing if git did not write it.
    pub(super) fn read(format: ObjectFormat, content: &[u8], file_length: usize) -> Option<Self> {
        let mut reader = Reader { content, at: 0 };
        let mut directories = Vec::new();
        // The directories that the reader is in, and how many more are directly below each.
        let mut parents: Vec<(Vec<u8>, usize)> = Vec::new();
        let mut total = 0;
        // Git writes nothing at all for an index without trees.
        while !reader.rest().is_empty() {
            let name = take_until(&mut reader, 0)?;
            let mut path = match parents.last_mut() {
                None if directories.is_empty() && total == 0 => Vec::new(),
                None => return None,
                Some((path, left)) => {
                    *left = left.checked_sub(1)?;
                    path.clone()
                }
            };
            if name.is_empty() != parents.is_empty() || name.contains(&b'/') {
                return None;
            }
            if !name.is_empty() {
                path.extend(name);
                path.push(b'/');
            }
            total += path.len() + 1;
            if path.len() > entry_path::LONGEST + 1 || total > file_length.saturating_mul(MOST_EXPANSION) {
                return None;
            }
            let count = take_until(&mut reader, b' ')?;
            let below = parse_number(take_until(&mut reader, b'\n')?)?;
            if count != b"-1" {
                let tree = DirectoryTree { count: parse_number(count)?, id: reader.id(format).ok()? };
                directories.push(CachedDirectory { path: path.clone(), tree });
            }
            parents.push((path, below));
            while parents.last().is_some_and(|(_, left)| *left == 0) {
                parents.pop();
            }
        }
        parents.is_empty().then_some(Self { directories })
    }
}

fn take_until<'f>(reader: &mut Reader<'f>, end: u8) -> Option<&'f [u8]> {
    let length = reader.rest().iter().take(entry_path::LONGEST + 1).position(|byte| *byte == end)?;
    let text = reader.take(length).ok()?;
    reader.take(1).ok()?;
    Some(text)
}

fn parse_number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl Index {
    /// Compares the trees of the extension `TREE` with the trees that the entries make. For a split index this belongs after
    /// [`Index::merge`].
    ///
    /// Old trees with modes such as `100664` make other ids than their entries in an index, so a difference is no proof of an attack;
    /// an index that is written anew ([`Index::write`]) has no such extension.
    ///
    /// # Errors
    /// [`CacheTreeFault`]: the first directory that differs.
    pub fn verify_cache_tree(&self) -> Result<(), CacheTreeFault> {
        let Some(cache) = self.cache_tree.as_ref().filter(|cache| !cache.directories.is_empty()) else { return Ok(()) };
        let trees = trees_of(self.format, &self.entries);
        let differs = |cached: &&CachedDirectory| trees.get(&cached.path) != Some(&cached.tree);
        match cache.directories.iter().find(differs) {
            Some(cached) => Err(CacheTreeFault { path: cached.path.clone() }),
            None => Ok(()),
        }
    }
}

/// A directory whose entries are being collected.
struct OpenDirectory {
    /// How many bytes of the path lead to it, its slash included.
    path_length: usize,
    content: Vec<u8>,
    count: usize,
    /// Whether its entries make no tree: one is in conflict, or only its path was added.
    is_partial: bool,
}

impl OpenDirectory {
    const fn new(path_length: usize) -> Self {
        Self { path_length, content: Vec::new(), count: 0, is_partial: false }
    }

    fn add(&mut self, mode: EntryMode, name: &[u8], id: &ObjectId) {
        self.content.extend(format!("{:o} ", mode.bits()).bytes());
        self.content.extend(name);
        self.content.push(0);
        self.content.extend(id.as_bytes());
    }
}

/// The tree of each directory, as far as its entries make one. The order of an index is the order of trees.
fn trees_of(format: ObjectFormat, entries: &[IndexEntry]) -> HashMap<Vec<u8>, DirectoryTree> {
    let mut trees = HashMap::new();
    let mut open = vec![OpenDirectory::new(0)];
    let mut before: &[u8] = &[];
    for entry in entries {
        let path = entry.path.as_slice();
        let is_inside =
            |directory: &OpenDirectory| path.get(..directory.path_length) == before.get(..directory.path_length);
        while open.last().is_some_and(|directory| !is_inside(directory)) {
            close(format, &mut open, before, &mut trees);
        }
        let start = open.last().map_or(0, |directory| directory.path_length);
        let name_end = if entry.mode == EntryMode::Directory { path.len().saturating_sub(1) } else { path.len() };
        let slashes = path[..name_end].iter().enumerate().skip(start).filter(|(_, byte)| **byte == b'/');
        open.extend(slashes.map(|(at, _)| OpenDirectory::new(at + 1)));
        if let Some(directory) = open.last_mut() {
            directory.count += 1;
            directory.is_partial |= entry.stage != MergeStage::Merged || entry.intent_to_add;
            directory.add(entry.mode, &path[directory.path_length..name_end], &entry.id);
        }
        if entry.mode == EntryMode::Directory {
            trees.insert(path.to_vec(), DirectoryTree { count: 1, id: entry.id });
        }
        before = path;
    }
    while !open.is_empty() {
        close(format, &mut open, before, &mut trees);
    }
    trees
}

/// Ends the innermost directory, which leads to `path`, and adds it to the one that it is in.
fn close(
    format: ObjectFormat,
    open: &mut Vec<OpenDirectory>,
    path: &[u8],
    trees: &mut HashMap<Vec<u8>, DirectoryTree>,
) {
    let Some(closed) = open.pop() else { return };
    // Content that collides has no id, and so is no tree that an index could name.
    let id = id_of(format, ObjectKind::Tree, &closed.content).ok().filter(|_| !closed.is_partial);
    let path = path.get(..closed.path_length).unwrap_or_default();
    if let Some(parent) = open.last_mut() {
        parent.count += closed.count;
        parent.is_partial |= id.is_none();
        let name = path.get(parent.path_length..closed.path_length.saturating_sub(1)).unwrap_or_default();
        parent.add(EntryMode::Directory, name, &id.unwrap_or(ObjectId::zero(format)));
    }
    if let Some(id) = id {
        trees.insert(path.to_vec(), DirectoryTree { count: closed.count, id });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ObjectFormat::Sha1;

    fn read(content: &[u8]) -> Option<Vec<(String, usize)>> {
        let cache = CacheTree::read(Sha1, content, 1000)?;
        let shown = |cached: CachedDirectory| (String::from_utf8(cached.path).unwrap(), cached.tree.count);
        Some(cache.directories.into_iter().map(shown).collect())
    }

    #[track_caller]
    fn check(content: &[u8], expected: Option<&[(&str, usize)]>) {
        let expected = expected.map(|list| list.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect());
        assert_eq!(read(content), expected, "{}", content.escape_ascii());
    }

    #[test]
    fn directories_that_git_lists() {
        let id = [b'i'; 20];
        let join = |parts: &[&[u8]]| parts.concat();
        check(b"", Some(&[]));
        check(b"\0-1 0\n", Some(&[]));
        check(&join(&[b"\x007 0\n", &id]), Some(&[("", 7)]));
        check(&join(&[b"\0-1 2\na\x003 1\n", &id, b"b\x002 0\n", &id, b"c\0-1 0\n"]), Some(&[("a/", 3), ("a/b/", 2)]));
        for wrong in [
            b"".as_slice(),
            b"\0",
            b"\x001 0\n",
            b"\0-1 1\n",
            b"\0-1 0\n\0-1 0\n",
            b"a\0-1 0\n",
            b"\0-1 1\n\0-1 0\n",
            b"\0-1 1\na/b\0-1 0\n",
            b"\0-2 0\n",
            b"\0-1 -1\n",
            b"\0-1 \n",
            b"\0-1 0",
            b"\0-1 99999999999999999999999\n",
        ] {
            check(wrong, wrong.is_empty().then_some(&[]));
        }
    }

    /// Neither the stack nor the memory depends on how deep the directories are.
    #[test]
    fn deep_directories() {
        let deep = |depth: usize| [b"\0-1 1\n".as_slice(), &b"d\0-1 1\n".repeat(depth), b"e\0-1 0\n"].concat();
        assert!(CacheTree::read(Sha1, &deep(100), 10_000).is_some());
        assert!(CacheTree::read(Sha1, &deep(100), 1000).is_none());
        assert!(CacheTree::read(Sha1, &deep(1_000_000), usize::MAX).is_none());
    }
}
