//! Which hosts the network policy names (claim K9): the text of a pattern, and whether a concrete host and port fits it.
//!
//! There is one parser for the policy, for `explain --host` and for the relay, because every peer's bypass was two parsers
//! that disagreed. It accepts one spelling of each thing and refuses the rest with a hint, so a name can never be read as
//! an address by the resolver after it was compared as a name here. It resolves nothing and opens nothing: whether the
//! address behind an allowed name may be dialled is the address guard's question, not this file's.

mod error;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

pub use error::HostError;

/// The ports of a pattern that names none.
const WEB_PORTS: &[u16] = &[80, 443];

/// The port of a target that names none, as a browser would choose it.
const DEFAULT_TARGET_PORT: u16 = 443;

/// Longer text is refused before it reaches IDNA: 253 characters of a name need at most four bytes each, and the
/// punycode algorithm is quadratic.
const MAX_TEXT: usize = 1100;

/// Names that the resolver or `/etc/hosts` turn into loopback, beside everything below `localhost` (RFC 6761).
const LOOPBACK_NAMES: &[&str] =
    &["ip6-localhost", "ip6-loopback", "localhost", "localhost.localdomain", "localhost4", "localhost6"];

/// Hosts that a policy admits: `host[:port]`, `*.host[:port]`, an address, or a network spelled out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPattern {
    shape: Shape,
    ports: Ports,
}

/// One concrete host and port: what a connection asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostTarget {
    /// The canonical name, or the canonical address without brackets.
    name: String,
    address: Option<IpAddr>,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Shape {
    Name(String),
    /// Names strictly below this one.
    Below(String),
    Net(Net),
}

/// `prefix` is the family's full length for a single address; bits beyond it are zero in `base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Net {
    base: IpAddr,
    prefix: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Ports {
    Web,
    One(u16),
}

/// What a pattern admits, for whoever says it in another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostShape<'a> {
    /// This name.
    Name(&'a str),
    /// Names strictly below this one.
    Below(&'a str),
    /// The addresses that begin so.
    Network {
        /// The first of them.
        base: IpAddr,
        /// How many bits they share.
        prefix: u8,
    },
}

impl HostPattern {
    /// Reads one pattern of the policy.
    ///
    /// # Errors
    /// Whatever is not exactly one of the accepted spellings, and whatever is too broad; see [`HostError`].
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let (spelled, port) = split(text)?;
        let shape = match spelled {
            Spelled::Bracketed(inside) => Shape::Net(parse_v6(text, inside)?),
            Spelled::Bare(host) => parse_bare(text, host)?,
        };
        Ok(Self { shape, ports: port.map_or(Ports::Web, Ports::One) })
    }

    /// Whether a connection to `target` is admitted.
    #[must_use]
    pub fn matches(&self, target: &HostTarget) -> bool {
        self.ports().contains(&target.port) && self.matches_host(target)
    }

    /// Whether `target` is admitted at some port: the question of a DNS lookup, which knows no port.
    #[must_use]
    pub fn matches_host(&self, target: &HostTarget) -> bool {
        match (&self.shape, target.address) {
            (Shape::Net(net), Some(address)) => net.contains(address),
            (Shape::Name(name), None) => *name == target.name,
            (Shape::Below(base), None) => is_below(&target.name, base),
            (Shape::Net(_), None) | (Shape::Name(_) | Shape::Below(_), Some(_)) => false,
        }
    }

    /// Whether every target that `other` admits is admitted by this pattern as well.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let hosts = match (&self.shape, &other.shape) {
            (Shape::Name(own), Shape::Name(name)) => own == name,
            (Shape::Below(own), Shape::Name(name)) => is_below(name, own),
            (Shape::Below(own), Shape::Below(base)) => own == base || is_below(base, own),
            (Shape::Net(own), Shape::Net(net)) => own.prefix <= net.prefix && own.contains(net.base),
            _ => false,
        };
        hosts && other.ports().iter().all(|port| self.ports().contains(port))
    }

    /// What it admits, without the ports.
    #[must_use]
    pub fn shape(&self) -> HostShape<'_> {
        match &self.shape {
            Shape::Name(name) => HostShape::Name(name),
            Shape::Below(base) => HostShape::Below(base),
            Shape::Net(net) => HostShape::Network { base: net.base, prefix: net.prefix },
        }
    }

    /// The one address it admits, if it is one.
    #[must_use]
    pub fn single_address(&self) -> Option<IpAddr> {
        match &self.shape {
            Shape::Net(net) if net.prefix == if net.base.is_ipv4() { 32 } else { 128 } => Some(net.base),
            _ => None,
        }
    }

    /// Whether it admits addresses rather than names.
    #[must_use]
    pub fn is_network(&self) -> bool {
        matches!(self.shape, Shape::Net(_))
    }

    /// The ports it admits, ascending.
    #[must_use]
    pub fn ports(&self) -> &[u16] {
        match &self.ports {
            Ports::Web => WEB_PORTS,
            Ports::One(port) => std::slice::from_ref(port),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Shape::Name(name) => write!(f, "{name}"),
            Shape::Below(base) => write!(f, "*.{base}"),
            Shape::Net(net) => write!(f, "{net}"),
        }?;
        match self.ports {
            Ports::Web => Ok(()),
            Ports::One(port) => write!(f, ":{port}"),
        }
    }
}

impl HostTarget {
    /// Reads `host[:port]`; without a port it is 443.
    ///
    /// # Errors
    /// Whatever is not one host in an accepted spelling. An address in an odd spelling is refused rather than taken for
    /// a name: the resolver would dial it.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let (spelled, port) = split(text)?;
        Self::from_parts(text, spelled, port.unwrap_or(DEFAULT_TARGET_PORT))
    }

    /// One host, named by a protocol that keeps the port elsewhere; an IPv6 address may come without brackets.
    ///
    /// # Errors
    /// As [`HostTarget::parse`]; a port inside `name` is refused, and so is port 0.
    pub fn new(name: &str, port: u16) -> Result<Self, HostError> {
        if port == 0 {
            return Err(HostError::BadPort(port.to_string()));
        }
        if name.parse::<Ipv6Addr>().is_ok() {
            return Self::from_parts(name, Spelled::Bracketed(name), port);
        }
        match split(name)? {
            (spelled, None) => Self::from_parts(name, spelled, port),
            (_, Some(_)) => Err(HostError::TwoPorts(name.to_owned())),
        }
    }

    fn from_parts(text: &str, spelled: Spelled<'_>, port: u16) -> Result<Self, HostError> {
        let several = || HostError::NotOneHost(text.to_owned());
        let net = match spelled {
            Spelled::Bracketed(inside) => parse_v6(text, inside)?,
            Spelled::Bare(host) if host.starts_with('*') => return Err(several()),
            Spelled::Bare(host) => match parse_v4(text, host)? {
                Some(net) => net,
                None => return Ok(Self { name: normalise(text, host)?, address: None, port }),
            },
        };
        if !net.is_single() {
            return Err(several());
        }
        Ok(Self { name: net.base.to_string(), address: Some(net.base), port })
    }

    /// The canonical name or address, without brackets.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address, where the host is written as one.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for HostTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            _ => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

impl Net {
    const fn bits(base: IpAddr) -> u8 {
        if base.is_ipv4() { 32 } else { 128 }
    }

    fn is_single(self) -> bool {
        self.prefix == Self::bits(self.base)
    }

    fn contains(self, address: IpAddr) -> bool {
        self.base.is_ipv4() == address.is_ipv4() && mask(address, self.prefix) == self.base
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.base, self.is_single()) {
            (IpAddr::V4(base), true) => write!(f, "{base}"),
            (IpAddr::V4(base), false) => write!(f, "{base}/{}", self.prefix),
            (IpAddr::V6(base), true) => write!(f, "[{base}]"),
            (IpAddr::V6(base), false) => write!(f, "[{base}/{}]", self.prefix),
        }
    }
}

/// The host part, with the brackets taken off.
#[derive(Clone, Copy)]
enum Spelled<'a> {
    Bracketed(&'a str),
    Bare(&'a str),
}

/// Takes the port off, and refuses what no host has before anything else looks at the text.
fn split(text: &str) -> Result<(Spelled<'_>, Option<u16>), HostError> {
    if text.len() > MAX_TEXT {
        return Err(HostError::NameTooLong(text.len()));
    }
    if text.contains("://") {
        return Err(HostError::Scheme(text.to_owned()));
    }
    let forbidden = |c: &char| c.is_control() || c.is_whitespace() || "#@?\\%".contains(*c);
    if let Some(found) = text.chars().find(forbidden) {
        return Err(HostError::Forbidden(text.to_owned(), found));
    }
    if let Some(rest) = text.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((inside, "")) => Ok((Spelled::Bracketed(inside), None)),
            Some((inside, after)) => match after.strip_prefix(':') {
                Some(port) => Ok((Spelled::Bracketed(inside), Some(parse_port(text, port)?))),
                None => Err(HostError::Brackets(text.to_owned())),
            },
            None => Err(HostError::Brackets(text.to_owned())),
        };
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Err(without_brackets(text, address));
    }
    let (host, port) = match text.split_once(':') {
        None => (text, None),
        Some((_, port)) if port.contains(':') => return Err(HostError::TwoPorts(text.to_owned())),
        Some((host, port)) => (host, Some(parse_port(text, port)?)),
    };
    if host.is_empty() {
        return Err(HostError::Empty(text.to_owned()));
    }
    Ok((Spelled::Bare(host), port))
}

/// Loopback is refused for what it is, so that nobody adds brackets first.
fn without_brackets(text: &str, address: Ipv6Addr) -> HostError {
    match checked_net(text, IpAddr::V6(address), None) {
        Err(loopback @ HostError::Loopback(_)) => loopback,
        _ => HostError::NoBrackets(text.to_owned()),
    }
}

fn parse_port(text: &str, port: &str) -> Result<u16, HostError> {
    if port.is_empty() {
        return Err(HostError::NoPort(text.to_owned()));
    }
    if port.contains('/') {
        return Err(HostError::Forbidden(text.to_owned(), '/'));
    }
    plain_number(port).filter(|number| *number != 0).ok_or_else(|| HostError::BadPort(port.to_owned()))
}

/// Digits only: `str::parse` alone would take `+80` and `080`.
fn plain_number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

fn parse_bare(text: &str, host: &str) -> Result<Shape, HostError> {
    if host == "*" {
        return Err(HostError::Everything(text.to_owned()));
    }
    if let Some(net) = parse_v4(text, host)? {
        return Ok(Shape::Net(net));
    }
    let (base, below) = host.strip_prefix("*.").map_or((host, false), |base| (base, true));
    if base.contains('*') {
        return Err(HostError::Wildcard(text.to_owned()));
    }
    let name = normalise(text, base)?;
    let suffix = psl::suffix(name.as_bytes());
    // psl answers for a name that is a suffix itself with that whole name; its default rule makes an unknown last label
    // (`gitlab`, `internal`) a suffix too, so `*.internal` is refused like `*.com`.
    let is_suffix = suffix.is_some_and(|suffix| suffix.as_bytes().len() == name.len());
    // An exact name admits that one host only. `s3.amazonaws.com` and `github.io` are suffixes of the list's private
    // part and real hosts, `gitlab` is a machine of one's own network; `com` and `co.uk` are never hosts.
    let is_icann = suffix.is_some_and(|suffix| suffix.typ() == Some(psl::Type::Icann));
    match (below, is_suffix) {
        (true, true) => Err(HostError::PublicSuffixWildcard(text.to_owned(), name)),
        (true, false) => Ok(Shape::Below(name)),
        (false, true) if is_icann => Err(HostError::PublicSuffix(name)),
        (false, _) => Ok(Shape::Name(name)),
    }
}

/// `None` where the text is not an IPv4 address or network at all.
fn parse_v4(text: &str, host: &str) -> Result<Option<Net>, HostError> {
    let (address, prefix) = host.split_once('/').map_or((host, None), |(address, prefix)| (address, Some(prefix)));
    match (address.parse::<Ipv4Addr>(), prefix) {
        (Ok(base), prefix) => checked_net(text, IpAddr::V4(base), prefix).map(Some),
        (Err(_), Some(_)) if ends_in_number(address) => Err(odd_address(text, address)),
        (Err(_), Some(_)) => Err(HostError::Forbidden(text.to_owned(), '/')),
        (Err(_), None) => Ok(None),
    }
}

fn parse_v6(text: &str, inside: &str) -> Result<Net, HostError> {
    let (address, prefix) = inside.split_once('/').map_or((inside, None), |(address, prefix)| (address, Some(prefix)));
    let Ok(base) = address.parse::<Ipv6Addr>() else {
        return Err(HostError::Brackets(text.to_owned()));
    };
    let net = checked_net(text, IpAddr::V6(base), prefix)?;
    if base.to_string() != address {
        return Err(HostError::NotCanonical(text.to_owned(), net.to_string()));
    }
    Ok(net)
}

fn checked_net(text: &str, base: IpAddr, prefix: Option<&str>) -> Result<Net, HostError> {
    let bits = Net::bits(base);
    let prefix = match prefix {
        None => bits,
        Some(prefix) => plain_number(prefix)
            .filter(|length: &u8| *length <= bits)
            .ok_or_else(|| HostError::BadPrefix(prefix.to_owned()))?,
    };
    let net = Net { base: mask(base, prefix), prefix };
    let shortest = shortest_prefix(base);
    if prefix < shortest {
        return Err(HostError::TooBroad(text.to_owned(), shortest));
    }
    // Refused rather than rewritten: one address has one spelling in a policy, and a reader who searches it for
    // 192.0.2.7 must find it. The relay unwraps what a dual-stack socket sends before it asks.
    let mapped = IpAddr::V6(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped());
    let inner = if let IpAddr::V6(base) = base { base.to_ipv4_mapped() } else { None };
    let is_mapped_loopback = net.is_single() && inner.is_some_and(leads_to_loopback);
    if !is_mapped_loopback && (net.contains(mapped) || inner.is_some()) {
        return Err(HostError::Mapped(text.to_owned()));
    }
    if is_mapped_loopback || is_loopback(net) {
        return Err(HostError::Loopback(text.to_owned()));
    }
    // Last, since its hint names the network that was meant.
    if net.base != base {
        return Err(HostError::HostBits(text.to_owned(), net.to_string()));
    }
    Ok(net)
}

/// The widest networks anybody owns: a /8 of IPv4 (10.0.0.0/8), a /16 of IPv6; unique local addresses are private, so
/// their half `fd00::/8` may be named whole.
fn shortest_prefix(base: IpAddr) -> u8 {
    match base {
        IpAddr::V4(_) => 8,
        IpAddr::V6(base) if base.is_unique_local() => 8,
        IpAddr::V6(_) => 16,
    }
}

/// 0.0.0.0/8 and `::` count: Linux connects the unspecified address to loopback.
fn is_loopback(net: Net) -> bool {
    match net.base {
        // No IPv4 network is wider than a /8, so its base says which /8 it lies in.
        IpAddr::V4(base) => matches!(base.octets()[0], 0 | 127),
        IpAddr::V6(_) => {
            net.contains(IpAddr::V6(Ipv6Addr::LOCALHOST)) || net.contains(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
        }
    }
}

/// Of the addresses that nobody writes on purpose: 127.0.0.0/8, and the one unspecified address.
fn leads_to_loopback(address: Ipv4Addr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        // A shift by the whole width (prefix 0) has no value, and then the mask is zero.
        IpAddr::V4(address) => {
            let kept = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & kept))
        }
        IpAddr::V6(address) => {
            let kept = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & kept))
        }
    }
}

/// The one spelling of a name: lower case, punycode, no trailing dot.
fn normalise(text: &str, host: &str) -> Result<String, HostError> {
    let owned = || text.to_owned();
    // Lengths and characters are checked below, on the result: mapping turns a full-width `／` or `：` into the ASCII
    // one, and full-width digits into an address. Hyphens in third and fourth place are real (`r3---sn-x`).
    let ascii = Uts46::new()
        .to_ascii(host.as_bytes(), AsciiDenyList::EMPTY, Hyphens::CheckFirstLast, DnsLength::Ignore)
        .map_err(|_| HostError::NotAName(owned()))?;
    let name = ascii.strip_suffix('.').unwrap_or(&ascii);
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    if let Some(found) = name.chars().find(|c| !allowed(*c)) {
        return Err(HostError::Forbidden(owned(), found));
    }
    if name.split('.').any(str::is_empty) {
        return Err(HostError::EmptyLabel(owned()));
    }
    if name.split('.').any(|label| label.len() > 63) {
        return Err(HostError::LabelTooLong(owned()));
    }
    if name.len() > 253 {
        return Err(HostError::NameTooLong(name.len()));
    }
    if ends_in_number(name) {
        return Err(odd_address(text, name));
    }
    if LOOPBACK_NAMES.contains(&name) || name.ends_with(".localhost") {
        return Err(HostError::Loopback(owned()));
    }
    Ok(name.to_owned())
}

/// Whether `inet_aton` and browsers would try to read this as an IPv4 address: the last label decides.
fn ends_in_number(name: &str) -> bool {
    let last = name.strip_suffix('.').unwrap_or(name).rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// The refusal of `0x7f.1` and its like; what leads to loopback is told so at once.
fn odd_address(text: &str, name: &str) -> HostError {
    if inet_aton(name).is_some_and(leads_to_loopback) {
        HostError::Loopback(text.to_owned())
    } else {
        HostError::OddAddress(text.to_owned())
    }
}

/// The address a resolver would read: one to four numbers, decimal, octal or hexadecimal, the last filling the rest. It
/// only chooses between two refusals.
fn inet_aton(name: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| match part.strip_prefix("0x").or_else(|| part.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => u32::from_str_radix(part, if part.starts_with('0') { 8 } else { 10 }).ok(),
    };
    let parts = name.strip_suffix('.').unwrap_or(name).split('.').map(number).collect::<Option<Vec<u32>>>()?;
    let is_front = |front: &[u32]| front.len() <= 3 && front.iter().all(|part| *part < 256);
    let (last, front) = parts.split_last().filter(|(_, front)| is_front(front))?;
    let (mut bits, mut room) = (*last, 32);
    for part in front {
        room -= 8;
        bits |= part << room;
    }
    (u64::from(*last) >> room == 0).then(|| Ipv4Addr::from_bits(bits))
}

/// Whether a wildcard at `base` admits `name`: a name below it whose public suffix lies above `base`.
///
/// `*.amazonaws.com` is below a registrable domain, yet `s3.amazonaws.com` is a public suffix again, and
/// `anybody.s3.amazonaws.com` is anybody's. A wildcard therefore never reaches across a suffix; such hosts are named.
fn is_below(name: &str, base: &str) -> bool {
    let below = name.strip_suffix(base).is_some_and(|front| front.ends_with('.'));
    below && psl::suffix(name.as_bytes()).is_some_and(|suffix| suffix.as_bytes().len() < base.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The canonical text of a pattern that is accepted.
    #[track_caller]
    fn check(text: &str, canonical: &str) {
        let pattern = HostPattern::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(pattern.to_string(), canonical, "{text:?}");
        assert_eq!(HostPattern::parse(canonical), Ok(pattern), "{canonical:?} reads back as another pattern");
    }

    /// The whole message of a pattern that is refused.
    #[track_caller]
    fn refused(text: &str, message: &str) {
        match HostPattern::parse(text) {
            Ok(pattern) => panic!("{text:?} was accepted as {pattern}"),
            Err(error) => assert_eq!(error.to_string(), message, "{text:?}"),
        }
    }

    #[track_caller]
    fn hinted(text: &str, hint: &str) {
        let error = HostPattern::parse(text).expect_err(text);
        assert_eq!(error.hint().as_deref(), Some(hint), "{text:?}: {error}");
    }

    #[track_caller]
    fn meets(pattern: &str, target: &str, expected: bool) {
        let parsed = HostPattern::parse(pattern).unwrap_or_else(|error| panic!("{pattern:?}: {error}"));
        let asked = HostTarget::parse(target).unwrap_or_else(|error| panic!("{target:?}: {error}"));
        assert_eq!(parsed.matches(&asked), expected, "{pattern} against {target}");
    }

    #[track_caller]
    fn no_target(text: &str, message: &str) {
        match HostTarget::parse(text) {
            Ok(target) => panic!("{text:?} was accepted as {target}"),
            Err(error) => assert_eq!(error.to_string(), message, "{text:?}"),
        }
    }

    #[track_caller]
    fn covering(outer: &str, inner: &str, expected: bool) {
        let (outer, inner) = (HostPattern::parse(outer).unwrap(), HostPattern::parse(inner).unwrap());
        assert_eq!(outer.covers(&inner), expected, "{outer} over {inner}");
    }

    #[test]
    fn one_spelling_of_each_pattern() {
        check("github.com", "github.com");
        check("GitHub.COM.", "github.com");
        check("github.com:443", "github.com:443");
        check("github.com.:22", "github.com:22");
        check("*.example.com", "*.example.com");
        check("*.example.co.uk:8443", "*.example.co.uk:8443");
        check("*.me.github.io", "*.me.github.io");
        check("*.corp.internal", "*.corp.internal");
        check("*.www.ck", "*.www.ck");
        check("gitlab", "gitlab");
        check("github.io", "github.io");
        check("s3.amazonaws.com", "s3.amazonaws.com");
        check("_acme.example.com", "_acme.example.com");
        check("r3---sn-x.example.com", "r3---sn-x.example.com");
        check("bücher.example", "xn--bcher-kva.example");
        check("XN--BCHER-KVA.example", "xn--bcher-kva.example");
        check("a。example.com", "a.example.com");
        check("192.0.2.7:443", "192.0.2.7:443");
        check("192.0.2.7/32", "192.0.2.7");
        check("10.0.0.0/8:5432", "10.0.0.0/8:5432");
        check("169.254.169.254:80", "169.254.169.254:80");
        check("[2001:db8::1]:443", "[2001:db8::1]:443");
        check("[2001:db8::1]", "[2001:db8::1]");
        check("[2001:db8::/32]:443", "[2001:db8::/32]:443");
        check("[fd00::/8]:443", "[fd00::/8]:443");
        check("example.com:65535", "example.com:65535");
        assert_eq!(HostPattern::parse("github.com").unwrap().ports(), [80, 443]);
        assert_eq!(HostPattern::parse("github.com:22").unwrap().ports(), [22]);
    }

    #[test]
    fn too_broad_is_refused() {
        refused("*", r#""*" would admit every host"#);
        refused("*:443", r#""*:443" would admit every host"#);
        refused("*.com", r#""*.com" would admit every name below the public suffix "com""#);
        refused("*.CO.UK.", r#""*.CO.UK." would admit every name below the public suffix "co.uk""#);
        refused("*.github.io", r#""*.github.io" would admit every name below the public suffix "github.io""#);
        refused("*.公司.cn", r#""*.公司.cn" would admit every name below the public suffix "xn--55qx5d.cn""#);
        refused("*.foo.ck", r#""*.foo.ck" would admit every name below the public suffix "foo.ck""#);
        refused("*.internal", r#""*.internal" would admit every name below the public suffix "internal""#);
        refused("com", r#""com" is a public suffix, not a host"#);
        refused("co.uk:443", r#""co.uk" is a public suffix, not a host"#);
        refused("*.*.example.com", r#""*.*.example.com" has a `*` that is not the whole first label"#);
        refused("a*.example.com", r#""a*.example.com" has a `*` that is not the whole first label"#);
        refused("www.*.com", r#""www.*.com" has a `*` that is not the whole first label"#);
        refused("*example.com", r#""*example.com" has a `*` that is not the whole first label"#);
        refused("＊.com", r#""＊.com" has the character '*', which no host name may have"#);
        refused("0.0.0.0/0", r#""0.0.0.0/0" is too broad a network: the shortest prefix here is /8"#);
        refused("10.0.0.0/7", r#""10.0.0.0/7" is too broad a network: the shortest prefix here is /8"#);
        refused("[::/0]:443", r#""[::/0]:443" is too broad a network: the shortest prefix here is /16"#);
        refused("[2000::/15]", r#""[2000::/15]" is too broad a network: the shortest prefix here is /16"#);
        refused("[fc00::/7]", r#""[fc00::/7]" is too broad a network: the shortest prefix here is /8"#);
    }

    #[test]
    fn addresses_have_one_spelling() {
        let odd = |text: &str| {
            format!("{text:?} is an address in a decimal, octal, hexadecimal or short form, which is never accepted")
        };
        for text in [
            "3221225991",
            "3221225991:443",
            "0xc0.519",
            "0xc0000207",
            "0XC0000207",
            "192.519",
            "0300.0.2.7",
            "192.0.2.0x7",
            "192.0.2.07",
            "192.0.2.256",
            "192.0.2.7.",
            "1.2.3.4.5",
            "example.123",
            "１９２.0.2.7",
            "192。0。2。7",
            "*.0.0.1",
            "443",
            "127.0.0.256",
            "127.1.2.3.4",
            "127.0.0.08",
            "4294967297",
            "10.0/8",
            "0x",
        ] {
            refused(text, &odd(text));
        }
        refused("2001:db8::1", r#""2001:db8::1" is an IPv6 address without brackets"#);
        hinted("2001:DB8::1", "write `[2001:db8::1]`, or `[2001:db8::1]:443` for one port");
        hinted("::ffff:192.0.2.7", "write the IPv4 address itself: `192.0.2.7`");
        refused("[2001:DB8::1]", r#""[2001:DB8::1]" is not the canonical spelling of this address"#);
        hinted("[2001:db8:0:0:0:0:0:1]:443", "write `[2001:db8::1]`");
        refused("[::ffff:1.2.3.4]:443", r#""[::ffff:1.2.3.4]:443" is or holds IPv4-mapped IPv6 addresses"#);
        refused("[::ffff:102:304]", r#""[::ffff:102:304]" is or holds IPv4-mapped IPv6 addresses"#);
        refused("[::ffff:0:0/96]", r#""[::ffff:0:0/96]" is or holds IPv4-mapped IPv6 addresses"#);
        refused("[::/16]", r#""[::/16]" is or holds IPv4-mapped IPv6 addresses"#);
        refused("[fe80::1%eth0]", r#""[fe80::1%eth0]" has the character '%', which no host name may have"#);
        refused("[192.0.2.7]", r#""[192.0.2.7]" has brackets around something that is not an IPv6 address"#);
        refused("[github.com]:443", r#""[github.com]:443" has brackets around something that is not an IPv6 address"#);
        refused("[2001:db8::1", r#""[2001:db8::1" has brackets around something that is not an IPv6 address"#);
        refused("[2001:db8::1]x", r#""[2001:db8::1]x" has brackets around something that is not an IPv6 address"#);
        refused("10.1.2.3/8", r#""10.1.2.3/8" has bits set beyond its prefix length"#);
        hinted("10.1.2.3/8:5432", "write `10.0.0.0/8`");
        refused("10.0.0.0/33", r#""33" is not a prefix length"#);
        refused("10.0.0.0/08", r#""08" is not a prefix length"#);
        refused("10.0.0.0/", r#""" is not a prefix length"#);
    }

    #[test]
    fn loopback_has_a_setting_of_its_own() {
        for text in [
            "localhost",
            "LOCALHOST.:5432",
            "db.localhost",
            "*.localhost",
            "ip6-localhost",
            "127.0.0.1:5432",
            "127.0.0.0/8",
            "127.0.0.1/8",
            "0.0.0.0",
            "0.0.0.0/8",
            "[::1]:80",
            "[::]",
            "::1",
            "::",
            "0:0:0:0:0:0:0:1",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]:80",
            "::ffff:7f00:1",
            "2130706433",
            "2130706433:443",
            "0x7f.1",
            "0x7f000001",
            "0X7F000001",
            "127.1",
            "127.1/8",
            "0177.0.0.1",
            "127.0.0.0x1",
            "127.0.0.1.",
            "１２７.0.0.1",
            "127。0。0。1",
            "0",
        ] {
            refused(text, &format!("{text:?} is the loopback inside the fence, not a host on the network"));
            hinted(text, "for a service on the host's loopback list its port in `network.host_ports`");
        }
    }

    #[test]
    fn what_no_host_has_is_refused() {
        refused("", r#""" names no host"#);
        refused(":443", r#"":443" names no host"#);
        refused("https://github.com/x", r#""https://github.com/x" is a URL, not a host"#);
        hinted("https://x.example", "write `x.example:443`");
        hinted("http://x.example/a?b", "write `x.example:80`");
        hinted("ssh://git@x.example/repo", "write `x.example:22`");
        hinted("https://github.com@x.example:8443/", "write `x.example:8443`");
        hinted("https://*/", "write the host and port only: `example.com:443`");
        hinted("user@x.example", "write `x.example`");
        hinted("x.example/v1", "write `x.example`");
        hinted("x.example:8443/v1", "write `x.example:8443`");
        hinted("user@x.example:8443/v1?a#b", "write `x.example:8443`");
        hinted("git@x.example:owner/repo.git", "write `x.example:22`");
        assert_eq!(HostPattern::parse("git hub.com").unwrap_err().hint(), None);
        assert_eq!(HostPattern::parse("com/x").unwrap_err().hint(), None, "the remedy would be refused too");
        let forbidden = |text: &str, found: char| {
            refused(text, &format!("{text:?} has the character {found:?}, which no host name may have"));
        };
        forbidden("github.com@evil.example", '@');
        forbidden("github.com/evil", '/');
        forbidden("github.com:443/evil", '/');
        forbidden("github.com#evil", '#');
        forbidden("github.com?evil", '?');
        forbidden("github.com\\evil", '\\');
        forbidden("github.com%2eevil.example", '%');
        forbidden("github.com\0.evil.example", '\0');
        forbidden("github.com\n", '\n');
        forbidden(" github.com", ' ');
        forbidden("git hub.com", ' ');
        forbidden("github.com,evil.example", ',');
        // Unicode mapping makes ASCII separators out of these: the check comes after it.
        forbidden("github.com／evil.example", '/');
        forbidden("github.com：443", ':');
        forbidden("github.com℀x.example", '/');
        refused("a..example.com", r#""a..example.com" has an empty label"#);
        refused(".example.com", r#"".example.com" has an empty label"#);
        refused("example.com..", r#""example.com.." has an empty label"#);
        refused("*.", r#""*." has an empty label"#);
        refused("-a.example.com", r#""-a.example.com" is not a valid host name (IDNA)"#);
        refused("xn--a.example", r#""xn--a.example" is not a valid host name (IDNA)"#);
        let label = "a".repeat(64);
        refused(&format!("{label}.example"), &format!("\"{}...\" has a label longer than 63 bytes", &label[4..]));
        check(&format!("{}.example", &label[1..]), &format!("{}.example", &label[1..]));
        refused(&"abc.".repeat(64), "the name is 255 bytes long, and 253 is the most");
        refused(&"é".repeat(600), "the name is 1200 bytes long, and 253 is the most");
    }

    #[test]
    fn ports_are_plain_numbers() {
        for port in ["0", "+80", "080", "65536", "*", "https", "-1", "80 ", "٨٠"] {
            let text = format!("example.com:{port}");
            if !port.contains(' ') {
                refused(
                    &text,
                    &format!("{port:?} is not a port: a number from 1 to 65535 without sign or leading zero"),
                );
            }
            assert!(HostPattern::parse(&text).is_err(), "{text:?}");
        }
        refused("github.com:443:80", r#""github.com:443:80" has more than one port"#);
        refused("example.com:", r#"nothing stands after the colon of "example.com:""#);
        hinted("example.com:", "write `example.com` for the ports 80 and 443, or one port after the colon");
        refused("[2001:db8::1]:", r#"nothing stands after the colon of "[2001:db8::1]:""#);
        hinted("*:", "write a port after the colon");
    }

    #[test]
    fn only_what_was_named_is_admitted() {
        meets("github.com", "github.com", true);
        meets("github.com", "GITHUB.com.:443", true);
        meets("github.com", "github.com:80", true);
        meets("github.com", "github.com:22", false);
        meets("github.com:22", "github.com", false);
        meets("github.com", "evil-github.com", false);
        meets("github.com", "github.com.evil.com", false);
        meets("github.com", "www.github.com", false);
        // The first letter i is Cyrillic: another name, whatever it looks like.
        meets("github.com", "gіthub.com", false);
        meets("github.com", "xn--gthub-n2e.com", false);
        meets("*.github.com", "api.github.com", true);
        meets("*.github.com", "a.b.github.com", true);
        meets("*.github.com", "github.com", false);
        meets("*.github.com", "evil-github.com", false);
        meets("*.github.com", "api.github.com.evil.com", false);
        meets("*.example.co.uk", "a.example.co.uk", true);
        meets("*.example.co.uk", "other.co.uk", false);
        // Buckets are anybody's: a wildcard does not reach across a public suffix below it.
        meets("*.amazonaws.com", "sts.amazonaws.com", true);
        meets("*.amazonaws.com", "s3.amazonaws.com", false);
        meets("*.amazonaws.com", "evil.s3.amazonaws.com", false);
        meets("*.mine.s3.amazonaws.com", "a.mine.s3.amazonaws.com", true);
        meets("192.0.2.7", "192.0.2.7", true);
        meets("192.0.2.7", "192.0.2.8", false);
        meets("10.0.0.0/8:5432", "10.255.255.255:5432", true);
        meets("10.0.0.0/8:5432", "11.0.0.0:5432", false);
        meets("10.0.0.0/8:5432", "10.0.0.1", false);
        meets("[2001:db8::/32]", "[2001:db8:1::7]:443", true);
        meets("[2001:db8::/32]", "[2001:db9::7]:443", false);
        meets("10.0.0.0/8", "[a00::1]:443", false);
        meets("10.0.0.0/8", "example.com", false);
    }

    #[test]
    fn a_target_is_one_host_in_one_spelling() {
        let odd = "is an address in a decimal, octal, hexadecimal or short form, which is never accepted";
        for text in ["3221225991", "192.519", "0xc0.519:80", "0300.0.2.7"] {
            no_target(text, &format!("{text:?} {odd}"));
        }
        for text in ["2130706433", "127.1", "0x7f.1:80", "0177.0.0.1", "[::ffff:127.0.0.1]:80"] {
            no_target(text, &format!("{text:?} is the loopback inside the fence, not a host on the network"));
        }
        no_target("*.github.com", r#""*.github.com" is more than one host"#);
        no_target("10.0.0.0/8", r#""10.0.0.0/8" is more than one host"#);
        no_target("[::ffff:192.0.2.7]:80", r#""[::ffff:192.0.2.7]:80" is or holds IPv4-mapped IPv6 addresses"#);
        no_target("github.com:443:80", r#""github.com:443:80" has more than one port"#);
        no_target(
            "github.com@evil.example",
            r#""github.com@evil.example" has the character '@', which no host name may have"#,
        );
        assert_eq!(HostTarget::parse("Example.com").unwrap().to_string(), "example.com:443");
        assert_eq!(HostTarget::new("2001:db8::1", 80).unwrap(), HostTarget::parse("[2001:db8::1]:80").unwrap());
        assert_eq!(HostTarget::new("[2001:db8::1]", 80).unwrap().name(), "2001:db8::1");
        assert_eq!(HostTarget::new("example.com", 0), Err(HostError::BadPort("0".to_owned())));
        assert_eq!(HostTarget::new("example.com:80", 443), Err(HostError::TwoPorts("example.com:80".to_owned())));
        assert_eq!(HostTarget::new("com", 443).unwrap().port(), 443);
        let lookup = HostTarget::parse("example.com:9").unwrap();
        assert!(HostPattern::parse("example.com").unwrap().matches_host(&lookup), "a lookup knows no port");
    }

    #[test]
    fn covering_is_by_host_and_by_port() {
        covering("github.com", "github.com:443", true);
        covering("github.com:443", "github.com", false);
        covering("*.example.com", "a.example.com", true);
        covering("*.example.com", "*.a.example.com", true);
        covering("*.example.com", "example.com", false);
        covering("*.a.example.com", "*.example.com", false);
        covering("*.amazonaws.com", "*.mine.s3.amazonaws.com", false);
        covering("10.0.0.0/8", "10.1.0.0/16", true);
        covering("10.1.0.0/16", "10.0.0.0/8", false);
        covering("10.0.0.0/16", "10.0.0.0/8", false);
        covering("10.0.0.0/8", "[fd00::/8]", false);
        covering("*.example.com", "10.0.0.1", false);
    }

    /// Few labels, so that generated patterns and targets meet; suffixes of every kind among them.
    fn name() -> impl Strategy<Value = String> {
        let label = prop::sample::select(vec!["a", "s3", "foo"]);
        let tail =
            prop::sample::select(vec!["example.com", "amazonaws.com", "github.io", "co.uk", "ck", "www.ck", "gitlab"]);
        (prop::collection::vec(label, 0..3), tail)
            .prop_map(|(labels, tail)| labels.into_iter().chain([tail]).collect::<Vec<_>>().join("."))
    }

    fn port() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["", ":80", ":443", ":22"])
    }

    fn address() -> impl Strategy<Value = String> {
        prop_oneof![
            (0u8..4, 0u8..4).prop_map(|(b, c)| format!("10.{b}.{c}.1")),
            (0u16..4, 0u16..4).prop_map(|(b, c)| format!("[{}]", Ipv6Addr::new(0xfd00, b, c, 0, 0, 0, 0, 1))),
        ]
    }

    fn network() -> impl Strategy<Value = String> {
        let v4 = (0u8..2, prop::sample::select(vec![8u8, 15, 16, 24, 32]))
            .prop_map(|(b, prefix)| (IpAddr::V4(Ipv4Addr::new(10, b, b, 1)), prefix));
        let v6 = (0u16..2, prop::sample::select(vec![8u8, 31, 32, 48, 128]))
            .prop_map(|(b, prefix)| (IpAddr::V6(Ipv6Addr::new(0xfd00, b, b, 0, 0, 0, 0, 1)), prefix));
        prop_oneof![v4, v6].prop_map(|(base, prefix)| Net { base: mask(base, prefix), prefix }.to_string())
    }

    /// Targets made to fit a pattern: chance alone seldom finds the one that tells two patterns apart.
    fn examples(pattern: &HostPattern) -> Vec<HostTarget> {
        let hosts = match &pattern.shape {
            Shape::Name(name) => vec![name.clone()],
            Shape::Below(base) => {
                ["a", "s3", "x.s3", "foo", "x.foo"].iter().map(|label| format!("{label}.{base}")).collect()
            }
            Shape::Net(net) => {
                let last = match net.base {
                    IpAddr::V4(base) => IpAddr::from(Ipv4Addr::from_bits(
                        base.to_bits() | u32::MAX.checked_shr(net.prefix.into()).unwrap_or(0),
                    )),
                    IpAddr::V6(base) => IpAddr::from(Ipv6Addr::from_bits(
                        base.to_bits() | u128::MAX.checked_shr(net.prefix.into()).unwrap_or(0),
                    )),
                };
                vec![net.base.to_string(), last.to_string()]
            }
        };
        let ports = pattern.ports().iter();
        ports.flat_map(|port| hosts.iter().map(|host| HostTarget::new(host, *port).unwrap())).collect()
    }

    fn pattern() -> impl Strategy<Value = HostPattern> {
        let host = prop_oneof![name(), name().prop_map(|name| format!("*.{name}")), address(), network()];
        (host, port())
            .prop_filter_map("a public suffix", |(host, port)| HostPattern::parse(&format!("{host}{port}")).ok())
    }

    fn target() -> impl Strategy<Value = HostTarget> {
        (prop_oneof![name(), address()], port())
            .prop_map(|(host, port)| HostTarget::parse(&format!("{host}{port}")).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

        #[test]
        fn what_is_covered_is_admitted(a in pattern(), b in pattern(), targets in prop::collection::vec(target(), 16)) {
            prop_assert!(a.covers(&a));
            prop_assert!(examples(&a).iter().any(|target| a.matches(target)), "{} admits nothing", a);
            if a.covers(&b) {
                for target in targets.iter().chain(&examples(&b)).filter(|target| b.matches(target)) {
                    prop_assert!(a.matches(target), "{} covers {}, which admits {}", a, b, target);
                }
            }
        }

        #[test]
        fn patterns_and_targets_read_back(pattern in pattern(), target in target()) {
            prop_assert_eq!(HostPattern::parse(&pattern.to_string()), Ok(pattern));
            prop_assert_eq!(HostTarget::parse(&target.to_string()), Ok(target));
        }

        #[test]
        fn any_text_is_answered(text in prop_oneof![any::<String>(), "[-*.:/a-c0-9x\\[\\]。１é]{0,24}"]) {
            match HostPattern::parse(&text) {
                Ok(pattern) => prop_assert_eq!(HostPattern::parse(&pattern.to_string()), Ok(pattern)),
                Err(error) => {
                    let hint = error.hint().unwrap_or_default();
                    let remedy = hint.strip_prefix("write `").and_then(|rest| rest.split('`').next());
                    prop_assert!(remedy.is_none_or(|text| HostPattern::parse(text).is_ok()), "{error}: {hint}");
                }
            }
            match HostTarget::parse(&text) {
                Ok(target) => prop_assert_eq!(HostTarget::parse(&target.to_string()), Ok(target)),
                Err(error) => prop_assert!(!error.to_string().is_empty() && error.hint() != Some(String::new())),
            }
        }
    }
}
