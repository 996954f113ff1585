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
///
/// The list of forms is closed: `https://`, `http://`, `ssh://`, `git+ssh://`, `ssh+git://`, `git://` and `file:///` in lower case, `[user@]host:path`,
/// and a path. An attacker looks for an address that this function and git, ssh or curl split differently: so a character that one of them
/// decodes or searches for (`%`, `@[`, a second `@`) is accepted only where all of them agree.
pub fn parse(address: &[u8]) -> Address {
    if address.is_empty() || address[0] == b'-' || address.iter().any(u8::is_ascii_control) {
        return Address::Malformed;
    }
    let Ok(text) = std::str::from_utf8(address) else {
        // Only a path can be written in other bytes.
        return if is_local(address) { local(address) } else { Address::Malformed };
    };
    if text.chars().any(char::is_control) {
        return Address::Malformed;
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        return url(scheme, rest);
    }
    // `git remote-NAME` is executed for `NAME::ADDRESS`, whatever the name, none included.
    let name = text.split("::").next().unwrap_or_default();
    if name.len() < text.len() && name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
        return Address::Helper;
    }
    if is_local(address) {
        return local(address);
    }
    scp_like(text)
}

/// What follows `SCHEME://`.
fn url(scheme: &str, rest: &str) -> Address {
    let (port, is_of_git) = match scheme {
        "https" => (443, false),
        "http" => (80, false),
        "ssh" | "git+ssh" | "ssh+git" => (22, true),
        "git" => (9418, true),
        // Git decodes the path, and skips a host before it.
        "file" if rest.starts_with('/') && !rest.contains('%') => return local(rest.as_bytes()),
        "file" => return Address::Malformed,
        // Git looks for a program of this name, also for the names above in upper case.
        _ => return Address::Helper,
    };
    // Without a path a relative address of a submodule would replace the host: `https://host` and `../x` are `https://x`.
    let Some((authority, path)) = rest.split_once('/') else { return Address::Malformed };
    if path.split(['?', '#']).next().unwrap_or_default().trim_matches('/').is_empty() {
        return Address::Malformed;
    }
    let (user, host) = authority.split_once('@').unwrap_or(("", authority));
    // Git decodes the whole address before it looks for the host, and takes the first `@[` for its beginning, even one in the path.
    let is_odd = is_of_git && (user.contains('%') || path.contains("@["));
    if is_odd || !is_user(user) {
        return Address::Malformed;
    }
    host_and_port(host, port)
}

/// `user@host:path`, `[host]:path`, `[host:port]:path`.
fn scp_like(text: &str) -> Address {
    let (user, after_user) = match text.split_once('@') {
        Some((user, rest)) if !user.contains(':') => (user, rest),
        _ => ("", text),
    };
    let parts = match after_user.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => after_user.split_once(':'),
    };
    let Some((host, path)) = parts else { return Address::Malformed };
    // Git takes the first `@[` for the beginning of the host, even one in the path.
    if path.is_empty() || path.contains("@[") || user.contains('%') || !is_user(user) {
        return Address::Malformed;
    }
    if host.matches(':').count() > 1 { host_of(host, 22) } else { host_and_port(host, 22) }
}

/// A name, or a name and a password: not an option of ssh, and with no second `@`, of which one program takes the first and another the last.
fn is_user(user: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+~%!$*=:".contains(c);
    !user.starts_with('-') && user.chars().all(is_plain)
}

/// A path. Git takes what begins with `~` for a home. What begins with neither `/` nor `./` nor `../` is a name of usual characters: a command line
/// is none, which a helper would execute if the remote had one.
fn local(path: &[u8]) -> Address {
    let is_usual = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+@/:#,=~".contains(byte) || *byte >= 0x80;
    let is_begun = [b"/".as_slice(), b"./", b"../"].iter().any(|start| path.starts_with(start));
    let is_path = is_begun || !matches!(path.first(), Some(b'~' | b'-')) && path.iter().all(is_usual);
    if is_path { Address::Local(path.to_vec()) } else { Address::Malformed }
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

/// `host:port`.
fn host_and_port(host: &str, default: u16) -> Address {
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
    let is_plain = |c: char| c.is_alphanumeric() || ".-_:".contains(c);
    if host.is_empty() || host.starts_with('-') || !host.chars().all(is_plain) {
        return Address::Malformed;
    }
    Address::Host { host: host.to_lowercase(), port }
}

/// The path of an address of a submodule that is relative to the address of the repository's remote, after `./` or `../`.
///
/// Git removes a part of the remote's address for each `..`, the host and the scheme too: `../../evil.example/x` of `https://host/a` is
/// `https://evil.example/x`, and with more of them `https::evil.example/x`, a helper. One `..` removes only what [`parse`] takes for granted in the path.
pub fn relative_to_remote(address: &[u8]) -> Option<Relative<'_>> {
    let is_relative = [b"./".as_slice(), b"../"].iter().any(|start| address.starts_with(start));
    if !is_relative && !matches!(address, b"." | b"..") {
        return None;
    }
    let mut names = address.split(|byte| *byte == b'/').peekable();
    let mut ups = 0;
    while let Some(name) = names.next_if(|name| matches!(*name, b"." | b"..")) {
        ups += usize::from(name == b"..");
    }
    let rest: Vec<&[u8]> = names.collect();
    // One slash at the end is usual.
    let rest = match rest.as_slice() {
        [rest @ .., b""] => rest,
        rest => rest,
    };
    let is_name = |name: &[u8]| {
        !matches!(name, b"" | b"." | b"..")
            && !name.iter().any(|byte| b":%\\".contains(byte) || byte.is_ascii_control())
    };
    let is_plain = ups <= 1 && !rest.is_empty() && rest.iter().all(|name| is_name(name));
    Some(if is_plain { Relative::Beside(rest.join(&b'/')) } else { Relative::Elsewhere(address) })
}

/// Is this an address of a submodule that can lead to another host, if it is relative to the address of a remote on one?
pub fn leads_above_remote(address: &[u8]) -> bool {
    matches!(relative_to_remote(address), Some(Relative::Elsewhere(_)))
}

/// Where an address of a submodule leads that is relative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relative<'a> {
    /// To this path at the remote, or beside it.
    Beside(Vec<u8>),
    /// Anywhere, to another host or to a helper too.
    Elsewhere(&'a [u8]),
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
        host("https://u:p%40@Example.com:8443/a", "example.com", 8443);
        host("http://example.com/a", "example.com", 80);
        host("git+ssh://example.com/~u/a", "example.com", 22);
        host("ssh://git@example.com/a", "example.com", 22);
        host("ssh://git@[::1]:2222/a", "::1", 2222);
        host("git@example.com:a/b.git", "example.com", 22);
        host("example.com:a", "example.com", 22);
        host("[example.com:2222]:a", "example.com", 2222);
        host("[::1]:a", "::1", 22);
        host("user@[::1]:a", "::1", 22);
        host("git://example.com/a", "example.com", 9418);
    }

    #[test]
    fn paths() {
        for text in ["/srv/a.git", "../a", "a", "./a:b", "a/b:c", ".", "./ext::sh", "/my r/a", "./my r"] {
            assert_eq!(parse(text.as_bytes()), Address::Local(text.as_bytes().to_vec()), "{text}");
        }
        assert_eq!(parse(b"file:///srv/a"), Address::Local(b"/srv/a".to_vec()));
    }

    #[test]
    fn programs_and_nonsense() {
        for text in [
            "ext::sh -c x",
            "foo::http://x",
            "foo://x/y",
            "fd::7",
            "persistent-https://x",
            "::x",
            "ext::",
            "https::evil.example/x",
            "a.b+c-d::x",
            "HTTPS://example.com/x",
            "FILE:///x",
            "ext://sh",
            "rsync://example.com/x",
            "ftp://example.com/x",
            "transport::https://example.com/x",
            "./x://y",
        ] {
            assert_eq!(parse(text.as_bytes()), Address::Helper, "{text}");
        }
        for text in [
            "",
            "-oProxyCommand=x",
            "-",
            "ssh://-oProxyCommand=x/y",
            "ssh://-oProxyCommand=x@example.com/y",
            "https://a b/c",
            "https://a\n/",
            "a\u{85}b",
            "sh -c touch% x",
            "sh -c touch% /tmp/x",
            "a;b",
            "$(a)/b",
            "git@-x:y",
            "ssh://[x/y",
            "http://h:x/",
            "~/x",
            "~u/x",
            "file://~/x",
            "file://host/x",
            "file:///%74mp/x",
            "file://-x",
        ] {
            assert_eq!(parse(text.as_bytes()), Address::Malformed, "{text}");
        }
        assert_eq!(parse(b"-\xff"), Address::Malformed);
        assert_eq!(parse(b"ext::\xff"), Address::Malformed);
        assert_eq!(parse(b"x\xff\n"), Address::Malformed);
        assert_eq!(parse(b"x\xff"), Address::Local(b"x\xff".to_vec()));
    }

    /// Git, ssh or curl would contact `evil.example`, or a host that is not the one before the first slash.
    #[test]
    fn a5_addresses_that_other_programs_split_differently() {
        for text in [
            "ssh://x%40evil.example%2f@example.com/y",
            "ssh://evil.example%2f@example.com/y",
            "git://evil.example%2f@example.com/y",
            "ssh://example.com%40evil.example/y",
            "https://example.com%40evil.example/y",
            "https://example.c%6fm/y",
            "example.com:a@[evil.example]:b",
            "u@example.com:a@[evil.example]:b",
            "u%@example.com:a",
            "ssh://example.com/a@[evil.example]:22/x",
            "git://example.com/a@[evil.example]:22/x",
            "ssh://a@b@example.com/x",
            "a@b@example.com:x",
            "https://evil.example\\@example.com/x",
            "https://example.com?x@evil.example/",
            "https://example.com#@evil.example/",
            "https://example.com",
            "https://example.com/",
            "https://example.com//?x",
            "example.com:",
            "[example.com]x:y",
        ] {
            assert_eq!(parse(text.as_bytes()), Address::Malformed, "{text}");
        }
    }

    /// What git makes of `../` in front of a submodule's address.
    #[test]
    fn a5_a_relative_address_of_a_submodule_stays_at_the_remotes_host() {
        for (text, rest) in [("./a.git", "a.git"), ("../a/b.git", "a/b.git"), ("../a/", "a"), ("./../a", "a")] {
            assert_eq!(relative_to_remote(text.as_bytes()), Some(Relative::Beside(rest.into())), "{text}");
        }
        for text in [
            "../../evil.example/x",
            "../../../evil.example/x",
            "./.././../evil.example/x",
            "..//evil.example/x",
            "../:evil.example/x",
            "../a/../../../evil.example/x",
            "../a%2f..%2fb",
            "../a\nb",
            "../a//b",
            "..",
            ".",
            "../",
        ] {
            assert_eq!(relative_to_remote(text.as_bytes()), Some(Relative::Elsewhere(text.as_bytes())), "{text}");
        }
        for text in ["a", "/a", "https://example.com/a", ".a/b", "..a", "host:../a"] {
            assert_eq!(relative_to_remote(text.as_bytes()), None, "{text}");
        }
    }
}
