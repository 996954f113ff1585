//! A file that no process can write to while its content is judged and it is moved into place.
//!
//! The caller may keep a descriptor, or a mapping, by which it could write after the check (TOCTOU). A read lease is given only where
//! no process has the file open for writing, and delays any open for writing meanwhile. Where leases are unavailable,
//! or a process has the file open, the content is copied, and the copy is what is judged and put in place.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_git::pack::ReadAt;
use ringfence_sys::lease;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::{Refusal, c_string};
use crate::sparse;
use crate::temporary::{Journal, NewFile};

/// A regular file with one name.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) content: Vec<u8>,
    pub(crate) mode: Mode,
    times: Timestamps,
    #[expect(dead_code, reason = "the lease lasts as long as it is open")]
    file: OwnedFd,
    is_leased: bool,
}

/// Why a file cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFrozen {
    /// It is no regular file, or has a second name.
    NotPlain,
    /// It is longer than what is judged.
    Long,
    Failed(Errno),
}

impl From<Errno> for NotFrozen {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

impl Frozen {
    /// Opens a file that is to be read. With whose rights, the caller decides.
    ///
    /// # Errors
    /// ELOOP and ENXIO where it is no regular file.
    pub(crate) fn open(dir: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(dir, c_string(name)?.as_c_str(), flags, Mode::empty())
    }

    /// Reads a file of at most `most` bytes that [`Frozen::open`] has opened.
    pub(crate) fn of(opened: rustix::io::Result<OwnedFd>, most: usize) -> Result<Self, NotFrozen> {
        let file = match opened {
            Err(Errno::LOOP | Errno::NXIO) => return Err(NotFrozen::NotPlain),
            other => other?,
        };
        let status = rustix::fs::fstat(&file)?;
        let is_plain = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile && status.st_nlink <= 1;
        if !is_plain {
            return Err(NotFrozen::NotPlain);
        }
        let is_leased = lease::take_read_lease(file.as_fd()).is_ok();
        let content = read_all(file.as_fd(), most)?.ok_or(NotFrozen::Long)?;
        let times = times_of(&status);
        Ok(Self { content, mode: Mode::from_raw_mode(status.st_mode & 0o777), times, file, is_leased })
    }

    /// Whether a read lease is held, so that no process can write to the file.
    pub(crate) fn is_leased(&self) -> bool {
        self.is_leased
    }

    /// Another content takes the place of what was read.
    pub(crate) fn with(self, content: Vec<u8>) -> Self {
        Self { content, ..self }
    }

    /// Whether a process has a file open for writing.
    pub(crate) fn writers(file: &OwnedFd) -> Writers {
        match lease::take_read_lease(file.as_fd()) {
            Ok(()) => Writers::None,
            Err(Errno::AGAIN) => Writers::Some,
            Err(_) => Writers::Unknown,
        }
    }

    /// Puts a copy of a file of any length in place, and removes the file. No process has a descriptor or a name of the copy.
    ///
    /// # Errors
    /// What the kernel answers.
    pub(crate) fn move_copy(
        from: (BorrowedFd<'_>, &[u8]),
        to: (BorrowedFd<'_>, &[u8]),
        journal: Option<&Journal>,
    ) -> rustix::io::Result<()> {
        let of = |cause: std::io::Error| Errno::from_io_error(&cause).unwrap_or(Errno::IO);
        let old = c_string(from.1)?;
        let file = File::from(Self::open(from.0, from.1)?);
        let status = rustix::fs::fstat(&file)?;
        let new = NewFile::create(to.0, journal, Mode::RUSR | Mode::WUSR).map_err(of)?;
        sparse::copy(&file, new.file()).map_err(of)?;
        rustix::fs::fchmod(new.file(), Mode::from_raw_mode(status.st_mode & 0o777))?;
        rustix::fs::futimens(new.file(), &times_of(&status))?;
        new.replace(to.1).map_err(of)?;
        let removed = rustix::fs::unlinkat(from.0, old.as_c_str(), AtFlags::empty());
        if removed.is_err() {
            // A move that fails changes nothing. The first failure is returned.
            let _ = rustix::fs::unlinkat(to.0, c_string(to.1)?.as_c_str(), AtFlags::empty());
        }
        removed
    }

    /// Puts a copy of what was judged in place, and removes the file.
    ///
    /// The file itself is not moved there: a process may have it open or mapped, and another thread may be giving it a second name (a hard
    /// link alias) between the check and the move. No process has a descriptor or a name of the copy.
    ///
    /// # Errors
    /// What the kernel answers to rename(2).
    pub(crate) fn rename(
        self,
        from: (BorrowedFd<'_>, &[u8]),
        to: (BorrowedFd<'_>, &[u8]),
        journal: Option<&Journal>,
    ) -> rustix::io::Result<()> {
        let old = c_string(from.1)?;
        put_dated(to.0, to.1, &self.content, (self.mode, None), (journal, Some(&self.times)))?;
        match rustix::fs::unlinkat(from.0, old.as_c_str(), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }
}

/// Whether a process has a file open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    None,
    Some,
    /// The file system has no leases, or the file belongs to another user.
    Unknown,
}

fn times_of(status: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    Timestamps {
        last_access: time(status.st_atime as _, status.st_atime_nsec as _),
        last_modification: time(status.st_mtime as _, status.st_mtime_nsec as _),
    }
}

/// Have two files the same content?
pub(crate) fn are_same(one: (BorrowedFd<'_>, &[u8]), other: (BorrowedFd<'_>, &[u8])) -> rustix::io::Result<bool> {
    let open = |(dir, name): (BorrowedFd<'_>, &[u8])| -> rustix::io::Result<(OwnedFd, Stat)> {
        let file = Frozen::open(dir, name)?;
        let status = rustix::fs::fstat(&file)?;
        Ok((file, status))
    };
    let ((one, a), (other, b)) = (open(one)?, open(other)?);
    let is_file = |status: &Stat| FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    if !is_file(&a) || !is_file(&b) || a.st_size != b.st_size {
        return Ok(false);
    }
    let (mut first, mut second, mut at) = (vec![0; 64 << 10], vec![0; 64 << 10], 0);
    loop {
        let got = read_part(one.as_fd(), at, &mut first);
        if got != read_part(other.as_fd(), at, &mut second) || first[..got] != second[..got] {
            return Ok(false);
        }
        at += got as u64;
        if got < first.len() {
            return Ok(at == a.st_size.cast_unsigned());
        }
    }
}

/// A file that is read at offsets, and that no process can write to meanwhile.
#[derive(Debug)]
pub(crate) struct LeasedFile {
    file: OwnedFd,
    size: u64,
}

impl LeasedFile {
    /// Opens a regular file with one name.
    ///
    /// # Errors
    /// [`Refusal::Open`] where a process has it open for writing, [`Refusal::Unreadable`] where it cannot be opened.
    pub(crate) fn open(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Self, Refusal> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let name = c_string(name).map_err(|_| Refusal::Unreadable)?;
        let file = rustix::fs::openat(dir, name.as_c_str(), flags, Mode::empty()).map_err(|_| Refusal::Unreadable)?;
        let status = rustix::fs::fstat(&file).map_err(|_| Refusal::Unreadable)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || status.st_nlink != 1 {
            return Err(Refusal::Link);
        }
        // Without leases it is unknown whether a process has it open; then only the rules of its place hold.
        if lease::take_read_lease(file.as_fd()) == Err(Errno::AGAIN) {
            return Err(Refusal::Open);
        }
        Ok(Self { file, size: u64::try_from(status.st_size).unwrap_or_default() })
    }
}

impl ReadAt for LeasedFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        read_part(self.file.as_fd(), offset, buffer)
    }
}

/// Reads from an offset until the buffer is full, the file ends, or a read fails.
pub(crate) fn read_part(file: BorrowedFd<'_>, offset: u64, buffer: &mut [u8]) -> usize {
    let mut done = 0;
    while done < buffer.len() {
        match rustix::io::pread(file, &mut buffer[done..], offset + done as u64) {
            Ok(0) | Err(_) => return done,
            Ok(read) => done += read,
        }
    }
    done
}

/// All of a file from its beginning, unless it is longer than `most`.
pub(crate) fn read_all(file: BorrowedFd<'_>, most: usize) -> rustix::io::Result<Option<Vec<u8>>> {
    let size = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(usize::MAX);
    if size > most {
        return Ok(None);
    }
    let mut content = Vec::with_capacity(size + 1);
    let mut part = [0; 16 << 10];
    loop {
        match rustix::io::pread(file, part.as_mut_slice(), content.len() as u64) {
            Ok(0) => return Ok(Some(content)),
            Ok(read) => content.extend_from_slice(&part[..read]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if content.len() > most {
            return Ok(None);
        }
    }
}

/// Puts a new file with this content under a name, in the place of whatever file was there. Root gives it to `owner`.
///
/// # Errors
/// EBUSY where something is mounted over the name.
pub(crate) fn put(
    dir: BorrowedFd<'_>,
    name: &[u8],
    content: &[u8],
    (mode, owner): (Mode, Option<(u32, u32)>),
    journal: Option<&Journal>,
) -> rustix::io::Result<()> {
    put_dated(dir, name, content, (mode, owner), (journal, None))
}

/// The same with times of its own.
fn put_dated(
    dir: BorrowedFd<'_>,
    name: &[u8],
    content: &[u8],
    (mode, owner): (Mode, Option<(u32, u32)>),
    (journal, times): (Option<&Journal>, Option<&Timestamps>),
) -> rustix::io::Result<()> {
    let of = |cause: std::io::Error| Errno::from_io_error(&cause).unwrap_or(Errno::IO);
    let new = NewFile::create(dir, journal, Mode::RUSR | Mode::WUSR).map_err(of)?;
    write_all(new.file().as_fd(), content)?;
    if let Some((uid, gid)) = owner.filter(|_| rustix::process::geteuid().is_root()) {
        rustix::fs::fchown(new.file(), Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    rustix::fs::fchmod(new.file(), mode)?;
    if let Some(times) = times {
        // Git compares the time of its index with those of the files in it.
        rustix::fs::futimens(new.file(), times)?;
    }
    new.replace(name).map_err(of)
}

fn write_all(file: BorrowedFd<'_>, content: &[u8]) -> rustix::io::Result<()> {
    let mut left = content;
    while !left.is_empty() {
        match rustix::io::write(file, left) {
            Ok(written) => left = left.get(written..).ok_or(Errno::IO)?,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    /// [A8]: where no lease can be taken, a process may have the file open, but not what is put in place.
    #[test]
    fn a8_a_moved_copy_is_another_file_with_the_same_content() {
        let ground = tempfile::tempdir().unwrap();
        let old = ground.path().join("old");
        fs::write(&old, vec![7; 200_000]).unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o444)).unwrap();
        let before = fs::metadata(&old).unwrap();
        let mut held = fs::File::open(&old).unwrap();
        let dir = rustix::fs::open(ground.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        Frozen::move_copy((dir.as_fd(), b"old"), (dir.as_fd(), b"new"), None).unwrap();
        let after = fs::metadata(ground.path().join("new")).unwrap();
        assert!(!old.exists() && before.ino() != after.ino());
        assert_eq!((before.mode(), before.mtime(), before.len()), (after.mode(), after.mtime(), after.len()));
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut held, &mut content).unwrap();
        assert_eq!(fs::read(ground.path().join("new")).unwrap(), content);
    }

    #[test]
    fn a8_files_are_compared_to_their_end() {
        let ground = tempfile::tempdir().unwrap();
        let dir = rustix::fs::open(ground.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let check = |one: Vec<u8>, other: Vec<u8>, expected: bool| {
            fs::write(ground.path().join("one"), &one).unwrap();
            fs::write(ground.path().join("other"), &other).unwrap();
            let is_same = are_same((dir.as_fd(), b"one"), (dir.as_fd(), b"other")).unwrap();
            assert_eq!(is_same, expected, "{} and {} bytes", one.len(), other.len());
        };
        for length in [0, 1, 65_535, 65_536, 65_537, 131_072] {
            check(vec![1; length], vec![1; length], true);
            check(vec![1; length], vec![1; length + 1], false);
            if length > 0 {
                let mut other = vec![1; length];
                other[length - 1] = 2;
                check(vec![1; length], other, false);
            }
        }
        std::os::unix::fs::symlink("one", ground.path().join("link")).unwrap();
        assert!(are_same((dir.as_fd(), b"one"), (dir.as_fd(), b"link")).is_err());
    }
}
