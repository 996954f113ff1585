//! New files on their way to a name, such that a process that is killed leaves no temporary name in the user's work tree.
//!
//! A file is made without a name (O_TMPFILE), filled, and linked to its own name. Two cases need a temporary name: linkat(2) replaces
//! nothing, so a file that takes the place of another has one from the link to the rename; and some file systems have no O_TMPFILE.
//! Such a name is written down in the state directory before it is made, and [`sweep`] removes what is written down there by
//! processes that have ended: a record is locked (flock) for as long as its process lives.
//!
//! A record is data that tells another process to remove a file. It names the directory by path, device and inode, and only names of
//! our own pattern, which no policy lets an agent make, are removed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence_fs::RecordNames;
use ringfence_surface::AbsPath;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::place::{open_beneath, open_root, relative};

/// Below the state directory.
const RECORDS: &[u8] = b"temporary";
const PREFIX: &str = ".ringfence-";
/// As many hexadecimal digits follow.
const DIGITS: usize = 16;
/// No record is longer: a path, two numbers and a name.
const LONGEST: usize = 8 << 10;

/// Writes temporary names down. Nothing is made before the first one.
#[derive(Debug)]
pub struct Journal {
    records: AbsPath,
    record: Mutex<Option<Record>>,
}

impl RecordNames for Journal {
    fn with_name(&self, dir: BorrowedFd<'_>, work: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        let name = self.name(dir)?;
        work(name.as_str())
    }
}

/// A file in the state directory, locked.
#[derive(Debug)]
struct Record {
    file: OwnedFd,
    path: AbsPath,
}

impl Journal {
    /// One in this state directory.
    pub fn new(state: &AbsPath) -> Self {
        Self { records: state.child(RECORDS), record: Mutex::new(None) }
    }

    /// One whose record exists already, for a copy of this process that cannot reach the state directory: it inherits the record. What
    /// processes that have ended left is removed first.
    ///
    /// # Errors
    /// When the record cannot be made.
    pub(crate) fn begin(state: &AbsPath) -> io::Result<Self> {
        sweep(state);
        let journal = Self::new(state);
        let record = Record::create(&journal.records)?;
        *journal.record() = Some(record);
        Ok(journal)
    }

    fn record(&self) -> MutexGuard<'_, Option<Record>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The descriptor of its record, where there is one. The lock belongs to the open file, so it is held as long as a copy has it.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.record().as_ref().map(|record| record.file.as_raw_fd())
    }

    /// A new name in a directory, written down. One at a time.
    ///
    /// # Errors
    /// When it cannot be written down: then it is not to be used.
    pub(crate) fn name(&self, dir: BorrowedFd<'_>) -> io::Result<TemporaryName<'_>> {
        let mut record = self.record();
        if record.is_none() {
            *record = Some(Record::create(&self.records)?);
        }
        let name = random_name()?;
        let there = rustix::fs::readlinkat(CWD, own_path(dir).as_str(), Vec::new())?.into_bytes();
        let status = rustix::fs::fstat(dir)?;
        let mut text = format!("{} {} {name}\0", status.st_dev, status.st_ino).into_bytes();
        text.extend(there);
        text.push(0);
        if let Some(record) = &*record {
            let written = rustix::io::pwrite(&record.file, &text, 0)?;
            if written != text.len() {
                return Err(Errno::NOSPC.into());
            }
        }
        Ok(TemporaryName { name, _record: record })
    }
}

impl Record {
    fn create(records: &AbsPath) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(crate::walk::os_path(records))?;
        loop {
            let path = records.child(random_name()?.as_bytes());
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::open(path.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?;
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            // A sweep may have found it before it was locked, and removed it.
            if rustix::fs::fstat(&file)?.st_nlink > 0 {
                return Ok(Self { file, path });
            }
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // A copy of this process may have been killed while its name was there. What stays is found by the next sweep.
        let _ = remove_left(&self.file, &self.path);
    }
}

/// A name that is written down as long as this exists.
#[derive(Debug)]
pub(crate) struct TemporaryName<'j> {
    name: String,
    _record: MutexGuard<'j, Option<Record>>,
}

impl TemporaryName<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }
}

/// A new file in a directory: without a name, or under a temporary one. Dropped, it is removed.
#[derive(Debug)]
pub struct NewFile<'j, 'd> {
    dir: BorrowedFd<'d>,
    file: File,
    journal: Option<&'j Journal>,
    name: Option<Temporary<'j>>,
}

#[derive(Debug)]
enum Temporary<'j> {
    Recorded(TemporaryName<'j>),
    /// Where there is no state directory.
    Unrecorded(String),
}

impl Temporary<'_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Recorded(name) => name.as_str(),
            Self::Unrecorded(name) => name,
        }
    }
}

impl<'j, 'd> NewFile<'j, 'd> {
    /// An empty file.
    ///
    /// # Errors
    /// What the kernel answers to open(2); what [`Journal::name`] returns where it needs a name from the start.
    pub fn create(dir: BorrowedFd<'d>, journal: Option<&'j Journal>, mode: Mode) -> io::Result<Self> {
        let nameless = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::openat(dir, c".", nameless, mode) {
            return Ok(Self { dir, file: file.into(), journal, name: None });
        }
        // The kernel or the file system has no O_TMPFILE. What else is wrong goes wrong here once more.
        let name = temporary(dir, journal)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, name.as_str(), flags, mode)?.into();
        Ok(Self { dir, file, journal, name: Some(name) })
    }

    /// The file, to be filled.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it a name that is free.
    ///
    /// # Errors
    /// EEXIST where the name is taken.
    pub fn place(mut self, name: &[u8]) -> io::Result<()> {
        if self.name.is_none() {
            match self.link(name) {
                // Without a mounted /proc, or where a link is not permitted.
                Err(Errno::NOENT | Errno::PERM | Errno::ACCESS | Errno::XDEV | Errno::NOSYS) => self.take_name()?,
                linked => return Ok(linked?),
            }
        }
        if let Some(temporary) = &self.name {
            let (dir, flags) = (self.dir, RenameFlags::NOREPLACE);
            match rustix::fs::renameat_with(dir, temporary.as_str(), dir, name, flags) {
                // The file system has no such rename.
                Err(Errno::INVAL) => {
                    rustix::fs::linkat(dir, temporary.as_str(), dir, name, AtFlags::empty())?;
                    return Ok(());
                }
                renamed => renamed?,
            }
        }
        self.name = None;
        Ok(())
    }

    /// Gives it a name, in the place of a file that has it.
    ///
    /// # Errors
    /// EBUSY where something is mounted over the name.
    pub fn replace(mut self, name: &[u8]) -> io::Result<()> {
        if self.name.is_none() && self.link(name).is_ok() {
            return Ok(());
        }
        self.exchange(name, |dir, temporary, name| rustix::fs::renameat(dir, temporary, dir, name).map_err(Into::into))
    }

    /// Has a rename done from its temporary name to the one that it is for.
    pub(crate) fn exchange(
        &mut self,
        name: &[u8],
        rename: impl FnOnce(BorrowedFd<'_>, &str, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.name.is_none() {
            self.take_name()?;
        }
        if let Some(temporary) = &self.name {
            rename(self.dir, temporary.as_str(), name)?;
        }
        self.name = None;
        Ok(())
    }

    /// Gives it a temporary name.
    fn take_name(&mut self) -> io::Result<()> {
        let name = temporary(self.dir, self.journal)?;
        if self.link(name.as_str().as_bytes()).is_err() {
            // Neither /proc nor the right to link can be taken for granted: a copy then.
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let status = rustix::fs::fstat(&self.file)?;
            let copy = rustix::fs::openat(self.dir, name.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
            let unnamed = std::mem::replace(&mut self.file, copy.into());
            self.name = Some(name);
            crate::sparse::copy(&unnamed, &self.file)?;
            rustix::fs::fchown(
                &self.file,
                Some(rustix::fs::Uid::from_raw(status.st_uid)),
                Some(rustix::fs::Gid::from_raw(status.st_gid)),
            )?;
            return Ok(rustix::fs::fchmod(&self.file, Mode::from_raw_mode(status.st_mode & 0o7777))?);
        }
        self.name = Some(name);
        Ok(())
    }

    fn link(&self, name: &[u8]) -> rustix::io::Result<()> {
        rustix::fs::linkat(CWD, own_path(self.file.as_fd()).as_str(), self.dir, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for NewFile<'_, '_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The failure that led here is the one to report.
            let _ = rustix::fs::unlinkat(self.dir, name.as_str(), AtFlags::empty());
        }
    }
}

fn temporary<'j>(dir: BorrowedFd<'_>, journal: Option<&'j Journal>) -> io::Result<Temporary<'j>> {
    match journal {
        Some(journal) => journal.name(dir).map(Temporary::Recorded),
        None => random_name().map(Temporary::Unrecorded),
    }
}

/// Removes the temporary names that processes left which were killed, and returns them.
pub fn sweep(state: &AbsPath) -> Vec<AbsPath> {
    let records = state.child(RECORDS);
    let mut removed = Vec::new();
    let Ok(listing) = std::fs::read_dir(crate::walk::os_path(&records)) else { return removed };
    for entry in listing.flatten() {
        use std::os::unix::ffi::OsStrExt as _;
        let name = entry.file_name();
        if is_ours(name.as_bytes()) {
            removed.extend(settle(&records.child(name.as_bytes())));
        }
    }
    removed
}

/// One record. `None` where its process lives, or nothing was left.
fn settle(record: &AbsPath) -> Option<AbsPath> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(record.as_bytes(), flags, Mode::empty()).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    remove_left(&file, record).ok().flatten()
}

/// Removes the name that a record has, and the record.
fn remove_left(file: &OwnedFd, record: &AbsPath) -> rustix::io::Result<Option<AbsPath>> {
    let text = crate::git_files::read_all(file.as_fd(), LONGEST)?;
    let left = text.as_deref().and_then(parse);
    let removed = left.map_or(Ok(None), |left| left.remove())?;
    let _ = rustix::fs::unlink(record.as_bytes());
    Ok(removed)
}

/// What a record names.
struct Left<'t> {
    device: u64,
    inode: u64,
    dir: AbsPath,
    name: &'t str,
}

fn parse(text: &[u8]) -> Option<Left<'_>> {
    let mut parts = text.split(|byte| *byte == 0);
    let mut head = std::str::from_utf8(parts.next()?).ok()?.split(' ');
    let dir = AbsPath::lexical(parts.next()?).ok()?;
    // A record that was not written to its end has no second NUL: its name was never made.
    parts.next()?;
    let (device, inode) = (head.next()?.parse().ok()?, head.next()?.parse().ok()?);
    let name = head.next().filter(|name| is_ours(name.as_bytes()))?;
    Some(Left { device, inode, dir, name })
}

impl Left<'_> {
    fn remove(&self) -> rustix::io::Result<Option<AbsPath>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let dir = match open_beneath(open_root()?, &relative(&self.dir), flags) {
            Ok(dir) => dir,
            // The directory is gone, or another user's by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let there = rustix::fs::fstat(&dir)?;
        if (there.st_dev, there.st_ino) != (self.device, self.inode) {
            return Ok(None);
        }
        let status = match rustix::fs::statat(&dir, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => status,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let is_directory = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&dir, self.name, flags)?;
        Ok(Some(self.dir.child(self.name.as_bytes())))
    }
}

fn is_ours(name: &[u8]) -> bool {
    let digits = name.strip_prefix(PREFIX.as_bytes());
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

fn random_name() -> io::Result<String> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{PREFIX}{:016x}", u64::from_ne_bytes(random)))
}

fn own_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, AbsPath, OwnedFd) {
        let temp = tempfile::tempdir().unwrap();
        let path = AbsPath::lexical(temp.path().canonicalize().unwrap().as_os_str().as_encoded_bytes()).unwrap();
        let work = path.child(b"work");
        std::fs::create_dir(crate::walk::os_path(&work)).unwrap();
        let dir = rustix::fs::open(work.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        (temp, path, dir)
    }

    fn names(path: &AbsPath) -> usize {
        std::fs::read_dir(crate::walk::os_path(path)).map_or(0, Iterator::count)
    }

    #[test]
    fn a_file_is_placed_or_replaces_and_leaves_no_name() {
        let (_temp, path, dir) = place();
        let journal = Journal::new(&path.child(b"state"));
        let made = |text: &[u8]| {
            let new = NewFile::create(dir.as_fd(), Some(&journal), Mode::RUSR).unwrap();
            io::Write::write_all(&mut new.file(), text).unwrap();
            new
        };
        made(b"one").place(b"a").unwrap();
        assert_eq!(made(b"two").place(b"a").unwrap_err().raw_os_error(), Some(Errno::EXIST.raw_os_error()));
        made(b"three").replace(b"a").unwrap();
        drop(made(b"four"));
        assert_eq!(std::fs::read(crate::walk::os_path(&path.child(b"work").child(b"a"))).unwrap(), b"three");
        assert_eq!(names(&path.child(b"work")), 1);
        drop(journal);
        assert_eq!(names(&path.child(b"state").child(RECORDS)), 0);
    }

    /// [G4]: what a killed process left is removed, and only that.
    #[test]
    fn g4_recorded_names_of_ended_processes_are_removed() {
        let (_temp, path, dir) = place();
        let state = path.child(b"state");
        let journal = Journal::new(&state);
        let (left, lives) = (journal.name(dir.as_fd()).unwrap().as_str().to_owned(), Journal::new(&state));
        let lives = lives.name(dir.as_fd()).unwrap();
        let work = path.child(b"work");
        let at = |name: &str| crate::walk::os_path(&work.child(name.as_bytes())).to_owned();
        for name in [left.as_str(), lives.as_str(), ".ringfence-0123456789abcdef", "mine"] {
            std::fs::write(at(name), name).unwrap();
        }
        // As the kernel leaves it when the process is killed: the record is there, and no lock.
        let record = journal.record.lock().unwrap().take().unwrap();
        drop(rustix::io::dup(&record.file).unwrap());
        rustix::fs::flock(&record.file, FlockOperation::Unlock).unwrap();
        assert_eq!(sweep(&state), [work.child(left.as_bytes())]);
        assert!(!at(&left).exists());
        assert!(at(lives.as_str()).exists() && at("mine").exists() && at(".ringfence-0123456789abcdef").exists());
        assert!(sweep(&state).is_empty());
    }

    #[test]
    fn g4_a_record_removes_nothing_else() {
        let (_temp, path, dir) = place();
        let status = rustix::fs::fstat(&dir).unwrap();
        let (work, state) = (path.child(b"work"), path.child(b"state"));
        let records = state.child(RECORDS);
        std::fs::create_dir_all(crate::walk::os_path(&records)).unwrap();
        let name = ".ringfence-00000000000000aa";
        std::fs::write(crate::walk::os_path(&work.child(name.as_bytes())), "x").unwrap();
        std::fs::write(crate::walk::os_path(&work.child(b"mine")), "x").unwrap();
        let (dev, ino) = (status.st_dev, status.st_ino);
        for text in [
            format!("{dev} {ino} mine\0{work}\0"),
            format!("{dev} {ino} ../work/{name}\0{work}\0"),
            format!("{dev} {} {name}\0{work}\0", ino + 1),
            format!("{dev} {ino} {name}\0{work}"),
            format!("{dev} {ino} {name}"),
            String::new(),
        ] {
            std::fs::write(crate::walk::os_path(&records.child(b".ringfence-00000000000000bb")), text.as_bytes())
                .unwrap();
            assert!(sweep(&state).is_empty(), "{text:?}");
            assert_eq!(names(&work), 2, "{text:?}");
        }
    }
}
