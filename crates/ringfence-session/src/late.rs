//! A network namespace of a running session, and sockets that are made there later. A session that began without listed hosts gets
//! a relay: its namespace is there, with nothing in it but loopback.
//!
//! Short-lived copies of the supervisor enter it and hand sockets out. They have the rights over it because the supervisor's
//! user made it; the payload has none, and sees only that names have answers from now on.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use ringfence_egress::pool::Addresses;
use ringfence_egress::{Egress, Rules};
use ringfence_surface::HostPattern;
use ringfence_sys::process::{self, Namespaces};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::launch::way_out;
use crate::steps::words;
use crate::view::Failed;
use crate::ways::{self, Rights, Ways};

/// The network of a running session, and the right to change it.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) space: OwnedFd,
    /// Whose rights are over it, where that is a namespace of its own.
    pub(crate) user: Option<OwnedFd>,
}

/// One that takes longer makes nothing any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// Opens a relay without hosts. `private` are the hosts whose names may lead to private addresses.
pub(crate) fn open(network: Network, private: Vec<HostPattern>) -> io::Result<Egress> {
    let rules = Rules { hosts: Vec::new(), private, host_ports: Vec::new(), credentials: Vec::new() };
    let listeners = rules.listeners(Addresses::Everywhere);
    let rights = if network.user.is_some() { Rights::Own } else { Rights::Roots };
    let mut taken = network.within(
        |control| {
            ways::open(control, &listeners, rights).map_err(|Failed { step, errno }| {
                let cause = std::io::Error::from(errno);
                std::io::Error::new(cause.kind(), format!("{}: {cause}", words(step, None)))
            })
        },
        |control| Ways::take(control.as_fd().try_clone_to_owned()?, &listeners),
    )?;
    let listen = taken.listen(move |address| network.listener(address));
    way_out(taken, listen, rules, (Addresses::Everywhere, Vec::new()))
}

impl Network {
    /// Makes a listener there; none where one could not be made.
    pub(crate) fn listener(&self, address: SocketAddr) -> io::Result<Option<OwnedFd>> {
        self.within(
            |control| ways::hand_out(control, ways::listener(address)),
            |control| ways::receive_listener(control.as_fd()),
        )
    }

    /// Has a copy of this process make something there, and takes what it hands out. What runs in the copy allocates nothing.
    fn within<T>(
        &self,
        make: impl FnOnce(&OwnedFd) -> io::Result<()>,
        take: impl FnOnce(&OwnedFd) -> io::Result<T>,
    ) -> io::Result<T> {
        let (outside, inside) = ways::channel()?;
        set_socket_timeout(&outside, Timeout::Recv, Some(PATIENCE))?;
        let main = || {
            let made = process::die_with_parent().and_then(|()| self.enter()).and_then(|()| make(&inside));
            u8::from(made.is_err())
        };
        let child = process::clone_into(Namespaces::NONE, None, main)?;
        // Ours would keep us from learning of its end.
        drop(inside);
        let taken = take(&outside);
        // It ends by itself; one that hangs is ended.
        child.end();
        taken
    }

    /// Allocates nothing.
    fn enter(&self) -> io::Result<()> {
        if let Some(user) = &self.user {
            process::enter_namespace(user.as_fd())?;
        }
        process::enter_namespace(self.space.as_fd())
    }
}
