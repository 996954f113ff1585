//! Those who talk to a supervisor: never waited for, never many, and none of them says more than is listened to.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use ringfence_surface::AbsPath;
use ringfence_sys::net;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{AtFlags, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::wire::{Answer, CALLS_SOCKET, MOST_LINE, Reply, SOCKET, VERSION};
use crate::ways;

/// At once. The one that was silent the longest makes room for the next.
const MOST: usize = 16;
/// Of those inside. They make room for each other only.
const MOST_INSIDE: usize = 8;
/// What nobody takes up to here is not waited for.
const MOST_UNTAKEN: usize = 256 * 1024;
/// What is read of one in a turn.
const TURN: usize = 64 * 1024;

const LISTENER: u64 = 0;
/// The number of something else to wait for.
pub(super) const BELL: u64 = 1;
pub(super) const CHANGE: u64 = 2;
pub(super) const VERDICTS: u64 = 3;
pub(super) const CALLS: u64 = 4;
/// The listener for those inside.
const INSIDE: u64 = 5;
pub(super) const BROKER: u64 = 6;
pub(super) const KEPT: u64 = 7;
const FIRST: u64 = 8;

/// By which door somebody came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// The control socket, which is not seen inside.
    Control,
    /// The one that is given to the session.
    Inside,
}

#[derive(Debug)]
pub(super) struct Clients {
    epoll: OwnedFd,
    listener: Option<UnixListener>,
    /// For those inside, and who they are.
    inside: Option<(UnixListener, u32)>,
    open: BTreeMap<u64, Client>,
    next: u64,
    turn: u64,
}

#[derive(Debug)]
struct Client {
    stream: OwnedFd,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    is_subscribed: bool,
    door: Door,
    /// When something was last heard of it.
    heard: u64,
}

/// What happened while nobody looked.
pub(super) enum Heard {
    /// One of our own descriptors.
    Own(u64),
    /// A client said something or wants to.
    Client,
}

impl Clients {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, listener: None, inside: None, open: BTreeMap::new(), next: FIRST, turn: 0 })
    }

    /// Listens in a session's directory.
    pub(super) fn listen(&mut self, dir: &AbsPath) -> io::Result<()> {
        // By a descriptor: the path may be longer than an address can be.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = rustix::fs::open(dir.as_bytes(), flags, Mode::empty())?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", place.as_raw_fd());
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        epoll::add(&self.epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Listens among what is given to the session, for whoever works there.
    pub(super) fn listen_inside(&mut self, given: &AbsPath, user: Option<u32>) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = rustix::fs::open(given.as_bytes(), flags, Mode::empty())?;
        let listener = UnixListener::bind(format!("/proc/self/fd/{}/{CALLS_SOCKET}", place.as_raw_fd()))?;
        net::take_no_descriptors(listener.as_fd())?;
        rustix::fs::chmodat(&place, CALLS_SOCKET, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        let owner = user.map(Uid::from_raw);
        rustix::fs::chownat(&place, CALLS_SOCKET, owner, None, AtFlags::SYMLINK_NOFOLLOW)?;
        listener.set_nonblocking(true)?;
        epoll::add(&self.epoll, &listener, EventData::new_u64(INSIDE), EventFlags::IN)?;
        self.inside = Some((listener, user.unwrap_or_else(|| rustix::process::geteuid().as_raw())));
        Ok(())
    }

    /// By which door somebody came.
    pub(super) fn door(&self, number: u64) -> Door {
        // Whoever has gone is nobody in particular.
        self.open.get(&number).map_or(Door::Inside, |client| client.door)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Waits for something else too, under a number of its own.
    pub(super) fn watch(&self, fd: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(number), EventFlags::IN)?)
    }

    pub(super) fn forget(&self, fd: BorrowedFd<'_>) {
        // It fails where it was never watched.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Reads and writes what can be without waiting.
    pub(super) fn turn(&mut self) -> Vec<Heard> {
        self.turn += 1;
        let mut events = Vec::with_capacity(MOST + MOST_INSIDE + 8);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spare = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&self.epoll, spare, Some(&now)).is_err() {
            return Vec::new();
        }
        let mut heard = Vec::new();
        for event in events {
            match event.data.u64() {
                LISTENER => self.accept(Door::Control),
                INSIDE => self.accept(Door::Inside),
                own if own < FIRST => heard.push(Heard::Own(own)),
                number => {
                    self.serve(number, event.flags);
                    heard.push(Heard::Client);
                }
            }
        }
        heard
    }

    fn accept(&mut self, door: Door) {
        let listener = match door {
            Door::Control => self.listener.as_ref(),
            Door::Inside => self.inside.as_ref().map(|(listener, _)| listener),
        };
        let Some(listener) = listener else { return };
        let Ok(stream) = rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) else {
            return;
        };
        // Who made the connection, as the kernel noted it then.
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream).map(|peer| peer.uid) else { return };
        let is_welcome = match door {
            Door::Control => peer.is_root() || peer == rustix::process::geteuid(),
            Door::Inside => self.inside.as_ref().is_some_and(|(_, user)| peer.as_raw() == *user),
        };
        if !is_welcome {
            return;
        }
        let most = if door == Door::Control { MOST } else { MOST_INSIDE };
        let alike = || self.open.iter().filter(|(_, client)| client.door == door);
        if alike().count() >= most
            && let Some(silent) = alike().min_by_key(|(_, client)| client.heard).map(|(number, _)| *number)
        {
            self.close(silent);
        }
        let number = self.next;
        self.next += 1;
        if epoll::add(&self.epoll, &stream, EventData::new_u64(number), EventFlags::IN).is_ok() {
            let (inbox, outbox, heard) = (Vec::new(), Vec::new(), self.turn);
            self.open.insert(number, Client { stream, inbox, outbox, is_subscribed: false, door, heard });
        }
    }

    fn serve(&mut self, number: u64, flags: EventFlags) {
        let turn = self.turn;
        let Some(client) = self.open.get_mut(&number) else { return };
        let mut is_open = true;
        if flags.contains(EventFlags::OUT) {
            is_open = client.pour();
        }
        if is_open && flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            client.heard = turn;
            is_open = client.read();
        }
        if !is_open || self.rewatch(number).is_err() {
            self.close(number);
        }
    }

    /// Is asked for room to write only while there is something to write, and listened to only while there is room for it.
    fn rewatch(&self, number: u64) -> io::Result<()> {
        let Some(client) = self.open.get(&number) else { return Ok(()) };
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, client.inbox.len() < MOST_LINE);
        flags.set(EventFlags::OUT, !client.outbox.is_empty());
        Ok(epoll::modify(&self.epoll, &client.stream, EventData::new_u64(number), flags)?)
    }

    fn close(&mut self, number: u64) {
        if let Some(client) = self.open.remove(&number) {
            self.forget(client.stream.as_fd());
        }
    }

    /// One whole line of somebody who has said one: the one who waits the longest.
    pub(super) fn next_line(&mut self) -> Option<(u64, Vec<u8>)> {
        let turn = self.turn;
        let waiting = self.open.iter().filter(|(_, client)| client.has_line()).min_by_key(|(_, client)| client.heard);
        let number = waiting.map(|(number, _)| *number)?;
        let client = self.open.get_mut(&number)?;
        // Others come first next time.
        client.heard = turn;
        let end = client.inbox.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = client.inbox.drain(..=end).collect();
        line.pop();
        if self.rewatch(number).is_err() {
            self.close(number);
        }
        Some((number, line))
    }

    /// Does somebody wait for an answer?
    pub(super) fn has_line(&self) -> bool {
        self.open.values().any(Client::has_line)
    }

    pub(super) fn subscribe(&mut self, number: u64) {
        if let Some(client) = self.open.get_mut(&number) {
            client.is_subscribed = true;
        }
    }

    /// Says something to one.
    pub(super) fn say(&mut self, number: u64, answer: Answer) {
        let Ok(mut line) = serde_json::to_vec(&Reply { v: VERSION, answer }) else { return };
        line.push(b'\n');
        self.send(number, &line);
    }

    /// Says something to one, with descriptors. Somebody who has not taken what was said before is not waited for, and hears
    /// nothing more: the descriptors must come with their own line.
    pub(super) fn say_with(&mut self, number: u64, answer: Answer, fds: &[BorrowedFd<'_>]) {
        let Ok(mut line) = serde_json::to_vec(&Reply { v: VERSION, answer }) else { return };
        line.push(b'\n');
        let sent = self.open.get(&number).filter(|client| client.outbox.is_empty());
        let sent = sent.map(|client| ways::send(&client.stream, &line, fds));
        if !matches!(sent, Some(Ok(()))) {
            self.close(number);
        }
    }

    /// Says something to all who want to hear everything.
    pub(super) fn tell(&mut self, answer: &Answer) {
        let subscribed = self.open.iter().filter(|(_, client)| client.is_subscribed);
        let numbers: Vec<u64> = subscribed.map(|(number, _)| *number).collect();
        for number in numbers {
            self.say(number, answer.clone());
        }
    }

    fn send(&mut self, number: u64, line: &[u8]) {
        let Some(client) = self.open.get_mut(&number) else { return };
        client.outbox.extend_from_slice(line);
        let is_open = client.pour() && client.outbox.len() <= MOST_UNTAKEN;
        if !is_open || self.rewatch(number).is_err() {
            self.close(number);
        }
    }
}

impl Client {
    fn has_line(&self) -> bool {
        self.inbox.contains(&b'\n')
    }

    /// `false` when it is over.
    fn read(&mut self) -> bool {
        let had = self.inbox.len();
        self.inbox.resize(had + TURN, 0);
        let got = rustix::net::recv(&self.stream, &mut self.inbox[had..], RecvFlags::DONTWAIT).map(|(got, _)| got);
        self.inbox.truncate(had + got.unwrap_or(0));
        match got {
            Ok(0) => false,
            Ok(_) => self.inbox.len() < MOST_LINE || self.has_line(),
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// `false` when it is over.
    fn pour(&mut self) -> bool {
        while !self.outbox.is_empty() {
            match rustix::net::send(&self.stream, &self.outbox, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.outbox.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}
