//! Who may be reached.

use ringfence_surface::{HostPattern, HostTarget};

/// What a session may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Hosts, by name or address.
    pub hosts: Vec<HostPattern>,
    /// Hosts whose names may lead to private addresses.
    pub private: Vec<HostPattern>,
    /// Ports of the host's own loopback.
    pub host_ports: Vec<u16>,
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
        ports
    }

    /// May this be reached?
    #[must_use]
    pub fn admits(&self, target: &HostTarget) -> bool {
        self.hosts.iter().any(|pattern| pattern.matches(target))
    }

    /// May its name lead to a private address?
    #[must_use]
    pub fn may_be_private(&self, target: &HostTarget) -> bool {
        self.private.iter().any(|pattern| pattern.matches(target))
    }
}
