//! Which hosts a pod reaches, as far as a network policy can say it: addresses, and with Cilium names.

use std::net::IpAddr;

use ringfence_surface::{HostShape, Surface};

use crate::landlock::Withheld;

/// Who holds hosts that are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedHosts {
    /// Nobody: a network policy knows addresses.
    Withheld,
    /// Cilium, by an object of its own kind.
    Cilium,
}

/// What can be reached. Whatever is not named here cannot, in either direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRules {
    /// By address.
    pub addresses: Vec<NetworkRule>,
    /// By name, for Cilium; `*` at the beginning stands for one label.
    pub names: Vec<(String, Vec<u16>)>,
}

/// One network that can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRule {
    /// The network, as address and length of its prefix.
    pub network: String,
    /// What of it cannot.
    pub except: Vec<String>,
    /// At which ports.
    pub ports: Vec<u16>,
}

/// Where clouds hand out credentials to whoever asks, and what leads to the node itself: never reached, whatever is listed.
pub const NEVER_DIALLED: &[(IpAddr, u8)] = &[
    (v4(0, 0, 0, 0), 8),
    (v4(100, 100, 100, 200), 32),
    (v4(168, 63, 129, 16), 32),
    (v4(169, 254, 0, 0), 16),
    (v4(192, 0, 0, 0), 24),
    (v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42]), 128),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0]), 32),
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]), 128),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0]), 10),
];

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(a, b, c, d))
}

const fn v6(segments: [u16; 8]) -> IpAddr {
    let [a, b, c, d, e, f, g, h] = segments;
    IpAddr::V6(std::net::Ipv6Addr::new(a, b, c, d, e, f, g, h))
}

/// The rules of a Surface, and what it names and they do not give.
pub(super) fn rules(surface: &Surface, named: NamedHosts) -> (NetworkRules, Vec<Withheld>) {
    let mut rules = NetworkRules { addresses: Vec::new(), names: Vec::new() };
    let mut withheld = Vec::new();
    let reach = surface.reach();
    for entry in &reach.hosts {
        let (pattern, source) = (entry.value.to_string(), entry.source.to_string());
        let mut withhold =
            |reason| withheld.push(Withheld { pattern: pattern.clone(), source: source.clone(), reason });
        let ports = entry.value.ports().to_vec();
        match (entry.value.shape(), named) {
            (HostShape::Network { base, prefix }, _) => {
                if NEVER_DIALLED.iter().any(|(never, length)| *length <= prefix && is_in_network(base, *never, *length))
                {
                    withhold("where clouds hand out credentials, and the node itself, is never reached");
                    continue;
                }
                let inside = |(never, length): &&(IpAddr, u8)| *length > prefix && is_in_network(*never, base, prefix);
                let except = NEVER_DIALLED.iter().filter(inside).map(|(never, length)| format!("{never}/{length}"));
                let rule = NetworkRule { network: format!("{base}/{prefix}"), except: except.collect(), ports };
                if !rules.addresses.contains(&rule) {
                    rules.addresses.push(rule);
                }
            }
            (_, NamedHosts::Withheld) => {
                withhold("a network policy knows addresses and no names; `--cilium` says it to Cilium");
            }
            (HostShape::Name(name), NamedHosts::Cilium) => rules.names.push((name.to_owned(), ports)),
            (HostShape::Below(base), NamedHosts::Cilium) => {
                withhold("of what lies deeper than one label below: to Cilium a star is one label");
                rules.names.push((format!("*.{base}"), ports));
            }
        }
    }
    rules.names.dedup();
    let mut withhold = |pattern: String, source: String, reason| withheld.push(Withheld { pattern, source, reason });
    for entry in &reach.host_ports {
        let reason = "the loopback of a pod is its own, and leads nowhere else";
        withhold(format!("port {} of the host", entry.value), entry.source.to_string(), reason);
    }
    for entry in &reach.sockets {
        withhold(
            entry.value.to_string(),
            entry.source.to_string(),
            "a socket of this machine is not brought into a pod",
        );
    }
    for entry in &reach.inject {
        withhold(
            entry.value.to_string(),
            entry.source.to_string(),
            "nothing adds to a request on its way out of a pod",
        );
    }
    (rules, withheld)
}

/// Does a network hold an address?
pub fn is_in_network(address: IpAddr, base: IpAddr, prefix: u8) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(four) => (u128::from(four.to_bits()) << 96, 4),
        IpAddr::V6(six) => (six.to_bits(), 6),
    };
    let ((base, family), (address, other)) = (bits(base), bits(address));
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    family == other && base & mask == address & mask
}
