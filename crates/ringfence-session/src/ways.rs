//! The ways out of a network namespace: sockets that are made inside, while the first process has the right to, and used
//! outside.
//!
//! Later ones are made when a name is first asked for: the first process listens for requests, and hands each listener out. By
//! then it has no rights that the payload lacks. Nobody outside believes more of it than that it made a socket.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_egress::pool::Addresses;
use ringfence_sys::net::{self, Arriving};
use ringfence_sys::process;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::steps::{ALL_LOCAL, LOW_PORTS, LOW_PORTS_FILE, WAYS, failed};
use crate::view::Failed;

/// The sockets of a namespace, outside of it.
#[derive(Debug)]
pub struct Ways {
    /// Asks the first process for listeners, where there is one that makes them.
    pub control: Option<OwnedFd>,
    /// Where names are asked for, of each family that the kernel has.
    pub dns: Vec<Dns>,
    /// See which destinations are tried, each one protocol of one family.
    pub arrivals: Vec<OwnedFd>,
    /// The listeners that were asked for from the start; none where one could not be made.
    pub first: Vec<(SocketAddr, Option<OwnedFd>)>,
}

/// Where names are asked for.
#[derive(Debug)]
pub struct Dns {
    /// By UDP.
    pub datagrams: OwnedFd,
    /// By TCP.
    pub listener: OwnedFd,
}

/// Both ends of the channel between the first process and the supervisor.
pub(crate) fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind, flags) = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(rustix::net::socketpair(family, kind, flags, None)?)
}

const DNS_PORT: u16 = 53;
/// For each family two for names, and two that see what is tried.
const MOST_SOCKETS: usize = 8;
/// Families, in the order in which they are tried.
const EVERYWHERE: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

/// Makes the first sockets and hands them out: no program runs yet that could find them missing. Runs in the first process,
/// with its rights. Allocates nothing.
pub(crate) fn open(control: &OwnedFd, first: &[SocketAddr]) -> Result<(), Failed> {
    net::every_address_is_local().map_err(|e| failed(ALL_LOCAL, &e))?;
    // Listeners are made later, without rights. That the payload may use low ports as well is welcome.
    process::write_file(LOW_PORTS_FILE, b"0").map_err(|e| failed(LOW_PORTS, &e))?;
    open_sockets(control, first).map_err(|e| failed(WAYS, &e))
}

fn open_sockets(control: &OwnedFd, first: &[SocketAddr]) -> io::Result<()> {
    let mut made: [Option<OwnedFd>; MOST_SOCKETS] = [const { None }; MOST_SOCKETS];
    for (family, at) in EVERYWHERE.into_iter().zip([0, 2]) {
        let address = SocketAddr::new(family, DNS_PORT);
        match (net::datagrams(address), net::listener(address)) {
            (Ok(datagrams), Ok(listener)) => {
                (made[at], made[at + 1]) = (Some(datagrams), Some(listener));
                // Without these nothing is reported, and nothing less refused.
                made[at + 4] = net::arrivals(family, Arriving::Tcp).ok();
                made[at + 5] = net::arrivals(family, Arriving::Udp).ok();
            }
            // A kernel without IPv6.
            (Err(cause), _) if family.is_ipv6() && cause.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {}
            (Err(cause), _) | (_, Err(cause)) => return Err(cause),
        }
    }
    let present = made.each_ref().map(|socket| u8::from(socket.is_some()));
    let mut fds = [control.as_fd(); MOST_SOCKETS];
    let mut count = 0;
    for socket in made.iter().flatten() {
        fds[count] = socket.as_fd();
        count += 1;
    }
    send(control, &present, &fds[..count])?;
    first.iter().try_for_each(|address| hand_out(control, net::listener(*address)))
}

/// The same where nobody has the right to make more addresses local than the loopback network is: names are asked for at one
/// address, and nobody sees what else is tried. Runs in the first process of a container.
pub(crate) fn open_on_loopback(control: &OwnedFd, first: &[SocketAddr]) -> io::Result<()> {
    let address = SocketAddr::new(IpAddr::V4(Addresses::Loopback.resolver()), DNS_PORT);
    let (datagrams, listener) = (net::datagrams(address)?, net::listener(address)?);
    let mut present = [0; MOST_SOCKETS];
    present[..2].fill(1);
    send(control, &present, &[datagrams.as_fd(), listener.as_fd()])?;
    first.iter().try_for_each(|address| hand_out(control, net::listener(*address)))
}

/// Answers one request of the supervisor. Runs in the first process. Allocates nothing.
pub(crate) fn answer(control: &OwnedFd) -> io::Result<()> {
    let mut request = [0_u8; REQUEST];
    let (received, _) = rustix::net::recv(control, &mut request[..], RecvFlags::empty())?;
    if received == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    hand_out(control, decode(&request[..received]).ok_or(io::ErrorKind::InvalidData.into()).and_then(net::listener))
}

/// Hands a listener out, or says that there is none. Allocates nothing.
pub(crate) fn hand_out(control: &OwnedFd, listener: io::Result<OwnedFd>) -> io::Result<()> {
    match listener {
        Ok(listener) => send(control, &[1], &[listener.as_fd()]),
        Err(_) => send(control, &[0], &[]),
    }
}

/// The length of a request: the family, the port, the address.
const REQUEST: usize = 19;

/// A request for a listener.
#[must_use]
pub fn request(address: SocketAddr) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[1..3].copy_from_slice(&address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(v4) => {
            bytes[0] = 4;
            bytes[3..7].copy_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            bytes[0] = 6;
            bytes[3..].copy_from_slice(&v6.octets());
        }
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<SocketAddr> {
    let bytes: &[u8; REQUEST] = bytes.try_into().ok()?;
    let port = u16::from_be_bytes([bytes[1], bytes[2]]);
    let ip = match bytes[0] {
        4 => IpAddr::V4(Ipv4Addr::new(bytes[3], bytes[4], bytes[5], bytes[6])),
        6 => IpAddr::V6(Ipv6Addr::from(*bytes[3..].first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

impl Ways {
    /// Takes what the first process hands out, with listeners for these addresses. Waits for it.
    pub(crate) fn take(control: OwnedFd, first: &[SocketAddr]) -> io::Result<Self> {
        let mut present = [0; MOST_SOCKETS];
        let mut fds = receive(&control, &mut present)?.into_iter();
        let mut next = |at: usize| if present[at] == 1 { fds.next() } else { None };
        let mut dns = Vec::new();
        for at in [0, 2] {
            if let (Some(datagrams), Some(listener)) = (next(at), next(at + 1)) {
                dns.push(Dns { datagrams, listener });
            }
        }
        let arrivals = (4..MOST_SOCKETS).filter_map(&mut next).collect();
        let first = first.iter().map(|address| Ok((*address, receive_listener(control.as_fd())?)));
        let first = first.collect::<io::Result<_>>()?;
        Ok(Self { control: Some(control), dns, arrivals, first })
    }
}

/// A listener that the first process made for a [`request`]; `None` where it could not.
///
/// # Errors
/// When the first process has gone.
pub fn receive_listener(control: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let mut said = [0; 1];
    Ok(receive(control, &mut said)?.pop())
}

/// Hands descriptors out. Allocates nothing.
pub(crate) fn send(control: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    rustix::net::sendmsg(control, &[io::IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn receive(control: impl std::os::fd::AsFd, bytes: &mut [u8]) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(bytes)];
    let message = rustix::net::recvmsg(&control, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds: Vec<OwnedFd> = fds.flatten().collect();
    if message.flags.contains(ReturnFlags::CTRUNC) {
        // There was room for all of them here. Of a process that may have no more open the kernel drops what is left, and does
        // not say why: one more says it.
        rustix::io::fcntl_dupfd_cloexec(&control, 0)?;
    }
    if message.bytes == 0 || message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(fds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_arrive_as_they_were_sent() {
        for text in ["198.18.1.7:443", "[fd52:4600::7]:22", "0.0.0.0:80"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(decode(&request(address)), Some(address));
        }
        assert_eq!(decode(&[0; REQUEST]), None);
        assert_eq!(decode(&[4; 3]), None);
    }
}
