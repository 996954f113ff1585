//! Who may be reached.

use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ringfence_surface::{HostPattern, HostTarget};

use crate::guard::OptIn;
use crate::inject::{Credential, PLAIN, SECURE};
use crate::pool::Addresses;

/// This machine, for itself.
pub(crate) const BOTH_LOOPBACKS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Every address of either family, at a port.
pub(crate) fn at_every_address(port: u16) -> [SocketAddr; 2] {
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)].map(|ip| SocketAddr::new(ip, port))
}

/// What a session may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Hosts, by name or address.
    pub hosts: Vec<HostPattern>,
    /// Hosts whose names may lead to private addresses.
    pub private: Vec<HostPattern>,
    /// Ports of the host's own loopback.
    pub host_ports: Vec<u16>,
    /// What is added to requests on the way out.
    pub credentials: Vec<Credential>,
}

impl Rules {
    /// The ports at which a name may be reached, ascending; none for a name that may not be.
    #[must_use]
    pub fn ports_of(&self, name: &str) -> Vec<u16> {
        let admitted = |port: u16| HostTarget::new(name, port).is_ok_and(|target| self.admits(&target));
        let mut ports: Vec<u16> = self.hosts.iter().flat_map(HostPattern::ports).copied().collect();
        ports.sort_unstable();
        ports.dedup();
        ports.retain(|port| admitted(*port));
        // Whoever is to be given a credential is spoken to plainly inside.
        if self.credential_of(name).is_some() && !ports.contains(&PLAIN) {
            ports.insert(0, PLAIN);
            ports.sort_unstable();
        }
        ports
    }

    /// Where somebody has to listen before any program runs: no name is asked for first. An unspecified address stands for
    /// all of its family.
    #[must_use]
    pub fn listeners(&self, addresses: Addresses) -> Vec<SocketAddr> {
        let everywhere = self.ports_everywhere(addresses);
        let proxy = addresses.proxy();
        let mut listeners = Vec::new();
        if !everywhere.contains(&proxy.port()) {
            listeners.push(proxy);
        }
        for port in &self.host_ports {
            listeners.extend(BOTH_LOOPBACKS.map(|ip| SocketAddr::new(ip, *port)));
        }
        for pattern in &self.hosts {
            let address = pattern.single_address().into_iter();
            let ports = || pattern.ports().iter().filter(|port| !everywhere.contains(port));
            listeners.extend(address.flat_map(|ip| ports().map(move |port| SocketAddr::new(ip, *port))));
        }
        listeners.extend(everywhere.into_iter().flat_map(at_every_address));
        let mut seen = HashSet::new();
        // Where only the loopback network is local, nobody arrives at another address.
        let arrives = |address: &SocketAddr| match addresses {
            Addresses::Everywhere => true,
            Addresses::Loopback => address.is_ipv4() && address.ip().is_loopback(),
        };
        listeners.retain(|address| arrives(address) && seen.insert(*address));
        listeners
    }

    /// The ports at which whatever address is dialled arrives: in the gateway, where no program listens, all of them.
    pub(crate) fn ports_everywhere(&self, addresses: Addresses) -> BTreeSet<u16> {
        match addresses {
            Addresses::Loopback => BTreeSet::new(),
            Addresses::Everywhere => {
                let plain = if self.credentials.is_empty() { None } else { Some(PLAIN) };
                self.hosts.iter().flat_map(HostPattern::ports).copied().chain(plain).collect()
            }
        }
    }

    /// May this be reached?
    #[must_use]
    pub fn admits(&self, target: &HostTarget) -> bool {
        self.hosts.iter().any(|pattern| pattern.matches(target))
    }

    /// What is added to requests for a host, if it may be reached by TLS.
    #[must_use]
    pub fn credential_of(&self, name: &str) -> Option<&Credential> {
        let secure = HostTarget::new(name, SECURE).ok().filter(|target| self.admits(target))?;
        self.credentials.iter().find(|credential| credential.host() == secure.name())
    }

    /// What the policy permits as addresses of a host.
    #[must_use]
    pub fn opt_in(&self, target: &HostTarget) -> OptIn {
        let is_spelled_out = |pattern: &HostPattern| pattern.single_address().is_some() && pattern.matches(target);
        match target.address() {
            // An address that the policy spells out is what it says.
            Some(_) if self.hosts.iter().any(is_spelled_out) => OptIn::Literal,
            Some(_) => OptIn::Network,
            None if self.private.iter().any(|pattern| pattern.matches(target)) => OptIn::PrivateName,
            None => OptIn::Silent,
        }
    }
}
