//! The address guard: which addresses a public name may lead to.
//!
//! Whoever owns an allowed name decides what it resolves to, at any moment. Without this check an allowed name would be a way
//! to the host's own services, to the machines of its network and to the cloud's metadata service, which hands out
//! credentials. The relay asks about the very address that it then dials, so there is no second lookup to change the answer.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a policy says about the host that led to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptIn {
    /// Nothing beyond its name.
    Silent,
    /// That this name may lead to private addresses.
    PrivateName,
    /// A network that the address is in.
    Network,
    /// The address itself, spelled out.
    Literal,
}

/// What an address is for, if that keeps a name from leading to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressClass {
    /// `127.0.0.0/8` and `::1`.
    Loopback,
    /// An address of one of this machine's interfaces.
    ThisMachine,
    /// RFC 1918 and unique local addresses.
    Private,
    /// RFC 6598: shared by the customers of a carrier.
    CarrierNat,
    /// RFC 8215: local use of NAT64.
    LocalNat64,
    /// `fec0::/10`.
    SiteLocal,
    /// Networks for examples.
    Documentation,
    /// Networks for benchmarks; proxies like this one use them too.
    Benchmark,
    /// `0.0.0.0/8` but for the unspecified address.
    ThisNetwork,
    /// `0.0.0.0` and `::`, which Linux connects to loopback.
    Unspecified,
    /// `169.254.0.0/16` and `fe80::/10`.
    LinkLocal,
    /// Services of clouds that hand out credentials.
    Metadata,
    /// IETF protocol assignments.
    Protocol,
    /// `224.0.0.0/4` and `ff00::/8`.
    Multicast,
    /// `240.0.0.0/4`.
    Reserved,
    /// `255.255.255.255`.
    Broadcast,
    /// `100::/64`.
    Discard,
    /// IPv6 outside of `2000::/3`.
    NotGlobal,
}

impl AddressClass {
    /// Whether any policy can open addresses of this class.
    #[must_use]
    pub fn can_be_opened(self) -> bool {
        match self {
            Self::Loopback
            | Self::ThisMachine
            | Self::Private
            | Self::CarrierNat
            | Self::LocalNat64
            | Self::SiteLocal
            | Self::Documentation
            | Self::Benchmark => true,
            Self::ThisNetwork
            | Self::Unspecified
            | Self::LinkLocal
            | Self::Metadata
            | Self::Protocol
            | Self::Multicast
            | Self::Reserved
            | Self::Broadcast
            | Self::Discard
            | Self::NotGlobal => false,
        }
    }

    /// Whether what a policy says of the host opens the address.
    ///
    /// A name that may lead to private addresses still may not lead to this machine, by loopback or by an address of its own: what
    /// listens there trusts every local client, services that listen at every address among it, and the name's owner is not the
    /// one who knows. The same for a network, which may happen to be the machine's own. Ports of the machine are opened one by one.
    #[must_use]
    pub fn is_opened_by(self, opt_in: OptIn) -> bool {
        match opt_in {
            OptIn::Silent => false,
            OptIn::Literal => self.can_be_opened(),
            OptIn::PrivateName | OptIn::Network => self.can_be_opened() && !self.is_this_machine(),
        }
    }

    /// Whether the address is one of the machine that dials it.
    #[must_use]
    pub fn is_this_machine(self) -> bool {
        matches!(self, Self::Loopback | Self::ThisMachine)
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::ThisMachine => "an address of this machine",
            Self::Private => "a private address",
            Self::CarrierNat => "a shared address behind a carrier's NAT",
            Self::LocalNat64 => "an address behind a local NAT64",
            Self::SiteLocal => "a site-local address",
            Self::Documentation => "an address for documentation",
            Self::Benchmark => "an address for benchmarks",
            Self::ThisNetwork => "an address of this network (0.0.0.0/8)",
            Self::Unspecified => "the unspecified address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud metadata address",
            Self::Protocol => "an address for network protocols",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
            Self::Broadcast => "the broadcast address",
            Self::Discard => "an address that discards",
            Self::NotGlobal => "an address outside global unicast",
        })
    }
}

/// A network, the length of its prefix, and what dialling into it means.
struct Row<A>(A, u8, AddressClass);

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8, refused: AddressClass) -> Row<Ipv4Addr> {
    Row(Ipv4Addr::new(a, b, c, d), prefix, refused)
}

const fn v6(segments: [u16; 8], prefix: u8, refused: AddressClass) -> Row<Ipv6Addr> {
    let [a, b, c, d, e, f, g, h] = segments;
    Row(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix, refused)
}

use AddressClass as Class;

/// Sorted by address. Where networks lie in one another the longest prefix counts.
///
/// Link-local addresses are refused for good and not only the best known one: credentials are also served at 169.254.170.2,
/// 169.254.170.23 and others. Networks for documentation and benchmarks belong to nobody, so whoever meets one has built it
/// on purpose; the second is also what names resolve to behind a proxy of this kind, such as an outer fence.
const V4: &[Row<Ipv4Addr>] = &[
    // Linux connects 0.0.0.0 to loopback.
    v4(0, 0, 0, 0, 8, Class::ThisNetwork),
    v4(0, 0, 0, 0, 32, Class::Unspecified),
    v4(10, 0, 0, 0, 8, Class::Private),
    v4(100, 64, 0, 0, 10, Class::CarrierNat),
    v4(100, 100, 100, 200, 32, Class::Metadata),
    v4(127, 0, 0, 0, 8, Class::Loopback),
    // Azure's agents take their instructions from it.
    v4(168, 63, 129, 16, 32, Class::Metadata),
    v4(169, 254, 0, 0, 16, Class::LinkLocal),
    v4(169, 254, 169, 254, 32, Class::Metadata),
    v4(172, 16, 0, 0, 12, Class::Private),
    // Oracle's older metadata service is 192.0.0.192.
    v4(192, 0, 0, 0, 24, Class::Protocol),
    v4(192, 0, 0, 192, 32, Class::Metadata),
    v4(192, 0, 2, 0, 24, Class::Documentation),
    v4(192, 88, 99, 0, 24, Class::Protocol),
    v4(192, 168, 0, 0, 16, Class::Private),
    v4(198, 18, 0, 0, 15, Class::Benchmark),
    v4(198, 51, 100, 0, 24, Class::Documentation),
    v4(203, 0, 113, 0, 24, Class::Documentation),
    v4(224, 0, 0, 0, 4, Class::Multicast),
    v4(240, 0, 0, 0, 4, Class::Reserved),
    v4(255, 255, 255, 255, 32, Class::Broadcast),
];

/// As above. Beyond these rows only 2000::/3 is global unicast.
const V6: &[Row<Ipv6Addr>] = &[
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, Class::Unspecified),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Class::Loopback),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Class::LocalNat64),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, Class::Discard),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Class::Protocol),
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, Class::Benchmark),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Class::Documentation),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Class::Documentation),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Class::Private),
    v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128, Class::Metadata),
    // Amazon's pod identity, resolver, clock and metadata.
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32, Class::Metadata),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Class::Metadata),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Class::LinkLocal),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Class::SiteLocal),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Class::Multicast),
];

/// Why an address that a name resolved to may not be dialled; `own` are the addresses of this machine's interfaces.
#[must_use]
pub fn refusal(address: IpAddr, own: &[IpAddr]) -> Option<AddressClass> {
    let mut worst = None;
    for part in parts(address) {
        worst = worse(worst, table(part));
        if own.iter().any(|own| own.to_canonical() == part) {
            worst = worse(worst, Some(Class::ThisMachine));
        }
    }
    worst
}

/// Why nobody reaches this address, whatever a policy says.
#[must_use]
pub fn never(address: IpAddr) -> Option<AddressClass> {
    refusal(address, &[]).filter(|class| !class.can_be_opened())
}

/// The first class of those that are refused most strictly.
fn worse(one: Option<AddressClass>, other: Option<AddressClass>) -> Option<AddressClass> {
    match (one, other) {
        (None, _) => other,
        (Some(one), Some(other)) if one.can_be_opened() && !other.can_be_opened() => Some(other),
        _ => one,
    }
}

/// The addresses that packets to this one can end at: those written inside it first, then itself.
fn parts(address: IpAddr) -> Vec<IpAddr> {
    let address = match address.to_canonical() {
        v4 @ IpAddr::V4(_) => return vec![v4],
        IpAddr::V6(address) => address,
    };
    let octets = address.octets();
    let v4_at = |at: usize| {
        let bytes: [u8; 4] = octets.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
        Ipv4Addr::from(bytes)
    };
    let inside = match address.segments() {
        // `::` and `::1` are no IPv4 addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        // IPv4-compatible, NAT64 by its well-known prefix and by local ones.
        [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => vec![v4_at(12)],
        // 6to4.
        [0x2002, ..] => vec![v4_at(2)],
        // Teredo: its server, and the client with all bits turned over.
        [0x2001, 0, ..] => vec![v4_at(4), Ipv4Addr::from_bits(!v4_at(12).to_bits())],
        _ => Vec::new(),
    };
    inside.into_iter().map(IpAddr::V4).chain([IpAddr::V6(address)]).collect()
}

fn table(address: IpAddr) -> Option<AddressClass> {
    match address {
        IpAddr::V4(address) => longest(V4.iter().map(|row| (u128::from(row.0.to_bits()) << 96, row.1, row.2)), {
            u128::from(address.to_bits()) << 96
        }),
        IpAddr::V6(address) => {
            let found = longest(V6.iter().map(|row| (row.0.to_bits(), row.1, row.2)), address.to_bits());
            match address.segments() {
                // Judged by what is written inside.
                [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x2001, 0, ..] => None,
                [first, ..] if first >> 13 != 1 => found.or(Some(Class::NotGlobal)),
                _ => found,
            }
        }
    }
}

/// The row with the longest prefix that holds the address; both are left-aligned.
fn longest(rows: impl Iterator<Item = (u128, u8, AddressClass)>, address: u128) -> Option<AddressClass> {
    rows.filter(|(base, prefix, _)| (base ^ address).leading_zeros() >= u32::from(*prefix))
        .max_by_key(|(_, prefix, _)| *prefix)
        .map(|(_, _, refused)| refused)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether an address is anybody's to dial.
    fn is_public(address: IpAddr) -> bool {
        refusal(address, &[]).is_none()
    }

    #[track_caller]
    fn check(text: &str, expected: Option<Class>) {
        assert_eq!(refusal(text.parse().unwrap(), &[]), expected, "{text}");
    }

    #[track_caller]
    fn private(text: &str, class: Class) {
        assert!(class.can_be_opened());
        check(text, Some(class));
    }

    #[track_caller]
    fn never(text: &str, class: Class) {
        assert!(!class.can_be_opened());
        check(text, Some(class));
    }

    #[test]
    fn public_addresses_are_dialled() {
        for text in [
            "1.0.0.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.255",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "2001:200::1",
            "2400:cb00::1",
            "3ffe::1",
            "3fff:1000::1",
            // Written inside: 8.8.8.8.
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            check(text, None);
            assert!(is_public(text.parse().unwrap()));
        }
    }

    #[test]
    fn each_network_has_its_class() {
        never("0.0.0.0", Class::Unspecified);
        never("0.0.0.1", Class::ThisNetwork);
        never("0.255.255.255", Class::ThisNetwork);
        private("10.0.0.0", Class::Private);
        private("10.255.255.255", Class::Private);
        private("100.64.0.0", Class::CarrierNat);
        private("100.127.255.255", Class::CarrierNat);
        never("100.100.100.200", Class::Metadata);
        private("127.0.0.1", Class::Loopback);
        private("127.255.255.255", Class::Loopback);
        never("168.63.129.16", Class::Metadata);
        never("169.254.0.0", Class::LinkLocal);
        never("169.254.169.254", Class::Metadata);
        never("169.254.170.2", Class::LinkLocal);
        never("169.254.255.255", Class::LinkLocal);
        private("172.16.0.0", Class::Private);
        private("172.31.255.255", Class::Private);
        never("192.0.0.0", Class::Protocol);
        never("192.0.0.192", Class::Metadata);
        never("192.0.0.255", Class::Protocol);
        private("192.0.2.7", Class::Documentation);
        never("192.88.99.1", Class::Protocol);
        private("192.168.0.0", Class::Private);
        private("192.168.255.255", Class::Private);
        private("198.18.0.0", Class::Benchmark);
        private("198.19.255.255", Class::Benchmark);
        private("198.51.100.1", Class::Documentation);
        private("203.0.113.255", Class::Documentation);
        never("224.0.0.1", Class::Multicast);
        never("239.255.255.255", Class::Multicast);
        never("240.0.0.0", Class::Reserved);
        never("255.255.255.254", Class::Reserved);
        never("255.255.255.255", Class::Broadcast);
        never("::", Class::Unspecified);
        private("::1", Class::Loopback);
        private("64:ff9b:1::8.8.8.8", Class::LocalNat64);
        never("100::1", Class::Discard);
        never("2001:1::1", Class::Protocol);
        never("2001:20::1", Class::Protocol);
        never("2001:1ff:ffff::1", Class::Protocol);
        private("2001:2::1", Class::Benchmark);
        private("2001:db8::1", Class::Documentation);
        private("3fff:fff::1", Class::Documentation);
        private("fc00::1", Class::Private);
        private("fdff:ffff::1", Class::Private);
        private("fd52:4600::101", Class::Private);
        never("fd00:42::42", Class::Metadata);
        private("fd00:42::43", Class::Private);
        never("fd00:ec2::254", Class::Metadata);
        never("fd00:ec2::23", Class::Metadata);
        never("fd20:ce::254", Class::Metadata);
        never("fe80::1", Class::LinkLocal);
        never("fe80::a9fe:a9fe", Class::LinkLocal);
        never("febf::1", Class::LinkLocal);
        private("fec0::1", Class::SiteLocal);
        private("feff::1", Class::SiteLocal);
        never("ff02::1", Class::Multicast);
    }

    #[test]
    fn an_ipv4_address_inside_an_ipv6_address_is_judged() {
        private("::ffff:127.0.0.1", Class::Loopback);
        never("::ffff:169.254.169.254", Class::Metadata);
        private("::ffff:10.0.0.1", Class::Private);
        never("::ffff:0.0.0.0", Class::Unspecified);
        never("64:ff9b::169.254.169.254", Class::Metadata);
        private("64:ff9b::127.0.0.1", Class::Loopback);
        private("64:ff9b::10.1.2.3", Class::Private);
        never("64:ff9b:1::169.254.169.254", Class::Metadata);
        private("64:ff9b:1:ffff::10.1.2.3", Class::Private);
        // IPv4-compatible addresses are dead: what is inside gives the class, and nothing makes them good.
        never("::169.254.169.254", Class::Metadata);
        never("::127.0.0.1", Class::NotGlobal);
        never("::8.8.8.8", Class::NotGlobal);
        never("::2", Class::ThisNetwork);
        private("2002:7f00:1::1", Class::Loopback);
        never("2002:a9fe:a9fe::1", Class::Metadata);
        private("2002:c0a8:101::1", Class::Private);
        // Teredo: the server is 10.0.0.1; the client is 127.0.0.1, 169.254.169.254, 8.8.8.8.
        private("2001:0:a00:1:0:0:f7f7:f7f7", Class::Private);
        private("2001:0:808:808:0:0:80ff:fffe", Class::Loopback);
        never("2001:0:808:808:0:0:5601:5601", Class::Metadata);
        check("2001:0:808:808:0:0:f7f7:f7f7", None);
    }

    #[test]
    fn beyond_global_unicast_nothing_is_dialled() {
        for text in
            ["::ffff:0:8.8.8.8", "100:0:0:1::1", "1fff::1", "4000::1", "5f00::1", "64:ff9a::1", "e000::1", "fbff::1"]
        {
            never(text, Class::NotGlobal);
        }
    }

    #[test]
    fn this_machines_own_addresses_are_refused_in_every_form() {
        let own: Vec<IpAddr> =
            ["8.8.4.4", "2606:4700::7", "::ffff:9.9.9.9", "169.254.7.7"].map(|text| text.parse().unwrap()).to_vec();
        let check = |text: &str, expected| assert_eq!(refusal(text.parse().unwrap(), &own), expected, "{text}");
        for text in ["8.8.4.4", "::ffff:8.8.4.4", "64:ff9b::8.8.4.4", "2002:808:404::1", "2606:4700::7", "9.9.9.9"] {
            check(text, Some(Class::ThisMachine));
        }
        check("169.254.7.7", Some(Class::LinkLocal));
        check("8.8.4.5", None);
        check("2606:4700::8", None);
    }

    #[test]
    fn what_a_policy_can_lift() {
        let yields = |text: &str| {
            let class = refusal(text.parse().unwrap(), &[]).unwrap();
            [OptIn::Silent, OptIn::PrivateName, OptIn::Network, OptIn::Literal].map(|opt_in| class.is_opened_by(opt_in))
        };
        for text in ["10.0.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "198.18.1.1", "192.0.2.7", "fec0::1"] {
            assert_eq!(yields(text), [false, true, true, true], "{text}");
        }
        for text in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1"] {
            assert_eq!(yields(text), [false, false, false, true], "{text}: the name's owner does not open loopback");
        }
        for text in
            ["169.254.169.254", "fd00:ec2::254", "224.0.0.1", "0.0.0.0", "255.255.255.255", "fe80::1", "ff02::1"]
        {
            assert_eq!(yields(text), [false; 4], "{text}");
        }
        // F3: services at every address of the machine are there too.
        let opt_ins = [OptIn::Silent, OptIn::PrivateName, OptIn::Network, OptIn::Literal];
        assert_eq!(opt_ins.map(|opt_in| Class::ThisMachine.is_opened_by(opt_in)), [false, false, false, true]);
    }

    fn rows() -> Vec<(u128, u8, Class, &'static str)> {
        let v4 = V4.iter().map(|row| (u128::from(row.0.to_bits()) << 96, row.1, row.2, "v4"));
        v4.chain(V6.iter().map(|row| (row.0.to_bits(), row.1, row.2, "v6"))).collect()
    }

    #[test]
    fn the_tables_are_sorted_and_their_networks_have_no_bits_beyond_the_prefix() {
        assert!(V4.is_sorted_by_key(|row| (row.0, row.1)) && V6.is_sorted_by_key(|row| (row.0, row.1)));
        for (base, prefix, class, family) in rows() {
            let beyond = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
            assert_eq!(base & beyond, 0, "{family} {base:#x}/{prefix}: {class}");
        }
    }

    /// Otherwise a policy could lift a part of what nothing lifts. The one exception is assigned by name inside a network
    /// that is otherwise for protocols.
    #[test]
    fn no_private_network_lies_inside_one_that_nothing_lifts() {
        let rows = rows();
        for (inner, length, class, family) in rows.iter().filter(|row| row.2.can_be_opened()) {
            let outer = rows.iter().find(|(base, prefix, outer, theirs)| {
                theirs == family
                    && !outer.can_be_opened()
                    && prefix < length
                    && (base ^ inner).leading_zeros() >= u32::from(*prefix)
            });
            assert!(outer.is_none() || *class == Class::Benchmark, "{inner:#x}/{length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

        /// The standard library's own idea of these networks, for every address it knows.
        #[test]
        fn what_the_standard_library_knows_is_refused(v4 in any::<Ipv4Addr>(), v6 in any::<Ipv6Addr>()) {
            let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified();
            prop_assert!(!special || !is_public(v4.into()), "{}", v4);
            let special = v6.is_loopback() || v6.is_multicast() || v6.is_unspecified() || v6.is_unique_local()
                || v6.is_unicast_link_local();
            prop_assert!(!special || !is_public(v6.into()), "{}", v6);
            let is_translated = v6.to_ipv4_mapped().is_some() || v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
            prop_assert!(v6.segments()[0] >> 13 == 1 || is_translated || !is_public(v6.into()), "{}", v6);
        }

        /// No way of writing an IPv4 address into an IPv6 address makes a refused address public.
        #[test]
        fn wrapping_never_widens(v4 in prop_oneof![any::<Ipv4Addr>(), special()]) {
            let bits = u128::from(v4.to_bits());
            let plain = refusal(v4.into(), &[]);
            prop_assert_eq!(refusal(v4.to_ipv6_mapped().into(), &[]), plain);
            let wrapped = [
                bits,
                (0x0064_ff9b << 96) | bits,
                (0x0064_ff9b_0001 << 80) | bits,
                (0x2002 << 112) | (bits << 80) | 1,
                (0x2001 << 112) | (bits << 64) | u128::from(!Ipv4Addr::new(8, 8, 8, 8).to_bits()),
                (0x2001 << 112) | (0x0808_0808 << 64) | u128::from(!v4.to_bits()),
            ];
            for bits in wrapped {
                let address = Ipv6Addr::from_bits(bits);
                if plain.is_some() {
                    prop_assert!(!is_public(address.into()), "{} holds {}", address, v4);
                }
                if plain.is_some_and(|class| !class.can_be_opened()) {
                    let class = refusal(address.into(), &[]);
                    let is_loopback = address == Ipv6Addr::LOCALHOST;
                    let is_closed = class.is_some_and(|class| !class.can_be_opened());
                    prop_assert!(is_loopback || is_closed, "{} holds {}", address, v4);
                }
            }
        }
    }

    /// Addresses inside each network of the table.
    fn special() -> impl Strategy<Value = Ipv4Addr> {
        (0..V4.len(), any::<u32>()).prop_map(|(row, bits)| {
            let Row(base, prefix, _) = &V4[row];
            let beyond = u32::MAX.checked_shr(u32::from(*prefix)).unwrap_or(0);
            Ipv4Addr::from_bits(base.to_bits() | (bits & beyond))
        })
    }
}
