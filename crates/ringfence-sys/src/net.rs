//! Sockets of a network namespace that has nothing but its loopback.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// Makes every address of both families one of this namespace's own: whatever is dialled arrives here, and is refused at
/// once where nobody listens. A kernel without IPv6 is left without. Allocates nothing.
///
/// # Errors
/// When the process does not own its network namespace.
pub fn every_address_is_local() -> io::Result<()> {
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
    add_local_route(&socket, libc::AF_INET)?;
    match add_local_route(&socket, libc::AF_INET6) {
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EACCES)) => {
            Ok(())
        }
        other => other,
    }
}

/// `ip route add local default dev lo table local`, as the kernel takes it.
fn add_local_route(socket: &OwnedFd, family: i32) -> io::Result<()> {
    // nlmsghdr (16 bytes), rtmsg (12), one attribute: RTA_OIF with the index of `lo`, which is 1 in every namespace (8).
    let mut message = [0_u8; 36];
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
    message[0..4].copy_from_slice(&36_u32.to_ne_bytes());
    message[4..6].copy_from_slice(&libc::RTM_NEWROUTE.to_ne_bytes());
    message[6..8].copy_from_slice(&flags.to_ne_bytes());
    message[16] = family as u8;
    message[20] = libc::RT_TABLE_LOCAL;
    message[21] = libc::RTPROT_BOOT;
    message[22] = libc::RT_SCOPE_HOST;
    message[23] = libc::RTN_LOCAL;
    message[28..30].copy_from_slice(&8_u16.to_ne_bytes());
    message[30..32].copy_from_slice(&libc::RTA_OIF.to_ne_bytes());
    message[32..36].copy_from_slice(&1_u32.to_ne_bytes());
    // SAFETY: the kernel reads as many bytes as the message has.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0_u8; 256];
    // SAFETY: the kernel writes at most as many bytes as the buffer has.
    let got = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    if got < 20 {
        return Err(io::Error::last_os_error());
    }
    // NLMSG_ERROR: the header and a negative errno, zero for done.
    let errno = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-errno)) }
}

/// A TCP listener that does not block. Allocates nothing.
///
/// # Errors
/// What the kernel says; `EADDRINUSE` where somebody listens already.
pub fn listener(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(family(address), libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR)?;
    bind(&socket, address)?;
    // SAFETY: takes two integers: a descriptor that is ours and a length.
    if unsafe { libc::listen(socket.as_raw_fd(), 1024) } == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
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
/// each connection, unless it goes to the loopback of IPv4, which nobody needs to be told of. IPv6 extension headers are not followed; who uses them is not seen. Allocates nothing.
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

/// SYN without ACK, to anywhere but the loopback. The header of IPv4 comes first, and has a variable length.
static FIRST_OF_V4: [libc::sock_filter; 8] = [
    op(LOAD_BYTE, 0, 0, GOES_TO),
    op(IS, 5, 0, LOOPBACK),
    op(LENGTH_OF_HEADER, 0, 0, 0),
    op(LOAD_BYTE_AFTER_HEADER, 0, 0, 13),
    op(AND, 0, 0, 0x12),
    op(IS, 0, 1, 0x02),
    op(RETURN, 0, 0, 96),
    op(RETURN, 0, 0, 0),
];

/// The same where no header comes first, and no address can be seen.
static FIRST_OF_V6: [libc::sock_filter; 5] =
    [op(LOAD_BYTE, 0, 0, 13), op(AND, 0, 0, 0x12), op(IS, 0, 1, 0x02), op(RETURN, 0, 0, 96), op(RETURN, 0, 0, 0)];

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
