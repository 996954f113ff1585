//! Somebody of the host's for each way in which a fenced process might reach one: a port, a socket with an abstract name, a
//! process. They stand in the place of the user's own, so that nothing of those is touched.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, Stdio};

use rustix::net::SocketFlags;

use super::GREETING;

/// Everybody who stands outside.
#[derive(Debug)]
pub struct Outsiders {
    /// The port that no policy names.
    pub unlisted: u16,
    /// One for each port that the policy names.
    pub listed: Vec<u16>,
    /// The abstract name.
    pub name: Vec<u8>,
    process: Child,
    listeners: Vec<TcpListener>,
    socket: UnixListener,
}

impl Outsiders {
    /// Has them stand there; `ports` of them listen in the place of ports that the policy names.
    ///
    /// # Errors
    /// When there is no room for one of them.
    pub fn start(ports: usize) -> io::Result<Self> {
        let listeners: Vec<TcpListener> =
            (0..=ports).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<_>>()?;
        let mut numbers =
            listeners.iter().map(|one| one.local_addr().map(|at| at.port())).collect::<io::Result<Vec<_>>>()?;
        let unlisted = numbers.remove(0);
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name = format!("ringfence-verify-{:016x}", u64::from_le_bytes(random)).into_bytes();
        let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        // It ends when its input does, which is when we end.
        let mut shell = Command::new("/bin/sh");
        let process = shell.args(["-c", "read line"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        Ok(Self { unlisted, listed: numbers, name, process, listeners, socket })
    }

    /// The process that may be signalled.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Everybody who listens.
    pub(super) fn listeners(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.listeners.iter().map(|one| one.as_fd()).chain([self.socket.as_fd()])
    }
}

impl Drop for Outsiders {
    fn drop(&mut self) {
        // One that was struck is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Greets whoever has connected. Where nobody is left, somebody was in a hurry.
pub(super) fn greet(listener: BorrowedFd<'_>) {
    if let Ok(peer) = rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
        let _ = rustix::net::send(&peer, GREETING, rustix::net::SendFlags::NOSIGNAL);
    }
}
