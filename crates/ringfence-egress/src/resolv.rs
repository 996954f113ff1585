//! The host's own answers to "who knows the name": its resolver configuration and its hosts file, as text.
//!
//! Both files are the user's, so what cannot be understood is passed over, as every resolver does.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

const DNS_PORT: u16 = 53;

/// The C library asks three servers at most, and so do we: a fourth would never have been missed.
const MAX_SERVERS: usize = 3;

/// The C library's defaults and limits, in seconds and tries.
const DEFAULT_TIMEOUT: u64 = 5;
const MAX_TIMEOUT: u64 = 30;
const DEFAULT_ATTEMPTS: u32 = 2;
const MAX_ATTEMPTS: u32 = 5;

/// Addresses of one name: more would only be tried after minutes.
const MAX_ADDRESSES: usize = 32;

/// Which servers are asked, and how patiently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// In the order of the file; never empty.
    pub servers: Vec<SocketAddr>,
    /// How long one server is waited for.
    pub timeout: Duration,
    /// How often the list is gone through.
    pub attempts: u32,
}

/// Names that this host knows by itself.
#[derive(Clone, Debug)]
pub struct Hosts {
    addresses: HashMap<String, Vec<IpAddr>>,
}

/// Reads a resolver configuration. An interface named by a scope (`fe80::1%eth0`) is not looked up.
#[must_use]
pub fn parse_resolv_conf(text: &[u8]) -> ResolvConf {
    parse_resolv_conf_with(text, |_| None)
}

/// As [`parse_resolv_conf`], with the caller's way to turn the name of an interface into its number.
#[must_use]
pub fn parse_resolv_conf_with(text: &[u8], interface: impl Fn(&str) -> Option<u32>) -> ResolvConf {
    let mut conf =
        ResolvConf { servers: Vec::new(), timeout: Duration::from_secs(DEFAULT_TIMEOUT), attempts: DEFAULT_ATTEMPTS };
    for line in lines(text) {
        let line = line.trim_start();
        if line.starts_with(['#', ';']) {
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("nameserver") if conf.servers.len() < MAX_SERVERS => {
                conf.servers.extend(words.next().and_then(|word| server(word, &interface)));
            }
            Some("options") => words.for_each(|option| set_option(&mut conf, option)),
            _ => {}
        }
    }
    if conf.servers.is_empty() {
        conf.servers.push((Ipv4Addr::LOCALHOST, DNS_PORT).into());
    }
    conf
}

/// Reads a hosts file.
#[must_use]
pub fn parse_hosts(text: &[u8]) -> Hosts {
    let mut addresses: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for line in lines(text) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(address) = words.next().and_then(|word| without_scope(word).parse::<IpAddr>().ok()) else { continue };
        for name in words {
            let known = addresses.entry(canonical(name)).or_default();
            if known.len() < MAX_ADDRESSES && !known.contains(&address) {
                known.push(address);
            }
        }
    }
    Hosts { addresses }
}

impl Hosts {
    /// The addresses of a name in the order of the file; case and one trailing dot do not matter.
    #[must_use]
    pub fn lookup(&self, name: &str) -> Vec<IpAddr> {
        self.addresses.get(&canonical(name)).cloned().unwrap_or_default()
    }
}

/// The lines that are text; a line that is not is passed over and spoils no other.
fn lines(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn without_scope(address: &str) -> &str {
    address.split_once('%').map_or(address, |(address, _)| address)
}

fn server(word: &str, interface: &impl Fn(&str) -> Option<u32>) -> Option<SocketAddr> {
    if let Some((address, scope)) = word.split_once('%') {
        let address: Ipv6Addr = address.parse().ok()?;
        // Without its interface a link-local server cannot be reached, and the error of the dial says so.
        let scope = scope.parse().ok().or_else(|| interface(scope)).unwrap_or(0);
        return Some(SocketAddrV6::new(address, DNS_PORT, 0, scope).into());
    }
    word.parse::<IpAddr>().ok().map(|address| (address, DNS_PORT).into())
}

fn set_option(conf: &mut ResolvConf, option: &str) {
    // The C library reads `timeout:` with atoi: a number that is no number is 0, and then its least.
    match option.split_once(':') {
        Some(("timeout", seconds)) => {
            conf.timeout = Duration::from_secs(number(seconds).clamp(1, MAX_TIMEOUT));
        }
        Some(("attempts", tries)) => {
            conf.attempts = u32::try_from(number(tries)).unwrap_or(MAX_ATTEMPTS).clamp(1, MAX_ATTEMPTS);
        }
        _ => {}
    }
}

/// The digits at the start; more than any limit where there are too many.
fn number(text: &str) -> u64 {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    match text.get(..end).unwrap_or_default() {
        "" => 0,
        digits => digits.parse().unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn servers(text: &str, expected: &[&str]) {
        let conf = parse_resolv_conf(text.as_bytes());
        let servers: Vec<String> = conf.servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, expected, "{text:?}");
    }

    #[track_caller]
    fn options(text: &str, seconds: u64, attempts: u32) {
        let conf = parse_resolv_conf(text.as_bytes());
        assert_eq!((conf.timeout.as_secs(), conf.attempts), (seconds, attempts), "{text:?}");
    }

    #[test]
    fn servers_in_their_order() {
        servers("nameserver 192.0.2.1\n", &["192.0.2.1:53"]);
        servers("nameserver\t192.0.2.1 # mine\r\nnameserver 2001:db8::1", &["192.0.2.1:53", "[2001:db8::1]:53"]);
        servers("  nameserver 127.0.0.53\n", &["127.0.0.53:53"]);
        servers(
            "nameserver 1.1.1.1\nnameserver 1.1.1.1\nnameserver 3.3.3.3\nnameserver 4.4.4.4\n",
            &["1.1.1.1:53", "1.1.1.1:53", "3.3.3.3:53"],
        );
    }

    #[test]
    fn without_a_server_it_is_the_local_one() {
        for text in [
            "",
            "search example.com\n",
            "#nameserver 1.1.1.1\n",
            "; nameserver 1.1.1.1\n",
            "nameserver\n",
            "nameserver dns.example\n",
            "nameserver 0x7f.1\n",
            "nameserver 1.1.1.1:53\n",
            "nameservers 1.1.1.1\n",
            "Nameserver 1.1.1.1\n",
        ] {
            servers(text, &["127.0.0.1:53"]);
        }
        assert_eq!(parse_resolv_conf(b"nameserver 1.1.1.1\xff\nnameserver 2.2.2.2").servers.len(), 1);
        assert_eq!(parse_resolv_conf(b"\xff\xfe\n").servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn scopes_are_tolerated() {
        servers("nameserver fe80::1%3\n", &["[fe80::1%3]:53"]);
        servers("nameserver fe80::1%eth0\n", &["[fe80::1]:53"]);
        servers("nameserver 1.1.1.1%eth0\n", &["127.0.0.1:53"]);
        let conf = parse_resolv_conf_with(b"nameserver fe80::1%eth0\n", |name| (name == "eth0").then_some(7));
        assert_eq!(conf.servers, ["[fe80::1%7]:53".parse().unwrap()]);
    }

    #[test]
    fn patience_has_limits() {
        options("", 5, 2);
        options("options timeout:2 attempts:3 rotate edns0\n", 2, 3);
        options("options timeout:2\noptions attempts:1\n", 2, 1);
        options("options timeout:0 attempts:0\n", 1, 1);
        options("options timeout:999 attempts:999\n", 30, 5);
        options("options timeout:99999999999999999999 attempts:99999999999999999999\n", 30, 5);
        options("options timeout:-1 attempts:x\n", 1, 1);
        options("options timeout:3s\n", 3, 2);
        options("options timeout attempts\n", 5, 2);
        options("# options timeout:1\n", 5, 2);
    }

    #[track_caller]
    fn knows(hosts: &Hosts, name: &str, expected: &[&str]) {
        let found: Vec<String> = hosts.lookup(name).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{name:?}");
    }

    #[test]
    fn names_of_the_hosts_file() {
        let hosts = parse_hosts(
            b"127.0.0.1 localhost\n::1\tlocalhost ip6-localhost\n# 9.9.9.9 git.example\n192.0.2.7 Git.Example git # mine\r\n\
              192.0.2.8 git.example\n192.0.2.7 git.example\nfe80::1%lo0 scoped\n0x7f.1 odd\nname 1.2.3.4\n192.0.2.9\n\
              192.0.2.10 dotted.example.\n\xff 1.1.1.1\n192.0.2.11 after",
        );
        knows(&hosts, "localhost", &["127.0.0.1", "::1"]);
        knows(&hosts, "IP6-LOCALHOST.", &["::1"]);
        knows(&hosts, "git.example", &["192.0.2.7", "192.0.2.8"]);
        knows(&hosts, "git", &["192.0.2.7"]);
        knows(&hosts, "scoped", &["fe80::1"]);
        knows(&hosts, "dotted.example", &["192.0.2.10"]);
        knows(&hosts, "after", &["192.0.2.11"]);
        for name in ["", ".", "odd", "mine", "#", "1.2.3.4", "name", "example", "git.example.com", "git.example.."] {
            knows(&hosts, name, &[]);
        }
    }

    #[test]
    fn one_name_has_a_bounded_number_of_addresses() {
        let text: String = (0..255).map(|last| format!("192.0.2.{last} many\n")).collect();
        assert_eq!(parse_hosts(text.as_bytes()).lookup("many").len(), MAX_ADDRESSES);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn any_bytes_are_read(
            text in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                "((nameserver|options|#|1\\.1\\.1\\.1|fe80::1%|timeout:|attempts:|[0-9]{1,20}|[ \t\r\n%:])){0,40}"
                    .prop_map(String::into_bytes),
            ],
        ) {
            let conf = parse_resolv_conf(&text);
            prop_assert!((1..=MAX_SERVERS).contains(&conf.servers.len()));
            prop_assert!((1..=MAX_TIMEOUT).contains(&conf.timeout.as_secs()));
            prop_assert!((1..=MAX_ATTEMPTS).contains(&conf.attempts));
            prop_assert!(parse_hosts(&text).lookup("localhost").len() <= MAX_ADDRESSES);
        }

        #[test]
        fn what_is_written_is_found(
            addresses in prop::collection::vec(any::<IpAddr>(), 1..4), name in "[a-z]{1,8}\\.[a-z]{2,4}",
        ) {
            let mut unique = addresses.clone();
            unique.dedup();
            let text: String = unique.iter().map(|address| format!("{address}\t{name} other\n")).collect();
            let found = parse_hosts(text.as_bytes()).lookup(&name);
            prop_assert!(unique.iter().all(|address| found.contains(address)) && found.len() <= unique.len());
            let text: String = unique.iter().map(|address| format!("nameserver {address}\n")).collect();
            let servers: Vec<IpAddr> = parse_resolv_conf(text.as_bytes()).servers.iter().map(SocketAddr::ip).collect();
            prop_assert_eq!(servers, unique);
        }
    }
}
