//! How a protocol spells a host: one spelling of each name and address, and nothing that two readers could take differently.
//!
//! This is not the judge of hosts. What is read here still goes through `HostTarget`, which the policy uses too. It only
//! makes sure that the text taken out of a message is the whole host and no more than the host.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest name without its trailing dot.
pub(crate) const MAX_NAME: usize = 253;

const MAX_LABEL: usize = 63;

/// A host with the port that was written after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The name in lower case without a trailing dot, or the address without brackets.
    pub name: String,
    /// The port, where one was written.
    pub port: Option<u16>,
}

/// A host name in lower case. An address is refused, and so is a trailing dot.
pub(crate) fn dns_name(text: &[u8]) -> Result<String, &'static str> {
    let name = labels(text)?;
    if ends_in_number(&name) { Err("an address where a host name belongs") } else { Ok(name) }
}

/// A host name, of which one trailing dot is dropped, or an IPv4 address with four plain decimal numbers.
pub(crate) fn host(text: &[u8]) -> Result<String, &'static str> {
    let name = labels(text.strip_suffix(b".").unwrap_or(text))?;
    // `inet_aton` reads 2130706433, 0x7f.1 and 0177.0.0.1 as addresses; the standard library reads none of them.
    let is_plain = name.len() == text.len() && name.parse::<Ipv4Addr>().is_ok();
    if ends_in_number(&name) && !is_plain { Err("an address in an odd spelling") } else { Ok(name) }
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
pub(crate) fn authority(text: &[u8]) -> Result<Authority, &'static str> {
    if let Some(rest) = text.strip_prefix(b"[") {
        let close = rest.iter().position(|byte| *byte == b']').ok_or("a bracket that is not closed")?;
        let (inside, after) = rest.split_at(close);
        let name = v6(inside)?;
        return match after.strip_prefix(b"]") {
            Some([]) => Ok(Authority { name, port: None }),
            Some([b':', digits @ ..]) => Ok(Authority { name, port: Some(port(digits)?) }),
            _ => Err("text after the bracket"),
        };
    }
    match text.iter().position(|byte| *byte == b':') {
        None => Ok(Authority { name: host(text)?, port: None }),
        Some(colon) => {
            let (name, digits) = text.split_at(colon);
            Ok(Authority { name: host(name)?, port: Some(port(digits.get(1..).unwrap_or_default())?) })
        }
    }
}

/// Digits only: `str::parse` alone would take `+80` and `080`.
pub(crate) fn plain_number(digits: &[u8]) -> Option<u64> {
    let is_plain = digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || !digits.starts_with(b"0"));
    if is_plain { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

fn port(digits: &[u8]) -> Result<u16, &'static str> {
    let number = plain_number(digits).and_then(|number| u16::try_from(number).ok());
    number.filter(|port| *port != 0).ok_or("a port that is not a number from 1 to 65535")
}

/// An IPv6 address in its one short form; the case of its letters is free.
fn v6(text: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let address: Ipv6Addr = text.parse().map_err(|_| "brackets without an IPv6 address")?;
    let canonical = address.to_string();
    if canonical.eq_ignore_ascii_case(text) { Ok(canonical) } else { Err("an address in an odd spelling") }
}

/// Letters, digits, hyphens and underscores between dots, in lower case.
fn labels(text: &[u8]) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("an empty host");
    }
    if text.len() > MAX_NAME {
        return Err("a host name that is too long");
    }
    for label in text.split(|byte| *byte == b'.') {
        if label.is_empty() {
            return Err("a host name with an empty label");
        }
        if label.len() > MAX_LABEL {
            return Err("a host name with a label that is too long");
        }
        if !label.iter().all(|byte| is_name_byte(*byte)) {
            return Err("a character that no host name has");
        }
    }
    Ok(text.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect())
}

pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Whether `inet_aton` and browsers would try to read this as an IPv4 address: the last label decides.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    match last.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ringfence_surface::HostTarget;

    use super::*;

    #[track_caller]
    fn check(text: &str, name: &str, port: Option<u16>) {
        assert_eq!(authority(text.as_bytes()), Ok(Authority { name: name.to_owned(), port }), "{text:?}");
    }

    #[track_caller]
    fn refused(text: &[u8], why: &str) {
        assert_eq!(authority(text), Err(why), "{:?}", text.escape_ascii().to_string());
    }

    #[test]
    fn one_spelling_of_each_host() {
        check("github.com", "github.com", None);
        check("GitHub.COM", "github.com", None);
        check("github.com.", "github.com", None);
        check("github.com:443", "github.com", Some(443));
        check("GITHUB.com.:8443", "github.com", Some(8443));
        check("_dmarc.a-b.example", "_dmarc.a-b.example", None);
        check("xn--bcher-kva.example", "xn--bcher-kva.example", None);
        check("gitlab", "gitlab", None);
        check("192.0.2.7", "192.0.2.7", None);
        check("192.0.2.7:80", "192.0.2.7", Some(80));
        check("[2001:db8::1]", "2001:db8::1", None);
        check("[2001:DB8::1]:65535", "2001:db8::1", Some(65535));
        check(&"a.".repeat(127), &"a.".repeat(127)[..253], None);
    }

    #[test]
    fn what_two_readers_could_take_differently_is_refused() {
        let character = "a character that no host name has";
        for text in [
            "github.com@evil.example",
            "github.com/evil.example",
            "github.com#evil.example",
            "github.com?evil.example",
            "github.com\\evil.example",
            "github.com%2eevil.example",
            "github.com evil.example",
            "github.com,evil.example",
            "github.com\0.evil.example",
            "github.com\t",
            " github.com",
            "github.com\r\nevil",
            "user:pass@evil.example",
            "*.github.com",
            "b\u{fc}cher.example",
            "github\u{3002}com",
        ] {
            let shown = if text.contains(':') { "a port that is not a number from 1 to 65535" } else { character };
            refused(text.as_bytes(), shown);
        }
        refused(b"github.com\xff", character);
        refused(b"", "an empty host");
        refused(b":80", "an empty host");
        refused(b".", "an empty host");
        refused(b"..", "a host name with an empty label");
        refused(b"github.com..", "a host name with an empty label");
        refused(b".github.com", "a host name with an empty label");
        refused(b"a..b", "a host name with an empty label");
        refused("a".repeat(64).as_bytes(), "a host name with a label that is too long");
        refused("a.".repeat(128).as_bytes(), "a host name that is too long");
        refused(format!("{}aa", "a.".repeat(126)).as_bytes(), "a host name that is too long");
    }

    #[test]
    fn addresses_in_odd_spellings_are_refused() {
        let odd = "an address in an odd spelling";
        for text in [
            "2130706433",
            "127.1",
            "127.0.1",
            "0x7f.1",
            "0x7F000001",
            "0X7f000001",
            "0x",
            "0177.0.0.1",
            "127.0.0.01",
            "1.2.3.4.",
            "1.2.3.4.5",
            "256.1.1.1",
            "example.com.1",
            "a.0x1f",
        ] {
            refused(text.as_bytes(), odd);
            refused(format!("{text}:80").as_bytes(), odd);
        }
        refused(b"[2001:0db8::1]", odd);
        refused(b"[2001:db8:0:0:0:0:0:1]", odd);
        refused(b"[::FFFF:7f00:1]", odd);
        refused(b"[fe80::1%eth0]", "brackets without an IPv6 address");
        refused(b"[fe80::1%25eth0]", "brackets without an IPv6 address");
        refused(b"[192.0.2.7]", "brackets without an IPv6 address");
        refused(b"[v1.x]", "brackets without an IPv6 address");
        refused(b"[\xff]", "brackets without an IPv6 address");
        refused(b"[]", "brackets without an IPv6 address");
        refused(b"[::1", "a bracket that is not closed");
        refused(b"[::1]x", "text after the bracket");
        refused(b"[::1].", "text after the bracket");
        refused(b"[::1]]", "text after the bracket");
        // Without brackets the first colon ends the name.
        refused(b"::1", "an empty host");
        refused(b"2001:db8::1", odd);
    }

    #[test]
    fn ports_are_plain_numbers() {
        for port in ["", "0", "+80", "080", "65536", "-1", "80 ", "0x50", "80:80", "99999999999999999999", "https"] {
            refused(format!("a.example:{port}").as_bytes(), "a port that is not a number from 1 to 65535");
            refused(format!("[::1]:{port}").as_bytes(), "a port that is not a number from 1 to 65535");
        }
        assert_eq!(plain_number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(plain_number(b"18446744073709551616"), None);
        assert_eq!(plain_number(b""), None);
    }

    #[test]
    fn a_name_is_no_address_and_has_no_dot_behind() {
        assert_eq!(dns_name(b"GitHub.com"), Ok("github.com".to_owned()));
        assert_eq!(dns_name(b"github.com."), Err("a host name with an empty label"));
        for text in ["192.0.2.7", "127.1", "0x7f.1", "1"] {
            assert_eq!(dns_name(text.as_bytes()), Err("an address where a host name belongs"), "{text}");
        }
        assert_eq!(dns_name(b"[::1]"), Err("a character that no host name has"));
        assert_eq!(dns_name(b"::1"), Err("a character that no host name has"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        /// What is taken out of a message here is what the policy's parser sees: it may refuse it, and never reads another host.
        #[test]
        fn the_policys_parser_reads_the_same_host(
            text in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "[-_.:a-cA-CxX0-9\\[\\]@/]{0,24}".prop_map(String::into_bytes),
                "([a-z0-9_-]{1,5}\\.){1,3}[a-z]{2,3}(:[0-9]{1,5})?".prop_map(String::into_bytes),
            ],
        ) {
            for read in [authority(&text).ok(), dns_name(&text).ok().map(|name| Authority { name, port: None })] {
                let Some(read) = read else { continue };
                if let Ok(target) = HostTarget::new(&read.name, read.port.unwrap_or(443)) {
                    prop_assert_eq!(target.name(), read.name);
                }
            }
        }

        #[test]
        fn hosts_read_back(name in "([a-z0-9_-]{1,9}\\.){0,3}[a-z]{2,3}", port in prop::option::of(1u16..)) {
            let text = port.map_or(name.clone(), |port| format!("{name}:{port}"));
            prop_assert_eq!(authority(text.as_bytes()), Ok(Authority { name: name.clone(), port }));
            prop_assert_eq!(dns_name(name.to_uppercase().as_bytes()), Ok(name));
        }

        #[test]
        fn addresses_read_back(v4 in any::<Ipv4Addr>(), v6 in any::<Ipv6Addr>(), port in 1u16..) {
            for text in [format!("{v4}:{port}"), format!("[{v6}]:{port}")] {
                let read = authority(text.as_bytes()).unwrap();
                prop_assert!(read.name == v4.to_string() || read.name == v6.to_string());
                prop_assert_eq!(read.port, Some(port));
            }
        }
    }
}
