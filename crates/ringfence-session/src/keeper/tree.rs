//! The directories in which something new is noticed (inotify), and how many they may be.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use ringfence_surface::AbsPath;
use rustix::fs::OFlags;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::place::{open_beneath, relative};

/// More are not watched: each keeps an inode in the kernel's memory.
const MOST: usize = 16_384;

/// The directories that are watched.
#[derive(Debug)]
pub(super) struct Tree {
    inotify: OwnedFd,
    /// Where each of them is, by the kernel's number for it.
    places: HashMap<i32, AbsPath>,
    most: usize,
    buffer: Vec<MaybeUninit<u8>>,
}

/// Why a directory is not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unwatched {
    /// There are too many.
    TooMany,
    /// The kernel says no.
    Refused(Errno),
}

/// What a name stood for when it appeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IsDirectory {
    Yes,
    No,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Noticed {
    /// A name appeared, of a directory or of something else.
    Name(AbsPath, IsDirectory),
    /// More happened than the kernel kept.
    Lost,
}

impl Tree {
    pub(super) fn new() -> rustix::io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // What else of this user watches something needs its part.
        let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").ok();
        let limit = limit.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(MOST);
        let buffer = vec![MaybeUninit::uninit(); 32 << 10];
        Ok(Self { inotify, places: HashMap::new(), most: MOST.min(limit / 4), buffer })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Watches a directory. One that is watched already is known under this path from now on: it was moved.
    pub(super) fn watch(&mut self, dir: &OwnedFd, path: &AbsPath) -> Result<(), Unwatched> {
        let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let by_descriptor = format!("/proc/self/fd/{}", dir.as_raw_fd());
        if self.places.len() >= self.most {
            return Err(Unwatched::TooMany);
        }
        match inotify::add_watch(&self.inotify, by_descriptor.as_str(), flags) {
            Ok(number) => {
                self.places.insert(number, path.clone());
                Ok(())
            }
            Err(Errno::NOSPC | Errno::NOMEM) => Err(Unwatched::TooMany),
            Err(errno) => Err(Unwatched::Refused(errno)),
        }
    }

    /// Nothing below a place is watched any more.
    pub(super) fn forget(&mut self, root: &AbsPath) {
        let below = self.places.iter().filter(|(_, path)| path.is_within(root));
        for number in below.map(|(number, _)| *number).collect::<Vec<_>>() {
            // It may have gone by itself.
            let _ = inotify::remove_watch(&self.inotify, number);
            self.places.remove(&number);
        }
    }

    /// What happened since it was last asked.
    pub(super) fn noticed(&mut self) -> Vec<Noticed> {
        let mut noticed = Vec::new();
        let mut reader = inotify::Reader::new(&self.inotify, &mut self.buffer);
        // What is left when nobody waits for it any more is read at the next turn.
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                noticed.push(Noticed::Lost);
            } else if event.events().contains(ReadFlags::IGNORED) {
                self.places.remove(&event.wd());
            } else if let (Some(dir), Some(name)) = (self.places.get(&event.wd()), event.file_name()) {
                let is_dir = event.events().contains(ReadFlags::ISDIR);
                let kind = if is_dir { IsDirectory::Yes } else { IsDirectory::No };
                noticed.push(Noticed::Name(dir.child(name.to_bytes()), kind));
            }
            if noticed.len() >= MOST_AT_ONCE && reader.is_buffer_empty() {
                break;
            }
        }
        noticed
    }
}

/// So much is looked at before anything is done about it.
const MOST_AT_ONCE: usize = 4_096;

/// Opens a directory to be listed. That nobody inside did so shows in no time of access, where the kernel lets that be.
pub(super) fn open_to_list(top: &OwnedFd, path: &AbsPath) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    match open_beneath(top, &relative(path), flags | OFlags::NOATIME) {
        Err(Errno::PERM) => open_beneath(top, &relative(path), flags),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::Mode;

    use super::*;

    fn open(path: &AbsPath) -> OwnedFd {
        rustix::fs::open(path.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    fn place() -> (tempfile::TempDir, AbsPath) {
        let place = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(place.path()).unwrap();
        (place, AbsPath::lexical(path.as_os_str().as_bytes()).unwrap())
    }

    #[test]
    fn names_are_noticed_where_their_directory_is_now() {
        let (held, root) = place();
        fs::create_dir(held.path().join("a")).unwrap();
        let mut tree = Tree::new().unwrap();
        tree.watch(&open(&root), &root).unwrap();
        tree.watch(&open(&root.join("a")), &root.join("a")).unwrap();
        fs::write(held.path().join("a/x"), "").unwrap();
        assert_eq!(tree.noticed(), [Noticed::Name(root.join("a/x"), IsDirectory::No)]);
        fs::rename(held.path().join("a"), held.path().join("b")).unwrap();
        assert_eq!(tree.noticed(), [Noticed::Name(root.join("b"), IsDirectory::Yes)]);
        tree.watch(&open(&root.join("b")), &root.join("b")).unwrap();
        fs::write(held.path().join("b/y"), "").unwrap();
        assert_eq!(tree.noticed(), [Noticed::Name(root.join("b/y"), IsDirectory::No)]);
        fs::remove_dir_all(held.path().join("b")).unwrap();
        assert_eq!(tree.noticed(), []);
        assert_eq!(tree.places.len(), 1);
        tree.forget(&root);
        fs::write(held.path().join("z"), "").unwrap();
        assert_eq!(tree.noticed(), []);
    }

    #[test]
    fn there_are_never_more_than_there_may_be() {
        let (held, root) = place();
        let mut tree = Tree { most: 2, ..Tree::new().unwrap() };
        for (name, expected) in [("a", Ok(())), ("b", Ok(())), ("c", Err(Unwatched::TooMany))] {
            fs::create_dir(held.path().join(name)).unwrap();
            assert_eq!(tree.watch(&open(&root.join(name)), &root.join(name)), expected, "{name}");
        }
        // What goes makes room.
        fs::remove_dir(held.path().join("a")).unwrap();
        assert_eq!(tree.noticed(), []);
        assert_eq!(tree.watch(&open(&root.join("c")), &root.join("c")), Ok(()));
    }
}
