//! From the caller's file to the payload's pipe.
//!
//! What the payload does not read stays the caller's: `git ls-files | while read f; do ringfence run -- lint "$f"; done` reads
//! every line, and a script that `bash` reads from its standard input goes on after `ringfence run` in it. So bytes are first
//! duplicated (`tee` of a pipe, `MSG_PEEK` of a stream socket, an offset of our own in a file) and taken from the caller only as
//! far as the payload has taken them from its pipe. Once it has read [`EXACT_BYTES`] it is assumed to read everything,
//! and the rest of a pipe or a socket is moved by `splice`; then up to a pipe's content may be lost to the caller. A file stays
//! exact.
//!
//! The payload can write into its own pipe, by `/proc/self/fd/0`. Then it looks as if it had read less. The caller is never
//! taken to have read more than was delivered, and never gets a byte from inside.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use ringfence_sys::process;
use rustix::event::{PollFlags, Timespec, epoll};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketType};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice, tee};

use super::{BULK_BYTES, wait_for_either, waiting};

/// So much is taken from the caller only when the payload has read it.
const EXACT_BYTES: usize = 64 << 10;

/// How soon to look again whether the payload has read what it was given. No event tells: only a full pipe says that it has
/// room again. New bytes outside and the payload's end are events.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));

/// Never waits for a pipe, whatever the flags of its descriptions are.
const NOW: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

/// The payload's input.
pub(super) struct InputRelay {
    outer: BorrowedFd<'static>,
    inner: Inner,
    /// Delivered, and not taken from the caller yet.
    sent: usize,
}

/// The pipe that the payload reads.
struct Inner {
    /// Closed at the end of the caller's file.
    feed: Option<OwnedFd>,
    /// Tells how much the payload has not read.
    reader: OwnedFd,
}

impl Inner {
    fn unread(&self) -> usize {
        waiting(self.reader.as_fd()).unwrap_or(0)
    }
}

/// How bytes are duplicated.
enum Source {
    /// Beyond what was sent already `tee` cannot begin: everything comes here first, and the beginning is dropped.
    Pipe { scratch: (OwnedFd, OwnedFd), null: OwnedFd },
    /// A stream socket.
    Socket { buffer: Vec<u8> },
}

impl InputRelay {
    pub(super) fn new(feed: OwnedFd, reader: OwnedFd) -> Self {
        let inner = Inner { feed: Some(feed), reader };
        Self { outer: process::standard(0), inner, sent: 0 }
    }

    /// Carries until the payload has ended. An error outside is the end of the input.
    pub(super) fn run(mut self, ending: &OwnedFd) {
        if let Some(feed) = &self.inner.feed {
            // A description of our own: the payload's end stays as it is.
            let _ = rustix::io::ioctl_fionbio(feed, true);
        }
        let kind = rustix::fs::fstat(self.outer).map(|status| FileType::from_raw_mode(status.st_mode));
        let is_stream = || rustix::net::sockopt::socket_type(self.outer) == Ok(SocketType::STREAM);
        let carried = match kind {
            Ok(FileType::RegularFile) => return self.carry_file(ending),
            Ok(FileType::Fifo) => self.pipe_source().and_then(|source| self.carry_exactly(source, ending)),
            Ok(FileType::Socket) if is_stream() => self.carry_exactly(Source::Socket { buffer: Vec::new() }, ending),
            _ => Ok(After::Bulk),
        };
        if let Ok(After::Bulk) = carried {
            self.carry_bulk(ending);
        }
    }

    fn pipe_source(&self) -> rustix::io::Result<Source> {
        let scratch = pipe_with(PipeFlags::CLOEXEC)?;
        let size = fcntl_getpipe_size(self.outer)?;
        // One that is smaller than the caller's takes less at a time.
        let _ = fcntl_setpipe_size(&scratch.0, size);
        let null = rustix::fs::open(c"/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Source::Pipe { scratch, null })
    }

    fn carry_exactly(&mut self, mut source: Source, ending: &OwnedFd) -> rustix::io::Result<After> {
        let events = Events::new(self.outer, &self.inner, ending)?;
        let (mut taken, mut pause, mut is_over) = (0, LOOK_AGAIN.0, false);
        loop {
            let wants_look = self.sent > 0 && self.inner.feed.is_some();
            let woken = events.wait(wants_look.then_some(pause))?;
            is_over |= woken.is_over;
            let read = self.sent - self.inner.unread().min(self.sent);
            self.take(&source, read)?;
            taken += read;
            pause = if read > 0 { LOOK_AGAIN.0 } else { (pause * 2).min(LOOK_AGAIN.1) };
            if woken.is_ending {
                return Ok(After::Nothing);
            }
            if taken >= EXACT_BYTES && self.inner.feed.is_some() {
                self.take(&source, self.sent)?;
                return Ok(After::Bulk);
            }
            self.sent += self.deliver(&mut source)?;
            if is_over && waiting(self.outer)? <= self.sent {
                self.inner.feed = None;
            }
        }
    }

    /// Delivers what the caller's file has beyond what was sent, as far as there is room.
    fn deliver(&self, source: &mut Source) -> rustix::io::Result<usize> {
        let Some(feed) = &self.inner.feed else { return Ok(0) };
        let more = waiting(self.outer)?.saturating_sub(self.sent);
        if more == 0 {
            return Ok(0);
        }
        match source {
            Source::Pipe { .. } if self.sent == 0 => or_none(tee(self.outer, feed, BULK_BYTES, SpliceFlags::NONBLOCK)),
            Source::Pipe { scratch: (reader, writer), null } => {
                let all = or_none(tee(self.outer, &*writer, BULK_BYTES, SpliceFlags::NONBLOCK))?;
                drop_bytes(reader.as_fd(), null, self.sent.min(all))?;
                let fresh = all.saturating_sub(self.sent);
                let mut delivered = 0;
                while delivered < fresh {
                    match or_none(splice(&*reader, None, feed, None, fresh - delivered, NOW))? {
                        0 => break,
                        moved => delivered += moved,
                    }
                }
                // What found no room is duplicated again later.
                drop_bytes(reader.as_fd(), null, fresh - delivered)?;
                Ok(delivered)
            }
            Source::Socket { buffer } => {
                buffer.resize(self.sent + more.min(EXACT_BYTES), 0);
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                let length = or_none(rustix::net::recv(self.outer, &mut buffer[..], flags).map(|(length, _)| length))?;
                match buffer.get(self.sent..length) {
                    Some(fresh) if !fresh.is_empty() => or_none(rustix::io::write(feed, fresh)),
                    _ => Ok(0),
                }
            }
        }
    }

    /// Takes from the caller what was sent before.
    fn take(&mut self, source: &Source, count: usize) -> rustix::io::Result<()> {
        match source {
            Source::Pipe { null, .. } => drop_bytes(self.outer, null, count)?,
            Source::Socket { .. } => {
                let (mut left, mut bytes) = (count, [0; 8 << 10]);
                while left > 0 {
                    let most = left.min(bytes.len());
                    let received = rustix::net::recv(self.outer, &mut bytes[..most], RecvFlags::DONTWAIT);
                    match or_none(received.map(|(length, _)| length))? {
                        // Another reader has taken it.
                        0 => break,
                        length => left -= length,
                    }
                }
            }
        }
        self.sent -= count;
        Ok(())
    }

    /// From an offset of our own. At the end the caller's is behind what the payload has read, unless another process moved it.
    fn carry_file(mut self, ending: &OwnedFd) {
        let Ok(start) = rustix::fs::tell(self.outer) else { return };
        let mut offset = start;
        while let Some(feed) = &self.inner.feed {
            match splice_or_copy(self.outer, &mut offset, feed) {
                Ok(0) => self.inner.feed = None,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let room = (feed.as_fd(), PollFlags::OUT);
                    let (_, ended) = wait_for_either(room, (ending.as_fd(), PollFlags::IN));
                    if !ended.is_empty() {
                        break;
                    }
                }
                Err(_) => self.inner.feed = None,
            }
        }
        let ended = (ending.as_fd(), PollFlags::IN);
        wait_for_either(ended, ended);
        let delivered = offset - start;
        let read = delivered - (self.inner.unread() as u64).min(delivered);
        if read > 0 && rustix::fs::tell(self.outer) == Ok(start) {
            let _ = rustix::fs::seek(self.outer, SeekFrom::Start(start + read));
        }
    }

    fn carry_bulk(self, ending: &OwnedFd) {
        let Some(feed) = self.inner.feed else { return };
        let _ = fcntl_setpipe_size(&feed, BULK_BYTES);
        let is_ending =
            |one: (BorrowedFd<'_>, PollFlags)| !wait_for_either(one, (ending.as_fd(), PollFlags::IN)).1.is_empty();
        let mut can_splice = true;
        loop {
            let moved = if can_splice {
                splice(self.outer, None, &feed, None, BULK_BYTES, NOW)
            } else {
                copy_once(self.outer, &feed, is_ending)
            };
            match moved {
                Ok(0) => return,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if is_ending((self.outer, PollFlags::IN)) || is_ending((feed.as_fd(), PollFlags::OUT)) {
                        return;
                    }
                }
                Err(Errno::INVAL) if can_splice => can_splice = false,
                Err(_) => return,
            }
        }
    }
}

/// What remains to be done.
enum After {
    Nothing,
    /// The rest may be moved without looking.
    Bulk,
}

/// What wakes the relay. Edges: what was duplicated stays readable outside.
struct Events {
    epoll: OwnedFd,
}

struct Woken {
    is_ending: bool,
    /// No more will be written outside.
    is_over: bool,
}

impl Events {
    const OUTER: u64 = 0;
    const INNER: u64 = 1;
    const ENDING: u64 = 2;

    fn new(outer: BorrowedFd<'_>, inner: &Inner, ending: &OwnedFd) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let on = |data: u64| epoll::EventData::new_u64(data);
        let edges = epoll::EventFlags::ET;
        epoll::add(&epoll, outer, on(Self::OUTER), epoll::EventFlags::IN | epoll::EventFlags::RDHUP | edges)?;
        if let Some(feed) = &inner.feed {
            epoll::add(&epoll, feed, on(Self::INNER), epoll::EventFlags::OUT | edges)?;
        }
        epoll::add(&epoll, ending, on(Self::ENDING), epoll::EventFlags::IN)?;
        Ok(Self { epoll })
    }

    fn wait(&self, most: Option<Duration>) -> rustix::io::Result<Woken> {
        let most = most.map(|most| Timespec::try_from(most).unwrap_or_default());
        let mut events = Vec::with_capacity(3);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), most.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let mut woken = Woken { is_ending: false, is_over: false };
        let last = epoll::EventFlags::HUP | epoll::EventFlags::RDHUP | epoll::EventFlags::ERR;
        for event in &events {
            // The struct is packed: no reference to what is in it.
            let (data, flags) = (event.data, event.flags);
            woken.is_ending |= data.u64() == Self::ENDING;
            woken.is_over |= data.u64() == Self::OUTER && flags.intersects(last);
        }
        Ok(woken)
    }
}

/// Nothing to take and no room are no errors.
fn or_none(result: rustix::io::Result<usize>) -> rustix::io::Result<usize> {
    match result {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        other => other,
    }
}

/// Takes bytes out of a pipe. When another reader was faster there are fewer.
fn drop_bytes(pipe: BorrowedFd<'_>, null: &OwnedFd, count: usize) -> rustix::io::Result<()> {
    let mut left = count;
    while left > 0 {
        match or_none(splice(pipe, None, null, None, left, NOW))? {
            0 => break,
            moved => left -= moved,
        }
    }
    Ok(())
}

/// A file at an offset of our own. Not every file system knows `splice`.
fn splice_or_copy(file: BorrowedFd<'_>, offset: &mut u64, feed: &OwnedFd) -> rustix::io::Result<usize> {
    match splice(file, Some(offset), feed, None, BULK_BYTES, NOW) {
        Err(Errno::INVAL) => {
            let mut bytes = [0; 4 << 10];
            let length = rustix::io::pread(file, &mut bytes, *offset)?;
            // Up to a page is written whole or not at all.
            let written = if length == 0 { 0 } else { rustix::io::write(feed, &bytes[..length])? };
            *offset += written as u64;
            Ok(written)
        }
        other => other,
    }
}

/// Reads once from what may be anything, and writes all of it. Says that it was at its end when the payload is.
fn copy_once(
    outer: BorrowedFd<'_>,
    feed: &OwnedFd,
    is_ending: impl Fn((BorrowedFd<'_>, PollFlags)) -> bool,
) -> rustix::io::Result<usize> {
    if is_ending((outer, PollFlags::IN)) {
        return Ok(0);
    }
    let mut bytes = [0; 64 << 10];
    let length = rustix::io::read(outer, &mut bytes)?;
    let mut rest = &bytes[..length];
    while !rest.is_empty() {
        match rustix::io::write(feed, rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::AGAIN) if is_ending((feed.as_fd(), PollFlags::OUT)) => return Ok(0),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(length)
}
