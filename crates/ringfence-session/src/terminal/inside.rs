//! A PTY that is made inside the fence, in the session's own devpts: there it has a name, which `tty`, `script` and `gpg` ask
//! for. Its master is handed out to the supervisor, and the payload waits until the supervisor has set it up.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::pty::OpenptFlags;

/// What the two sides speak through.
pub struct Ends {
    /// The supervisor's.
    pub outside: OwnedFd,
    /// The new process's.
    pub inside: OwnedFd,
}

impl Ends {
    /// Makes a pair.
    ///
    /// # Errors
    ///
    /// What socketpair says.
    pub fn new() -> io::Result<Self> {
        let (outside, inside) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok(Self { outside, inside })
    }
}

/// New process, inside the view: makes a PTY there, hands its master out, and waits for the supervisor's word. Returns the
/// slave. Allocates nothing.
///
/// # Errors
///
/// What the kernel says; `EPIPE` when the supervisor is gone.
pub fn make_inside(inside: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let master = rustix::fs::open(c"/dev/pts/ptmx", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::pty::unlockpt(&master)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    // Above the three that the payload will replace with it.
    let slave = rustix::io::fcntl_dupfd_cloexec(&slave, 3)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let descriptors = [master.as_fd()];
    rights.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(inside, &[IoSlice::new(b"m")], &mut rights, SendFlags::NOSIGNAL)?;
    let mut word = [0; 1];
    match rustix::io::retry_on_intr(|| rustix::io::read(inside, &mut word))? {
        0 => Err(Errno::PIPE),
        _ => Ok(slave),
    }
}

/// Supervisor: waits for the master. Nothing when the new process ended before.
///
/// # Errors
///
/// What recvmsg says.
pub fn ask_for_master(outside: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    rustix::io::retry_on_intr(|| {
        recvmsg(outside, &mut [IoSliceMut::new(&mut byte)], &mut rights, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut messages = rights.drain();
    Ok(messages.find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
}
