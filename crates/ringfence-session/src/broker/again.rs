//! Directories that calls were about lately: the next call is often about one of them.
//!
//! Whoever makes a file makes others beside it. So the directory stays held, and for the next path that is spelled as this one was
//! the kernel is asked, each time, where the caller works and where the directory is: what is held is taken only where one is below the other by
//! exactly these names. No link can be on such a way, and none is followed. That is half of what it takes to find it anew.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use ringfence_surface::AbsPath;

use super::caller::{AT_FDCWD, Caller};
use super::request::Named;
use super::resolve::{Place, directory_of};

/// So many are held by each thread: more do not call it at once.
const MOST: usize = 8;

/// The directories that a thread holds.
#[derive(Debug)]
pub(super) struct Again {
    /// The last one first.
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    /// As it was spelled, from the caller's working directory.
    prefix: Vec<u8>,
    dir: Arc<OwnedFd>,
    /// Where it was.
    at: AbsPath,
}

impl Again {
    pub(super) fn new() -> Self {
        Self { held: Vec::new() }
    }

    /// The place that a path names, if the directory is held.
    pub(super) fn place(&mut self, caller: &Caller<'_>, file: Named, path: &[u8]) -> Option<Place> {
        let (prefix, name) = parts(file, path)?;
        let number = self.held.iter().position(|held| held.prefix == prefix)?;
        let held = &self.held[number];
        let cwd = format!("{}/cwd", caller.number());
        let mut there = rustix::fs::readlinkat(caller.proc, cwd, Vec::with_capacity(256)).ok()?.into_bytes();
        // So the kernel calls one that is gone, and somebody else may have called one that is there.
        if there.ends_with(b" (deleted)") {
            return None;
        }
        there.push(b'/');
        there.extend(&prefix[..prefix.len() - 1]);
        if there != held.at.as_bytes() {
            return None;
        }
        if directory_of(held.dir.as_fd()).ok()? != there {
            self.held.remove(number);
            return None;
        }
        let place = Place::entry(held.dir.clone(), held.at.clone(), name, prefix);
        self.held[..=number].rotate_right(1);
        Some(place)
    }

    /// Holds none any more.
    pub(super) fn forget(&mut self) {
        self.held.clear();
    }

    /// Holds the directory of a place that was found anew.
    pub(super) fn hold(&mut self, file: Named, path: &[u8], place: &Place) {
        let Some((prefix, _)) = parts(file, path) else { return };
        self.held.retain(|held| held.prefix != prefix);
        self.held.truncate(MOST - 1);
        self.held.insert(0, Held { prefix: prefix.to_vec(), dir: place.dir.clone(), at: place.at.clone() });
    }
}

/// The directory and the name, of a path that names an entry of a directory below the working directory.
fn parts(file: Named, path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    let (prefix, name) = (&path[..=slash], &path[slash + 1..]);
    let is_plain = file.dir == AT_FDCWD && path[0] != b'/' && !matches!(name, b"" | b"." | b"..");
    is_plain.then_some((prefix, name))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::{Mode, OFlags};

    use super::*;

    const FILE: Named = Named { dir: AT_FDCWD, path: 0 };
    const HELD: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

    fn open(path: &Path) -> OwnedFd {
        rustix::fs::open(path, HELD, Mode::empty()).unwrap()
    }

    /// A directory is held while the path leads to it and it is where it was, and then no longer.
    #[test]
    fn what_was_moved_or_replaced_is_found_anew() {
        ringfence_sys::notify::unshare_fs().unwrap();
        let ground = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(ground.path()).unwrap();
        let proc = rustix::fs::open(c"/proc", HELD, Mode::empty()).unwrap();
        let caller = Caller { thread: rustix::thread::gettid(), proc: proc.as_fd() };
        let (way, path) = (root.join("a/b"), b"a/b/name".as_slice());
        let at = AbsPath::lexical(way.as_os_str().as_bytes()).unwrap();
        let asked = |again: &mut Again| {
            std::env::set_current_dir(&root).unwrap();
            again.place(&caller, FILE, path).map(|place| place.path())
        };
        let changes: [(&str, &dyn Fn()); 4] = [
            ("nothing", &|| {}),
            ("it is moved", &|| fs::rename(root.join("a"), root.join("c")).unwrap()),
            ("another is there", &|| fs::create_dir_all(&way).unwrap()),
            ("a link leads to it by another name", &|| symlink("c", root.join("a")).unwrap()),
        ];
        for (what, change) in changes {
            let mut again = Again::new();
            for name in ["a", "c"] {
                let _ = fs::remove_file(root.join(name)).or_else(|_| fs::remove_dir_all(root.join(name)));
            }
            fs::create_dir_all(&way).unwrap();
            let place = Place::entry(Arc::new(open(&way)), at.clone(), b"name", b"a/b/");
            again.hold(FILE, path, &place);
            assert_eq!(asked(&mut again), Some(at.join("name")), "{what}");
            if what == "nothing" {
                continue;
            }
            if what != "it is moved" {
                fs::rename(root.join("a"), root.join("c")).unwrap();
            }
            change();
            assert_eq!(asked(&mut again), None, "{what}");
            assert!(again.held.is_empty() || what == "it is moved", "{what}");
        }
    }

    #[test]
    fn other_paths_are_not_looked_for() {
        for path in ["name", "/a/name", "a/", "a/.", "a/..", "", "/"] {
            assert_eq!(parts(FILE, path.as_bytes()), None, "{path}");
        }
        assert_eq!(parts(Named { dir: 3, path: 0 }, b"a/name"), None);
        assert_eq!(parts(FILE, b"../a//name"), Some((b"../a//".as_slice(), b"name".as_slice())));
    }
}
