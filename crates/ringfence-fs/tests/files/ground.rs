//! Where the tests stand: a directory with a root `in`, and beside it an `out` that nothing may touch.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ringfence_fs::{Root, Writable};

/// Somebody without an account.
pub(crate) const ORDINARY: u32 = 44_444;

pub(crate) struct Ground {
    temp: tempfile::TempDir,
}

impl Ground {
    /// In memory where that can be had: many of these tests bring every file to the disk.
    pub(crate) fn new() -> Self {
        let builder = tempfile::Builder::new();
        let temp = builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir()).unwrap();
        let ground = Self { temp };
        for dir in ["in", "out/dir"] {
            fs::create_dir_all(ground.base().join(dir)).unwrap();
        }
        fs::write(ground.outside("secret"), "SECRET").unwrap();
        fs::write(ground.outside("dir/f"), "SECRET").unwrap();
        // Also for somebody ordinary.
        fs::set_permissions(ground.base(), fs::Permissions::from_mode(0o755)).unwrap();
        ground
    }

    pub(crate) fn base(&self) -> &Path {
        self.temp.path()
    }

    pub(crate) fn inside(&self, path: &str) -> PathBuf {
        self.base().join("in").join(path)
    }

    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.base().join("out").join(path)
    }

    pub(crate) fn root(&self) -> Root {
        Root::open(self.inside(""), Writable::everything()).unwrap()
    }

    pub(crate) fn root_with(&self, globs: &[&str]) -> Root {
        Root::open(self.inside(""), Writable::globs(globs).unwrap()).unwrap()
    }

    /// Every path below `out`, with its kind, its mode and what it holds.
    pub(crate) fn outsides(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        snapshot(&self.base().join("out"))
    }

    pub(crate) fn insides(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        snapshot(&self.base().join("in"))
    }
}

pub(crate) fn snapshot(top: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut queue = vec![top.to_owned()];
    while let Some(dir) = queue.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let status = fs::symlink_metadata(&path).unwrap();
            let content = if status.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            found.insert(path.strip_prefix(top).unwrap().to_owned(), (status.mode(), content));
            if status.is_dir() {
                queue.push(path);
            }
        }
    }
    found
}

/// In a thread of its own, whose rights and filters are its own.
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().expect("the work does not panic"))
}

/// As somebody who is not root.
pub(crate) fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    apart(|| {
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = (rustix::fs::Uid::from_raw(ORDINARY), rustix::fs::Gid::from_raw(ORDINARY));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        }
        work()
    })
}

/// Gives everything below to that somebody.
pub(crate) fn give(top: &Path) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(top, Some(ORDINARY), Some(ORDINARY)).unwrap();
        for path in snapshot(top).keys() {
            std::os::unix::fs::lchown(top.join(path), Some(ORDINARY), Some(ORDINARY)).unwrap();
        }
    }
}
