//! What runs first in a container: ringfence itself. It calls the supervisor, is handed its orders and descriptors, looks
//! whether the engine made what was asked for, gives up the rest of its rights, starts the program and waits for it.
//!
//! It is the first process of the container: when it ends, the kernel ends everything in there, and it ends when the supervisor
//! does, however that ends. Nothing that the program works with passes through the engine.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use ringfence_plan::Programs;
use ringfence_surface::AbsPath;
use ringfence_surface::curated;
use ringfence_sys::process::{self, Program, Words};
use ringfence_sys::pty;
use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

use super::check;
use super::orders::{Arrived, Orders};
use crate::environment;
use crate::first::{Ends, FORWARDED, wait_for};
use crate::payload::{Payload, Place, SeatAt};
use crate::steps::{ARRIVED, CAPABILITIES, CHECK, FORK, INSIDE, LIMITS, STANDARD, TERMINAL, WAYS, failed, report};
use crate::terminal;
use crate::view::Failed;
use crate::ways;

/// The name of the hidden command that calls [`run`].
pub const COMMAND: &str = "arrive";

/// Orders, errors, alive, signal, lock, three streams; then a terminal and the ways, where there are any.
const FEWEST: usize = 8;
const MOST: usize = 10;

/// Hands the orders and everything else to the first process, once it has called.
pub(crate) fn hand_over(
    called: &OwnedFd,
    orders: &Orders<'_>,
    ends: Ends,
    rest: (OwnedFd, [OwnedFd; 3], Option<BorrowedFd<'_>>),
) -> io::Result<()> {
    let text = rustix::fs::memfd_create("ringfence-orders", MemfdFlags::CLOEXEC)?;
    let mut written = 0;
    let bytes = orders.write();
    while written < bytes.len() {
        written += rustix::io::write(&text, &bytes[written..])?;
    }
    rustix::fs::seek(&text, SeekFrom::Start(0))?;
    let (lock, [stdin, stdout, stderr], seat) = rest;
    let Ends { errors, alive, ways, signal, broker: _ } = ends;
    let all = [&text, &errors, &alive, &signal, &lock, &stdin, &stdout, &stderr];
    let mut fds: Vec<BorrowedFd<'_>> = all.into_iter().map(|fd| fd.as_fd()).collect();
    fds.extend(seat);
    fds.extend(ways.as_ref().map(OwnedFd::as_fd));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    let has = [u8::from(seat.is_some()), u8::from(ways.is_some())];
    rustix::net::sendmsg(called, &[IoSlice::new(&has)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What the first process says when it finds something else than what was asked for.
pub(crate) fn finding(called: &OwnedFd) -> String {
    let mut text = vec![0; 4096];
    let length = rustix::net::recv(called, &mut text[..], RecvFlags::DONTWAIT).map_or(0, |(length, _)| length);
    String::from_utf8(text[..length].to_vec()).unwrap_or_default()
}

/// What was handed over.
struct Handed {
    called: OwnedFd,
    orders: OwnedFd,
    ends: Ends,
    _lock: OwnedFd,
    streams: [OwnedFd; 3],
    seat: Option<OwnedFd>,
}

/// Starts the program of a container. The argument is the path of the supervisor's socket. Returns the code to end with.
pub fn run(arguments: &[OsString]) -> u8 {
    let Some(handed) = arguments.first().and_then(|path| take(path.as_bytes()).ok()) else { return 125 };
    let Handed { called, orders, ends, _lock, streams, seat } = handed;
    report(&ends.errors, Failed { step: ARRIVED, errno: Errno::INTR });
    let payload = match prepare(orders, &called, &ends, &streams) {
        Ok(payload) => payload,
        Err(failed) => return report(&ends.errors, failed),
    };
    drop((called, streams));
    start(payload, ends, seat)
}

fn take(path: &[u8]) -> io::Result<Handed> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let path = AbsPath::lexical(path).map_err(io::Error::other)?;
    let (dir, name) = path.split_last();
    // The path of a socket has 107 bytes at most.
    let dir = AbsPath::lexical(dir).map_err(io::Error::other)?;
    let dir = rustix::fs::open(dir.as_bytes(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&dir);
    let short = [format!("/proc/self/fd/{number}/").as_bytes(), name.unwrap_or_default()].concat();
    rustix::net::connect(&socket, &SocketAddrUnix::new(short)?)?;
    let mut has = [0; 2];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message =
        rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(&mut has)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            // Above the three places that the streams go to.
            fds.extend(some.map(|fd| rustix::io::fcntl_dupfd_cloexec(&fd, 3)));
        }
    }
    let fds = fds.into_iter().collect::<Result<Vec<OwnedFd>, _>>()?;
    let wanted = FEWEST + usize::from(has[0]) + usize::from(has[1]);
    if message.bytes != 2 || fds.len() != wanted {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or(io::ErrorKind::InvalidData);
    let (orders, errors, alive, signal, lock) = (next()?, next()?, next()?, next()?, next()?);
    let streams = [next()?, next()?, next()?];
    let seat = if has[0] == 1 { Some(next()?) } else { None };
    let ways = if has[1] == 1 { Some(next()?) } else { None };
    Ok(Handed {
        called: socket,
        orders,
        ends: Ends { errors, alive, ways, signal, broker: None },
        _lock: lock,
        streams,
        seat,
    })
}

/// What is left to do once everything was found to be right.
struct Prepared {
    /// The engine's own streams: some take their end for trouble.
    _engines: Vec<OwnedFd>,
    payload: Payload,
    seats: Option<pty::Seats>,
}

fn prepare(orders: OwnedFd, called: &OwnedFd, ends: &Ends, streams: &[OwnedFd; 3]) -> Result<Prepared, Failed> {
    let mut bytes = Vec::new();
    std::fs::File::from(orders).read_to_end(&mut bytes).map_err(|e| failed(INSIDE, &e))?;
    let arrived = Arrived::read(&bytes).ok_or(Failed { step: INSIDE, errno: Errno::INVAL })?;
    let Arrived { checks, user, programs, seats, listeners, mask, limits, mut payload } = arrived;
    if let Some(why) = check::differs(&checks, user).map_err(|e| failed(CHECK, &e))? {
        // Whoever has gone needs no reason.
        let _ = rustix::net::send(called, why.as_bytes(), SendFlags::NOSIGNAL);
        return Err(Failed { step: CHECK, errno: Errno::XDEV });
    }
    if programs == Programs::Image {
        payload.program = with_image(payload.program.words(), &payload.workdir);
    }
    rustix::process::umask(Mode::from_raw_mode(mask));
    for (resource, asked) in limits {
        lower(resource, asked).map_err(|e| failed(LIMITS, &e))?;
    }
    let quiet = DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(quiet).map_err(|errno| Failed { step: CAPABILITIES, errno })?;
    if let (Some(ways), Some(listeners)) = (&ends.ways, &listeners) {
        open_ways(ways, listeners).map_err(|e| failed(WAYS, &e))?;
    }
    let engines =
        (0..3).filter_map(|number| rustix::io::fcntl_dupfd_cloexec(process::standard(number), 3).ok()).collect();
    for (number, stream) in (0..).zip(streams) {
        process::put_at(stream.as_fd(), number).map_err(|e| failed(STANDARD, &e))?;
    }
    Ok(Prepared { _engines: engines, payload, seats })
}

/// No more than is asked for, and no more than there is.
fn lower(resource: Resource, asked: Rlimit) -> io::Result<()> {
    let has = process::getrlimit(resource)?;
    let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
    let maximum = least(has.maximum, asked.maximum);
    let current = least(maximum, asked.current);
    Ok(rustix::process::setrlimit(resource, Rlimit { current, maximum })?)
}

fn open_ways(ways: &OwnedFd, listeners: &[SocketAddr]) -> io::Result<()> {
    ways::open_on_loopback(ways, listeners)
}

/// The program with the variables of the image: those that say where its programs are. What could lead elsewhere, or holds a
/// secret, does not pass, and what the session sets itself wins, but for PATH.
fn with_image(words: &Words, workdir: &CString) -> Program {
    let split = |line: &CString| {
        let line = line.as_bytes();
        let at = line.iter().position(|byte| *byte == b'=').unwrap_or(line.len());
        (line[..at].to_vec(), line.get(at + 1..).unwrap_or_default().to_vec())
    };
    let own = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec()));
    // What an engine sets in every container.
    let is_engines = |name: &[u8]| matches!(name, b"HOME" | b"HOSTNAME" | b"container" | b"TERM");
    let mut variables: BTreeMap<Vec<u8>, Vec<u8>> =
        own.filter(|(name, _)| !is_engines(name) && curated::env::dangerous(name).is_none()).collect();
    let path = variables.get(b"PATH".as_slice()).cloned();
    variables.extend(words.environment.iter().map(split));
    variables.extend(path.map(|path| (b"PATH".to_vec(), path)));
    let program = words.arguments.first().map(|word| word.as_bytes().to_vec()).unwrap_or_default();
    let workdir = AbsPath::lexical(workdir.as_bytes()).unwrap_or_else(|_| AbsPath::root());
    Program::new(Words {
        candidates: environment::candidates(&program, &workdir, &variables),
        arguments: words.arguments.clone(),
        environment: environment::lines(&variables),
    })
}

/// Becomes the one that waits.
fn start(prepared: Prepared, ends: Ends, seat: Option<OwnedFd>) -> u8 {
    let Prepared { _engines, payload, seats } = prepared;
    let Ends { errors, alive, ways, signal, broker: _ } = ends;
    let made = match seat.map(|inside| terminal::make_inside(inside.as_fd())).transpose() {
        Ok(made) => made,
        Err(errno) => return report(&errors, Failed { step: TERMINAL, errno }),
    };
    let at: SeatAt<'_> = made.as_ref().zip(seats).map(|(slave, seats)| (slave.as_fd(), seats, Place::Leader));
    process::default_signal(Signal::CHILD);
    let Ok(signals) = pty::signalfd(&FORWARDED) else { return 125 };
    if pty::block(&FORWARDED).is_err() {
        return 125;
    }
    // Nothing of the payload runs before the supervisor has written down that it does.
    if !matches!(rustix::io::retry_on_intr(|| rustix::io::read(&alive, &mut [0])), Ok(1)) {
        return 125;
    }
    let pid = match process::fork_in_copy(|| report(&errors, payload.become_program(at, None, None))) {
        Ok(pid) => pid,
        Err(error) => return report(&errors, failed(FORK, &error)),
    };
    // Now only the payload holds it, until it becomes its program.
    drop((errors, made));
    let (code, number) = wait_for(pid, &signals, &alive, ways.as_ref());
    // The code too: an engine that is told to end may end with one of its own. Whoever does not listen does not need to know.
    let _ = rustix::io::write(&signal, &[number, code]);
    code
}
