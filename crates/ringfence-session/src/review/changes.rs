//! What a layer would change on the host as it is now.

use std::collections::{HashMap, HashSet};
use std::io;

use ringfence_surface::{AbsPath, Access, Because};
use rustix::fs::{FileType, Stat};

use super::base::{self, Seen};
use super::files::{content, directory, found, is_same, list, status, target};
use super::{BASE, Layer, Review};
use crate::layer::COPY;
use crate::repository::{is_part, is_planted};

/// What happens to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// It goes.
    Deleted,
    /// It is another afterwards.
    Changed,
    /// It comes.
    Added,
}

impl What {
    /// The word for it in output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Changed => "changed",
            Self::Added => "added",
        }
    }
}

/// What stands there: before it is deleted, and otherwise afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A directory.
    Directory,
    /// A pipe, a socket or a device, which only ever goes.
    Other,
}

impl Node {
    /// The word for it in output.
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Link => "link",
            Self::Directory => "directory",
            Self::Other => "other",
        }
    }

    fn of(status: &Stat) -> Self {
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Symlink => Self::Link,
            FileType::Directory => Self::Directory,
            _ => Self::Other,
        }
    }
}

/// One change.
#[derive(Debug, Clone)]
pub struct Change {
    /// Where.
    pub path: AbsPath,
    /// What happens.
    pub what: What,
    /// What stands there.
    pub node: Node,
    /// What stands there now, where something else takes its place.
    pub was: Option<Node>,
    /// The permissions before and after, where they differ.
    pub modes: Option<(u32, u32)>,
    /// Was it changed on the host since the session began?
    pub is_conflict: bool,
    /// Which rule does not let the session write there, if one does not.
    pub refused: Option<String>,
    /// Where the new one is.
    pub(super) from: Option<AbsPath>,
    /// Which layer it is in.
    pub(super) layer: usize,
    /// What was compared.
    pub(super) seen: Option<Seen>,
}

/// The size of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSize {
    /// Its length in bytes.
    pub length: u64,
    /// The bytes that it takes on the disk: less than its length where it has holes.
    pub allocated: u64,
}

impl Change {
    /// How large the new file is. `None` for anything else.
    pub fn size(&self) -> Option<FileSize> {
        let status = self.from.as_ref().filter(|_| self.node == Node::File).and_then(|from| status(from).ok())?;
        let (length, blocks) = (status.st_size.cast_unsigned(), status.st_blocks.cast_unsigned());
        Some(FileSize { length, allocated: blocks.saturating_mul(512) })
    }
}

/// What something held and holds. Nothing stands for too much; what is not there holds nothing.
#[derive(Debug)]
pub struct Contents {
    /// Before.
    pub old: Option<Vec<u8>>,
    /// Afterwards.
    pub new: Option<Vec<u8>>,
}

/// What a session changed.
#[derive(Debug)]
pub struct Changes {
    /// Deletions first, each kind by its path.
    pub changes: Vec<Change>,
    /// What cannot be applied at all, and why.
    pub skipped: Vec<(AbsPath, String)>,
}

impl Changes {
    /// Was nothing changed?
    pub fn is_nothing(&self) -> bool {
        self.changes.is_empty() && self.skipped.is_empty()
    }

    /// How many files were added, changed and deleted. A directory counts where it is added or changed and nothing in it is.
    pub fn counts(&self) -> (usize, usize, usize) {
        let parents: HashSet<AbsPath> = self.changes.iter().filter_map(|change| change.path.parent()).collect();
        let counts = |change: &&Change| change.node != Node::Directory || !parents.contains(&change.path);
        let count = |what: What| self.changes.iter().filter(counts).filter(|change| change.what == what).count();
        (count(What::Added), count(What::Changed), count(What::Deleted))
    }
}

impl Review {
    /// What would change on the host, as it is now.
    pub fn changes(&self) -> Changes {
        let mut search =
            Search { review: self, changes: Vec::new(), skipped: Vec::new(), base: HashMap::new(), layer: 0 };
        for (number, layer) in self.layers.iter().enumerate() {
            search.layer = number;
            match base::read(&layer.dir.join(BASE)) {
                Ok(base) => search.base = base,
                Err(cause) => {
                    search.skip(&layer.over, &cause);
                    continue;
                }
            }
            search.look(layer);
        }
        let Search { mut changes, skipped, .. } = search;
        changes.retain(|change| !self.done.contains(change.path.as_bytes()));
        self.refuse_planted(&mut changes);
        self.refuse_in_git(&mut changes);
        let is_late = |change: &Change| change.what != What::Deleted;
        changes.sort_by(|one, other| (is_late(one), &one.path).cmp(&(is_late(other), &other.path)));
        Changes { changes, skipped }
    }

    /// Of a directory that would become a repository whose settings nobody guards, none of the new names that make it one comes, with
    /// all that is below it: applied in parts, the last part would do it.
    fn refuse_planted(&self, changes: &mut [Change]) {
        let is_new = |change: &Change| change.what == What::Added || change.was.is_some();
        let parts = changes.iter().filter(|change| is_new(change) && change.path.file_name().is_some_and(is_part));
        let dirs: HashSet<AbsPath> = parts.filter_map(|change| change.path.parent()).collect();
        let whats: HashMap<&AbsPath, What> = changes.iter().map(|change| (&change.path, change.what)).collect();
        let is_new_one = |dir: &AbsPath| {
            let has = |name: &[u8]| {
                let path = dir.child(name);
                match whats.get(&path) {
                    Some(what) => *what != What::Deleted,
                    None => found(&path).is_ok_and(|found| found.is_some()),
                }
            };
            is_planted(&self.surface, dir, has)
        };
        let planted: HashSet<AbsPath> = dirs.into_iter().filter(is_new_one).collect();
        if planted.is_empty() {
            return;
        }
        let refused: HashSet<AbsPath> = changes
            .iter()
            .filter(|change| is_new(change) && change.path.file_name().is_some_and(is_part))
            .filter(|change| change.path.parent().is_some_and(|dir| planted.contains(&dir)))
            .map(|change| change.path.clone())
            .collect();
        for change in changes.iter_mut().filter(|change| change.refused.is_none() && change.what != What::Deleted) {
            if let Some(dir) =
                change.path.ancestors().find(|above| refused.contains(above)).and_then(|above| above.parent())
            {
                change.refused =
                    Some(format!("git would take {dir} for a repository, and nobody guards its hooks and settings"));
            }
        }
    }

    /// What a file or a link held before and holds afterwards; nothing where that is more than so much.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn contents(&self, change: &Change, most: u64) -> io::Result<Contents> {
        let held = |path: &AbsPath, node: Option<Node>| match node {
            Some(Node::File) => content(path, most),
            Some(Node::Link) => target(path).map(Some),
            _ => Ok(Some(Vec::new())),
        };
        let old = match change.what {
            What::Added => Some(Vec::new()),
            What::Deleted => held(&change.path, Some(change.node))?,
            What::Changed => held(&change.path, change.was.or(Some(change.node)))?,
        };
        let new = change.from.as_ref().map_or(Ok(Some(Vec::new())), |from| held(from, Some(change.node)))?;
        Ok(Contents { old, new })
    }
}

/// What stands on the host in the place of a directory that the session wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    Directory,
    /// Nothing, or something that has nothing in it: the session put the directory in its place.
    Other,
}

struct Search<'r> {
    review: &'r Review,
    changes: Vec<Change>,
    skipped: Vec<(AbsPath, String)>,
    base: HashMap<Vec<u8>, Seen>,
    layer: usize,
}

impl Search<'_> {
    fn look(&mut self, layer: &Layer) {
        let upper = layer.upper();
        if found(&upper).is_ok_and(|found| found.is_none()) {
            let copy = layer.dir.join(COPY);
            if let Ok(Some(status)) = found(&copy) {
                let old = found(&layer.over).map_err(io::Error::from);
                self.compare((&layer.over, old), &copy, &status);
            }
            return;
        }
        if let Ok(Some(status)) = found(&upper) {
            let old = found(&layer.over).map_err(io::Error::from);
            self.compare((&layer.over, old), &upper, &status);
        }
        let mut ahead = vec![(upper, layer.over.clone(), Host::Directory)];
        while let Some((upper, path, host)) = ahead.pop() {
            let inside = match list(&upper) {
                Ok(inside) => inside,
                Err(errno) => {
                    self.skip(&path, &errno.into());
                    continue;
                }
            };
            if host == Host::Directory && is_opaque(&upper) {
                let kept: HashSet<&[u8]> = inside.iter().map(|(name, _)| name.as_slice()).collect();
                // What is no directory any more has nothing in it.
                for (name, status) in list(&path).unwrap_or_default() {
                    if !kept.contains(name.as_slice()) {
                        self.delete(&path.child(&name), &status);
                    }
                }
            }
            for (name, status) in inside {
                let (from, path) = (upper.child(&name), path.child(&name));
                let is_directory = |status: &Stat| FileType::from_raw_mode(status.st_mode) == FileType::Directory;
                let old = match host {
                    Host::Directory => found(&path).map_err(io::Error::from),
                    Host::Other => Ok(None),
                };
                let below = match &old {
                    Ok(Some(old)) if is_directory(old) => Host::Directory,
                    _ => Host::Other,
                };
                self.compare((&path, old), &from, &status);
                if is_directory(&status) {
                    ahead.push((from, path, below));
                }
            }
        }
    }

    /// Compares what was written with what stands on the host.
    fn compare(&mut self, (path, old): (&AbsPath, io::Result<Option<Stat>>), from: &AbsPath, new: &Stat) {
        let old = match old {
            Ok(old) => old,
            // A link on the way: what is below it is not what the session wrote to.
            Err(cause) => return self.skip(path, &cause),
        };
        let kind = FileType::from_raw_mode(new.st_mode);
        if kind == FileType::CharacterDevice && new.st_rdev == 0 {
            if let Some(old) = old {
                self.delete(path, &old);
            }
            return;
        }
        let node = Node::of(new);
        if node == Node::Other {
            let what = "a pipe, a socket or a device is not applied";
            return self.skipped.push((path.clone(), what.to_owned()));
        }
        let Some(old) = old else {
            return self.add(path, (What::Added, node, None), None, Some(from), None);
        };
        let was = Node::of(&old);
        let (before, after) = (old.st_mode & 0o777, new.st_mode & 0o777);
        let modes = (before != after && node != Node::Link && was == node).then_some((before, after));
        let is_same = was == node
            && match node {
                Node::File => old.st_size == new.st_size && is_same(path, from).unwrap_or(false),
                Node::Link => target(path).ok() == target(from).ok(),
                Node::Directory | Node::Other => true,
            };
        if is_same && modes.is_none() {
            return;
        }
        if was == Node::Directory && node != Node::Directory {
            self.delete_below(path);
        }
        self.add(path, (What::Changed, node, (was != node).then_some(was)), modes, Some(from), Some(&old));
    }

    fn delete(&mut self, path: &AbsPath, old: &Stat) {
        let node = Node::of(old);
        if node == Node::Directory {
            self.delete_below(path);
        }
        self.add(path, (What::Deleted, node, None), None, None, Some(old));
    }

    fn delete_below(&mut self, path: &AbsPath) {
        let mut ahead = vec![path.clone()];
        while let Some(dir) = ahead.pop() {
            let inside = match list(&dir) {
                Ok(inside) => inside,
                Err(errno) => {
                    self.skip(&dir, &errno.into());
                    continue;
                }
            };
            for (name, status) in inside {
                let path = dir.child(&name);
                let node = Node::of(&status);
                if node == Node::Directory {
                    ahead.push(path.clone());
                }
                self.add(&path, (What::Deleted, node, None), None, None, Some(&status));
            }
        }
    }

    fn add(
        &mut self,
        path: &AbsPath,
        (what, node, was): (What, Node, Option<Node>),
        modes: Option<(u32, u32)>,
        from: Option<&AbsPath>,
        old: Option<&Stat>,
    ) {
        let seen = old.map(Seen::of);
        let is_conflict = match (self.base.get(path.as_bytes()), &seen) {
            // Of a directory that stays one only the permissions change. One that was not there was made by an apply that was cut
            // short, or by somebody else for the same purpose.
            (then, Some(now)) if what == What::Changed && node == Node::Directory && was.is_none() => {
                then.is_some_and(|then| then.mode() != now.mode())
            }
            (Some(then), Some(now)) => !then.is_still(now),
            (None, None) => false,
            _ => true,
        };
        let verdict = self.review.surface.decide(path, Access::Write);
        let refused = (!verdict.is_allowed()).then(|| verdict.because.to_string());
        // What a link leads to would be below a name that rules begin with, and they know it by another.
        let begun = match (node, path.parent(), path.file_name()) {
            (Node::Link, Some(dir), Some(name)) if what != What::Deleted => {
                self.review.surface.cursor(&dir).begins(name)
            }
            _ => None,
        };
        let refused = refused.or_else(|| begun.map(|rule| Because::Rule(rule).to_string()));
        let (path, from, layer) = (path.clone(), from.cloned(), self.layer);
        self.changes.push(Change { path, what, node, was, modes, is_conflict, refused, from, layer, seen });
    }

    fn skip(&mut self, path: &AbsPath, cause: &io::Error) {
        self.skipped.push((path.clone(), cause.to_string()));
    }
}

/// Does a directory of a layer hide what is below it on the host?
fn is_opaque(upper: &AbsPath) -> bool {
    let mut value = [0; 8];
    let got = directory(upper).and_then(|dir| rustix::fs::fgetxattr(&dir, c"user.overlay.opaque", &mut value));
    got.is_ok_and(|length| value.get(..length) == Some(b"y"))
}
