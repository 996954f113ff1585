//! Files that are guarded under one name and have others (hard links).
//!
//! A mount guards a name, and a rule speaks of names; the content belongs to the inode. A session that may write a file may
//! give it a second name, and the next session may have a rule about the first one: it would read or write the file by the
//! second. So where a guarded file has several names, the directories that are searched are walked again and every name
//! of such an inode gets the strongest guard that one of its names has. The link count says whether all names were found.

use std::collections::{HashMap, HashSet};

use ringfence_surface::AbsPath;
use rustix::fs::{FileType, Stat};

use crate::place::{Id, open_place, relative};
use crate::walk::Guard;

/// A guarded file with more than one name.
#[derive(Debug)]
struct LinkedFile {
    guard: Guard,
    link_count: usize,
    /// Where it was found. One name may have several paths, where a directory is mounted twice.
    paths: HashSet<AbsPath>,
}

/// The guarded files that have more than one name, by what they are.
#[derive(Debug, Default)]
pub(crate) struct LinkedFiles {
    files: HashMap<Id, LinkedFile>,
    /// Guarded directories in which not everything was looked at.
    unsearched: Vec<AbsPath>,
}

impl LinkedFiles {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Notes a guarded name, where it is one of several.
    pub(crate) fn note(&mut self, path: &AbsPath, status: &Stat, guard: Guard) {
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || status.st_nlink < 2 {
            return;
        }
        let empty = || LinkedFile {
            guard,
            link_count: usize::try_from(status.st_nlink).unwrap_or(usize::MAX),
            paths: HashSet::new(),
        };
        let file = self.files.entry(Id::of(status)).or_insert_with(empty);
        file.guard = file.guard.max(guard);
        file.paths.insert(path.clone());
    }

    /// Notes that a guarded directory holds more names than were looked at.
    pub(crate) fn note_unsearched(&mut self, dir: AbsPath) {
        self.unsearched.push(dir);
    }

    /// The guard that a name needs because of the other names of its file.
    pub(crate) fn guard_of(&mut self, path: impl FnOnce() -> AbsPath, status: &Stat) -> Guard {
        match self.files.get_mut(&Id::of(status)) {
            Some(file) => {
                file.paths.insert(path());
                file.guard
            }
            None => Guard::None,
        }
    }

    /// The guarded names whose file has further names that were not found.
    pub(crate) fn with_names_elsewhere(self, top: &std::os::fd::OwnedFd) -> Vec<AbsPath> {
        let mut left = self.unsearched;
        for file in self.files.into_values() {
            // Two paths of one directory entry count once.
            let entries = file.paths.iter().filter_map(|path| {
                let dir = open_place(top, &relative(&path.parent()?)).and_then(rustix::fs::fstat).ok()?;
                Some((Id::of(&dir), path.file_name()?.to_vec()))
            });
            let found = entries.collect::<HashSet<_>>().len();
            if found < file.link_count {
                left.extend(file.paths);
            }
        }
        left.sort();
        left.dedup();
        left
    }
}
