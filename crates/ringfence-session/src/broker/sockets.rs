//! Unix sockets by their path: whoever listens behind one was started inside, or is named in the policy.
//!
//! A socket in a directory of the host's may be anybody's: a session bus, a container engine, an agent that holds keys. Which it
//! is cannot be told from where it lies. So the sockets that are made inside are remembered as what they are, by device and
//! inode, and held so that nothing else gets their numbers; others are refused. The supervisor's own lie where nobody inside
//! can make anything.
//!
//! The address is behind a pointer, so every `connect` and `bind` comes here; those that are about no path are carried out as they are.
//! The descriptor is taken from the caller once: what it puts under that number meanwhile is not connected.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ringfence_surface::{AbsPath, Access, Because, Effect, Role};
use ringfence_sys::notify;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::net::AddressFamily;
use rustix::net::sockopt::{self, Timeout};
use rustix::process::PidfdGetfdFlags;

use super::caller::{AT_FDCWD, c_string};
use super::git::Making;
use super::parked::{Rights, Waiter};
use super::resolve::{Last, Target, mount_of};
use super::work::{Reply, Stop, Work};

/// More that are still there are not remembered, and so not made.
const MOST: usize = 512;
/// The kernel's longest address.
const LONGEST: usize = 128;

/// The sockets that were made inside.
#[derive(Debug)]
pub(super) struct Sockets {
    made: Mutex<BTreeMap<(u64, u64), OwnedFd>>,
}

impl Sockets {
    pub(super) fn new() -> Self {
        Self { made: Mutex::new(BTreeMap::new()) }
    }

    fn has(&self, status: &Stat) -> bool {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.contains_key(&(status.st_dev, status.st_ino))
    }

    /// Is there room for one more? Those that have no name any more are forgotten.
    fn has_room(&self) -> bool {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= MOST {
            made.retain(|_, held| rustix::fs::fstat(held).is_ok_and(|status| status.st_nlink > 0));
        }
        made.len() < MOST
    }

    fn remember(&self, held: OwnedFd) -> rustix::io::Result<()> {
        let status = rustix::fs::fstat(&held)?;
        if FileType::from_raw_mode(status.st_mode) == FileType::Socket {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            made.insert((status.st_dev, status.st_ino), held);
        }
        Ok(())
    }
}

impl Work<'_, '_> {
    pub(super) fn connect(&mut self, socket: i32, address: u64, length: u32) -> Result<Reply, Stop> {
        let (socket, family) = self.socket(socket)?;
        let mut bytes = self.address(address, length)?;
        let mut held = None;
        if let Some(path) = path_of(family, &bytes) {
            let from = self.resolver.from(AT_FDCWD, path)?;
            let place = self.resolver.place(&from, path)?;
            let target = self.resolver.target(&from, place, Last::Followed)?;
            // What is no socket the kernel refuses.
            if target.kind() == FileType::Socket && !self.is_reachable(&target) {
                self.refuse_socket(target.path.as_ref());
                return Err(Errno::ACCESS.into());
            }
            bytes = [&bytes[..2], target.by_descriptor().as_bytes_with_nul()].concat();
            held = Some(target);
        }
        // It may wait for the process that listens, which may wait for a call of its own.
        if rustix::fs::fcntl_getfl(&socket)?.contains(OFlags::NONBLOCK) {
            self.release();
            self.perform(|| notify::connect(socket.as_fd(), &bytes))?;
            return Ok(Reply::Done);
        }
        let limit = sockopt::socket_timeout(&socket, Timeout::Send)?;
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        self.wait(Connecting { socket, family, address: bytes, target: held, until, waits: None })
    }

    pub(super) fn bind(&mut self, socket: i32, address: u64, length: u32) -> Result<Reply, Stop> {
        let (socket, family) = self.socket(socket)?;
        let bytes = self.address(address, length)?;
        let Some(path) = path_of(family, &bytes) else {
            self.perform(|| notify::bind(socket.as_fd(), &bytes))?;
            return Ok(Reply::Done);
        };
        // The socket keeps the address as it is spelled, so the kernel must walk there itself. Nobody inside moves anything meanwhile.
        self.alone()?;
        let from = self.resolver.from(AT_FDCWD, path)?;
        let place = self.resolver.place(&from, path)?;
        if !self.broker_sockets().has_room() {
            return Err(Errno::NOBUFS.into());
        }
        self.may_make(&place, Making::Node).map_err(|stop| match stop {
            Stop::Told(Errno::EXIST) => Stop::Told(Errno::ADDRINUSE),
            other => other,
        })?;
        self.take_mask()?;
        let cwd = self.caller.directory(AT_FDCWD)?;
        rustix::process::fchdir(&cwd)?;
        let bound = self.bind_there(&socket, &bytes, path, &place);
        // Nobody's directory is kept.
        let _ = rustix::process::chdir(c"/");
        bound.map(|()| Reply::Done)
    }

    fn bind_there(
        &self,
        socket: &OwnedFd,
        bytes: &[u8],
        path: &[u8],
        place: &super::resolve::Place,
    ) -> Result<(), Stop> {
        let prefix = path.iter().rposition(|byte| *byte == b'/').map_or(b".".as_slice(), |slash| &path[..=slash]);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let none = ResolveFlags::NO_MAGICLINKS;
        let there = match rustix::fs::openat2(rustix::fs::CWD, prefix, flags, Mode::empty(), none) {
            // The usual way to name a socket in a directory whose path is too long for an address leads through `/proc`.
            Err(Errno::LOOP) => None,
            // Without openat2 the address is spelled by what is held, too.
            Err(Errno::NOSYS | Errno::PERM) => None,
            other => Some(other?),
        };
        let same = |one: &OwnedFd, other: &OwnedFd| -> rustix::io::Result<bool> {
            let (a, b) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
            let is_one = (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
            Ok(is_one && mount_of(one.as_fd())? == mount_of(other.as_fd())?)
        };
        // A way through `/proc/self` would be ours: it is spelled by what is held then, and the name means as little to others.
        let is_same = there.map(|there| same(&there, &place.dir)).transpose()?.unwrap_or(false);
        let name = c_string(&place.name)?;
        let held = format!("/proc/self/fd/{}/", place.dir.as_raw_fd());
        let bytes =
            if is_same { bytes.to_vec() } else { [&bytes[..2], held.as_bytes(), name.as_bytes_with_nul()].concat() };
        self.perform(|| notify::bind(socket.as_fd(), &bytes))?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Whoever removed it already has nothing to connect to.
        if let Ok(made) = rustix::fs::openat(&place.dir, name.as_c_str(), flags, Mode::empty()) {
            self.broker_sockets().remember(made)?;
        }
        Ok(())
    }

    /// Was it made inside, or is it the supervisor's?
    fn is_reachable(&self, target: &Target) -> bool {
        // Ours is mounted in the place of the host's. When the host makes its own anew the mount goes, and theirs is another thing:
        // it could hand over descriptors.
        let is_mounted = || {
            let status = rustix::fs::statx(&target.fd, c"", AtFlags::EMPTY_PATH, StatxFlags::empty());
            status.is_ok_and(|status| status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
        };
        let is_given = |path: &AbsPath| {
            let because = self.surface().decide(path, Access::Read).because;
            // Nobody inside can make anything there.
            let is_own = matches!(because, Because::Rule(rule) if rule.effect == Effect::Read(Role::Scratch));
            is_own || self.surface().reach().sockets.iter().any(|named| named.value == *path) && is_mounted()
        };
        self.broker_sockets().has(&target.status) || target.path.as_ref().is_some_and(is_given)
    }

    /// The caller's own socket, and its family.
    fn socket(&self, number: i32) -> Result<(OwnedFd, AddressFamily), Stop> {
        let held = rustix::process::pidfd_getfd(self.caller.pidfd()?.as_fd(), number, PidfdGetfdFlags::empty())?;
        // ENOTSOCK, and EBADF where it only names a place, as the call itself would say.
        let family = sockopt::socket_domain(&held)?;
        Ok((held, family))
    }

    fn address(&self, address: u64, length: u32) -> Result<Vec<u8>, Stop> {
        let length = usize::try_from(length.cast_signed()).ok().filter(|length| *length <= LONGEST);
        let mut bytes = vec![0; length.ok_or(Errno::INVAL)?];
        self.caller.bytes(address, &mut bytes)?;
        Ok(bytes)
    }
}

/// A `connect` on a socket whose calls block.
#[derive(Debug)]
struct Connecting {
    socket: OwnedFd,
    family: AddressFamily,
    address: Vec<u8>,
    /// The socket file, which the address names by its descriptor.
    target: Option<Target>,
    /// When the caller's own time-out (SO_SNDTIMEO) ends.
    until: Option<Instant>,
    /// Why it waits.
    waits: Option<Errno>,
}

impl Waiter for Connecting {
    fn attempt(&mut self, rights: &Rights<'_, '_>) -> Option<rustix::io::Result<Reply>> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        if let (Some(waits), true) = (self.waits, is_late) {
            return Some(Err(waits));
        }
        if self.waits.is_some() && !self.is_worth_an_attempt() {
            return None;
        }
        match rights.perform(|| connect_without_blocking(&self.socket, &self.address)) {
            Err(waits @ (Errno::AGAIN | Errno::INPROGRESS | Errno::ALREADY)) => {
                self.waits.get_or_insert(waits);
                None
            }
            done => Some(done.map(|()| Reply::Done)),
        }
    }

    fn readiness(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        (self.family != AddressFamily::UNIX).then(|| (self.socket.as_fd(), PollFlags::OUT))
    }

    fn queue(&self) -> Option<(u64, u64)> {
        self.target.as_ref().map(|target| (target.status.st_dev, target.status.st_ino))
    }
}

impl Connecting {
    /// A handshake tells by the socket when it is over. A full backlog does not.
    fn is_worth_an_attempt(&self) -> bool {
        let Some((fd, flags)) = self.readiness() else { return true };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&now)) != Ok(0)
    }
}

/// One attempt. The flag belongs to the open file, which the caller shares: it is set for this moment only. No byte goes through a
/// socket that is not connected yet.
fn connect_without_blocking(socket: &OwnedFd, address: &[u8]) -> rustix::io::Result<()> {
    let before = rustix::fs::fcntl_getfl(socket)?;
    rustix::fs::fcntl_setfl(socket, before | OFlags::NONBLOCK)?;
    let connected = notify::connect(socket.as_fd(), address);
    if !before.contains(OFlags::NONBLOCK) {
        let after = rustix::fs::fcntl_getfl(socket)?;
        rustix::fs::fcntl_setfl(socket, after & !OFlags::NONBLOCK)?;
    }
    connected
}

/// The path that an address names, if it does.
fn path_of(family: AddressFamily, bytes: &[u8]) -> Option<&[u8]> {
    let (named, path) = bytes.split_first_chunk::<2>()?;
    let is_unix = family == AddressFamily::UNIX && u16::from_ne_bytes(*named) == AddressFamily::UNIX.as_raw();
    // Without a name, or with one that is no path: those of another network namespace are not seen.
    if !is_unix || path.first().is_none_or(|first| *first == 0) || path.len() > LONGEST_PATH {
        return None;
    }
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    Some(&path[..end])
}

/// Of an address that is a path. The kernel refuses a longer one.
const LONGEST_PATH: usize = 108;
