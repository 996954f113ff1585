//! Why a text names no host, and what to write instead.
//!
//! A hint is only given when the parser accepts what it says: nobody should be sent from one refusal to the next.

use std::net::Ipv6Addr;

use super::{HostPattern, Ports};
use crate::text::short;

/// Why a text is no host pattern, or no target. A variant holds the text as written, and then what it
/// found in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing at all, or nothing before the port.
    #[error("{} names no host", quoted(.0))]
    Empty(String),
    /// A URL instead of a host.
    #[error("{} is a URL, not a host", quoted(.0))]
    Scheme(String),
    /// A character that no host name has, also when it only appears after Unicode mapping.
    #[error("{} has the character {:?}, which no host name may have", quoted(.0), .1)]
    Forbidden(String, char),
    /// `*` alone.
    #[error("{} would admit every host", quoted(.0))]
    Everything(String),
    /// `*` somewhere else than before the first dot.
    #[error("{} has a `*` that is not the whole first label", quoted(.0))]
    Wildcard(String),
    /// `*.` before a public suffix, below which anybody may register a name.
    #[error("{} would admit every name below the public suffix {}", quoted(.0), quoted(.1))]
    PublicSuffixWildcard(String, String),
    /// A bare suffix such as `com`, which is no host.
    #[error("{} is a public suffix, not a host", quoted(.0))]
    PublicSuffix(String),
    /// Two dots in a row, or one in front.
    #[error("{} has an empty label", quoted(.0))]
    EmptyLabel(String),
    /// A label over 63 bytes.
    #[error("{} has a label longer than 63 bytes", quoted(.0))]
    LabelTooLong(String),
    /// A name over 253 bytes; the text is left out for its length.
    #[error("the name is {0} bytes long, and 253 is the most")]
    NameTooLong(usize),
    /// A name that IDNA refuses: broken punycode, a disallowed character, a hyphen at a label's edge.
    #[error("{} is not a valid host name (IDNA)", quoted(.0))]
    NotAName(String),
    /// An address in a decimal, octal, hexadecimal or short form, or a name that resolvers would read as one.
    #[error("{} is an address in a decimal, octal, hexadecimal or short form, which is never accepted", quoted(.0))]
    OddAddress(String),
    /// A valid IPv6 address that is not in its canonical (RFC 5952) spelling, which comes second.
    #[error("{} is not the canonical spelling of this address", quoted(.0))]
    NotCanonical(String, String),
    /// An IPv4 address inside IPv6.
    #[error("{} is or holds IPv4-mapped IPv6 addresses", quoted(.0))]
    Mapped(String),
    /// IPv6 without brackets: where the port begins would be a guess.
    #[error("{} is an IPv6 address without brackets", quoted(.0))]
    NoBrackets(String),
    /// Brackets around something else than an IPv6 address or network, or unbalanced.
    #[error("{} has brackets around something that is not an IPv6 address", quoted(.0))]
    Brackets(String),
    /// More than one colon outside brackets.
    #[error("{} has more than one port", quoted(.0))]
    TwoPorts(String),
    /// A colon, and then the end.
    #[error("nothing stands after the colon of {}", quoted(.0))]
    NoPort(String),
    /// Not a plain number from 1 to 65535.
    #[error("{} is not a port: a number from 1 to 65535 without sign or leading zero", quoted(.0))]
    BadPort(String),
    /// The length of a network is not a plain number that fits its family.
    #[error("{} is not a prefix length", quoted(.0))]
    BadPrefix(String),
    /// A network with bits set beyond its prefix; the network it lies in comes second.
    #[error("{} has bits set beyond its prefix length", quoted(.0))]
    HostBits(String, String),
    /// A network so wide that it is no enumeration any more.
    #[error("{} is too broad a network: the shortest prefix here is /{}", quoted(.0), .1)]
    TooBroad(String, u8),
    /// Loopback: inside the fence that is the sandbox's own, not the host's.
    #[error("{} is the loopback inside the fence, not a host on the network", quoted(.0))]
    Loopback(String),
    /// A wildcard or a network where one host is asked for.
    #[error("{} is more than one host", quoted(.0))]
    NotOneHost(String),
}

impl HostError {
    /// What to write instead, where that can be said.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Scheme(text) => Some(scheme_hint(text)),
            Self::Forbidden(text, _) => bare_host(text).map(|pattern| format!("write `{pattern}`")),
            Self::Everything(_) => Some("name each host, or a curated group such as `github`".to_owned()),
            Self::Wildcard(_) => Some("write `*.example.com` for the names below example.com".to_owned()),
            Self::PublicSuffixWildcard(_, suffix) => {
                Some(format!("name the part somebody owns: `*.owner.{suffix}`, or each host"))
            }
            Self::PublicSuffix(text) => Some(format!("name a host below it, such as `owner.{text}`")),
            Self::OddAddress(_) => Some("write an address as four plain decimal numbers: `192.0.2.7`".to_owned()),
            Self::NotCanonical(_, canonical) => Some(format!("write `{canonical}`")),
            Self::Mapped(_) => Some("write the IPv4 address itself: `192.0.2.7`".to_owned()),
            Self::NoBrackets(text) => bracket_hint(text),
            Self::HostBits(_, network) => Some(format!("write `{network}`")),
            Self::TooBroad(..) => Some("list the networks that are really needed".to_owned()),
            Self::Loopback(_) => {
                Some("for a service on the host's loopback list its port in `network.host_ports`".to_owned())
            }
            Self::BadPort(_) => Some("write one pattern for each port; without a port it is 80 and 443".to_owned()),
            Self::NotOneHost(_) => Some("ask for one host, such as `example.com:443`".to_owned()),
            Self::NoPort(text) => Some(no_port_hint(text)),
            Self::Empty(_)
            | Self::EmptyLabel(_)
            | Self::LabelTooLong(_)
            | Self::NameTooLong(_)
            | Self::NotAName(_)
            | Self::Brackets(_)
            | Self::TwoPorts(_)
            | Self::BadPrefix(_) => None,
        }
    }
}

/// Text as a message quotes it: escaped, and short.
fn quoted(text: &str) -> String {
    format!("{:?}", short(text))
}

/// The part of a URL that names the host.
fn authority(text: &str) -> &str {
    let authority = text.split(['/', '?', '#']).next().unwrap_or(text);
    // What stands before `@` is a login, however much it looks like a host.
    authority.rsplit('@').next().unwrap_or(authority)
}

/// The host of `user@example.com`, of `example.com/v1`, and of `git@example.com:owner/repo`, which is ssh.
fn bare_host(text: &str) -> Option<HostPattern> {
    let host = authority(text);
    let ssh = || {
        let (name, _) = host.split_once(':').filter(|_| text.contains('@'))?;
        HostPattern::parse(&format!("{name}:22")).ok()
    };
    HostPattern::parse(host).ok().or_else(ssh)
}

fn bracket_hint(text: &str) -> Option<String> {
    let address: Ipv6Addr = text.parse().ok()?;
    match HostPattern::parse(&format!("[{address}]")) {
        Ok(pattern) => Some(format!("write `{pattern}`, or `{pattern}:443` for one port")),
        Err(error) => error.hint(),
    }
}

fn no_port_hint(text: &str) -> String {
    match text.strip_suffix(':').map(HostPattern::parse) {
        Some(Ok(pattern)) => format!("write `{pattern}` for the ports 80 and 443, or one port after the colon"),
        _ => "write a port after the colon".to_owned(),
    }
}

fn scheme_hint(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let host = authority(rest);
    let port = match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => 80,
        "ssh" | "git+ssh" => 22,
        _ => 443,
    };
    [host.to_owned(), format!("{host}:{port}")]
        .into_iter()
        .filter_map(|text| HostPattern::parse(&text).ok())
        .find(|pattern| matches!(pattern.ports, Ports::One(_)))
        .map_or_else(
            || "write the host and port only: `example.com:443`".to_owned(),
            |pattern| format!("write `{pattern}`"),
        )
}
