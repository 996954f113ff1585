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
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use crate::gate::{Gate, Passage, Pending};
use crate::http::AnswerReader;
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
/// How long the rest of a word is waited for that may be of any protocol. A server may wait for just this word.
const SOON: Duration = Duration::from_millis(300);

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
    let answer = Answer { reader: RefCell::new(AnswerReader::new()), is_said: Notify::new() };
    // Without a gate the answer is not inspected.
    let listening = gate.as_ref().map(|_| &answer);
    let out = async {
        let begun = match gate {
            Some(gate) => through(gate, first, (inside, outside), &moved, &answer).await,
            None => match write_all(outside, first).await {
                Ok(()) => pump(inside, outside, &moved, |_| {}).await.map(|()| Looked::End),
                Err(cause) => Err(cause),
            },
        };
        match begun {
            Ok(Looked::Refused(why)) => Err(Ended::Refused(why)),
            Ok(Looked::End) => {
                outside.finish();
                moved.borrow_mut().ended += 1;
                Ok(())
            }
            Err(_) => Err(Ended::Done),
        }
    };
    let back = async {
        let listen = |bytes: &[u8]| {
            if let Some(answer) = listening {
                answer.read(bytes);
            }
        };
        let ended = pump(outside, inside, &moved, listen).await.map_err(|_| Ended::Done);
        answer.is_said.notify_one();
        inside.finish();
        moved.borrow_mut().ended += 1;
        ended
    };
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

/// What the server says to the first request, for a gate that waits for it.
struct Answer {
    reader: RefCell<AnswerReader>,
    is_said: Notify,
}

impl Answer {
    fn read(&self, bytes: &[u8]) {
        let mut reader = self.reader.borrow_mut();
        if reader.said().is_none() {
            reader.read(bytes);
            if reader.said().is_some() {
                self.is_said.notify_one();
            }
        }
    }

    /// Whether the server agrees to go on in another protocol. Without an answer it does not.
    async fn is_accepted(&self) -> bool {
        let said = self.reader.borrow().said();
        if let Some(said) = said {
            return said;
        }
        self.is_said.notified().await;
        self.reader.borrow().said().unwrap_or(false)
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
    /// Nothing follows.
    End,
    /// It meant another host.
    Refused(String),
}

/// Reads and sends what the gate lets through, until the end.
async fn through(
    mut gate: Gate,
    first: &[u8],
    (inside, outside): (&Stream, &Stream),
    moved: &RefCell<Moved>,
    answer: &Answer,
) -> io::Result<Looked> {
    let (mut begun, mut kept, mut most) = (None, Kept::bytes(0), SLOWLY);
    let mut passage = Some(gate.look(first));
    loop {
        match passage.take() {
            None | Some(Passage::Same) => {}
            Some(Passage::Refused(why)) => return Ok(Looked::Refused(why)),
            Some(Passage::Pass(bytes)) => write_all(outside, &bytes).await?,
        }
        if let Err(why) = kept.begun(gate.held()) {
            return Ok(Looked::Refused(why.to_owned()));
        }
        match gate.pending() {
            // Between requests there is no hurry.
            Pending::Nothing => {
                begun = None;
                inside.readable().await?;
            }
            Pending::Answer => {
                passage = Some(gate.answered(answer.is_accepted().await));
                continue;
            }
            pending @ (Pending::Word | Pending::Begun) => {
                let patience = if pending == Pending::Word { SOON } else { FIRST_WORDS };
                let since = *begun.get_or_insert_with(Instant::now);
                match timeout((since + patience).saturating_duration_since(Instant::now()), inside.readable()).await {
                    Ok(ready) => ready?,
                    Err(_) if pending == Pending::Word => {
                        passage = Some(Passage::Pass(gate.release()));
                        continue;
                    }
                    Err(_) => return Ok(Looked::Refused("it did not say in time which host it means".to_owned())),
                }
            }
        }
        match carry(inside, outside, most, |bytes| gate.look(bytes))? {
            Carried::Nothing => {}
            Carried::End if gate.pending() == Pending::Begun => {
                return Ok(Looked::Refused("it ended in the middle of what it said".to_owned()));
            }
            Carried::End => {
                write_all(outside, &gate.release()).await?;
                return Ok(Looked::End);
            }
            Carried::All(length) => {
                most = if length == most { (most * 2).min(AT_ONCE) } else { most };
                if kept::is_too_much() {
                    most = SLOWLY;
                }
                if length < most / 2 {
                    inside.is_read_empty();
                }
            }
            Carried::Part(rest) => {
                most = SLOWLY;
                let _kept = Kept::bytes(rest.len());
                write_all(outside, &rest).await?;
            }
            Carried::Looked(length, looked) => {
                if length < most {
                    inside.is_read_empty();
                }
                most = SLOWLY;
                passage = Some(looked);
            }
        }
        moved.borrow_mut().at = Instant::now();
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

/// One direction, until its end. Whoever listens hears what is carried before it arrives.
async fn pump(from: &Stream, to: &Stream, moved: &RefCell<Moved>, listen: impl Fn(&[u8])) -> io::Result<()> {
    let mut most = SLOWLY;
    loop {
        from.readable().await?;
        loop {
            if kept::is_too_much() {
                most = SLOWLY;
            }
            let same = |bytes: &[u8]| {
                listen(bytes);
                Passage::Same
            };
            match carry(from, to, most, same)? {
                Carried::Nothing | Carried::Looked(..) => break,
                Carried::End => return Ok(()),
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
    /// So many bytes were read, and this becomes of them.
    Looked(usize, Passage),
}

fn carry(from: &Stream, to: &Stream, most: usize, look: impl FnOnce(&[u8]) -> Passage) -> io::Result<Carried> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(AT_ONCE, 0);
        let length = match from.try_read(&mut buffer[..most]) {
            Ok(0) => return Ok(Carried::End),
            Ok(length) => length,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(Carried::Nothing),
            Err(cause) => return Err(cause),
        };
        match look(&buffer[..length]) {
            Passage::Same => {}
            looked => return Ok(Carried::Looked(length, looked)),
        }
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
