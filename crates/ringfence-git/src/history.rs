//! Whether a version of a file is in the history of a repository.
//!
//! A checkout writes files that the user has committed. To tell it from an agent that writes the same files with other content, the
//! commits that are reachable from the user's refs are searched for the path with that content. The agent can write below `objects/`;
//! it cannot make content that has the id of other content, and every object is hashed on the way.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::entry_mode::EntryMode;
use crate::object::{Commit, Object, ObjectKind, ReadBudget, ReadFault, Tag, id_of, tree_entries};
use crate::object_id::{ObjectFormat, ObjectId};
use crate::pack::{PackReader, ReadAt};

/// Where the objects of a repository come from, those of its alternates included.
pub trait ObjectSource {
    /// A pack, or the index of one.
    type File: ReadAt;

    /// The file `objects/XX/XX..`, as it is.
    fn loose(&self, id: &ObjectId) -> Option<Vec<u8>>;

    /// Every pack that has an index.
    fn packs(&self) -> Vec<PackFiles<Self::File>>;
}

/// The two files of a pack.
#[derive(Debug)]
pub struct PackFiles<F> {
    /// `pack-*.idx`.
    pub index: F,
    /// `pack-*.pack`.
    pub pack: F,
}

/// A file at a path, as a commit has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion<'p> {
    /// From the top of the work tree.
    pub path: &'p [u8],
    /// What it is.
    pub mode: EntryMode,
    /// Its content.
    pub id: ObjectId,
}

/// The answer to a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryAnswer {
    /// This commit has it, and is reachable.
    InCommit(ObjectId),
    /// No reachable commit has it.
    Absent,
    /// None that could be read has it.
    Unknown(Incomplete),
}

/// Why a search could not look at every commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incomplete {
    /// There is more history than the budget allows to read.
    Budget,
    /// This object is missing: the repository is a shallow or a partial clone, or is damaged.
    Missing(ObjectId),
    /// This object is damaged, or is not what it is referred to as.
    Damaged(ObjectId),
}

/// The objects of a repository, and what was read of them so far.
#[derive(Debug)]
pub struct History<S: ObjectSource> {
    format: ObjectFormat,
    source: S,
    packs: Vec<PackReader<S::File>>,
    commits: HashMap<ObjectId, Commit>,
}

/// Commits that are remembered from one search to the next.
const MOST_COMMITS: usize = 100_000;

impl<S: ObjectSource> History<S> {
    /// Opens the packs. One that is no pack hides its objects, and no more.
    #[must_use]
    pub fn open(format: ObjectFormat, source: S) -> Self {
        let open = |files: PackFiles<S::File>| PackReader::open(format, files.index, files.pack).ok();
        let packs = source.packs().into_iter().filter_map(open).collect();
        Self { format, source, packs, commits: HashMap::new() }
    }

    /// Reads an object, and verifies that its content has this id.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn read(&mut self, id: &ObjectId, budget: &mut ReadBudget) -> Result<Object, Incomplete> {
        let mut fault = Incomplete::Missing(*id);
        for number in 0..self.packs.len() {
            let Some(pack) = self.packs.get_mut(number) else { break };
            match pack.read(id, budget) {
                Ok(Some(object)) => {
                    // The next object is probably in the same pack.
                    self.packs.swap(0, number);
                    return Ok(object);
                }
                Ok(None) => {}
                Err(ReadFault::Budget) => return Err(Incomplete::Budget),
                // Another pack, or a loose object, may still have it undamaged.
                Err(_) => fault = Incomplete::Damaged(*id),
            }
        }
        match self.source.loose(id).map(|file| Object::from_loose(id, &file, budget)) {
            Some(Ok(object)) => Ok(object),
            Some(Err(ReadFault::Budget)) => Err(Incomplete::Budget),
            Some(Err(_)) => Err(Incomplete::Damaged(*id)),
            // Git has the empty tree and the empty blob without storing them.
            None => [ObjectKind::Tree, ObjectKind::Blob]
                .into_iter()
                .find(|kind| id_of(self.format, *kind, b"").is_ok_and(|empty| empty == *id))
                .map(|kind| Object { kind, content: Vec::new() })
                .ok_or(fault),
        }
    }

    /// Ids of packed objects that begin with these hexadecimal digits, at most two of each pack.
    pub fn packed_with_prefix(&self, digits: &[u8]) -> Vec<ObjectId> {
        let mut found: Vec<ObjectId> =
            self.packs.iter().filter_map(|pack| pack.find_prefix(digits).ok()).flatten().collect();
        found.sort();
        found.dedup();
        found
    }

    /// Where the history of a commit parted from that of another: the first ancestor of `theirs` that is one of `ours`. There can be
    /// several that are equally near; this is one of them.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn merge_base(
        &mut self,
        ours: &ObjectId,
        theirs: &ObjectId,
        budget: &mut ReadBudget,
    ) -> Result<Option<ObjectId>, Incomplete> {
        let mut all = HashSet::from([*ours]);
        let mut queue = VecDeque::from([*ours]);
        while let Some(id) = queue.pop_front() {
            queue.extend(self.commit(&id, budget)?.parents.into_iter().filter(|parent| all.insert(*parent)));
        }
        let mut seen = HashSet::from([*theirs]);
        let mut queue = VecDeque::from([*theirs]);
        while let Some(id) = queue.pop_front() {
            if all.contains(&id) {
                return Ok(Some(id));
            }
            queue.extend(self.commit(&id, budget)?.parents.into_iter().filter(|parent| seen.insert(*parent)));
        }
        Ok(None)
    }

    /// Searches the commits that are reachable from these objects (commits, or tags of commits) for a version of a file.
    ///
    /// The tips come first, then their parents: most checkouts write what a branch has. A commit whose tree, or the directory of the
    /// path in it, is the same as in a commit before is not searched again.
    pub fn find(&mut self, tips: &[ObjectId], wanted: &FileVersion<'_>, budget: &mut ReadBudget) -> HistoryAnswer {
        let mut search = Search { history: self, wanted, seen: HashSet::new(), incomplete: None };
        search.run(tips, budget)
    }

    /// The files that a commit or a tag leads to: the mode and id at a path, if there is one.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn entry_at(
        &mut self,
        tip: &ObjectId,
        path: &[u8],
        budget: &mut ReadBudget,
    ) -> Result<Option<(EntryMode, ObjectId)>, Incomplete> {
        let Some(commit) = self.peel(tip, budget)? else { return Ok(None) };
        let mut tree = self.commit(&commit, budget)?.tree;
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            match (self.entry_in(&tree, part, budget)?, parts.peek()) {
                (found, None) => return Ok(found),
                (Some((EntryMode::Directory, id)), Some(_)) => tree = id,
                (_, Some(_)) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The commit that a tag leads to, if it does lead to one.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn peel(&mut self, tip: &ObjectId, budget: &mut ReadBudget) -> Result<Option<ObjectId>, Incomplete> {
        let mut id = *tip;
        loop {
            if self.commits.contains_key(&id) {
                return Ok(Some(id));
            }
            let object = self.read(&id, budget)?;
            match object.kind {
                ObjectKind::Commit => {
                    self.remember(id, &object)?;
                    return Ok(Some(id));
                }
                // A tag cannot contain its own hash, so the chain ends.
                ObjectKind::Tag => {
                    id = Tag::parse(self.format, &object.content).map_err(|_| Incomplete::Damaged(id))?.target;
                }
                ObjectKind::Tree | ObjectKind::Blob => return Ok(None),
            }
        }
    }

    /// A commit.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn commit(&mut self, id: &ObjectId, budget: &mut ReadBudget) -> Result<Commit, Incomplete> {
        if let Some(commit) = self.commits.get(id) {
            return Ok(commit.clone());
        }
        let object = self.read(id, budget)?;
        self.remember(*id, &object)
    }

    fn remember(&mut self, id: ObjectId, object: &Object) -> Result<Commit, Incomplete> {
        let damaged = Incomplete::Damaged(id);
        if object.kind != ObjectKind::Commit {
            return Err(damaged);
        }
        let commit = Commit::parse(self.format, &object.content).map_err(|_| damaged)?;
        if self.commits.len() >= MOST_COMMITS {
            self.commits.clear();
        }
        self.commits.insert(id, commit.clone());
        Ok(commit)
    }

    /// The entry of a tree with this name.
    fn entry_in(
        &mut self,
        tree: &ObjectId,
        name: &[u8],
        budget: &mut ReadBudget,
    ) -> Result<Option<(EntryMode, ObjectId)>, Incomplete> {
        let object = self.read(tree, budget)?;
        let damaged = Incomplete::Damaged(*tree);
        if object.kind != ObjectKind::Tree {
            return Err(damaged);
        }
        let entries = tree_entries(self.format, &object.content).map_err(|_| damaged)?;
        Ok(entries.iter().find(|entry| entry.name == name).map(|entry| (entry.mode, entry.id)))
    }
}

struct Search<'h, 'w, S: ObjectSource> {
    history: &'h mut History<S>,
    wanted: &'w FileVersion<'w>,
    /// Trees that do not have the version, by how many parts of the path lead to them.
    seen: HashSet<(usize, ObjectId)>,
    /// The first reason why a commit was not looked at.
    incomplete: Option<Incomplete>,
}

impl<S: ObjectSource> Search<'_, '_, S> {
    fn run(&mut self, tips: &[ObjectId], budget: &mut ReadBudget) -> HistoryAnswer {
        let mut queue = VecDeque::new();
        let mut queued = HashSet::new();
        for tip in tips {
            match self.history.peel(tip, budget) {
                Ok(Some(commit)) if queued.insert(commit) => queue.push_back(commit),
                Ok(_) => {}
                Err(Incomplete::Budget) => return HistoryAnswer::Unknown(Incomplete::Budget),
                Err(cause) => self.note(cause),
            }
        }
        while let Some(id) = queue.pop_front() {
            let outcome = self.history.commit(&id, budget).and_then(|commit| {
                queue.extend(commit.parents.into_iter().filter(|parent| queued.insert(*parent)));
                self.is_in(commit.tree, budget)
            });
            match outcome {
                Ok(true) => return HistoryAnswer::InCommit(id),
                Ok(false) => {}
                Err(Incomplete::Budget) => return HistoryAnswer::Unknown(Incomplete::Budget),
                Err(cause) => self.note(cause),
            }
        }
        self.incomplete.map_or(HistoryAnswer::Absent, HistoryAnswer::Unknown)
    }

    fn note(&mut self, cause: Incomplete) {
        self.incomplete.get_or_insert(cause);
    }

    /// Whether a tree has the version.
    fn is_in(&mut self, tree: ObjectId, budget: &mut ReadBudget) -> Result<bool, Incomplete> {
        let wanted = self.wanted;
        let mut tree = tree;
        let mut parts = wanted.path.split(|byte| *byte == b'/').enumerate().peekable();
        while let Some((depth, part)) = parts.next() {
            // A tree that could not be read is not read again either: the answer says so already.
            if !self.seen.insert((depth, tree)) {
                return Ok(false);
            }
            match (self.history.entry_in(&tree, part, budget)?, parts.peek()) {
                (found, None) => return Ok(found == Some((wanted.mode, wanted.id))),
                (Some((EntryMode::Directory, id)), Some(_)) => tree = id,
                (_, Some(_)) => return Ok(false),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
