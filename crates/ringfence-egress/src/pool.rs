//! Addresses that stand for names: one of each family for every name that was asked for and is allowed.
//!
//! A connection to such an address names its host exactly. An address is never given to a second name, so a program that kept
//! one from an earlier lookup cannot reach another host by it. When the pool is used up there are no more names.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::spelling;

/// How many names one session can reach. A program that asks for more is not looking for hosts.
pub const MAX_NAMES: usize = 16_384;

/// Which addresses stand for names inside. Of each network the first 256 are for ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Those of 198.18.0.0/15, which are for measuring devices and never routed, and of a local network of the newer kind:
    /// every address leads to us.
    Everywhere,
    /// Those of 127.198.0.0/16: nobody had the right to make more than the loopback network local, and of the newer kind
    /// there may be none.
    Loopback,
}

impl Addresses {
    fn v4_base(self) -> Ipv4Addr {
        match self {
            Self::Everywhere => V4_BASE,
            Self::Loopback => Ipv4Addr::new(127, 198, 0, 0),
        }
    }

    /// Where proxies are asked for, by tools that insist on one: an address that no name ever gets.
    #[must_use]
    pub fn proxy(self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(self.v4_base().to_bits() + 2)), 1080)
    }

    /// Where names are asked for, as the resolver's own settings must say where no other address arrives.
    #[must_use]
    pub fn resolver(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.v4_base().to_bits() + 1)
    }
}

/// Addresses of 198.18.0.0/15 are for measuring devices and never routed. The first 256 are for ourselves.
const V4_BASE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// A unique local network; 52 46 is "RF". The last 32 bits are the place in the IPv4 network.
const V6_BASE: Ipv6Addr = Ipv6Addr::new(0xfd52, 0x4600, 0, 0, 0, 0, 0, 0);

/// Usable last bytes: some programs take .0 and .255 for a network and its broadcast address.
const PER_BLOCK: u32 = 254;

/// The names of a session and their addresses.
#[derive(Debug)]
pub struct Pool {
    addresses: Addresses,
    /// By index.
    names: Vec<Arc<str>>,
    indices: HashMap<Arc<str>, u32>,
}

/// The addresses that stand for a name inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// The IPv4 address.
    pub v4: Ipv4Addr,
    /// The IPv6 address.
    pub v6: Ipv6Addr,
    /// Whether this call was the first for its name.
    pub is_new: bool,
}

impl Pool {
    /// A pool without names.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a way out is made where it is meant, never by default")]
    pub fn new() -> Self {
        Self::of(Addresses::Everywhere)
    }

    /// A pool without names, with these addresses to give.
    #[must_use]
    pub fn of(addresses: Addresses) -> Self {
        Self { addresses, names: Vec::new(), indices: HashMap::new() }
    }

    /// The addresses of a name, the same for the whole session. `None` when the pool is used up, and for a text that is not
    /// the canonical spelling of a host name.
    pub fn address_of(&mut self, name: &str) -> Option<Synthetic> {
        if let Some(index) = self.indices.get(name) {
            return synthetic(self.addresses, *index, false);
        }
        let is_canonical = spelling::dns_name(name.as_bytes()).is_ok_and(|canonical| canonical == name);
        if !is_canonical || self.names.len() >= MAX_NAMES {
            return None;
        }
        let index = u32::try_from(self.names.len()).ok()?;
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.indices.insert(name, index);
        synthetic(self.addresses, index, true)
    }

    /// The name that an address was given to; an IPv4 address mapped into IPv6 counts as the IPv4 address.
    #[must_use]
    pub fn name_of(&self, address: IpAddr) -> Option<&str> {
        let index = match address.to_canonical() {
            IpAddr::V4(address) => index_of(address.to_bits().checked_sub(self.addresses.v4_base().to_bits())?)?,
            IpAddr::V6(address) => index_of(u32::try_from(address.to_bits().checked_sub(V6_BASE.to_bits())?).ok()?)?,
        };
        self.names.get(index).map(AsRef::as_ref)
    }
}

impl Pool {
    /// Every name that has an address.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }
}

/// The addresses of an index; none beyond the pool's end.
fn synthetic(addresses: Addresses, index: u32, is_new: bool) -> Option<Synthetic> {
    let offset = offset_of(index);
    let v4 = Ipv4Addr::from_bits(addresses.v4_base().to_bits().checked_add(offset)?);
    let v6 = Ipv6Addr::from_bits(V6_BASE.to_bits() | u128::from(offset));
    Some(Synthetic { v4, v6, is_new })
}

/// The place of an index in its network: 254 of every block of 256, the first block left out.
const fn offset_of(index: u32) -> u32 {
    (index / PER_BLOCK + 1) * 256 + index % PER_BLOCK + 1
}

fn index_of(offset: u32) -> Option<usize> {
    let (block, last) = (offset / 256, offset % 256);
    if !(1..=PER_BLOCK).contains(&last) {
        return None;
    }
    usize::try_from(block.checked_sub(1)?.checked_mul(PER_BLOCK)?.checked_add(last - 1)?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn full() -> Pool {
        let mut pool = Pool::new();
        for number in 0..MAX_NAMES {
            assert!(pool.address_of(&format!("n{number}.example")).is_some());
        }
        pool
    }

    #[test]
    fn a_name_has_one_address_of_each_family_for_the_session() {
        let mut pool = Pool::new();
        let first = pool.address_of("github.com").unwrap();
        assert_eq!(first.v4, Ipv4Addr::new(198, 18, 1, 1));
        assert_eq!(first.v6, "fd52:4600::101".parse::<Ipv6Addr>().unwrap());
        assert!(first.is_new);
        let other = pool.address_of("api.github.com").unwrap();
        assert!(other.is_new && other.v4 != first.v4 && other.v6 != first.v6);
        assert_eq!(pool.address_of("github.com"), Some(Synthetic { is_new: false, ..first }));
        for address in [IpAddr::V4(first.v4), IpAddr::V6(first.v6), IpAddr::V6(first.v4.to_ipv6_mapped())] {
            assert_eq!(pool.name_of(address), Some("github.com"), "{address}");
        }
    }

    #[test]
    fn addresses_that_were_not_given_have_no_name() {
        let mut pool = Pool::new();
        pool.address_of("github.com").unwrap();
        for text in [
            "198.18.0.0",
            "198.18.0.1",
            "198.18.0.255",
            "198.18.1.0",
            "198.18.1.2",
            "198.18.1.255",
            "198.17.255.255",
            "198.20.1.1",
            "0.0.0.0",
            "255.255.255.255",
            "1.1.1.1",
            "127.0.0.1",
            "::",
            "::1",
            "fd52:4600::",
            "fd52:4600::1",
            "fd52:4600::102",
            "fd52:4600::1:101",
            "fd52:4600:0:1::101",
            "fd52:4600::1:0:101",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "::198.18.1.1",
        ] {
            assert_eq!(pool.name_of(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn a_full_pool_keeps_its_names_and_takes_no_more() {
        let mut pool = full();
        assert_eq!(pool.address_of("one-more.example"), None);
        assert_eq!(pool.address_of("n0.example").map(|given| given.v4), Some(Ipv4Addr::new(198, 18, 1, 1)));
        let (mut seen, mut ends) = (HashSet::new(), HashSet::new());
        for number in 0..MAX_NAMES {
            let name = format!("n{number}.example");
            let given = pool.address_of(&name).unwrap();
            assert!(!given.is_new);
            assert!(seen.insert(IpAddr::V4(given.v4)) && seen.insert(IpAddr::V6(given.v6)), "{name} shares an address");
            assert_eq!(given.v4.octets()[0], 198);
            assert!(matches!(given.v4.octets()[1], 18 | 19), "{} is outside the pool", given.v4);
            assert!(given.v4 > Ipv4Addr::new(198, 18, 0, 255), "{} is reserved", given.v4);
            ends.insert(given.v4.octets()[3]);
            assert_eq!(pool.name_of(given.v4.into()), Some(name.as_str()));
            assert_eq!(pool.name_of(given.v6.into()), Some(name.as_str()));
        }
        assert!(!ends.contains(&0) && !ends.contains(&255) && ends.len() == 254);
    }

    #[test]
    fn only_the_canonical_spelling_gets_an_address() {
        let mut pool = Pool::new();
        for name in
            ["", ".", "GitHub.com", "github.com.", "192.0.2.7", "127.1", "::1", "a b", "a..b", "b\u{fc}cher.example"]
        {
            assert_eq!(pool.address_of(name), None, "{name:?}");
        }
        assert!(pool.address_of("gitlab").unwrap().is_new, "nothing was used up by what was refused");
        assert_eq!(pool.name_of(Ipv4Addr::new(198, 18, 1, 1).into()), Some("gitlab"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        fn offsets_and_indices_go_both_ways(index in 0u32..1_000_000, offset in any::<u32>()) {
            prop_assert_eq!(index_of(offset_of(index)), usize::try_from(index).ok());
            if let Some(index) = index_of(offset).and_then(|index| u32::try_from(index).ok()) {
                prop_assert_eq!(offset_of(index), offset);
            }
        }

        #[test]
        fn any_address_is_answered(v4 in any::<Ipv4Addr>(), v6 in any::<Ipv6Addr>()) {
            let mut pool = Pool::new();
            let given = pool.address_of("github.com").unwrap();
            prop_assert_eq!(pool.name_of(v4.into()).is_some(), v4 == given.v4);
            prop_assert_eq!(pool.name_of(v6.into()).is_some(), v6 == given.v6 || v6 == given.v4.to_ipv6_mapped());
        }
    }
}
