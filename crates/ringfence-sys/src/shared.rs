//! Numbers that several processes share, by way of a file, and locks on single bytes of it.
//!
//! The locks are those of an open file description: the kernel lets go of them when the last process that has it has ended,
//! however it ended.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rustix::io::Errno;

/// A file's content as numbers that others change at the same time.
#[derive(Debug)]
pub struct Numbers(NonNull<[AtomicU32]>);

// SAFETY: it is memory that stays mapped as long as this lives, and is only reached through atomics.
unsafe impl Send for Numbers {}
// SAFETY: the same memory, and whoever shares it reaches it through atomics too.
unsafe impl Sync for Numbers {}

impl Numbers {
    /// The first so many numbers of a file. They come along into a copy of this process.
    ///
    /// # Errors
    /// When the file is shorter, or of a kind that cannot be mapped.
    pub fn map(file: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        let length = count.checked_mul(size_of::<AtomicU32>()).filter(|length| *length > 0);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        // Whoever touches a page behind the end of a file is ended.
        if rustix::fs::fstat(file)?.st_size < i64::try_from(length).unwrap_or(i64::MAX) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the kernel chooses a place where nothing is.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<AtomicU32>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self(NonNull::slice_from_raw_parts(start, count)))
    }

    /// One of them.
    ///
    /// # Panics
    /// Behind the last.
    pub fn at(&self, at: usize) -> &AtomicU32 {
        // SAFETY: so many of them are mapped at a page's start, and stay so until this is dropped.
        let all = unsafe { self.0.as_ref() };
        &all[at]
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nobody has a reference into it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), self.0.len() * size_of::<AtomicU32>()) };
    }
}

/// How a byte is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteLock {
    /// Beside others who share it.
    Shared,
    /// By nobody else.
    Alone,
    /// Let go of.
    Open,
}

/// Locks a byte of a file, for everybody who has this open file description. Waits for nobody.
///
/// # Errors
/// `EAGAIN` where somebody else has it.
pub fn lock_byte(file: BorrowedFd<'_>, at: u32, how: ByteLock) -> rustix::io::Result<()> {
    let kind = match how {
        ByteLock::Shared => libc::F_RDLCK,
        ByteLock::Alone => libc::F_WRLCK,
        ByteLock::Open => libc::F_UNLCK,
    };
    match ask(file, libc::F_OFD_SETLK, at, kind) {
        Err(Errno::ACCESS) => Err(Errno::AGAIN),
        other => other.map(drop),
    }
}

/// Has somebody else locked a byte, in any way?
///
/// # Errors
/// Where that cannot be asked.
pub fn is_locked(file: BorrowedFd<'_>, at: u32) -> rustix::io::Result<bool> {
    Ok(ask(file, libc::F_OFD_GETLK, at, libc::F_WRLCK)?.l_type != kind_of(libc::F_UNLCK))
}

fn ask(file: BorrowedFd<'_>, command: i32, at: u32, kind: i32) -> rustix::io::Result<libc::flock> {
    let mut lock = libc::flock {
        l_type: kind_of(kind),
        l_whence: kind_of(libc::SEEK_SET),
        l_start: libc::off_t::from(at),
        l_len: 1,
        // These locks are no process's.
        l_pid: 0,
    };
    // SAFETY: takes a descriptor that is open, and a structure of ours that the kernel may write.
    if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } < 0 {
        let errno = io::Error::last_os_error().raw_os_error();
        return Err(errno.map_or(Errno::IO, Errno::from_raw_os_error));
    }
    Ok(lock)
}

/// The kinds are small numbers.
fn kind_of(number: i32) -> libc::c_short {
    libc::c_short::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::sync::atomic::Ordering;

    use rustix::fs::{Mode, OFlags};

    use super::*;

    /// The same file, opened twice.
    fn twice() -> [std::os::fd::OwnedFd; 2] {
        let one = rustix::fs::memfd_create(c"shared", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let path = format!("/proc/self/fd/{}", one.as_raw_fd());
        let other = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        [one, other]
    }

    #[test]
    fn what_one_writes_the_other_reads() {
        let [one, other] = twice();
        assert!(Numbers::map(one.as_fd(), 4).is_err(), "nothing is there yet");
        rustix::fs::ftruncate(&one, 16).unwrap();
        let (a, b) = (Numbers::map(one.as_fd(), 4).unwrap(), Numbers::map(other.as_fd(), 4).unwrap());
        a.at(3).store(7, Ordering::SeqCst);
        assert_eq!(b.at(3).load(Ordering::SeqCst), 7);
        assert!(Numbers::map(one.as_fd(), 5).is_err());
        assert!(Numbers::map(one.as_fd(), 0).is_err());
    }

    #[test]
    fn a_byte_is_held_until_the_last_who_has_the_file_lets_go() {
        let [one, other] = twice();
        let try_at = |at, how| lock_byte(other.as_fd(), at, how);
        lock_byte(one.as_fd(), 5, ByteLock::Alone).unwrap();
        assert!(is_locked(other.as_fd(), 5).unwrap() && !is_locked(other.as_fd(), 4).unwrap());
        assert!(!is_locked(one.as_fd(), 5).unwrap(), "one's own is nobody else's");
        assert_eq!(try_at(5, ByteLock::Shared), Err(Errno::AGAIN));
        try_at(4, ByteLock::Alone).unwrap();
        lock_byte(one.as_fd(), 5, ByteLock::Shared).unwrap();
        try_at(5, ByteLock::Shared).unwrap();
        assert_eq!(try_at(5, ByteLock::Alone), Err(Errno::AGAIN));
        let copy = one.try_clone().unwrap();
        drop(one);
        assert!(is_locked(other.as_fd(), 5).unwrap());
        drop(copy);
        assert!(!is_locked(other.as_fd(), 5).unwrap());
        try_at(5, ByteLock::Alone).unwrap();
        try_at(5, ByteLock::Open).unwrap();
    }
}
