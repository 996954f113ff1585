//! Packets that answer the first packet (SYN) of a TCP connection, as bytes: the same packet once more, a reset, or an ICMP error
//! that says why there is no connection. Sends nothing.

use std::net::{IpAddr, SocketAddr};

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    /// The client's end.
    pub(crate) from: SocketAddr,
    /// The address that was dialled.
    pub(crate) to: SocketAddr,
}

impl Ends {
    /// Without what the kernel may add to an address of IPv6, and with IPv4 addresses as such.
    pub(crate) fn new(from: SocketAddr, to: SocketAddr) -> Self {
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Self { from: plain(from), to: plain(to) }
    }
}

/// Why a host cannot be reached, as far as ICMP can say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreachable {
    Network,
    Host,
}

/// The first packet of a connection: a TCP header with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Syn {
    ends: Ends,
    header: Vec<u8>,
}

const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const TTL: u8 = 64;

impl Syn {
    /// Of a packet from its TCP header on. What follows the header is left out: data of TCP Fast Open, which the caller sends again.
    pub(crate) fn read(source: IpAddr, destination: IpAddr, segment: &[u8]) -> Option<Self> {
        let port = |at: usize| segment.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let ends = Ends::new(SocketAddr::new(source, port(0)?), SocketAddr::new(destination, port(2)?));
        let length = usize::from(segment.get(12)? >> 4) * 4;
        let is_same_family = ends.from.is_ipv4() == ends.to.is_ipv4();
        (length >= 20 && is_same_family).then_some(())?;
        Some(Self { ends, header: segment.get(..length)?.to_vec() })
    }

    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }

    /// The same packet once more.
    pub(crate) fn again(&self) -> Vec<u8> {
        self.sent(self.ends.from.ip(), self.ends.to.ip(), self.header.clone())
    }

    /// A reset: the caller reads `ECONNREFUSED`.
    pub(crate) fn refused(&self) -> Vec<u8> {
        const RST_AND_ACK: u8 = 0x14;
        let sequence = self.header[4..8].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let mut header = [0; 20];
        header[0..2].copy_from_slice(&self.ends.to.port().to_be_bytes());
        header[2..4].copy_from_slice(&self.ends.from.port().to_be_bytes());
        header[8..12].copy_from_slice(&sequence.wrapping_add(1).to_be_bytes());
        header[12..14].copy_from_slice(&[5 << 4, RST_AND_ACK]);
        self.sent(self.ends.to.ip(), self.ends.from.ip(), header.to_vec())
    }

    /// An ICMP error: the caller reads `ENETUNREACH` or `EHOSTUNREACH`.
    pub(crate) fn unreachable(&self, why: Unreachable) -> Vec<u8> {
        let (source, destination) = (self.ends.to.ip(), self.ends.from.ip());
        let (kind, code, protocol) = match (source, why) {
            (IpAddr::V4(_), Unreachable::Network) => (3, 0, ICMP),
            (IpAddr::V4(_), Unreachable::Host) => (3, 1, ICMP),
            (IpAddr::V6(_), Unreachable::Network) => (1, 0, ICMPV6),
            (IpAddr::V6(_), Unreachable::Host) => (1, 3, ICMPV6),
        };
        let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
        message.extend(self.again());
        let pseudo = if protocol == ICMPV6 { pseudo_header(source, destination, protocol, message.len()) } else { 0 };
        let sum = checksum(pseudo, &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        with_ip(source, destination, protocol, &message)
    }

    fn sent(&self, source: IpAddr, destination: IpAddr, mut header: Vec<u8>) -> Vec<u8> {
        header[16..18].fill(0);
        let sum = checksum(pseudo_header(source, destination, TCP, header.len()), &header);
        header[16..18].copy_from_slice(&sum.to_be_bytes());
        with_ip(source, destination, TCP, &header)
    }
}

/// A packet of one of the two families, with its header. Both addresses are of the same.
fn with_ip(source: IpAddr, destination: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    // Headers and an ICMP error about headers: less than 300 bytes.
    let length = payload.len() as u16;
    let mut packet = match source {
        IpAddr::V4(_) => vec![0x45, 0, 0, 0, 0, 0, 0, 0, TTL, protocol, 0, 0],
        IpAddr::V6(_) => vec![0x60, 0, 0, 0, 0, 0, protocol, TTL],
    };
    for address in [source, destination] {
        match address {
            IpAddr::V4(v4) => packet.extend(v4.octets()),
            IpAddr::V6(v6) => packet.extend(v6.octets()),
        }
    }
    if source.is_ipv4() {
        packet[2..4].copy_from_slice(&(length + 20).to_be_bytes());
        let sum = checksum(0, &packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&length.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// The sum of what the checksums of TCP and of ICMPv6 cover besides (RFC 9293, 3.1; RFC 8200, 8.1).
fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> u32 {
    let words = |bytes: &[u8]| sum(bytes);
    let of = |address: IpAddr| match address {
        IpAddr::V4(v4) => words(&v4.octets()),
        IpAddr::V6(v6) => words(&v6.octets()),
    };
    of(source) + of(destination) + u32::from(protocol) + length as u32
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0))).sum()
}

/// The internet checksum (RFC 1071) of some bytes and what was summed before.
fn checksum(before: u32, bytes: &[u8]) -> u16 {
    let mut folded = before + sum(bytes);
    while folded > 0xffff {
        folded = (folded & 0xffff) + (folded >> 16);
    }
    !(folded as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1.2.3.4:8080 to 198.18.1.1:80, with one option, whose checksum is not filled in.
    fn syn(source: &str, destination: &str) -> Syn {
        let mut segment =
            vec![0x1f, 0x90, 0, 80, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 6 << 4, 2, 0xff, 0xff, 9, 9, 0, 0];
        segment.extend([2, 4, 5, 0xb4]);
        segment.extend(b"data of TCP Fast Open");
        Syn::read(source.parse().unwrap(), destination.parse().unwrap(), &segment).unwrap()
    }

    /// The payload of a packet; everything that is summed up is right.
    #[track_caller]
    fn payload(packet: &[u8], source: &str, destination: &str, protocol: u8) -> Vec<u8> {
        let (source, destination): (IpAddr, IpAddr) = (source.parse().unwrap(), destination.parse().unwrap());
        let header = if source.is_ipv4() { 20 } else { 40 };
        let (ip, payload) = packet.split_at(header);
        if source.is_ipv4() {
            assert_eq!((checksum(0, ip), usize::from(u16::from_be_bytes([ip[2], ip[3]]))), (0, packet.len()));
        } else {
            assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), payload.len());
        }
        let pseudo = if protocol == ICMP { 0 } else { pseudo_header(source, destination, protocol, payload.len()) };
        assert_eq!(checksum(pseudo, payload), 0, "{packet:x?}");
        payload.to_vec()
    }

    #[test]
    fn packets_of_both_families() {
        for (from, to, icmp, codes) in
            [("1.2.3.4", "198.18.1.1", ICMP, [(3, 0), (3, 1)]), ("fd52::4", "fd52:4600::101", ICMPV6, [(1, 0), (1, 3)])]
        {
            let syn = syn(from, to);
            let again = syn.again();
            let same = payload(&again, from, to, TCP);
            assert_eq!((&same[..16], &same[18..]), (&syn.header[..16], &syn.header[18..]));
            assert_eq!(same.len(), 24, "without data");
            let reset = payload(&syn.refused(), to, from, TCP);
            assert_eq!(reset[..4], [0, 80, 0x1f, 0x90]);
            // The number after the last one is the first one.
            assert_eq!((&reset[8..12], reset[13]), (&[0; 4][..], 0x14));
            for (why, code) in [Unreachable::Network, Unreachable::Host].into_iter().zip(codes) {
                let error = payload(&syn.unreachable(why), to, from, icmp);
                assert_eq!((error[0], error[1]), code);
                assert_eq!(error[8..], again);
            }
        }
    }

    #[test]
    fn what_is_no_header_is_not_read() {
        let (v4, v6): (IpAddr, IpAddr) = ("1.2.3.4".parse().unwrap(), "::1".parse().unwrap());
        let whole = syn("1.2.3.4", "1.2.3.4").header;
        assert!(Syn::read(v4, v4, &whole).is_some() && Syn::read(v4, v6, &whole).is_none());
        for length in 0..whole.len() {
            assert_eq!(Syn::read(v4, v4, &whole[..length]), None, "{length}");
        }
        let mut short = whole;
        short[12] = 4 << 4;
        assert_eq!(Syn::read(v4, v4, &short), None);
    }
}
