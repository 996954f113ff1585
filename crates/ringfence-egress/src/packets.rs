//! Destinations that nobody answers, as the kernel sees them: the first packet of each attempt.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::refusals::Refusals;

/// What carries an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// Something that a program tried to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) protocol: Protocol,
    pub(crate) address: SocketAddr,
    /// The port it comes from.
    pub(crate) from: u16,
}

/// How long a command runs before its attempts are watched.
const SETTLED: Duration = Duration::from_millis(10);

/// Notes every attempt that is not expected.
pub(crate) async fn watch(socket: OwnedFd, is_expected: impl Fn(&Attempt) -> bool, refusals: Refusals) {
    // It takes milliseconds, in which nothing is carried and nobody can end: a command that is over at once does not pay them.
    tokio::time::sleep(SETTLED).await;
    if ringfence_sys::net::watch(socket.as_fd()).is_err() {
        return;
    }
    // For the runtime it is a socket that gives datagrams, like others.
    let Ok(socket) = UdpSocket::from_std(socket.into()) else { return };
    let mut buffer = [0; 128];
    loop {
        if socket.readable().await.is_err() {
            return;
        }
        let read = || rustix::io::read(&socket, &mut buffer).map_err(io::Error::from);
        let Ok(length) = socket.try_io(Interest::READABLE, read) else { continue };
        let Some(attempt) = parse(&buffer[..length]).filter(|attempt| !is_expected(attempt)) else { continue };
        let protocol = if attempt.protocol == Protocol::Tcp { "tcp" } else { "udp" };
        refusals.note(format!("{protocol} {}", attempt.address), "the policy does not name it");
    }
}

/// Closes a packet socket in the kernel's own time.
///
/// Whoever closes the last descriptor of one waits for milliseconds, and a session would end that much later. So it is put into
/// a message in the queue of a socket that is itself in that message: nobody can reach either any more, and the kernel collects
/// them in a thread of its own. Where that cannot be done it is closed as others are.
pub(crate) fn let_go(socket: OwnedFd) {
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let Ok((from, to)) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None) else { return };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let descriptors = [socket.as_fd(), to.as_fd()];
    rights.push(SendAncillaryMessage::ScmRights(&descriptors));
    let _ = rustix::net::sendmsg(&from, &[io::IoSlice::new(b"x")], &mut rights, SendFlags::NOSIGNAL);
}

/// Reads the head of a packet.
fn parse(packet: &[u8]) -> Option<Attempt> {
    let (protocol, address, transport): (u8, IpAddr, usize) = match packet.first()? >> 4 {
        4 => {
            let to = packet.get(16..20)?.first_chunk::<4>()?;
            (*packet.get(9)?, Ipv4Addr::from(*to).into(), usize::from(packet.first()? & 0xf) * 4)
        }
        6 => {
            let to = packet.get(24..40)?.first_chunk::<16>()?;
            (*packet.get(6)?, Ipv6Addr::from(*to).into(), 40)
        }
        _ => return None,
    };
    let protocol = match protocol {
        6 => Protocol::Tcp,
        17 => Protocol::Udp,
        _ => return None,
    };
    let [a, b, c, d] = *packet.get(transport..transport + 4)?.first_chunk::<4>()?;
    let (from, port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Some(Attempt { protocol, address: SocketAddr::new(address, port), from })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(protocol: u8, to: [u8; 4], port: u16) -> Vec<u8> {
        let mut packet = vec![0; 24];
        (packet[0], packet[9]) = (0x45, protocol);
        packet[16..20].copy_from_slice(&to);
        packet[22..24].copy_from_slice(&port.to_be_bytes());
        packet
    }

    #[test]
    fn heads_of_packets() {
        let attempt = parse(&v4(6, [1, 1, 1, 1], 8080)).unwrap();
        assert_eq!((attempt.protocol, attempt.address), (Protocol::Tcp, "1.1.1.1:8080".parse().unwrap()));
        assert_eq!(parse(&v4(17, [8, 8, 8, 8], 123)).unwrap().protocol, Protocol::Udp);
        assert_eq!(parse(&v4(1, [8, 8, 8, 8], 0)), None);
        let mut v6 = vec![0; 48];
        (v6[0], v6[6], v6[39], v6[43]) = (0x60, 6, 1, 80);
        assert_eq!(parse(&v6).unwrap().address, "[::1]:80".parse().unwrap());
        for length in 0..24 {
            assert_eq!(parse(&v4(6, [1, 1, 1, 1], 1)[..length]), None);
        }
    }
}
