//! Two network namespaces: one that has nothing but its loopback and a link to the other, and that one, where every address is local.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// A socket for requests about this network namespace, wherever it is used later (rtnetlink). Allocates nothing.
///
/// # Errors
/// What the kernel says.
pub fn routing() -> io::Result<OwnedFd> {
    socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
}

/// The addresses of the other namespace's end of the link that [`become_gateway`] makes: the only ones there beside the loopback.
pub const BEHIND: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(198, 18, 0, 3), Ipv6Addr::new(0xfd52, 0x4600, 0, 0, 0, 0, 0, 3));

/// Makes this network namespace the gateway of another one: a pair of devices (veth) links the two, everything that is no address of the
/// other one comes here by it, and every address but [`BEHIND`] is one of this namespace's own. What is dialled there arrives here,
/// and is refused at once where nothing listens. `behind` is a [`routing`] socket of the other namespace, and `namespace` its
/// descriptor. A kernel without IPv6 is left without. Allocates nothing.
///
/// # Errors
/// When the process does not own both namespaces, and `EOPNOTSUPP` where the kernel has no veth devices.
pub fn become_gateway(behind: &OwnedFd, namespace: BorrowedFd<'_>) -> io::Result<()> {
    let here = routing()?;
    link_to(&here, namespace)?;
    // Not while they are made: the kernel switches none on whose other end is not there yet.
    for at in [&here, behind] {
        let mut request = Request::new(libc::RTM_NEWLINK, 0);
        request.put(&link_info(libc::IFF_UP));
        request.send(at)?;
    }
    let (v4, v6) = (IpAddr::V4(BEHIND.0), IpAddr::V6(BEHIND.1));
    // A neighbour that is never asked for: the devices do not resolve addresses (IFF_NOARP) and have the same one themselves.
    let gateways = [IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1))];
    for (own, gateway) in [v4, v6].into_iter().zip(gateways) {
        let made = add_local_default(&here, own)
            .and_then(|()| add_route(&here, Some(own), None, own))
            .and_then(|()| add_address(behind, own))
            .and_then(|()| add_route(behind, None, Some(gateway), own));
        match made {
            Err(cause) if own.is_ipv6() && is_without_v6(&cause) => {}
            other => other?,
        }
    }
    Ok(())
}

fn is_without_v6(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EACCES))
}

/// The number of both devices of the pair, which a new namespace does not have: there may be more in it than `lo`.
const LINK: i32 = 1000;
/// Their name.
const LINK_NAME: &[u8] = b"ringfence0\0";
/// `lo` has this number in every namespace.
const LO: i32 = 1;

/// `ifinfomsg` of the device, with a flag to set.
fn link_info(flag: libc::c_int) -> [u8; 16] {
    let mut info = [0; 16];
    info[4..8].copy_from_slice(&LINK.to_ne_bytes());
    info[8..12].copy_from_slice(&flag.to_ne_bytes());
    info[12..16].copy_from_slice(&flag.to_ne_bytes());
    info
}

/// `ip link add ringfence0 arp off type veth peer name ringfence0 arp off netns NAMESPACE`.
fn link_to(here: &OwnedFd, namespace: BorrowedFd<'_>) -> io::Result<()> {
    // veth.h; the crate does not have it.
    const VETH_INFO_PEER: u16 = 1;
    let device = |request: &mut Request| {
        request.put(&link_info(libc::IFF_NOARP));
        request.attribute(libc::IFLA_IFNAME, LINK_NAME);
        // The same for both: otherwise each end would take packets of the other for those of a third.
        request.attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0x52, 0x46, 1]);
        request.attribute(libc::IFLA_MTU, &65_535_u32.to_ne_bytes());
    };
    let mut request = Request::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
    device(&mut request);
    let link = request.begin(libc::IFLA_LINKINFO);
    request.attribute(libc::IFLA_INFO_KIND, b"veth");
    let data = request.begin(libc::IFLA_INFO_DATA);
    let peer = request.begin(VETH_INFO_PEER);
    device(&mut request);
    request.attribute(libc::IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
    for begun in [peer, data, link] {
        request.end(begun);
    }
    request.send(here)
}

/// `ip route add local default dev lo`. In the main table, not in that of local addresses: a route there would come before the one
/// that leads back.
fn add_local_default(here: &OwnedFd, family: IpAddr) -> io::Result<()> {
    let kind = [libc::RT_TABLE_MAIN, libc::RTPROT_BOOT, libc::RT_SCOPE_HOST, libc::RTN_LOCAL];
    let mut request = Request::route(family, 0, kind, 0);
    request.attribute(libc::RTA_OIF, &LO.to_ne_bytes());
    request.send(here)
}

/// `ip route add TO|default [via GATEWAY onlink] dev ringfence0`.
fn add_route(at: &OwnedFd, to: Option<IpAddr>, gateway: Option<IpAddr>, family: IpAddr) -> io::Result<()> {
    let scope = if gateway.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
    // rtnetlink.h; the crate does not have it.
    const RTNH_F_ONLINK: u32 = 4;
    let flags = if gateway.is_some() && family.is_ipv4() { RTNH_F_ONLINK } else { 0 };
    let kind = [libc::RT_TABLE_MAIN, libc::RTPROT_BOOT, scope, libc::RTN_UNICAST];
    let mut request = Request::route(family, to.map_or(0, bits), kind, flags);
    request.attribute(libc::RTA_OIF, &LINK.to_ne_bytes());
    if let Some(to) = to {
        request.address(libc::RTA_DST, to);
    }
    if let Some(gateway) = gateway {
        request.address(libc::RTA_GATEWAY, gateway);
    }
    request.send(at)
}

/// `ip address add OWN dev ringfence0`.
fn add_address(at: &OwnedFd, own: IpAddr) -> io::Result<()> {
    let mut request = Request::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
    request.put(&[family_of(own) as u8, bits(own), libc::IFA_F_NODAD as u8, libc::RT_SCOPE_UNIVERSE]);
    request.put(&LINK.to_ne_bytes());
    request.address(libc::IFA_LOCAL, own);
    request.address(libc::IFA_ADDRESS, own);
    request.send(at)
}

const fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn family_of(address: IpAddr) -> i32 {
    if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

/// A request to rtnetlink, without allocating. The longest is less than 256 bytes.
struct Request {
    bytes: [u8; 256],
    length: usize,
}

impl Request {
    fn new(kind: u16, flags: libc::c_int) -> Self {
        let mut request = Self { bytes: [0; 256], length: 16 };
        request.bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        request.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        request
    }

    /// `rtmsg`: `kind` is a table, a protocol, a scope and a type.
    fn route(family: IpAddr, bits: u8, kind: [u8; 4], flags: u32) -> Self {
        let mut request = Self::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_REPLACE);
        request.put(&[family_of(family) as u8, bits, 0, 0]);
        request.put(&kind);
        request.put(&flags.to_ne_bytes());
        request
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// An attribute that holds others: where it begins, for [`Request::end`].
    fn begin(&mut self, kind: u16) -> usize {
        let begun = self.length;
        self.put(&[0; 2]);
        self.put(&kind.to_ne_bytes());
        begun
    }

    fn end(&mut self, begun: usize) {
        let length = (self.length - begun) as u16;
        self.bytes[begun..begun + 2].copy_from_slice(&length.to_ne_bytes());
        self.length = self.length.next_multiple_of(4);
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let begun = self.begin(kind);
        self.put(value);
        self.end(begun);
    }

    fn address(&mut self, kind: u16, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => self.attribute(kind, &v4.octets()),
            IpAddr::V6(v6) => self.attribute(kind, &v6.octets()),
        }
    }

    fn send(mut self, to: &OwnedFd) -> io::Result<()> {
        self.bytes[..4].copy_from_slice(&(self.length as u32).to_ne_bytes());
        // SAFETY: the kernel reads as many bytes as the request has.
        let sent = unsafe { libc::send(to.as_raw_fd(), self.bytes.as_ptr().cast(), self.length, 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut answer = [0_u8; 512];
        // SAFETY: the kernel writes at most as many bytes as the buffer has.
        let got = unsafe { libc::recv(to.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        if got < 20 {
            return Err(io::Error::last_os_error());
        }
        // NLMSG_ERROR: the header and a negative errno, zero for done.
        let errno = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
        if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-errno)) }
    }
}

/// A TCP listener that does not block. Allocates nothing.
///
/// # Errors
/// What the kernel says; `EADDRINUSE` where somebody listens already.
pub fn listener(address: SocketAddr) -> io::Result<OwnedFd> {
    listen(bound(address)?)
}

fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(family(address), libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR)?;
    bind(&socket, address)?;
    Ok(socket)
}

fn listen(socket: OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers: a descriptor that is ours and a length.
    if unsafe { libc::listen(socket.as_raw_fd(), 1024) } == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// A listener that does not see a first packet (SYN) without [`ADMITTED`]: the kernel neither answers nor refuses it, and the caller
/// sends it again after a while, until [`inject`] has repeated it with the mark or has answered it. Allocates nothing.
///
/// # Errors
/// As [`listener`].
pub fn held_listener(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = bound(address)?;
    // Before `listen`: no packet arrives in between.
    attach(&socket, &ADMITTED_ONLY)?;
    listen(socket)
}

/// The firewall mark (`SO_MARK`) of packets that [`inject`] sends. A program needs `CAP_NET_RAW` or `CAP_NET_ADMIN` over its network
/// namespace to set one, and the payload has neither.
pub const ADMITTED: u32 = 0x5246_4731;

/// A raw socket that sends whole IP packets of a family, with the mark [`ADMITTED`]. Allocates nothing.
///
/// # Errors
/// `EPERM` without the right to make packets.
pub fn injector(family: IpAddr) -> io::Result<OwnedFd> {
    let family_number = if family.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // Of this protocol the kernel takes the IP header as it is given (IP_HDRINCL).
    let socket = socket(family_number, libc::SOCK_RAW | libc::SOCK_NONBLOCK, libc::IPPROTO_RAW)?;
    set_to(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MARK, ADMITTED.cast_signed())?;
    Ok(socket)
}

/// Sends a whole IP packet by an [`injector`].
///
/// # Errors
/// What the kernel says.
pub fn inject(socket: BorrowedFd<'_>, packet: &[u8], to: IpAddr) -> io::Result<()> {
    let (name, length) = write_address(SocketAddr::new(to, 0));
    let (at, count, flags) = (packet.as_ptr().cast(), packet.len(), libc::MSG_DONTWAIT);
    // SAFETY: the kernel reads `count` bytes of the packet and `length` bytes of the address, which are at least that long.
    let sent = unsafe { libc::sendto(socket.as_raw_fd(), at, count, flags, (&raw const name).cast(), length) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A UDP socket that does not block and tells which of its addresses was asked. Allocates nothing.
///
/// # Errors
/// What the kernel says.
pub fn datagrams(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(family(address), libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
    match address {
        SocketAddr::V4(_) => set(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO)?,
        SocketAddr::V6(_) => set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)?,
    }
    bind(&socket, address)?;
    Ok(socket)
}

/// A socket that sees every packet of a protocol, TCP or UDP, that arrives at any address of a family. Of TCP it is the first of
/// each connection with its header, unless [`inject`] has sent it or it goes to the loopback of IPv4, which needs no report.
/// IPv6 extension headers are not followed; who uses them is not seen. Allocates nothing.
///
/// A packet socket would see more, but closing one takes the kernel ten milliseconds and more.
///
/// # Errors
/// `EPERM` without the right to see packets.
pub fn arrivals(family: IpAddr, protocol: Arriving) -> io::Result<OwnedFd> {
    let number = match protocol {
        Arriving::Tcp => libc::IPPROTO_TCP,
        Arriving::Udp => libc::IPPROTO_UDP,
    };
    let family_number = if family.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let socket = socket(family_number, libc::SOCK_RAW | libc::SOCK_NONBLOCK, number)?;
    match family {
        IpAddr::V4(_) => set(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO)?,
        IpAddr::V6(_) => set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)?,
    }
    match (protocol, family) {
        (Arriving::Udp, _) => {}
        (Arriving::Tcp, IpAddr::V4(_)) => attach(&socket, &FIRST_OF_V4)?,
        (Arriving::Tcp, IpAddr::V6(_)) => attach(&socket, &FIRST_OF_V6)?,
    }
    Ok(socket)
}

/// What arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arriving {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

fn attach(socket: &OwnedFd, program: &'static [libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let (option, filter) = (libc::SO_ATTACH_FILTER, (&raw const filter).cast());
    // SAFETY: the kernel reads one sock_fprog and the program it leads to, neither of which it changes.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, filter, length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const fn op(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_BYTE_AFTER_HEADER: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const LENGTH_OF_HEADER: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
/// The first byte of the address that a packet of IPv4 goes to, and what it is for the loopback.
const GOES_TO: u32 = 16;
const LOOPBACK: u32 = 127;

/// Loads the firewall mark of the packet.
const LOAD_MARK: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const MARK: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_MARK).cast_unsigned();
/// Where the flags of a TCP header are; SYN and ACK, and SYN alone.
const FLAGS: u32 = 13;
const SYN_AND_ACK: u32 = 0x12;
const SYN: u32 = 0x02;
/// The longest header of IPv4 and of TCP.
const HEADERS: u32 = 120;
/// The whole packet.
const ALL: u32 = u32::MAX;

/// SYN without ACK and without the mark, to anywhere but the loopback. The header of IPv4 comes first, and has a variable length.
static FIRST_OF_V4: [libc::sock_filter; 10] = [
    op(LOAD_MARK, 0, 0, MARK),
    op(IS, 7, 0, ADMITTED),
    op(LOAD_BYTE, 0, 0, GOES_TO),
    op(IS, 5, 0, LOOPBACK),
    op(LENGTH_OF_HEADER, 0, 0, 0),
    op(LOAD_BYTE_AFTER_HEADER, 0, 0, FLAGS),
    op(AND, 0, 0, SYN_AND_ACK),
    op(IS, 0, 1, SYN),
    op(RETURN, 0, 0, HEADERS),
    op(RETURN, 0, 0, 0),
];

/// The same where no header comes first, and no address can be seen.
static FIRST_OF_V6: [libc::sock_filter; 7] = [
    op(LOAD_MARK, 0, 0, MARK),
    op(IS, 4, 0, ADMITTED),
    op(LOAD_BYTE, 0, 0, FLAGS),
    op(AND, 0, 0, SYN_AND_ACK),
    op(IS, 0, 1, SYN),
    op(RETURN, 0, 0, HEADERS),
    op(RETURN, 0, 0, 0),
];

/// Everything but SYN without ACK and without the mark. A TCP socket sees packets from the TCP header on. What is accepted inherits it.
static ADMITTED_ONLY: [libc::sock_filter; 7] = [
    op(LOAD_BYTE, 0, 0, FLAGS),
    op(AND, 0, 0, SYN_AND_ACK),
    op(IS, 0, 2, SYN),
    op(LOAD_MARK, 0, 0, MARK),
    op(IS, 0, 1, ADMITTED),
    op(RETURN, 0, 0, ALL),
    op(RETURN, 0, 0, 0),
];

/// The addresses of this machine's own interfaces; none where the kernel does not tell.
pub fn own_addresses() -> Vec<IpAddr> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: stores a list there, or fails and stores nothing.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let (mut addresses, mut next) = (Vec::new(), first);
    while !next.is_null() {
        // SAFETY: it is an entry of the list, which is not freed yet.
        let entry = unsafe { next.read() };
        addresses.extend(interface_address(entry.ifa_addr));
        next = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    addresses
}

fn interface_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: it is an address of an entry; every kind begins with its family.
    let family = unsafe { address.read_unaligned() }.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the family says what it is.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says what it is.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// A datagram: how long it is, who sent it, and which address it was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Its length.
    pub length: usize,
    /// Who sent it.
    pub peer: SocketAddr,
    /// Which address was asked.
    pub asked: IpAddr,
}

/// Receives a datagram of a socket that [`datagrams`] made.
///
/// # Errors
/// What the kernel says; `EAGAIN` when there is none.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Datagram> {
    let mut name = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut control = Control([0; 128]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: every pointer in the message leads to memory of ours of the length that stands beside it.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: it was zeroed, and the kernel wrote an address into it.
    let name = unsafe { name.assume_init() };
    let peer = read_address(&name).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Datagram { length, peer, asked: asked(&message).ok_or(io::ErrorKind::InvalidData)? })
}

/// Room for control messages, aligned as the kernel wants them.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// The address that a message was sent to.
fn asked(message: &libc::msghdr) -> Option<IpAddr> {
    // SAFETY: the kernel filled the message, whose control buffer is still alive.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: a header that is not null lies within the control buffer.
        let read = unsafe { header.read_unaligned() };
        // SAFETY: as above; the data follows its header.
        let data = unsafe { libc::CMSG_DATA(header) };
        match (read.cmsg_level, read.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: data of this kind is an in_pktinfo, which may stand at any address.
                let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
                return Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr))));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: data of this kind is an in6_pktinfo, which may stand at any address.
                let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
                return Some(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)));
            }
            _ => {}
        }
        // SAFETY: both belong to the message that the kernel filled.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

/// Answers a datagram, from the address that was asked.
///
/// # Errors
/// What the kernel says.
pub fn answer(socket: BorrowedFd<'_>, bytes: &[u8], to: Datagram) -> io::Result<()> {
    let (mut name, name_length) = write_address(to.peer);
    let mut control = Control([0; 128]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: msghdr is plain data, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = name_length;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    let used = match to.asked {
        IpAddr::V4(from) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from(from).to_be() },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            put(&message, libc::IPPROTO_IP, libc::IP_PKTINFO, info)
        }
        IpAddr::V6(from) => {
            let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: from.octets() }, ipi6_ifindex: 0 };
            put(&message, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
        }
    };
    message.msg_controllen = used;
    // SAFETY: every pointer in the message leads to memory of ours of the length that stands beside it.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Puts one control message first, and tells how much room it takes.
fn put<T>(message: &libc::msghdr, level: i32, kind: i32, value: T) -> usize {
    let length = size_of::<T>() as u32;
    // SAFETY: the control buffer is larger than any header with one of our values.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: computes a length from a length; no memory is read.
    let cmsg_len = unsafe { libc::CMSG_LEN(length) } as usize;
    // SAFETY: the header lies at the start of our buffer.
    unsafe { header.write_unaligned(libc::cmsghdr { cmsg_len, cmsg_level: level, cmsg_type: kind }) };
    // SAFETY: the data follows its header within our buffer.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: there is room for it, and it may stand at any address.
    unsafe { data.cast::<T>().write_unaligned(value) };
    // SAFETY: computes a length from a length; no memory is read.
    unsafe { libc::CMSG_SPACE(length) as usize }
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes three integers and returns a descriptor or -1.
    let socket = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// From now on nobody can send descriptors to a unix socket, nor to what is accepted from it: who closes the last descriptor of
/// something that was sent may have to wait for as long as its sender likes (`SO_LINGER`). Kernels before 6.16 have no such thing.
///
/// # Errors
/// As `setsockopt`, where the kernel has it.
pub fn take_no_descriptors(socket: BorrowedFd<'_>) -> io::Result<()> {
    const SO_PASSRIGHTS: i32 = 83;
    match set_to(socket, libc::SOL_SOCKET, SO_PASSRIGHTS, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        other => other,
    }
}

/// The most that a TCP socket offers to receive before it is read.
///
/// # Errors
/// As `setsockopt`.
pub fn limit_window(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_to(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

fn set(socket: &OwnedFd, level: i32, option: i32) -> io::Result<()> {
    set_to(socket.as_fd(), level, option, 1)
}

fn set_to(socket: BorrowedFd<'_>, level: i32, option: i32, value: libc::c_int) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads one integer, which outlives the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn family(address: SocketAddr) -> i32 {
    if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

fn bind(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)?;
        // A route alone makes an address of the fourth version one's own, but not one of the sixth.
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND)?;
    }
    let (name, length) = write_address(address);
    // SAFETY: the kernel reads `length` bytes of the address, which is at least that long.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn write_address(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: sockaddr_storage is plain data, for which zero is a value.
    let mut name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let length = match address {
        SocketAddr::V4(v4) => {
            let value = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: a sockaddr_storage has room and alignment for each kind of address.
            unsafe { (&raw mut name).cast::<libc::sockaddr_in>().write(value) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let value = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: a sockaddr_storage has room and alignment for each kind of address.
            unsafe { (&raw mut name).cast::<libc::sockaddr_in6>().write(value) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (name, length as libc::socklen_t)
}

fn read_address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what it is, and a sockaddr_storage has room and alignment for it.
            let v4 = unsafe { (&raw const *name).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says what it is, and a sockaddr_storage has room and alignment for it.
            let v6 = unsafe { (&raw const *name).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}
