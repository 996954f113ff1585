//! Destinations that nobody answers, as the kernel sees them: the first packet of each attempt.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};

use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::refusals::{Attempt, Refusals, Transport, Why};
use crate::segment::Syn;

/// Something that a program tried to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PacketAttempt {
    pub(crate) protocol: Transport,
    pub(crate) address: SocketAddr,
    /// The port it comes from.
    pub(crate) from: u16,
    /// The packet, where it begins a connection.
    pub(crate) syn: Option<Syn>,
}

/// Passes every attempt on, and notes those that are not expected: then it is said who was meant.
pub(crate) async fn watch(socket: OwnedFd, unexpected: impl Fn(PacketAttempt) -> Option<String>, refusals: Refusals) {
    let Ok(protocol) = rustix::net::sockopt::socket_protocol(&socket) else { return };
    let protocol = if protocol == Some(rustix::net::ipproto::TCP) { Transport::Tcp } else { Transport::Udp };
    // For the runtime it is a socket that gives datagrams, like others.
    let Ok(socket) = UdpSocket::from_std(socket.into()) else { return };
    let mut buffer = [0; 128];
    loop {
        if socket.readable().await.is_err() {
            return;
        }
        let read = || ringfence_sys::net::receive(socket.as_fd(), &mut buffer);
        let Ok(packet) = socket.try_io(Interest::READABLE, read) else { continue };
        let Some(segment) = transport(&buffer[..packet.length], packet.asked) else { continue };
        let Some((from, port)) = ports(segment) else { continue };
        let read = || Syn::read(packet.peer.ip(), packet.asked, segment);
        let syn = if protocol == Transport::Tcp { read() } else { None };
        let attempt = PacketAttempt { protocol, address: SocketAddr::new(packet.asked, port), from, syn };
        if let Some(meant) = unexpected(attempt) {
            refusals.note(Attempt::Reach { by: protocol, to: meant }, Why::NotNamed);
        }
    }
}

/// What follows the IP header, which only a packet of IPv4 begins with.
fn transport(packet: &[u8], to: IpAddr) -> Option<&[u8]> {
    packet.get(if to.is_ipv4() { usize::from(packet.first()? & 0xf) * 4 } else { 0 }..)
}

/// The ports that a packet comes from and goes to.
fn ports(transport: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *transport.first_chunk::<4>()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_packets() {
        let ports = |packet: &[u8], to: IpAddr| ports(transport(packet, to)?);
        let (v4, v6) = ("1.1.1.1".parse().unwrap(), "::1".parse().unwrap());
        let transport = [0x1f, 0x90, 0, 80];
        let plain = [&[0x45; 20][..], &transport].concat();
        let with_options = [&[0x46; 24][..], &transport].concat();
        assert_eq!(ports(&plain, v4), Some((8080, 80)));
        assert_eq!(ports(&with_options, v4), Some((8080, 80)));
        assert_eq!(ports(&transport, v6), Some((8080, 80)));
        for length in 0..plain.len() {
            assert_eq!(ports(&plain[..length], v4), None);
        }
    }
}
