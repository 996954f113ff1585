//! The names in a directory, to know at once what is not there.
//!
//! Most of what the built-in rules name does not exist, and hundreds of them are in one home directory. Listing it costs less
//! than asking for each. A listing is believed only where it is all there is: on file systems of this machine that show every
//! name and take names as they are. Elsewhere (network, FAT, automounts, folded case) a name may be found that is not listed.

use std::hash::Hasher;
use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fs::{FsWord, Mode, OFlags, RawDir};

/// More names than this are not held; asking is cheaper then.
const MOST: usize = 4_096;

/// File systems that list every name that can be found: btrfs, ext2 to ext4, f2fs, overlay, tmpfs and XFS, as the kernel
/// numbers them.
const COMPLETE: &[FsWord] = &[0x9123_683e, 0xef53, 0xf2f5_2010, 0x794c_7630, 0x0102_1994, 0x5846_5342];

/// The kernel's `FS_CASEFOLD_FL`.
const FOLDED: u32 = 0x4000_0000;

/// The names of one directory, by hash: two names of one hash only cost a look.
#[derive(Debug)]
pub(super) struct Names(Vec<u64>);

impl Names {
    /// Lists a directory, where that answers for every name.
    pub(super) fn of(dir: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir, flags, Mode::empty()).ok()?;
        if !COMPLETE.contains(&rustix::fs::fstatfs(&dir).ok()?.f_type) {
            return None;
        }
        // A file system without such flags (tmpfs before 6.0) has no folded directories.
        let folded = rustix::fs::ioctl_getflags(&dir).is_ok_and(|flags| flags.bits() & FOLDED != 0);
        if folded {
            return None;
        }
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut entries = RawDir::new(&dir, &mut buffer);
        let mut names = Vec::with_capacity(64);
        while let Some(entry) = entries.next() {
            if names.len() == MOST {
                return None;
            }
            names.push(hash(entry.ok()?.file_name().to_bytes()));
        }
        names.sort_unstable();
        Some(Self(names))
    }

    /// Is this name surely not there?
    pub(super) fn lack(&self, name: &[u8]) -> bool {
        self.0.binary_search(&hash(name)).is_err()
    }
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = NameHasher::default();
    hasher.write(name);
    hasher.finish()
}

/// FNV-1a: for names of a few bytes, which come from built-in tables and policies of bounded size, no hash costs less.
pub(super) struct NameHasher(u64);

impl Default for NameHasher {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_not_lacking() {
        // A file system that lists everything, wherever tests run.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        for name in ["a", ".ssh", "x y", "é"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let names = Names::of(dir.path()).unwrap();
        for name in ["a", ".ssh", "x y", "é"] {
            assert!(!names.lack(name.as_bytes()), "{name}");
        }
        for name in ["b", ".SSH", "x", ""] {
            assert!(names.lack(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn only_a_directory_that_shows_everything_is_listed() {
        assert!(Names::of(Path::new("/proc")).is_none());
        assert!(Names::of(Path::new("/no/such/directory")).is_none());
        assert!(Names::of(Path::new("/dev/null")).is_none());
    }
}
