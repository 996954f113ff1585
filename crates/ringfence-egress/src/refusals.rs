//! What was stopped on the way out, each kind once and counted.
//!
//! Whoever is inside chooses what is tried, so it is kept by what kind of thing was tried, and each kind of thing has room of its
//! own: a flood of names cannot push out the one address that was dialled meanwhile.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_surface::AbsPath;

use crate::guard::{AddressClass, OptIn};

/// How many different ones of each kind of thing are kept. The oldest makes room.
const MOST: usize = 250;

/// Something that was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// What was tried.
    pub attempt: Attempt,
    /// Why it was stopped.
    pub why: Why,
}

/// What was tried. It is displayed as `tcp 1.1.1.1:8080` or `name example.com`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Attempt {
    /// To look up the addresses of a name.
    Name(String),
    /// To connect, or to send a packet.
    Reach {
        /// By which protocol.
        by: Transport,
        /// `HOST:PORT`.
        to: String,
    },
    /// A connection that arrived without a destination.
    NoDestination,
    /// TLS with a host whose requests get a credential: `HOST:PORT`.
    Tls(String),
    /// A request to the proxy: `HOST:PORT`, unless it could not be read.
    Proxy(Option<String>),
    /// A Unix socket of the host.
    Socket(AbsPath),
    /// A port of the host's loopback.
    HostPort(u16),
    /// One more connection at the same time.
    Connection,
    /// To take a connection from a listener.
    Accept,
}

/// A protocol above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Attempt {
    /// The number of rooms that [`Attempt::room`] tells apart.
    const ROOMS: usize = 8;

    /// Attempts are counted by kind, so that a flood of one kind pushes out no other.
    fn room(&self) -> usize {
        match self {
            Self::Name(_) => 0,
            Self::Reach { by: Transport::Tcp, .. } | Self::NoDestination => 1,
            Self::Reach { by: Transport::Udp, .. } => 2,
            Self::Tls(_) => 3,
            Self::Proxy(_) => 4,
            Self::Socket(_) => 5,
            Self::HostPort(_) => 6,
            Self::Connection | Self::Accept => 7,
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "name {name}"),
            Self::Reach { by: Transport::Tcp, to } => write!(f, "tcp {to}"),
            Self::Reach { by: Transport::Udp, to } => write!(f, "udp {to}"),
            Self::NoDestination => f.write_str("tcp"),
            Self::Tls(to) => write!(f, "tls {to}"),
            Self::Proxy(Some(to)) => write!(f, "proxy {to}"),
            Self::Proxy(None) => f.write_str("proxy"),
            Self::Socket(path) => write!(f, "socket {path}"),
            Self::HostPort(port) => write!(f, "port {port} of the host"),
            Self::Connection => f.write_str("connection"),
            Self::Accept => f.write_str("accept"),
        }
    }
}

/// Why something was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// The policy does not name the host.
    NotNamed,
    /// More names than are remembered.
    TooManyNames,
    /// More connections at once than are carried.
    TooManyConnections,
    /// The kernel no longer says where a connection was to go.
    NoDestination,
    /// A program inside listens at this address already.
    AddressTaken,
    /// The name leads to an address that it must not lead to.
    Guarded {
        /// Where it leads.
        address: IpAddr,
        /// What that is.
        class: AddressClass,
    },
    /// What was sent is not what the policy allows on this connection.
    Content(String),
    /// A system call failed, or the host did not answer.
    Failed(String),
}

impl Why {
    /// Would naming the host in `private` of the policy be enough?
    #[must_use]
    pub fn is_lifted_by_private(&self) -> bool {
        matches!(self, Self::Guarded { class, .. } if class.is_opened_by(OptIn::PrivateName))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNamed => f.write_str("the policy does not name it"),
            Self::TooManyNames => f.write_str("too many names were asked for"),
            Self::TooManyConnections => f.write_str("too many at once"),
            Self::NoDestination => f.write_str("its destination is unknown"),
            Self::AddressTaken => f.write_str("a program inside already listens at this address"),
            Self::Guarded { address, class } => {
                write!(f, "its address {address} is {class}")?;
                if self.is_lifted_by_private() {
                    f.write_str(", and `private` does not name the host")
                } else if class.is_this_machine() {
                    f.write_str("; list the port in `host_ports` and connect to localhost")
                } else {
                    Ok(())
                }
            }
            Self::Content(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Collects what was stopped. Clones share what they collect.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<Collected>>);

#[derive(Debug, Default)]
struct Collected {
    kept: [VecDeque<Counted>; Attempt::ROOMS],
    /// How many kinds there were so far.
    kinds: u64,
    /// How often those that made room were tried and nobody was told.
    missed: u64,
    /// How often those that made room were tried at all.
    gone: u64,
    /// Rung when something was stopped.
    bell: Option<OwnedFd>,
    is_rung: bool,
}

#[derive(Debug)]
struct Counted {
    refusal: Refusal,
    /// Its place in the order in which each came first.
    number: u64,
    times: u64,
    /// Those of them that nobody was told of.
    fresh: u64,
}

/// What was stopped since it was last asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fresh {
    /// Each with how often it was tried since.
    pub refusals: Vec<(Refusal, u64)>,
    /// How often others were tried, of which no more is known.
    pub missed: u64,
}

impl Refusals {
    /// Notes one.
    pub fn note(&self, attempt: Attempt, why: Why) {
        let room = attempt.room();
        let refusal = Refusal { attempt, why };
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let collected = &mut *guard;
        let kept = &mut collected.kept[room];
        // What is tried again was most likely tried a moment ago.
        if let Some(known) = kept.iter_mut().rev().find(|known| known.refusal == refusal) {
            known.times += 1;
            known.fresh += 1;
        } else {
            if kept.len() == MOST
                && let Some(oldest) = kept.pop_front()
            {
                collected.gone += oldest.times;
                collected.missed += oldest.fresh;
            }
            kept.push_back(Counted { refusal, number: collected.kinds, times: 1, fresh: 1 });
            collected.kinds += 1;
        }
        if let Some(bell) = collected.bell.as_ref().filter(|_| !collected.is_rung) {
            // Nobody listens any more, where this fails.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
            collected.is_rung = true;
        }
    }

    /// Rings an eventfd, one that never blocks, when something was stopped; again after [`Refusals::take`].
    pub fn ring(&self, bell: OwnedFd) {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (collected.bell, collected.is_rung) = (Some(bell), false);
    }

    /// What was stopped since this was last asked, in the order in which each came first.
    #[must_use]
    pub fn take(&self) -> Fresh {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.is_rung = false;
        let mut fresh: Vec<(u64, Refusal, u64)> = Vec::new();
        for known in collected.kept.iter_mut().flatten().filter(|known| known.fresh > 0) {
            fresh.push((known.number, known.refusal.clone(), std::mem::take(&mut known.fresh)));
        }
        fresh.sort_by_key(|(number, ..)| *number);
        let refusals = fresh.into_iter().map(|(_, refusal, times)| (refusal, times)).collect();
        Fresh { refusals, missed: std::mem::take(&mut collected.missed) }
    }

    /// Everything that is kept, with how often, in the order in which each came first; and how often others were tried.
    #[must_use]
    pub fn all(&self) -> (Vec<(Refusal, u64)>, u64) {
        let collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<&Counted> = collected.kept.iter().flatten().collect();
        all.sort_by_key(|known| known.number);
        (all.into_iter().map(|known| (known.refusal.clone(), known.times)).collect(), collected.gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Attempt {
        Attempt::Name(name.to_owned())
    }

    fn reach(by: Transport) -> Attempt {
        Attempt::Reach { by, to: "1.1.1.1:80".to_owned() }
    }

    fn refusal(attempt: Attempt) -> Refusal {
        Refusal { attempt, why: Why::NotNamed }
    }

    #[test]
    fn each_kind_once_and_bounded() {
        let refusals = Refusals::default();
        refusals.note(reach(Transport::Tcp), Why::NotNamed);
        for number in 0..2_000 {
            refusals.note(name(&number.to_string()), Why::NotNamed);
            refusals.note(name("a"), Why::NotNamed);
        }
        refusals.note(reach(Transport::Udp), Why::NotNamed);
        let (all, gone) = refusals.all();
        let times: u64 = all.iter().map(|(_, times)| times).sum();
        assert_eq!((all.len(), times + gone), (MOST + 2, 4_002));
        // Neither what came before the flood nor what came after it is hidden by it.
        assert_eq!(all[0], (refusal(reach(Transport::Tcp)), 1));
        assert_eq!(all[MOST + 1], (refusal(reach(Transport::Udp)), 1));
    }

    #[test]
    fn nothing_is_told_twice_and_nothing_is_lost() {
        let refusals = Refusals::default();
        refusals.note(name("a"), Why::NotNamed);
        refusals.note(name("a"), Why::NotNamed);
        assert_eq!(refusals.take(), Fresh { refusals: vec![(refusal(name("a")), 2)], missed: 0 });
        assert_eq!(refusals.take(), Fresh { refusals: vec![], missed: 0 });
        refusals.note(name("a"), Why::NotNamed);
        for number in 0..MOST + 10 {
            refusals.note(name(&number.to_string()), Why::NotNamed);
        }
        let fresh = refusals.take();
        let times: u64 = fresh.refusals.iter().map(|(_, times)| times).sum();
        assert_eq!(times + fresh.missed, 1 + MOST as u64 + 10);
    }
}
