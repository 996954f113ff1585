//! fcntl(2) leases: whether any process could still write to a file.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::Errno;

/// Takes a read lease on a file that is open for reading. While it is held no process opens the file for writing: the kernel lets
/// such an open wait, or fail, until the lease is given up.
///
/// # Errors
/// EAGAIN when the file is open for writing somewhere, or mapped for it; EACCES for a file of another user; EINVAL on a file system
/// without leases.
pub fn take_read_lease(fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    set(fd, libc::F_RDLCK)
}

/// Whether the lease is still held, with no process waiting to write.
///
/// # Errors
/// What the kernel says.
pub fn is_read_leased(fd: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    // SAFETY: takes numbers and touches no memory.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETLEASE) } {
        number if number >= 0 => Ok(number == libc::F_RDLCK),
        _ => Err(last()),
    }
}

/// Gives a lease up.
///
/// # Errors
/// EAGAIN when there is none.
pub fn release(fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    set(fd, libc::F_UNLCK)
}

fn set(fd: BorrowedFd<'_>, kind: i32) -> rustix::io::Result<()> {
    // SAFETY: takes numbers and touches no memory.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, kind) } == 0 { Ok(()) } else { Err(last()) }
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn no_lease_while_the_file_is_open_for_writing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reader = File::open(file.path()).unwrap();
        assert_eq!(take_read_lease(reader.as_fd()), Err(Errno::AGAIN));
        let path = file.into_temp_path();
        take_read_lease(reader.as_fd()).unwrap();
        assert_eq!(is_read_leased(reader.as_fd()), Ok(true));
        release(reader.as_fd()).unwrap();
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        assert_eq!(take_read_lease(reader.as_fd()), Err(Errno::AGAIN));
        drop(writer);
        take_read_lease(reader.as_fd()).unwrap();
    }
}
