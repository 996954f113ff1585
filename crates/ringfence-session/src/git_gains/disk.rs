//! The files of a repository, read as an attacker may have left them: no symbolic link is followed, no pipe is waited for, and nothing is
//! read without a limit.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use ringfence_git::config;
use ringfence_git::history::{ObjectSource, PackFiles};
use ringfence_git::index::IndexEntry;
use ringfence_git::object::{ObjectKind, id_of};
use ringfence_git::object_id::{ObjectFormat, ObjectId};
use ringfence_git::pack::ReadAt;
use ringfence_surface::AbsPath;
use rustix::fs::{Dir, FileType, OFlags, Stat};

use crate::git_files::{read_all, read_part};
use crate::place::{open_beneath, relative};

/// The longest index, packed-refs file or loose object that is read.
const LONGEST: usize = 1 << 29;
/// The longest file that holds one line.
const LONGEST_LINE: usize = 8192;
/// The longest file of a work tree that is read.
const LONGEST_EDITED: usize = 1 << 20;
/// More refs and packs are not read.
const MOST_NAMES: usize = 50_000;
/// How many directories of objects may be chained by `alternates`, as for git.
const MOST_ALTERNATES: usize = 32;

/// Reads files of the host.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    /// `/`.
    root: Arc<OwnedFd>,
}

impl Disk {
    pub(super) fn new(root: OwnedFd) -> Self {
        Self { root: Arc::new(root) }
    }

    fn open(&self, path: &AbsPath, flags: OFlags) -> Option<OwnedFd> {
        // A pipe is not waited for. With `O_PATH` nothing is, and openat2 takes no such flag.
        let careful = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
        let flags = careful | OFlags::NOFOLLOW | flags;
        open_beneath(&*self.root, &relative(path), flags).ok()
    }

    /// A regular file and its status.
    fn file(&self, path: &AbsPath) -> Option<(OwnedFd, Stat)> {
        let file = self.open(path, OFlags::RDONLY)?;
        let status = rustix::fs::fstat(&file).ok()?;
        (FileType::from_raw_mode(status.st_mode) == FileType::RegularFile).then_some((file, status))
    }

    pub(super) fn read(&self, path: &AbsPath) -> Option<Vec<u8>> {
        read_all(self.file(path)?.0.as_fd(), LONGEST).ok()?
    }

    /// The one line of a small file.
    pub(super) fn line(&self, path: &AbsPath) -> Option<Vec<u8>> {
        let text = read_all(self.file(path)?.0.as_fd(), LONGEST_LINE).ok()??;
        Some(text.trim_ascii_end().to_vec())
    }

    /// What shows whether a file was replaced or written since.
    pub(super) fn state(&self, path: &AbsPath) -> Option<FileState> {
        Some(FileState::of(&self.file(path)?.1))
    }

    /// The content of a tracked file, if it is not the one in the index. As for git, a file whose size and time are still those of the entry is
    /// not read.
    pub(super) fn edited(&self, path: &AbsPath, entry: &IndexEntry, format: ObjectFormat) -> Option<ObjectId> {
        let (file, status) = self.file(path)?;
        let low = |number: i64| number as u32;
        let time = (low(status.st_mtime), low(status.st_mtime_nsec as i64));
        if low(status.st_size) == entry.stat.size && time == entry.stat.mtime {
            return None;
        }
        let content = read_all(file.as_fd(), LONGEST_EDITED).ok()??;
        id_of(format, ObjectKind::Blob, &content).ok().filter(|id| *id != entry.id)
    }

    /// Is there anything of this name, be it a link?
    pub(super) fn is_there(&self, path: &AbsPath) -> bool {
        self.open(path, OFlags::PATH).is_some()
    }

    /// `/`.
    pub(super) fn root(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.root)
    }

    /// A directory that can be listed.
    pub(super) fn directory(&self, path: &AbsPath) -> Option<OwnedFd> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The names in a directory, and what each is.
    pub(super) fn kinds(&self, fd: &OwnedFd, dir: &AbsPath) -> Vec<(Vec<u8>, FileType)> {
        let entries = Dir::read_from(fd).into_iter().flatten().flatten();
        let known = entries.map(|entry| (entry.file_name().to_bytes().to_vec(), entry.file_type()));
        let kind_of = |name: &[u8], kind| match kind {
            FileType::Unknown => {
                let found = self.open(&dir.child(name), OFlags::PATH).and_then(|fd| rustix::fs::fstat(fd).ok());
                found.map_or(FileType::Unknown, |status| FileType::from_raw_mode(status.st_mode))
            }
            kind => kind,
        };
        let known = known.filter(|(name, _)| !matches!(name.as_slice(), b"." | b".."));
        known.map(|(name, kind)| (name.clone(), kind_of(&name, kind))).collect()
    }

    /// The names in a directory, sorted, and whether each is a directory itself.
    pub(super) fn names(&self, dir: &AbsPath) -> Vec<(Vec<u8>, bool)> {
        let Some(fd) = self.open(dir, OFlags::RDONLY | OFlags::DIRECTORY) else { return Vec::new() };
        let entries = Dir::read_from(&fd).into_iter().flatten().flatten();
        let known = entries.map(|entry| (entry.file_name().to_bytes().to_vec(), entry.file_type()));
        let is_directory = |name: &[u8], kind| match kind {
            FileType::Unknown => self.open(&dir.child(name), OFlags::PATH | OFlags::DIRECTORY).is_some(),
            kind => kind == FileType::Directory,
        };
        let known = known.filter(|(name, _)| !matches!(name.as_slice(), b"." | b"..")).take(MOST_NAMES);
        let mut names: Vec<(Vec<u8>, bool)> =
            known.map(|(name, kind)| (name.clone(), is_directory(&name, kind))).collect();
        names.sort();
        names
    }

    /// The git directory of a work tree, and the one that it shares with others.
    pub(super) fn git_directories(&self, tree: &AbsPath) -> Option<(AbsPath, AbsPath)> {
        let dot_git = tree.child(b".git");
        let git_dir = match self.open(&dot_git, OFlags::PATH | OFlags::DIRECTORY) {
            Some(_) => dot_git,
            None => {
                let text = read_all(self.file(&dot_git)?.0.as_fd(), LONGEST_LINE).ok()??;
                resolved(tree, ringfence_git::grammar::git_file(&text)?)?
            }
        };
        self.open(&git_dir.child(b"HEAD"), OFlags::PATH)?;
        let common = self.line(&git_dir.child(b"commondir")).and_then(|named| resolved(&git_dir, &named));
        Some((git_dir.clone(), common.unwrap_or(git_dir)))
    }

    /// How objects of a repository are named.
    pub(super) fn object_format(&self, common_dir: &AbsPath) -> ObjectFormat {
        let text = self.read(&common_dir.child(b"config")).unwrap_or_default();
        let is_sha256 =
            |entry: &config::Entry| entry.is("extensions", "objectformat") && entry.value.as_deref() == Some(b"sha256");
        if config::parse(&text).iter().any(is_sha256) { ObjectFormat::Sha256 } else { ObjectFormat::Sha1 }
    }

    /// Every ref of a repository, those of `HEAD`s that name a commit included.
    pub(super) fn refs(&self, common_dir: &AbsPath) -> BTreeMap<Vec<u8>, ObjectId> {
        let mut found = BTreeMap::new();
        let packed = self.read(&common_dir.child(b"packed-refs")).unwrap_or_default();
        for line in packed.split(|byte| *byte == b'\n') {
            let Some(blank) = line.iter().position(|byte| *byte == b' ') else { continue };
            if let Some(id) = ObjectId::from_hex(&line[..blank]) {
                found.insert(line[blank + 1..].to_vec(), id);
            }
        }
        let mut read = 0;
        let mut left = vec![(common_dir.child(b"refs"), b"refs".to_vec())];
        let trees = common_dir.child(b"worktrees");
        for (name, _) in self.names(&trees).into_iter().filter(|(_, is_directory)| *is_directory) {
            let front = [b"worktrees/", name.as_slice()].concat();
            left.push((trees.child(&name).child(b"refs"), [&front, b"/refs".as_slice()].concat()));
            self.own_refs(&trees.child(&name), &[&front, b"/".as_slice()].concat(), &mut found);
        }
        self.own_refs(common_dir, b"", &mut found);
        while let Some((dir, name)) = left.pop() {
            for (entry, is_directory) in self.names(&dir) {
                read += 1;
                if read > MOST_NAMES {
                    return found;
                }
                let full = [name.as_slice(), b"/", &entry].concat();
                let path = dir.child(&entry);
                if is_directory {
                    left.push((path, full));
                } else if let Some(id) = self.line(&path).and_then(|text| ObjectId::from_hex(&text)) {
                    found.insert(full, id);
                }
            }
        }
        found
    }

    /// Refs that are files of a git directory: `HEAD`, `ORIG_HEAD`, `MERGE_HEAD`, ...
    fn own_refs(&self, git_dir: &AbsPath, front: &[u8], found: &mut BTreeMap<Vec<u8>, ObjectId>) {
        for (name, is_directory) in self.names(git_dir) {
            if is_directory || !name.ends_with(b"HEAD") && name != b"AUTO_MERGE" {
                continue;
            }
            // `git merge FETCH_HEAD` takes the commits of all lines.
            let text = self.read(&git_dir.child(&name)).unwrap_or_default();
            for (number, line) in text.split(|byte| *byte == b'\n').take(MOST_NAMES).enumerate() {
                let first = line.split(|byte| !byte.is_ascii_hexdigit()).next().unwrap_or_default();
                if let Some(id) = ObjectId::from_hex(first) {
                    let line = if number == 0 { String::new() } else { format!(", line {}", number + 1) };
                    found.insert([front, &name, line.as_bytes()].concat(), id);
                }
            }
        }
    }

    /// Where the objects of a repository come from.
    pub(super) fn objects(&self, common_dir: &AbsPath) -> DiskObjects {
        let mut directories = vec![common_dir.child(b"objects")];
        let mut at = 0;
        while let Some(dir) = directories.get(at).filter(|_| directories.len() < MOST_ALTERNATES).cloned() {
            at += 1;
            let text = self.read(&dir.join("info/alternates")).unwrap_or_default();
            for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
                directories.extend(resolved(&dir, line).filter(|dir| !directories.contains(dir)));
            }
        }
        DiskObjects { disk: self.clone(), directories }
    }
}

/// A path that a file of git names, seen from a directory. Links on it are refused when it is opened.
fn resolved(dir: &AbsPath, named: &[u8]) -> Option<AbsPath> {
    let path = if named.first() == Some(&b'/') { named.to_vec() } else { [dir.as_bytes(), b"/", named].concat() };
    AbsPath::lexical(&path).ok()
}

/// What shows whether a file was replaced or written. The kernel sets ctime, and no process inside can set it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileState {
    inode: u64,
    size: i64,
    changed: (i64, u64),
}

impl FileState {
    fn of(status: &Stat) -> Self {
        let changed = (status.st_ctime, status.st_ctime_nsec);
        Self { inode: status.st_ino, size: status.st_size, changed }
    }

    pub(super) fn size(self) -> u64 {
        u64::try_from(self.size).unwrap_or_default()
    }
}

/// The objects of a repository and of its alternates.
#[derive(Debug)]
pub(super) struct DiskObjects {
    disk: Disk,
    directories: Vec<AbsPath>,
}

impl DiskObjects {
    fn loose_path(dir: &AbsPath, id: &ObjectId) -> AbsPath {
        let hex = id.to_string();
        let (front, back) = hex.split_at(2);
        dir.child(front.as_bytes()).child(back.as_bytes())
    }
}

impl ObjectSource for DiskObjects {
    type File = PackFile;

    fn loose(&self, id: &ObjectId) -> Option<Vec<u8>> {
        self.directories.iter().find_map(|dir| self.disk.read(&Self::loose_path(dir, id)))
    }

    fn packs(&self) -> Vec<PackFiles<PackFile>> {
        let mut found = Vec::new();
        for dir in &self.directories {
            let packs = dir.child(b"pack");
            for (name, _) in self.disk.names(&packs) {
                let Some(stem) = name.strip_suffix(b".idx") else { continue };
                let open = |path: AbsPath| self.disk.file(&path).map(|(file, status)| PackFile { file, status });
                let pack = open(packs.child(&[stem, b".pack"].concat()));
                if let (Some(index), Some(pack)) = (open(packs.child(&name)), pack) {
                    found.push(PackFiles { index, pack });
                }
            }
        }
        found
    }
}

/// A pack, or its index.
#[derive(Debug)]
pub(super) struct PackFile {
    file: OwnedFd,
    status: Stat,
}

impl ReadAt for PackFile {
    fn size(&self) -> u64 {
        u64::try_from(self.status.st_size).unwrap_or_default()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        read_part(self.file.as_fd(), offset, buffer)
    }
}
