//! Changes to a way out while it runs: a host is given to it, or taken away again, and what was open to it ends at once.
//!
//! Whoever asks is outside the thread that carries everything. It is told through a pipe when the change is in force.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use ringfence_surface::{HostPattern, HostTarget, Way};
use rustix::pipe::PipeFlags;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;

use crate::open::Meant;
use crate::rules::{BOTH_LOOPBACKS, at_every_address};
use crate::service::{Shared, To};

/// Changes a running way out.
#[derive(Debug, Clone)]
pub struct Lever(UnboundedSender<Order>);

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force; this many connections ended by it.
    Done(u64),
    /// A program inside listens where we would have to.
    Taken,
    /// So many names and addresses have listeners that there is no room for one more.
    Full,
}

/// A change, and where to say what became of it.
#[derive(Debug)]
pub(crate) struct Order {
    change: Change,
    report: OwnedFd,
}

#[derive(Debug)]
enum Change {
    Give(Way),
    Take(Way),
}

pub(crate) fn pair() -> (Lever, UnboundedReceiver<Order>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Lever(sender), receiver)
}

impl Lever {
    /// Lets something be reached. What comes back can be read once it is done: see [`Outcome::read`].
    ///
    /// # Errors
    /// When the way out has ended.
    pub fn give(&self, gift: Way) -> io::Result<OwnedFd> {
        self.order(Change::Give(gift))
    }

    /// Takes it away again, and ends every connection that nothing else admits.
    ///
    /// # Errors
    /// When the way out has ended.
    pub fn take(&self, gift: Way) -> io::Result<OwnedFd> {
        self.order(Change::Take(gift))
    }

    fn order(&self, change: Change) -> io::Result<OwnedFd> {
        let (read, report) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        self.0.send(Order { change, report }).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(read)
    }
}

const DONE: u8 = 0;
const TAKEN: u8 = 1;
const FULL: u8 = 2;

impl Outcome {
    /// Reads what became of a change; `None` while it is under way.
    ///
    /// # Errors
    /// When the way out has ended before.
    pub fn read(report: &OwnedFd) -> io::Result<Option<Self>> {
        let mut bytes = [0; 9];
        match rustix::io::read(report, &mut bytes) {
            Ok(9) => {}
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        let [word, count @ ..] = bytes;
        match word {
            DONE => Ok(Some(Self::Done(u64::from_ne_bytes(count)))),
            TAKEN => Ok(Some(Self::Taken)),
            FULL => Ok(Some(Self::Full)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn bytes(self) -> [u8; 9] {
        let (word, count) = match self {
            Self::Done(count) => (DONE, count),
            Self::Taken => (TAKEN, 0),
            Self::Full => (FULL, 0),
        };
        let mut bytes = [word; 9];
        bytes[1..].copy_from_slice(&count.to_ne_bytes());
        bytes
    }
}

/// Carries changes out, one after the other, for as long as somebody can ask for one.
pub(crate) async fn obey(shared: &Rc<Shared>, mut orders: UnboundedReceiver<Order>) {
    while let Some(Order { change, report }) = orders.recv().await {
        let outcome = match change {
            Change::Give(gift) => shared.give(gift).await,
            Change::Take(gift) => shared.take(&gift).await,
        };
        // Whoever asked may have gone.
        let _ = rustix::io::write(&report, &outcome.bytes());
    }
}

impl Shared {
    async fn give(self: &Rc<Self>, gift: Way) -> Outcome {
        match &gift {
            Way::Host(pattern) => {
                self.rules.borrow_mut().hosts.push(pattern.clone());
                let known: Vec<String> = self.state.borrow().pool.names().map(str::to_owned).collect();
                for name in known.iter().filter(|name| is_of(pattern, name)) {
                    // A program may have kept the address from an earlier time.
                    let given = self.state.borrow_mut().pool.address_of(name);
                    let has_room = self.state.borrow().has_room(name, self.most_names);
                    if let Some(given) = given.filter(|_| has_room) {
                        self.make_ready(name, given);
                    }
                }
                if let Err(outcome) = self.listen_everywhere() {
                    return outcome.or_undone(self, &gift).await;
                }
                let Some(ip) = pattern.single_address() else { return Outcome::Done(0) };
                self.listen_at(&ip.to_string(), &[ip], pattern.ports(), |ip, port| {
                    HostTarget::new(&ip.to_string(), port).ok().map(To::Host)
                })
            }
            Way::HostPort(port) => {
                self.rules.borrow_mut().host_ports.push(*port);
                self.listen_at(HOST, &BOTH_LOOPBACKS, &[*port], |_, port| Some(To::HostPort(port)))
            }
        }
        .map_or_else(std::convert::identity, |()| Outcome::Done(0))
        .or_undone(self, &gift)
        .await
    }

    /// Listens for every address at the ports that came anew.
    fn listen_everywhere(self: &Rc<Self>) -> Result<(), Outcome> {
        let new = &self.ports_everywhere() - &self.state.borrow().everywhere;
        for port in new {
            // A kernel without IPv6 has one of them.
            let made = at_every_address(port).into_iter().filter_map(|address| self.listen(address, To::Dialled));
            if made.count() == 0 {
                return Err(Outcome::Taken);
            }
            self.state.borrow_mut().everywhere.insert(port);
        }
        Ok(())
    }

    /// Listens at addresses that no name was asked for.
    fn listen_at(
        self: &Rc<Self>,
        key: &str,
        addresses: &[IpAddr],
        ports: &[u16],
        to: impl Fn(IpAddr, u16) -> Option<To>,
    ) -> Result<(), Outcome> {
        let everywhere = self.ports_everywhere();
        // At others nobody arrives; by way of the proxy they are reached.
        let addresses: Vec<IpAddr> = addresses.iter().copied().filter(|ip| self.arrives(*ip)).collect();
        for port in ports.iter().copied().filter(|port| key == HOST || !everywhere.contains(port)) {
            let is_there = self.state.borrow().ready.get(key).is_some_and(|at| at.contains_key(&port));
            if is_there {
                continue;
            }
            if !self.state.borrow().has_room(key, self.most_names) {
                return Err(Outcome::Full);
            }
            let made: Vec<JoinHandle<()>> =
                addresses.iter().filter_map(|ip| self.listen(SocketAddr::new(*ip, port), to(*ip, port)?)).collect();
            let is_whole = made.len() == addresses.len();
            self.state.borrow_mut().ready.entry(key.to_owned()).or_default().insert(port, made);
            if !is_whole {
                return Err(Outcome::Taken);
            }
        }
        Ok(())
    }

    async fn take(&self, gift: &Way) -> Outcome {
        {
            // What was given came last: what the policy has of its own stays.
            let mut rules = self.rules.borrow_mut();
            match gift {
                Way::Host(pattern) => {
                    if let Some(at) = rules.hosts.iter().rposition(|host| host == pattern) {
                        rules.hosts.remove(at);
                    }
                }
                Way::HostPort(port) => {
                    if let Some(at) = rules.host_ports.iter().rposition(|own| own == port) {
                        rules.host_ports.remove(at);
                    }
                }
            }
        }
        // First nobody accepts any more, then what was accepted ends.
        for listener in self.unwanted_listeners() {
            listener.abort();
            let _ = listener.await;
        }
        let is_unwanted = |meant: &Meant| !self.may_stay(meant);
        let count = self.open.cut(is_unwanted);
        // Each ends with its next turn; whoever asked is told once none is left.
        while self.open.any(is_unwanted) {
            tokio::task::yield_now().await;
        }
        Outcome::Done(count)
    }

    fn may_stay(&self, meant: &Meant) -> bool {
        match meant {
            Meant::Host(target) => self.admits(target),
            Meant::HostPort(port) => self.rules.borrow().host_ports.contains(port),
        }
    }

    fn unwanted_listeners(&self) -> Vec<JoinHandle<()>> {
        let mut unwanted = Vec::new();
        let mut state = self.state.borrow_mut();
        for (name, ports) in &mut state.ready {
            let is_wanted = |port: u16| {
                if name == HOST {
                    return self.may_stay(&Meant::HostPort(port));
                }
                HostTarget::new(name, port).is_ok_and(|target| self.admits(&target))
            };
            let gone: Vec<u16> = ports.keys().copied().filter(|port| !is_wanted(*port)).collect();
            unwanted.extend(gone.iter().filter_map(|port| ports.remove(port)).flatten());
        }
        let rules = self.rules.borrow();
        state.ready.retain(|name, ports| !ports.is_empty() || !rules.ports_of(name).is_empty());
        unwanted
    }
}

/// What the listeners of the host's own ports are kept under: no name is spelled like this.
const HOST: &str = "";

impl Outcome {
    /// A gift that cannot be had is none.
    async fn or_undone(self, shared: &Rc<Shared>, gift: &Way) -> Self {
        if !matches!(self, Self::Done(_)) {
            shared.take(gift).await;
        }
        self
    }
}

/// Does a pattern have to do with a name?
fn is_of(pattern: &HostPattern, name: &str) -> bool {
    HostTarget::new(name, 1).is_ok_and(|target| pattern.matches_host(&target))
}
