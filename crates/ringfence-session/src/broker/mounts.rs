//! Which mounts are the view's. A descriptor may come from outside: one of the three that every program has, or what it was sent.
//! The path of what it leads to is then one of the host's, and may be the name of something else in the view.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{PoisonError, RwLock};

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;

use super::resolve::mount_of;

/// The view's mounts by their numbers.
#[derive(Debug)]
pub(super) struct Mounts {
    known: RwLock<HashSet<u64>>,
    /// Where files that are nothing but memory are; nothing is mounted there.
    memory: Option<u64>,
}

impl Mounts {
    pub(super) fn new() -> Self {
        let memory = rustix::fs::memfd_create(c"", MemfdFlags::CLOEXEC).and_then(rustix::fs::fstat);
        Self { known: RwLock::new(HashSet::new()), memory: memory.ok().map(|status| status.st_dev) }
    }

    /// Is this in the view?
    pub(super) fn hold(&self, fd: BorrowedFd<'_>) -> rustix::io::Result<bool> {
        let mount = mount_of(fd)?;
        if self.known.read().unwrap_or_else(PoisonError::into_inner).contains(&mount) {
            return Ok(true);
        }
        // What was given since is not known yet.
        let now = present()?;
        let is_there = now.contains(&mount);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(is_there)
    }

    /// Is this file nothing but memory?
    pub(super) fn is_memory(&self, device: u64) -> bool {
        self.memory == Some(device)
    }
}

fn present() -> rustix::io::Result<HashSet<u64>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(c"/proc/self/mountinfo", flags, Mode::empty())?;
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
