//! Which host a URL leads to, where there can be no doubt about it.
//!
//! Parsers of URLs differ over user names, backslashes, blanks and escapes in the host. What they could read differently is
//! refused: nobody needs it to fetch a page.

use ringfence_surface::HostTarget;

/// Where a URL leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leads {
    /// To one of these: the same host, at each port that a client may choose.
    To(Vec<HostTarget>),
    /// To the session's own loopback, or the host's.
    Loopback(u16),
    /// To a file.
    File(String),
}

/// Why it is not followed.
pub(crate) type Doubt = String;

pub(crate) fn leads(url: &str) -> Result<Leads, Doubt> {
    let (scheme, rest) = url.split_once("://").ok_or("it is no URL")?;
    if url.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("it holds blanks, control characters or a backslash, which parsers read differently".into());
    }
    let (scheme, end) = (scheme.to_ascii_lowercase(), rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (authority, path) = rest.split_at(end);
    let ports: &[u16] = match scheme.as_str() {
        "https" | "wss" => &[443],
        // A client may ask over TLS all the same.
        "http" | "ws" => &[80, 443],
        "ssh" => &[22],
        "git" => &[9418],
        "file" => return file(authority, path),
        other => return Err(format!("`{other}` is no scheme that is known here")),
    };
    if authority.contains('@') {
        return Err("it holds a user name, which can hide the host".into());
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let ports = match port.map(str::parse::<u16>) {
        None => ports.to_vec(),
        Some(Ok(port)) if port > 0 => vec![port],
        Some(_) => return Err("its port is none".into()),
    };
    if is_loopback(host) {
        return Ok(Leads::Loopback(ports[0]));
    }
    let target = |port: &u16| HostTarget::new(host, *port).map_err(|why| why.to_string());
    Ok(Leads::To(ports.iter().map(target).collect::<Result<_, _>>()?))
}

/// Spelled in the usual way; any other is refused for what it is.
fn is_loopback(host: &str) -> bool {
    let name = host.to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    name == "localhost"
        || name.ends_with(".localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn file(authority: &str, path: &str) -> Result<Leads, Doubt> {
    if !matches!(authority, "" | "localhost") || path.contains(['%', '?', '#']) {
        return Err("a file is named by its path, without escapes".into());
    }
    Ok(Leads::File(path.to_owned()))
}

/// Every URL in a text, as far as blanks, quotes and brackets set it off.
pub(crate) fn urls_in(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let start = rest[..at].rfind(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
        let start = start.map_or(0, |before| before + rest[before..].chars().next().map_or(1, char::len_utf8));
        let is_end = |c: char| c.is_whitespace() || "<>\"'`()[]{}|".contains(c);
        let after = at + 3;
        // Brackets may belong to an address.
        let end = match rest[after..].strip_prefix('[').and_then(|inner| inner.find(']')) {
            Some(close) => after + 1 + close,
            None => after,
        };
        let end = rest[end + usize::from(end > after)..]
            .find(is_end)
            .map_or(rest.len(), |more| end + usize::from(end > after) + more);
        found.push(rest[start..end].trim_end_matches(['.', ',', ';', ':', '!', '?']));
        rest = &rest[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: &str) {
        let got = match leads(url) {
            Err(_) => "refused".to_owned(),
            Ok(Leads::Loopback(port)) => format!("loopback {port}"),
            Ok(Leads::File(path)) => format!("file {path}"),
            Ok(Leads::To(targets)) => targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        };
        assert_eq!(got, expected, "{url}");
    }

    #[test]
    fn g5_hosts_of_urls() {
        check("https://example.com/x?y#z", "example.com:443");
        check("HTTPS://Example.COM", "example.com:443");
        check("http://example.com:8080/", "example.com:8080");
        check("http://example.com", "example.com:80 example.com:443");
        check("https://[2001:db8::1]:8443/", "[2001:db8::1]:8443");
        check("http://127.0.0.1:9/x", "loopback 9");
        check("http://localhost:3000", "loopback 3000");
        check("http://[::1]/", "loopback 80");
        check("file:///etc/passwd", "file /etc/passwd");
        check("file://localhost/etc/passwd", "file /etc/passwd");
    }

    /// Each of these leads somewhere else for one parser than for another.
    #[test]
    fn g5_urls_in_disguise() {
        for url in [
            "https://good.example@evil.example/",
            "https://good.example:443@evil.example/",
            "https://good.example\\@evil.example/",
            "https:\\\\evil.example\\",
            "https://good.example\t.evil.example/",
            "https://good.example\n/",
            "https://good.example%2eevil.example/",
            "https://ev%69l.example/",
            "https://0x7f000001/",
            "https://2130706433/",
            "https://0177.0.0.1/",
            "https://127.1/",
            "https://example.com:0/",
            "https://example.com:99999/",
            "https://example.com:80:443/",
            "https:///evil.example",
            "https://",
            "javascript:alert(1)",
            "gopher://example.com/",
            "file://server/share",
            "file:///etc/%70asswd",
            "example.com",
            " https://example.com",
        ] {
            check(url, "refused");
        }
    }

    #[test]
    fn g5_urls_in_prose() {
        let find = |text| urls_in(text).join(" | ");
        assert_eq!(find("summarise http://127.0.0.1:9/x"), "http://127.0.0.1:9/x");
        assert_eq!(
            find("see (https://a.example/x), and <HTTPS://b.example>."),
            "https://a.example/x | HTTPS://b.example"
        );
        assert_eq!(find("é:https://a.example/ü?q=1."), "https://a.example/ü?q=1");
        assert_eq!(find("http://[::1]:80/x y"), "http://[::1]:80/x");
        assert_eq!(find("no url: here"), "");
        assert_eq!(find("x://://y"), "x://://y");
    }
}
