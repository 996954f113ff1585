//! Carries bytes between two connections, both ways, each direction until its end.
//!
//! Every connection shares one buffer, since one thread carries them all; only what a slow reader has not taken yet is kept
//! for it, and nothing more is read for it meanwhile.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep_until, timeout};

use crate::gate::{Gate, Passage};
use crate::kept::{self, Kept};

/// The most that is read at once.
const AT_ONCE: usize = 256 * 1024;
/// The least, while a reader is slow: this much is kept for each.
const SLOWLY: usize = 16 * 1024;
/// A connection on which nothing moves is ended after this time.
const IDLE: Duration = Duration::from_secs(3_600);
/// One that is closed on one side, after this.
const HALF_CLOSED: Duration = Duration::from_secs(300);
/// How long a program may take to say which host it means once it has begun.
const FIRST_WORDS: Duration = Duration::from_secs(30);

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Either kind of connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
            Self::Unix(stream) => stream.try_read(buffer),
        }
    }

    /// Forgets that it was readable, which saves the call that would find nothing. Whoever read less than there was room for has
    /// read everything, and what comes after that, an end too, is told anew. That is not so for a unix socket: there a read ends
    /// where a message with a descriptor does. (Urgent data ends a read as well. What follows it then waits for what comes next.)
    fn is_read_empty(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Nothing more will be written.
    fn finish(&self) {
        // It fails when the other side has gone, which reading from it tells.
        let _ = rustix::net::shutdown(self, rustix::net::Shutdown::Write);
    }

    /// Ends it as a refusal: the other side reads a reset, not an end.
    pub(crate) fn reset(&self) {
        if let Self::Tcp(stream) = self {
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// How a relay ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Both sides are done, or one broke off.
    Done,
    /// The program meant another host.
    Refused(String),
}

/// Carries bytes until both directions have ended. What `inside` says goes through the gate, if there is one; `first` was read
/// from it already. It ends at once, both ways, with `cut`.
pub(crate) async fn relay(
    inside: &Stream,
    outside: &Stream,
    gate: Option<Gate>,
    first: &[u8],
    cut: impl Future<Output = ()>,
) -> Ended {
    let moved = RefCell::new(Moved { at: Instant::now(), ended: 0 });
    let out = async {
        let begun = match gate {
            Some(gate) => through(gate, first, inside, outside, &moved).await,
            None => write_all(outside, first).await.map(|()| Looked::Free),
        };
        match begun {
            Ok(Looked::Refused(why)) => Err(Ended::Refused(why)),
            Ok(Looked::End) => {
                outside.finish();
                moved.borrow_mut().ended += 1;
                Ok(())
            }
            Ok(Looked::Free) => pump(inside, outside, &moved).await.map_err(|_| Ended::Done),
            Err(_) => Err(Ended::Done),
        }
    };
    let back = async { pump(outside, inside, &moved).await.map_err(|_| Ended::Done) };
    let both = async { tokio::try_join!(out, back) };
    tokio::select! {
        ended = both => match ended {
            Ok(_) => Ended::Done,
            Err(ended) => {
                // Whoever is still there learns that it broke off.
                inside.reset();
                outside.reset();
                ended
            }
        },
        () = idle(&moved) => Ended::Done,
        () = cut => {
            inside.reset();
            outside.reset();
            Ended::Done
        }
    }
}

/// When something last moved, and how many directions have ended.
struct Moved {
    at: Instant,
    ended: u8,
}

async fn idle(moved: &RefCell<Moved>) {
    loop {
        let until = {
            let moved = moved.borrow();
            moved.at + if moved.ended == 0 { IDLE } else { HALF_CLOSED }
        };
        if until <= Instant::now() {
            return;
        }
        // Looked at again when it would be over, or when the shorter time may have begun to count.
        sleep_until(until.min(Instant::now() + HALF_CLOSED)).await;
    }
}

/// How looking ended.
enum Looked {
    /// What follows needs no look.
    Free,
    /// Nothing follows.
    End,
    /// It meant another host.
    Refused(String),
}

/// Reads and sends what the gate lets through, for as long as it wants to look.
async fn through(
    mut gate: Gate,
    first: &[u8],
    inside: &Stream,
    outside: &Stream,
    moved: &RefCell<Moved>,
) -> io::Result<Looked> {
    let (mut deadline, mut kept) = (None, Kept::bytes(0));
    let mut passage = (!first.is_empty()).then(|| gate.look(first));
    loop {
        match passage.take() {
            None => {}
            Some(Passage::Refused(why)) => return Ok(Looked::Refused(why)),
            Some(Passage::Free(bytes)) => {
                write_all(outside, &bytes).await?;
                moved.borrow_mut().at = Instant::now();
                return Ok(Looked::Free);
            }
            Some(Passage::Looking(bytes)) => {
                write_all(outside, &bytes).await?;
                moved.borrow_mut().at = Instant::now();
                if let Err(why) = kept.begun(gate.held()) {
                    return Ok(Looked::Refused(why.to_owned()));
                }
                // What was begun must be ended in time; between requests there is no hurry.
                deadline =
                    if gate.held() == 0 { None } else { deadline.or_else(|| Instant::now().checked_add(FIRST_WORDS)) };
            }
        }
        match deadline {
            None => inside.readable().await?,
            Some(deadline) => match timeout(deadline - Instant::now(), inside.readable()).await {
                Ok(ready) => ready?,
                Err(_) => return Ok(Looked::Refused("it did not say in time which host it means".to_owned())),
            },
        }
        let read = BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(AT_ONCE, 0);
            inside.try_read(&mut buffer[..SLOWLY]).map(|length| (length, gate.look(&buffer[..length])))
        });
        match read {
            Ok((0, _)) if gate.held() > 0 => {
                return Ok(Looked::Refused("it ended in the middle of what it said".to_owned()));
            }
            Ok((0, _)) => return Ok(Looked::End),
            Ok((length, looked)) => {
                passage = Some(looked);
                if length < SLOWLY {
                    inside.is_read_empty();
                }
            }
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
            Err(cause) => return Err(cause),
        }
    }
}

async fn write_all(to: &Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

/// One direction, until its end.
async fn pump(from: &Stream, to: &Stream, moved: &RefCell<Moved>) -> io::Result<()> {
    let mut most = SLOWLY;
    loop {
        from.readable().await?;
        loop {
            if kept::is_too_much() {
                most = SLOWLY;
            }
            match carry(from, to, most)? {
                Carried::Nothing => break,
                Carried::End => {
                    to.finish();
                    moved.borrow_mut().ended += 1;
                    return Ok(());
                }
                // Whoever fills the buffer and is read as fast gets a larger one.
                Carried::All(length) => {
                    most = if length == most { (most * 2).min(AT_ONCE) } else { most };
                    moved.borrow_mut().at = Instant::now();
                    if length < most / 2 {
                        from.is_read_empty();
                        break;
                    }
                }
                Carried::Part(rest) => {
                    most = SLOWLY;
                    let _kept = Kept::bytes(rest.len());
                    write_all(to, &rest).await?;
                    moved.borrow_mut().at = Instant::now();
                }
            }
        }
    }
}

enum Carried {
    /// There is nothing to read at the moment.
    Nothing,
    /// There will be nothing more.
    End,
    /// This many bytes.
    All(usize),
    /// This is left to be written.
    Part(Vec<u8>),
}

fn carry(from: &Stream, to: &Stream, most: usize) -> io::Result<Carried> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(AT_ONCE, 0);
        let length = match from.try_read(&mut buffer[..most]) {
            Ok(0) => return Ok(Carried::End),
            Ok(length) => length,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(Carried::Nothing),
            Err(cause) => return Err(cause),
        };
        let mut written = 0;
        while written < length {
            match to.try_write(&buffer[written..length]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Carried::Part(buffer[written..length].to_vec()));
                }
                Err(cause) => return Err(cause),
            }
        }
        Ok(Carried::All(length))
    })
}
