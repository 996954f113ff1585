//! The ways out of a network namespace: sockets that are made while the first process has the right to, and used outside.
//!
//! There are two namespaces. The payload's has the loopback and a link to the other, the gateway, where every address is local and
//! no program runs: its sockets own every address and port there, and a program that listens at every address (0.0.0.0) listens at its
//! own. At the loopback, where programs find a name server and the host's own ports, there are sockets of ours in the payload's.
//!
//! Later ones of those are made by the first process, which listens for requests, and hands each listener out. By then it has no
//! rights that the payload lacks. The supervisor trusts it with nothing but making sockets. Those of the gateway are made
//! by a copy of the supervisor that enters it.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_egress::Listen;
use ringfence_egress::pool::Addresses;
use ringfence_sys::net::{self, Arriving};
use ringfence_sys::process;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::late::Network;
use crate::steps::{GATEWAY_LINK, LOW_PORTS, LOW_PORTS_FILE, WAYS, failed};
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
    /// Send packets, each of one family: see [`net::injector`]. None where connections are accepted before they are dialled.
    pub injectors: Vec<OwnedFd>,
    /// The listeners that were asked for from the start; none where one could not be made.
    pub first: Vec<(SocketAddr, Option<OwnedFd>)>,
    /// Where further listeners are made that are not at the loopback.
    pub(crate) gateway: Option<Network>,
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
/// In each namespace, for each family, two for names; in the gateway two that see what is tried and one that answers it; and
/// the gateway and the user namespace themselves.
const MOST_SOCKETS: usize = 16;
const NAMES: std::ops::Range<usize> = 0..8;
const ARRIVALS: std::ops::Range<usize> = 8..12;
const INJECTORS: std::ops::Range<usize> = 12..14;
const GATEWAY: usize = 14;
const USER: usize = 15;
/// Families, in the order in which they are tried.
const EVERYWHERE: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

/// Is the user namespace one that was made for the session? Then a process enters it before the network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Over the namespaces of the session alone.
    Own,
    /// Those of root.
    Roots,
}

/// Makes the gateway and the first sockets, and hands them out: no program runs yet that could find them missing. Runs in the first
/// process, with its rights, in the payload's namespace. Allocates nothing.
pub(crate) fn open(control: &OwnedFd, first: &[SocketAddr], rights: Rights) -> Result<(), Failed> {
    // Listeners are made later, without rights. That the payload may use low ports as well is welcome.
    process::write_file(LOW_PORTS_FILE, b"0").map_err(|e| failed(LOW_PORTS, &e))?;
    let mut made: [Option<OwnedFd>; MOST_SOCKETS] = [const { None }; MOST_SOCKETS];
    let inside = open_pair(&mut made)?;
    hand_out_all(control, (made, &inside), first, rights).map_err(|e| failed(WAYS, &e))
}

/// Makes what [`open`] makes and hands nothing out, to see whether it can be made. Allocates nothing.
pub(crate) fn try_gateway() -> Result<(), Failed> {
    process::write_file(LOW_PORTS_FILE, b"0").map_err(|e| failed(LOW_PORTS, &e))?;
    let mut made: [Option<OwnedFd>; MOST_SOCKETS] = [const { None }; MOST_SOCKETS];
    open_pair(&mut made).map(drop)
}

/// Makes the gateway and the sockets of both namespaces. Says which one this process is in, as before.
fn open_pair(made: &mut [Option<OwnedFd>; MOST_SOCKETS]) -> Result<OwnedFd, Failed> {
    let named = |e: io::Error| failed(WAYS, &e);
    let (inside, behind) = (open_namespace(c"/proc/self/ns/net").map_err(named)?, net::routing().map_err(named)?);
    open_names(made, 0).map_err(named)?;
    process::unshare_network().map_err(|e| failed(GATEWAY_LINK, &e))?;
    let opened = open_gateway(made, (&inside, &behind));
    // The view is made, and the payload started, where it belongs.
    process::enter_namespace(inside.as_fd()).map_err(named)?;
    opened.map(|()| inside)
}

/// Hands out what was made, and then the listeners. Leaves this process where it is.
fn hand_out_all(
    control: &OwnedFd,
    (mut made, inside): ([Option<OwnedFd>; MOST_SOCKETS], &OwnedFd),
    first: &[SocketAddr],
    rights: Rights,
) -> io::Result<()> {
    if rights == Rights::Own {
        made[USER] = Some(open_namespace(c"/proc/self/ns/user")?);
    }
    let present = made.each_ref().map(|socket| u8::from(socket.is_some()));
    let mut fds = [control.as_fd(); MOST_SOCKETS];
    let mut count = 0;
    for socket in made.iter().flatten() {
        fds[count] = socket.as_fd();
        count += 1;
    }
    send(control, &present, &fds[..count])?;
    for address in first.iter().filter(|address| is_inside(address)) {
        hand_out(control, listener(*address))?;
    }
    if let Some(gateway) = &made[GATEWAY] {
        process::enter_namespace(gateway.as_fd())?;
        let handed_out = first.iter().filter(|address| !is_inside(address));
        let handed_out = handed_out.map(|address| hand_out(control, listener(*address))).find(Result::is_err);
        process::enter_namespace(inside.as_fd())?;
        handed_out.unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Makes this namespace the gateway, and its sockets.
fn open_gateway(
    made: &mut [Option<OwnedFd>; MOST_SOCKETS],
    (inside, behind): (&OwnedFd, &OwnedFd),
) -> Result<(), Failed> {
    let linked = ringfence_sys::ns::loopback_up().and_then(|()| net::become_gateway(behind, inside.as_fd()));
    linked.map_err(|e| failed(GATEWAY_LINK, &e))?;
    open_gateway_sockets(made).map_err(|e| failed(WAYS, &e))
}

fn open_gateway_sockets(made: &mut [Option<OwnedFd>; MOST_SOCKETS]) -> io::Result<()> {
    made[GATEWAY] = Some(open_namespace(c"/proc/self/ns/net")?);
    // What is refused is refused each time: the kernel would answer one datagram a second. With what it has by itself it works, too.
    let _ = process::write_file(c"/proc/sys/net/ipv4/icmp_ratemask", b"0");
    let _ = process::write_file(c"/proc/sys/net/ipv6/icmp/ratelimit", b"0");
    open_names(made, NAMES.len() / 2)?;
    for (family, at) in EVERYWHERE.into_iter().zip(0..) {
        if made[NAMES.len() / 2 + 2 * at].is_some() {
            made[ARRIVALS.start + 2 * at] = Some(net::arrivals(family, Arriving::Tcp)?);
            // Without it nothing is reported, and nothing less refused.
            made[ARRIVALS.start + 2 * at + 1] = net::arrivals(family, Arriving::Udp).ok();
            made[INJECTORS.start + at] = Some(net::injector(family)?);
        }
    }
    Ok(())
}

/// Where names are asked for, in this namespace.
fn open_names(made: &mut [Option<OwnedFd>; MOST_SOCKETS], from: usize) -> io::Result<()> {
    for (family, at) in EVERYWHERE.into_iter().zip([from, from + 2]) {
        let address = SocketAddr::new(family, DNS_PORT);
        match (net::datagrams(address), net::listener(address)) {
            (Ok(datagrams), Ok(listener)) => (made[at], made[at + 1]) = (Some(datagrams), Some(listener)),
            // A kernel without IPv6.
            (Err(cause), _) if family.is_ipv6() && cause.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {}
            (Err(cause), _) | (_, Err(cause)) => return Err(cause),
        }
    }
    Ok(())
}

fn open_namespace(path: &std::ffi::CStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Does a program find this address in its own namespace?
fn is_inside(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}

/// The same without the right to make addresses local beyond the loopback network: names are looked up at one
/// address, and other attempts are not reported. Runs in the first process of a container.
pub(crate) fn open_on_loopback(control: &OwnedFd, first: &[SocketAddr]) -> io::Result<()> {
    let address = SocketAddr::new(IpAddr::V4(Addresses::Loopback.resolver()), DNS_PORT);
    let (datagrams, listener) = (net::datagrams(address)?, net::listener(address)?);
    let mut present = [0; MOST_SOCKETS];
    present[..2].fill(1);
    send(control, &present, &[datagrams.as_fd(), listener.as_fd()])?;
    first.iter().try_for_each(|address| hand_out(control, net::listener(*address)))
}

/// A listener for connections that are to be dialled before they are accepted; for the loopback, where the host's own ports are, and
/// for the proxy, which only learns from a connection where it is to go, an ordinary one. Allocates nothing.
pub(crate) fn listener(address: SocketAddr) -> io::Result<OwnedFd> {
    let is_dialled_first = !is_inside(&address) && address != Addresses::Everywhere.proxy();
    if is_dialled_first { net::held_listener(address) } else { net::listener(address) }
}

/// Answers one request of the supervisor. Runs in the first process. Allocates nothing.
pub(crate) fn answer(control: &OwnedFd) -> io::Result<()> {
    let mut request = [0_u8; REQUEST];
    let (received, _) = rustix::net::recv(control, &mut request[..], RecvFlags::empty())?;
    if received == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    hand_out(control, decode(&request[..received]).ok_or(io::ErrorKind::InvalidData.into()).and_then(listener))
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
        for at in NAMES.step_by(2) {
            if let (Some(datagrams), Some(listener)) = (next(at), next(at + 1)) {
                dns.push(Dns { datagrams, listener });
            }
        }
        let arrivals = ARRIVALS.filter_map(&mut next).collect();
        let injectors = INJECTORS.filter_map(&mut next).collect();
        let (space, user) = (next(GATEWAY), next(USER));
        let gateway = space.map(|space| Network { space, user });
        // In the order in which they are made.
        let (inside, beyond): (Vec<SocketAddr>, Vec<SocketAddr>) = first.iter().partition(|address| is_inside(address));
        let first = inside.into_iter().chain(beyond);
        let first = first.map(|address| Ok((address, receive_listener(control.as_fd())?)));
        let first = first.collect::<io::Result<_>>()?;
        Ok(Self { control: Some(control), dns, arrivals, injectors, first, gateway })
    }

    /// Makes further listeners: at the loopback, as `inside` does it, and elsewhere in the gateway, where there is one.
    pub(crate) fn listen(
        &mut self,
        mut inside: impl FnMut(SocketAddr) -> io::Result<Option<OwnedFd>> + Send + 'static,
    ) -> Listen {
        let gateway = self.gateway.take();
        Box::new(move |address| match &gateway {
            Some(gateway) if !is_inside(&address) => gateway.listener(address),
            _ => inside(address),
        })
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
