//! What a directory holds, read at once.
//!
//! Most of what the built-in rules name does not exist, and hundreds of them are in one home directory. Listing it costs less
//! than asking for each. A listing is believed only where it is all there is: on file systems of this machine that show every
//! name and take names as they are. Elsewhere (network, FAT, automounts, folded case) a name may be found that is not listed.

#[cfg(target_os = "linux")]
use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fs::FileType;
#[cfg(target_os = "linux")]
use rustix::fs::{Access, AtFlags, FsWord, Mode, OFlags, RawDir};

#[cfg(target_os = "linux")]
/// More names than this are not held; asking is cheaper then.
const MOST: usize = 4_096;

#[cfg(target_os = "linux")]
/// File systems that list every name that can be found: btrfs, ext2 to ext4, f2fs, overlay, tmpfs and XFS, as the kernel
/// numbers them.
const COMPLETE: &[FsWord] = &[0x9123_683e, 0xef53, 0xf2f5_2010, 0x794c_7630, 0x0102_1994, 0x5846_5342];

#[cfg(target_os = "linux")]
/// tmpfs, and the kernel's own file system of devices.
const IN_MEMORY: FsWord = 0x0102_1994;

#[cfg(target_os = "linux")]
/// A directory of one block: it has hardly a hundred names.
const SMALL: i64 = 4_096;

/// When a listing is worth its time. A name costs a third of a look, and a file system in memory does not remember what it does
/// not hold, so that looks cost more there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// In any case.
    Always,
    /// Where looks cost more, or there is little to list.
    Little,
}

#[cfg(target_os = "linux")]
/// The kernel's `FS_CASEFOLD_FL`.
const FOLDED: u32 = 0x4000_0000;

/// The names of one directory.
#[derive(Debug)]
pub(super) struct Names {
    /// One after the other.
    bytes: Vec<u8>,
    /// Sorted by name.
    list: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    start: u32,
    length: u32,
    kind: FileType,
    /// Did somebody ask for it?
    is_asked: bool,
}

impl Names {
    /// Elsewhere nobody knows which file systems list everything.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_: &Path, _: Worth) -> Option<Self> {
        None
    }

    /// Lists a directory, where that answers for every name.
    #[cfg(target_os = "linux")]
    pub(super) fn of(dir: &Path, worth: Worth) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir, flags, Mode::empty()).ok()?;
        let kind = rustix::fs::fstatfs(&dir).ok()?.f_type;
        let is_little = || kind == IN_MEMORY || rustix::fs::fstat(&dir).is_ok_and(|status| status.st_size <= SMALL);
        if !COMPLETE.contains(&kind) || worth == Worth::Little && !is_little() {
            return None;
        }
        // A file system without such flags (tmpfs before 6.0) has no folded directories.
        let is_folded = rustix::fs::ioctl_getflags(&dir).is_ok_and(|flags| flags.bits() & FOLDED != 0);
        // Without this right nothing in it can be looked at, whatever its list says.
        let is_open = || rustix::fs::accessat(&dir, c".", Access::EXEC_OK, AtFlags::EACCESS).is_ok();
        if is_folded || !is_open() {
            return None;
        }
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut entries = RawDir::new(&dir, &mut buffer);
        let (mut bytes, mut list) = (Vec::with_capacity(1024), Vec::with_capacity(64));
        while let Some(entry) = entries.next() {
            let entry = entry.ok()?;
            if list.len() == MOST {
                return None;
            }
            let name = entry.file_name().to_bytes();
            let (start, length) = (bytes.len() as u32, name.len() as u32);
            list.push(Entry { start, length, kind: entry.file_type(), is_asked: false });
            bytes.extend_from_slice(name);
        }
        list.sort_unstable_by(|a, b| name_in(&bytes, a).cmp(name_in(&bytes, b)));
        Some(Self { bytes, list })
    }

    /// What stands there under this name; nothing where there is no such name.
    pub(super) fn kind(&mut self, name: &[u8]) -> Option<FileType> {
        let place = self.list.binary_search_by(|entry| name_in(&self.bytes, entry).cmp(name)).ok()?;
        self.list[place].is_asked = true;
        Some(self.list[place].kind)
    }

    /// What was asked for and is there.
    pub(super) fn asked(&self) -> impl Iterator<Item = (&[u8], FileType)> {
        self.list.iter().filter(|entry| entry.is_asked).map(|entry| (name_in(&self.bytes, entry), entry.kind))
    }
}

fn name_in<'b>(bytes: &'b [u8], entry: &Entry) -> &'b [u8] {
    &bytes[entry.start as usize..][..entry.length as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_tells_what_is_there_and_what_is_not() {
        // A file system that lists everything, wherever tests run.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        for name in ["a", ".ssh", "x y", "é"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::create_dir(dir.path().join("dir")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let mut names = Names::of(dir.path(), Worth::Little).unwrap();
        for name in ["a", ".ssh", "x y", "é"] {
            assert_eq!(names.kind(name.as_bytes()), Some(FileType::RegularFile), "{name}");
        }
        assert_eq!(names.kind(b"dir"), Some(FileType::Directory));
        assert_eq!(names.kind(b"link"), Some(FileType::Symlink));
        for name in ["b", ".SSH", "x", "", "dir/", "aa"] {
            assert_eq!(names.kind(name.as_bytes()), None, "{name}");
        }
        assert_eq!(names.asked().count(), 6);
    }

    #[test]
    fn only_a_directory_that_shows_everything_is_listed() {
        for path in ["/proc", "/no/such/directory", "/dev/null"] {
            assert!(Names::of(Path::new(path), Worth::Always).is_none(), "{path}");
        }
    }
}
