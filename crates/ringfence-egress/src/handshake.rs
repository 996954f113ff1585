//! A connection is accepted inside after its host has been dialled outside.
//!
//! The listeners do not see the first packet (SYN) of a connection: a socket filter drops it. It is read from a raw socket, and the
//! host is dialled. When that has succeeded the packet is sent once more with a firewall mark that the filter lets pass, and the
//! kernel accepts the connection. Otherwise the caller gets what it would get outside: a reset or an ICMP error, or
//! nothing where the host does not answer. To the caller's kernel this is a slow host, so it does not matter whether the
//! program blocks, polls or uses a timeout, and each connection costs one task.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;

use ringfence_surface::HostTarget;
use rustix::io::Errno;
use rustix::net::AddressFamily;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Duration, timeout};

use crate::dial::NoConnection;
use crate::open::Meant;
use crate::relay::Stream;
use crate::segment::{Ends, Syn, Unreachable};
use crate::service::{Shared, finish, inject_over, reach};

/// How long a caller may take to answer once the host was dialled. One that has gone never does.
const TO_ANSWER: Duration = Duration::from_secs(10);

/// The connections that were begun and are not accepted yet.
#[derive(Debug)]
pub(crate) struct Handshakes {
    begun: RefCell<HashMap<Ends, Dial>>,
    v4: Option<OwnedFd>,
    v6: Option<OwnedFd>,
}

#[derive(Debug)]
enum Dial {
    UnderWay,
    /// Takes the accepted connection.
    Done(oneshot::Sender<TcpStream>),
}

/// The answer to a caller whose connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Refused,
    Unreachable(Unreachable),
    /// Nothing: its kernel asks again until it gives up, as it does outside.
    Silence,
}

impl Handshakes {
    /// Of the raw sockets that answer, one for each family.
    pub(crate) fn new(injectors: Vec<OwnedFd>) -> Self {
        let (mut v4, mut v6) = (None, None);
        for socket in injectors {
            match rustix::net::sockopt::socket_domain(&socket) {
                Ok(AddressFamily::INET) => v4 = Some(socket),
                Ok(AddressFamily::INET6) => v6 = Some(socket),
                _ => {}
            }
        }
        Self { begun: RefCell::new(HashMap::new()), v4, v6 }
    }

    /// Are connections to this address dialled before they are accepted?
    pub(crate) fn precede(&self, ends: &Ends) -> bool {
        let injector = if ends.to.is_ipv4() { &self.v4 } else { &self.v6 };
        injector.is_some()
    }

    /// Are connections dialled before they are accepted, at least those of IPv4?
    pub(crate) fn is_on(&self) -> bool {
        self.v4.is_some()
    }

    /// Passes an accepted connection to the task that has dialled for it. Without a task the caller answered too late.
    pub(crate) fn accepted(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let ends = stream.peer_addr().and_then(|from| Ok(Ends::new(from, stream.local_addr()?)));
        let dial = ends.ok().and_then(|ends| self.begun.borrow_mut().remove(&ends));
        let left = match dial {
            Some(Dial::Done(taker)) => taker.send(stream).err(),
            Some(Dial::UnderWay) | None => Some(stream),
        };
        if let Some(stream) = left {
            Stream::Tcp(stream).reset();
        }
    }

    /// A packet that is lost is one that the caller sends again.
    fn send(&self, packet: &[u8], to: std::net::IpAddr) {
        if let Some(injector) = if to.is_ipv4() { &self.v4 } else { &self.v6 } {
            let _ = ringfence_sys::net::inject(injector.as_fd(), packet, to);
        }
    }

    /// Lets the kernel accept it.
    pub(crate) fn admit(&self, syn: &Syn) {
        self.send(&syn.again(), syn.ends().to.ip());
    }

    /// Answers with a reset, as a host does without a listener.
    pub(crate) fn refuse(&self, syn: &Syn) {
        self.answer(syn, Refusal::Refused);
    }

    fn answer(&self, syn: &Syn, refusal: Refusal) {
        let packet = match refusal {
            Refusal::Refused => syn.refused(),
            Refusal::Unreachable(why) => syn.unreachable(why),
            Refusal::Silence => return,
        };
        self.send(&packet, syn.ends().from.ip());
    }
}

impl Refusal {
    fn of(why: &NoConnection) -> Self {
        let NoConnection::Failed(cause) = why else {
            // As everything that the policy does not name.
            return Self::Refused;
        };
        if cause.kind() == io::ErrorKind::TimedOut {
            return Self::Silence;
        }
        match cause.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::CONNREFUSED | Errno::CONNRESET) => Self::Refused,
            Some(Errno::NETUNREACH | Errno::NETDOWN) => Self::Unreachable(Unreachable::Network),
            // A name that has no address is among these: outside its look-up would have failed, and inside that is over.
            _ => Self::Unreachable(Unreachable::Host),
        }
    }
}

impl Shared {
    /// Dials for a connection that was begun, and carries it. While it takes long, the kernel repeats the SYN.
    pub(crate) fn begin(self: &Rc<Self>, syn: Syn, target: HostTarget) {
        match self.handshakes.begun.borrow().get(&syn.ends()) {
            Some(Dial::UnderWay) => return,
            // The packet that was admitted, or its answer, was lost.
            Some(Dial::Done(_)) => return self.handshakes.admit(&syn),
            None => {}
        }
        let Some(permit) = self.permit() else { return self.handshakes.refuse(&syn) };
        self.handshakes.begun.borrow_mut().insert(syn.ends(), Dial::UnderWay);
        let shared = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let _permit = permit;
            shared.dial_and_carry(&syn, &target).await;
        });
    }

    async fn dial_and_carry(self: &Rc<Self>, syn: &Syn, target: &HostTarget) {
        let ticket = self.open.enter(Meant::Host(target.clone()));
        let (ends, credential) = (syn.ends(), self.injects(target));
        let secure = credential.as_ref().and_then(|_| HostTarget::new(target.name(), crate::inject::SECURE).ok());
        let dialled = ticket.unless_cut(reach(self, secure.as_ref().unwrap_or(target))).await;
        let refusal = match dialled {
            Some(Ok(outside)) => {
                let (give, taken) = oneshot::channel();
                self.handshakes.begun.borrow_mut().insert(ends, Dial::Done(give));
                self.handshakes.admit(syn);
                let Some(Ok(Ok(stream))) = ticket.unless_cut(timeout(TO_ANSWER, taken)).await else {
                    self.handshakes.begun.borrow_mut().remove(&ends);
                    return;
                };
                // Without it the kernel takes more memory, and the connection is as good.
                let _ = self.share().of_accepted(&stream);
                match (credential, secure) {
                    (Some(credential), Some(secure)) => {
                        let work = inject_over(self, (stream, outside), (target, &secure), &credential, &[]);
                        return ticket.unless_cut(work).await.unwrap_or_default();
                    }
                    _ => return finish(self, (&Stream::Tcp(stream), &outside), target, &[], &ticket).await,
                }
            }
            Some(Err(why)) => Refusal::of(&why),
            None => Refusal::Refused,
        };
        self.handshakes.begun.borrow_mut().remove(&ends);
        self.handshakes.answer(syn, refusal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::AddressClass;

    #[test]
    fn f5_what_a_caller_reads_is_what_the_kernel_said() {
        let of = |errno: Errno| Refusal::of(&NoConnection::Failed(io::Error::from(errno)));
        assert_eq!(of(Errno::CONNREFUSED), Refusal::Refused);
        assert_eq!(of(Errno::NETUNREACH), Refusal::Unreachable(Unreachable::Network));
        assert_eq!(of(Errno::HOSTUNREACH), Refusal::Unreachable(Unreachable::Host));
        assert_eq!(of(Errno::TIMEDOUT), Refusal::Silence);
        assert_eq!(Refusal::of(&NoConnection::Failed(io::ErrorKind::TimedOut.into())), Refusal::Silence);
        let no_name = NoConnection::Failed(io::ErrorKind::NotFound.into());
        assert_eq!(Refusal::of(&no_name), Refusal::Unreachable(Unreachable::Host));
        let guarded = NoConnection::Guarded { address: "127.0.0.1".parse().unwrap(), class: AddressClass::ThisMachine };
        assert_eq!(Refusal::of(&guarded), Refusal::Refused);
    }
}
