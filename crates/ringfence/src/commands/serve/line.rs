//! One connection: read and written without ever waiting past a moment that was set before.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

/// How long somebody who was answered is listened to, so that the answer is not lost with what was not read.
const LINGER: Duration = Duration::from_secs(1);
/// And how much of it is taken.
const MOST_LINGER: usize = 256 << 10;

/// A connection. Its descriptor does not block.
#[derive(Debug, Clone)]
pub(super) struct Line {
    fd: Arc<OwnedFd>,
}

impl Line {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd) }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Adds what has arrived to `bytes`; `false` at the end of what is said.
    pub(super) fn read(&self, bytes: &mut Vec<u8>, most: usize, until: Instant) -> io::Result<bool> {
        let had = bytes.len();
        bytes.resize(had + most.min(16 << 10), 0);
        loop {
            let got = rustix::net::recv(&*self.fd, &mut bytes[had..], RecvFlags::DONTWAIT).map(|(got, _)| got);
            match got {
                Ok(got) => {
                    bytes.truncate(had + got);
                    return Ok(got > 0);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, until)?,
                Err(errno) => {
                    bytes.truncate(had);
                    return Err(errno.into());
                }
            }
        }
    }

    pub(super) fn write(&self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::net::send(&*self.fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, until)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn wait(&self, flags: PollFlags, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut [PollFd::new(&*self.fd, flags)], Some(&left)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Says that nothing more comes, and waits a little for the other side to say so too. A connection that is closed with
    /// something unread is reset, and the answer may be lost with it.
    pub(super) fn finish(&self) {
        let _ = rustix::net::shutdown(&*self.fd, Shutdown::Write);
        let (until, mut left) = (Instant::now() + LINGER, MOST_LINGER);
        let mut bytes = Vec::new();
        while left > 0 && matches!(self.read(&mut bytes, left, until), Ok(true)) {
            left = left.saturating_sub(bytes.len());
            bytes.clear();
        }
    }

    /// Ends it, whoever reads or writes.
    pub(super) fn cut(&self) {
        let _ = rustix::net::shutdown(&*self.fd, Shutdown::Both);
    }
}
