//! Addresses of repositories, as git understands them.

/// Where an address leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A path of the local file system, as written.
    Local(Vec<u8>),
    /// A host, in lower case and without its brackets, with the port if one is written.
    Host {
        /// Its name or its address.
        host: String,
        /// Of the transport, where none is written.
        port: u16,
    },
    /// `NAME::ADDRESS`, or a scheme that git does not know: git executes `git-remote-NAME`.
    Helper,
    /// Nothing that git takes, or something that another program would take for an option.
    Malformed,
}

/// Takes an address apart.
pub fn parse(address: &[u8]) -> Address {
    let Ok(text) = std::str::from_utf8(address) else {
        // Only a path can be written in other bytes.
        return if is_local(address) { Address::Local(address.to_vec()) } else { Address::Malformed };
    };
    if text.is_empty() || text.starts_with('-') || text.chars().any(char::is_control) {
        return Address::Malformed;
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let port = match scheme.to_ascii_lowercase().as_str() {
            "https" => 443,
            "http" => 80,
            "ssh" | "git+ssh" | "ssh+git" => 22,
            "git" => 9418,
            "file" => return Address::Local(rest.as_bytes().to_vec()),
            _ => return Address::Helper,
        };
        return authority(rest.split(['/', '?', '#']).next().unwrap_or_default(), port);
    }
    let helper = text.split_once("::").map(|(name, _)| name);
    if helper
        .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)))
    {
        return Address::Helper;
    }
    if is_local(address) {
        return Address::Local(address.to_vec());
    }
    // `user@host:path`, `[host]:path`, `[host:port]:path`.
    let after_user = text.split_once('@').filter(|(user, _)| !user.contains(['/', ':'])).map_or(text, |(_, rest)| rest);
    let host = match after_user.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(inner, _)| inner),
        None => after_user.split_once(':').map(|(host, _)| host),
    };
    match host {
        Some(inner) if inner.matches(':').count() > 1 => host_of(inner, 22),
        Some(inner) => authority(inner, 22),
        None => Address::Malformed,
    }
}

/// A path, unless there is a colon before the first slash.
fn is_local(address: &[u8]) -> bool {
    let colon = address.iter().position(|byte| *byte == b':');
    let slash = address.iter().position(|byte| *byte == b'/');
    match (colon, slash) {
        (None, _) => true,
        (Some(colon), Some(slash)) => slash < colon,
        (Some(_), None) => false,
    }
}

/// `user:password@host:port`.
fn authority(text: &str, default: u16) -> Address {
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    if let Some(rest) = host.strip_prefix('[') {
        let Some((inner, port)) = rest.split_once(']') else { return Address::Malformed };
        return match port.strip_prefix(':').map(str::parse) {
            Some(Ok(port)) => host_of(inner, port),
            None if port.is_empty() => host_of(inner, default),
            _ => Address::Malformed,
        };
    }
    match host.split_once(':') {
        Some((host, "")) => host_of(host, default),
        Some((host, port)) => port.parse().map_or(Address::Malformed, |port| host_of(host, port)),
        None => host_of(host, default),
    }
}

fn host_of(host: &str, port: u16) -> Address {
    let is_plain = |c: char| c.is_alphanumeric() || ".-_:%".contains(c);
    if host.is_empty() || host.starts_with('-') || !host.chars().all(is_plain) {
        return Address::Malformed;
    }
    Address::Host { host: host.to_lowercase(), port }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn host(text: &str, name: &str, port: u16) {
        assert_eq!(parse(text.as_bytes()), Address::Host { host: name.to_owned(), port }, "{text}");
    }

    #[test]
    fn hosts() {
        host("https://example.com/a.git", "example.com", 443);
        host("HTTPS://u:p@Example.com:8443/a", "example.com", 8443);
        host("http://example.com", "example.com", 80);
        host("http://a@b@example.com/x", "example.com", 80);
        host("ssh://git@example.com/a", "example.com", 22);
        host("ssh://git@[::1]:2222/a", "::1", 2222);
        host("git@example.com:a/b.git", "example.com", 22);
        host("example.com:a", "example.com", 22);
        host("[example.com:2222]:a", "example.com", 2222);
        host("[::1]:a", "::1", 22);
        host("user@[::1]:a", "::1", 22);
        host("git://example.com/a", "example.com", 9418);
        host("https://example.com?x@other.com/", "example.com", 443);
    }

    #[test]
    fn paths() {
        for text in ["/srv/a.git", "../a", "a", "./a:b", "a/b:c", "."] {
            assert_eq!(parse(text.as_bytes()), Address::Local(text.as_bytes().to_vec()), "{text}");
        }
        assert_eq!(parse(b"file:///srv/a"), Address::Local(b"/srv/a".to_vec()));
    }

    #[test]
    fn programs_and_nonsense() {
        for text in ["ext::sh -c x", "foo::http://x", "foo://x/y", "fd::7", "persistent-https://x"] {
            assert_eq!(parse(text.as_bytes()), Address::Helper, "{text}");
        }
        for text in [
            "",
            "-oProxyCommand=x",
            "ssh://-oProxyCommand=x/y",
            "https://a b/",
            "https://a\n/",
            "git@-x:y",
            "ssh://[x/y",
            "http://h:x/",
        ] {
            assert_eq!(parse(text.as_bytes()), Address::Malformed, "{text}");
        }
    }
}
