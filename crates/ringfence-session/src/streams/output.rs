//! From the payload's pipe to the caller's file.
//!
//! Bytes for a pipe or a socket are moved by `splice`, those for a file or a device are written, at the caller's own file
//! description: that advances its offset, appends where it appends, and follows what another process has written there
//! meanwhile, as a write of the payload's would have. (`splice` does not: it takes no lock of the offset, and refuses
//! `O_APPEND`.) No flag of the description is changed: one that is non-blocking is waited for.
//!
//! When the reader outside goes away, so does ours, and the payload gets SIGPIPE as it would have.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_sys::process;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, splice};

use super::{BULK_BYTES, LostOutput, wait_for_either, waiting};

/// One of the payload's outputs.
pub(super) struct OutputRelay {
    /// What the payload writes. There is no other reader, unless the payload makes one.
    inner: OwnedFd,
    /// The caller's.
    outer: BorrowedFd<'static>,
    number: i32,
    way: Way,
}

/// How bytes are moved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Splice,
    Copy,
}

/// Whether more may come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// So many bytes were moved; none when another reader inside was faster.
    Moved(usize),
    /// Every writer has closed it.
    Over,
}

impl OutputRelay {
    pub(super) fn new(inner: OwnedFd, number: i32) -> Self {
        let outer = process::standard(number);
        let kind = rustix::fs::fstat(outer).map(|status| FileType::from_raw_mode(status.st_mode));
        let way = if matches!(kind, Ok(FileType::Fifo | FileType::Socket)) { Way::Splice } else { Way::Copy };
        Self { inner, outer, number, way }
    }

    pub(super) fn name(&self) -> &'static str {
        if self.number == 1 { "stdout" } else { "stderr" }
    }

    /// Carries until the payload has closed its end, or has ended and all that it had written by then is carried.
    pub(super) fn run(mut self, ending: &OwnedFd) -> Result<(), LostOutput> {
        let lost = match self.carry(ending) {
            // The reader outside has closed its end, which is no error.
            Ok(()) | Err(Errno::PIPE) => Ok(()),
            Err(errno) => Err(LostOutput { stream: self.name(), errno }),
        };
        // Dropping our reader is what the payload gets SIGPIPE from.
        drop(self.inner);
        lost
    }

    fn carry(&mut self, ending: &OwnedFd) -> rustix::io::Result<()> {
        loop {
            let mut fds = [
                PollFd::new(&self.inner, PollFlags::IN),
                PollFd::from_borrowed_fd(self.outer, PollFlags::empty()),
                PollFd::new(ending, PollFlags::IN),
            ];
            match rustix::event::poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            let [inner, outer, ending] = fds.map(|fd| fd.revents());
            if outer.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
                return Err(Errno::PIPE);
            }
            if !ending.is_empty() {
                return self.carry_rest();
            }
            if !inner.is_empty() {
                self.grow();
                if self.turn(BULK_BYTES)? == Turn::Over {
                    return Ok(());
                }
            }
        }
    }

    /// All that the payload wrote before its end is in the pipe. What survives it may write for ever.
    fn carry_rest(&mut self) -> rustix::io::Result<()> {
        let mut left = waiting(self.inner.as_fd())?;
        while left > 0 {
            match self.turn(left)? {
                Turn::Moved(0) | Turn::Over => return Ok(()),
                Turn::Moved(moved) => left -= moved.min(left),
            }
        }
        Ok(())
    }

    /// A payload that fills its pipe gets a larger one. It stays small elsewhere: what all pipes of a user may hold is limited.
    fn grow(&self) {
        let size = fcntl_getpipe_size(&self.inner).unwrap_or(BULK_BYTES);
        if size < BULK_BYTES && waiting(self.inner.as_fd()).is_ok_and(|waiting| waiting >= size / 2) {
            let _ = fcntl_setpipe_size(&self.inner, BULK_BYTES);
        }
    }

    fn turn(&mut self, most: usize) -> rustix::io::Result<Turn> {
        match self.way {
            Way::Splice => self.splice(most),
            Way::Copy => self.copy(most),
        }
    }

    fn splice(&mut self, most: usize) -> rustix::io::Result<Turn> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        loop {
            match splice(&self.inner, None, self.outer, None, most, flags) {
                Ok(0) => return Ok(Turn::Over),
                Ok(moved) => return Ok(Turn::Moved(moved)),
                Err(Errno::AGAIN) if !self.has_bytes() => return Ok(Turn::Moved(0)),
                Err(Errno::AGAIN) => self.wait_for_room()?,
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) => {
                    self.way = Way::Copy;
                    return self.copy(most);
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    fn copy(&mut self, most: usize) -> rustix::io::Result<Turn> {
        if !self.has_bytes() {
            return Ok(Turn::Moved(0));
        }
        let mut bytes = [0; 64 << 10];
        let most = most.min(bytes.len());
        // No second reader makes this wait: it would have to come from inside, and there it only takes its own bytes.
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&self.inner, &mut bytes[..most]))?;
        let mut rest = &bytes[..length];
        while !rest.is_empty() {
            match rustix::io::write(self.outer, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::AGAIN) => self.wait_for_room()?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(if length == 0 { Turn::Over } else { Turn::Moved(length) })
    }

    /// Also at the end of the file, which a read then finds.
    fn has_bytes(&self) -> bool {
        let mut fds = [PollFd::new(&self.inner, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, Some(&Timespec::default()));
        !fds[0].revents().is_empty()
    }

    fn wait_for_room(&self) -> rustix::io::Result<()> {
        let (outer, _) = wait_for_either((self.outer, PollFlags::OUT), (self.outer, PollFlags::empty()));
        if outer.contains(PollFlags::OUT) { Ok(()) } else { Err(Errno::PIPE) }
    }
}
