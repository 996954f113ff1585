//! Every open descriptor of this process, on kernels and under filters without `close_range`.
//!
//! `close_range` exists since Linux 5.9 and its flag `CLOSE_RANGE_CLOEXEC` since 5.11, and the seccomp filters of older container
//! engines refuse both (`ENOSYS` or `EPERM`). The call is an optimisation: `/proc/self/fd` lists the same descriptors, and every
//! backend needs a `/proc` anyway. Nothing in here allocates, since it runs between clone and exec.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, RawFd};

use rustix::fs::{Mode, OFlags, RawDir};

/// Calls `change` with every open descriptor from `first` on, except the one that this function reads the list with. `change` may
/// close the descriptor: the kernel lists them by number, so the position in the list does not move. Allocates nothing.
///
/// # Errors
/// When `/proc/self/fd` cannot be read, or is not the list of this process's descriptors.
pub(crate) fn for_each_open(first: RawFd, mut change: impl FnMut(RawFd) -> io::Result<()>) -> io::Result<()> {
    // Not `/dev/fd`: in a mount namespace of ours that is a link the session made.
    let list = rustix::fs::open(c"/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let own = list.as_raw_fd();
    let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 2048];
    let mut entries = RawDir::new(&list, &mut buffer);
    let mut has_own = false;
    while let Some(entry) = entries.next() {
        let Some(number) = number(entry?.file_name().to_bytes()) else { continue };
        if number == own {
            has_own = true;
        } else if number >= first {
            change(number)?;
        }
    }
    // An empty directory in the place of `/proc` would say that nothing is open, and every descriptor would be inherited.
    if has_own { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// A name of `/proc/self/fd`; nothing for `.` and `..`.
fn number(name: &[u8]) -> Option<RawFd> {
    if name.is_empty() {
        return None;
    }
    name.iter().try_fold(0, |number: RawFd, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn numbers_of_descriptors() {
        assert_eq!((number(b"0"), number(b"65536"), number(b"2147483647")), (Some(0), Some(65536), Some(i32::MAX)));
        for name in [&b"."[..], b"..", b"", b"1a", b"2147483648", b"-1"] {
            assert_eq!(number(name), None, "{name:?}");
        }
    }

    /// I1: more descriptors than one call of getdents64 lists, none left out and none below `first`.
    #[test]
    fn i1_every_open_descriptor_is_listed() {
        let dup = || rustix::io::fcntl_dupfd_cloexec(io::stderr(), 500);
        let made: Vec<OwnedFd> = (0..400).map(|_| dup().expect("the limit is above 1000")).collect();
        let mut seen = Vec::new();
        for_each_open(500, |fd| {
            seen.push(fd);
            Ok(())
        })
        .expect("/proc is mounted");
        assert!(made.iter().all(|fd| seen.contains(&fd.as_raw_fd())), "{seen:?}");
        assert!(seen.iter().all(|fd| *fd >= 500), "{seen:?}");
    }
}
