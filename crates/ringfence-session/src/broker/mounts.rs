//! Which mounts are the view's. A descriptor may come from outside: one of the three that every program has, or what it was sent.
//! The path of what it leads to is then one of the host's, and may be the name of something else in the view.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{PoisonError, RwLock};

use rustix::fs::{AtFlags, MemfdFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::resolve::mount_of;

/// `STATX_MNT_ID_UNIQUE`, since Linux 6.8: a number that no other mount gets later.
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The view's mounts by their numbers.
#[derive(Debug)]
pub(super) struct Mounts {
    known: RwLock<BTreeSet<u64>>,
    /// Where files that are nothing but memory are; nothing is mounted there.
    memory: Option<u64>,
}

impl Mounts {
    pub(super) fn new() -> Self {
        let memory = rustix::fs::memfd_create(c"", MemfdFlags::CLOEXEC).and_then(rustix::fs::fstat);
        Self { known: RwLock::new(BTreeSet::new()), memory: memory.ok().map(|status| status.st_dev) }
    }

    /// Is this in the view?
    pub(super) fn hold(&self, fd: BorrowedFd<'_>) -> rustix::io::Result<bool> {
        let (number, is_unique) = number_of(fd)?;
        if self.known.read().unwrap_or_else(PoisonError::into_inner).contains(&number) {
            return Ok(true);
        }
        // What was given since is not known yet.
        let now = present()?;
        let is_there = now.contains(&mount_of(fd)?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if !is_unique {
            *known = now;
        } else if is_there {
            known.insert(number);
        }
        Ok(is_there)
    }

    /// Is this file nothing but memory?
    pub(super) fn is_memory(&self, device: u64) -> bool {
        self.memory == Some(device)
    }
}

/// The number that a mount is remembered by, and whether no other gets it. One that another may get, once this one has gone, could be that
/// of something of the host's, by a descriptor that was sent.
fn number_of(fd: BorrowedFd<'_>) -> rustix::io::Result<(u64, bool)> {
    let status = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, UNIQUE)?;
    if status.stx_mask & UNIQUE.bits() != 0 { Ok((status.stx_mnt_id, true)) } else { Ok((mount_of(fd)?, false)) }
}

fn present() -> rustix::io::Result<BTreeSet<u64>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(c"/proc/thread-self/mountinfo", flags, Mode::empty())?;
    let (mut text, mut part) = (Vec::new(), [0; 8192]);
    loop {
        match rustix::io::read(file.as_fd(), &mut part) {
            Ok(0) => break,
            Ok(read) => text.extend_from_slice(&part[..read]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    let number = |line: &[u8]| std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?.parse().ok();
    Ok(text.split(|byte| *byte == b'\n').filter_map(number).collect())
}

#[cfg(test)]
mod tests {
    use ringfence_testkit::report_skip;
    use rustix::mount::{
        MountFlags, MountPropagationFlags, OpenTreeFlags, UnmountFlags, mount, mount_change, open_tree, unmount,
    };

    use super::*;

    /// The kernel gives the number of a mount that has gone to the next one, wherever that is.
    #[test]
    fn a_mount_that_has_the_number_of_one_that_has_gone_is_not_the_views() {
        if !rustix::process::geteuid().is_root() {
            return report_skip("mounts that take over a number: the tests do not run as root");
        }
        ringfence_sys::process::unshare_mounts().unwrap();
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        let place = tempfile::tempdir().unwrap();
        let mounts = Mounts::new();
        // Others of the machine may be faster.
        for _ in 0..100 {
            mount(c"none", place.path(), c"tmpfs", MountFlags::empty(), None).unwrap();
            let held = rustix::fs::open(place.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
            let number = mount_of(held.as_fd()).unwrap();
            assert!(mounts.hold(held.as_fd()).unwrap());
            drop(held);
            unmount(place.path(), UnmountFlags::DETACH).unwrap();
            let tree =
                || open_tree(rustix::fs::CWD, c"/", OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC);
            let trees: Vec<_> = (0..16).map(|_| tree().unwrap()).collect();
            if let Some(other) = trees.iter().find(|tree| mount_of(tree.as_fd()).unwrap() == number) {
                assert!(!mounts.hold(other.as_fd()).unwrap());
                return;
            }
        }
        panic!("no other mount got its number");
    }
}
