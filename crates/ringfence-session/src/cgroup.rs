//! Limits on memory and processes, where a part of the control groups is ours to give.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_surface::{AbsPath, Caps};
use rustix::fs::{Mode, OFlags};

use crate::walk::os_path;

/// A control group of the session. It goes away with the value, and whoever is in it.
#[derive(Debug)]
pub(crate) struct Group {
    path: AbsPath,
    dir: OwnedFd,
}

/// Which limits are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) memory: Option<u64>,
    pub(crate) pids: Option<u32>,
}

impl Wanted {
    pub(crate) fn of(caps: &Caps) -> Self {
        Self { memory: caps.memory.as_ref().map(|cap| cap.value), pids: caps.pids.as_ref().map(|cap| cap.value) }
    }

    fn controllers(self) -> impl Iterator<Item = &'static str> {
        self.memory.map(|_| "memory").into_iter().chain(self.pids.map(|_| "pids"))
    }
}

impl Group {
    /// Makes one with these limits, in the nearest group above us that hands their controllers down and lets us in.
    pub(crate) fn create(wanted: Wanted, name: &str) -> Option<Self> {
        let root = &hierarchy(&fs::read("/proc/self/mountinfo").ok()?)?;
        let own = fs::read("/proc/self/cgroup").ok()?;
        let own = own.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"0::/"))?;
        let own = if own.is_empty() {
            root.clone()
        } else {
            AbsPath::lexical(&[root.as_bytes(), b"/", own].concat()).ok()?
        };
        own.ancestors().take_while(|dir| dir.is_within(root)).find_map(|dir| Self::create_in(&dir, wanted, name))
    }

    fn create_in(above: &AbsPath, wanted: Wanted, name: &str) -> Option<Self> {
        let handed_down = fs::read_to_string(os_path(&above.join("cgroup.subtree_control"))).ok()?;
        if !wanted.controllers().all(|needed| handed_down.split_whitespace().any(|word| word == needed)) {
            return None;
        }
        sweep(above);
        let path = above.join(&format!("{PREFIX}{name}"));
        fs::create_dir(os_path(&path)).ok()?;
        let group =
            rustix::fs::open(path.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let group = Self { path: path.clone(), dir: group.ok()? };
        group.set(wanted).ok()?;
        group.lets_in().then_some(group)
    }

    fn set(&self, wanted: Wanted) -> io::Result<()> {
        let write = |file: &str, text: String| fs::write(os_path(&self.path.join(file)), text);
        if let Some(bytes) = wanted.memory {
            write("memory.max", bytes.to_string())?;
            // Without this the rest goes to the host's swap. Kernels without swap have no such file.
            match write("memory.swap.max", "0".into()) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                _ => {}
            }
        }
        if let Some(count) = wanted.pids {
            // The first process in there is ours.
            write("pids.max", (u64::from(count) + 1).to_string())?;
        }
        Ok(())
    }

    /// A child that ends at once is sent there: rights to a group are not enough, those to the one above both count as well.
    fn lets_in(&self) -> bool {
        use ringfence_sys::process::{Namespaces, clone_into};
        let Ok(child) = clone_into(Namespaces::NONE, Some(self.as_fd()), || 0) else { return false };
        rustix::process::waitpid(Some(child.pid), rustix::process::WaitOptions::empty()).is_ok()
    }
}

/// Where the second version's hierarchy is mounted: the fifth field of its line. One at a path with odd characters is not used.
fn hierarchy(mountinfo: &[u8]) -> Option<AbsPath> {
    let is_it = |line: &&[u8]| line.windows(11).any(|part| part == b" - cgroup2 ");
    let line = mountinfo.split(|b| *b == b'\n').find(is_it)?;
    let path = line.split(|b| *b == b' ').nth(4).filter(|path| !path.contains(&b'\\'))?;
    AbsPath::lexical(path).ok()
}

/// How the groups of sessions begin.
const PREFIX: &str = "ringfence-";

/// Removes groups whose supervisor was killed. One with processes in it cannot be removed; one that is being made is young.
fn sweep(above: &AbsPath) {
    let is_old = |entry: &fs::DirEntry| {
        let age = entry.metadata().and_then(|metadata| metadata.modified()).map(|made| made.elapsed());
        age.is_ok_and(|age| age.is_ok_and(|age| age.as_secs() > 60))
    };
    let is_ours = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
    let entries = fs::read_dir(os_path(above)).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_ours(entry) && is_old(entry)).take(32) {
        let _ = fs::remove_dir(entry.path());
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(os_path(&self.path.join("cgroup.kill")), "1");
        // What was killed is gone a moment later.
        for _ in 0..200 {
            match fs::remove_dir(os_path(&self.path)) {
                Err(cause) if cause.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found() {
        let table = b"25 1 0:22 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n26 1 0:23 / /sys/fs/cgroup rw - cgroup2 c rw\n";
        assert_eq!(hierarchy(table).unwrap().as_bytes(), b"/sys/fs/cgroup");
        assert_eq!(hierarchy(b"25 1 0:22 / / rw - ext4 /dev/vda rw\n"), None);
    }
}
