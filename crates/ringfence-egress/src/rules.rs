//! Who may be reached.

use ringfence_surface::{HostPattern, HostTarget};

use crate::inject::{Credential, PLAIN, SECURE};

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

    /// May its name lead to a private address?
    #[must_use]
    pub fn may_be_private(&self, target: &HostTarget) -> bool {
        self.private.iter().any(|pattern| pattern.matches(target))
    }
}
