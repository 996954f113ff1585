//! Which keys of SSH servers a user knows: as much of `known_hosts` as is about hosts that may be reached.
//!
//! The whole file would tell every machine that its owner works with. Names are kept one by one; a line whose names are hashed
//! is kept if a name that the policy spells out has that hash.

use ring::hmac;
use ringfence_surface::{HostPattern, HostTarget};

/// The port that is not written.
const SSH_PORT: u16 = 22;
/// What a hashed name begins with (HMAC-SHA1, the only kind there is).
const HASHED: &[u8] = b"|1|";
/// Lines that take trust away.
const REVOKED: &[u8] = b"@revoked";

/// Whether any of these hosts is one that SSH is spoken to: one with a port of its own.
#[must_use]
pub fn is_wanted(hosts: &[HostPattern]) -> bool {
    hosts.iter().any(is_own_port)
}

/// The lines about hosts that these patterns admit, each with the names of such hosts only.
#[must_use]
pub fn only(text: &[u8], hosts: &[HostPattern]) -> Vec<u8> {
    let spelled: Vec<String> = hosts.iter().filter(|pattern| is_own_port(pattern)).filter_map(spelled).collect();
    let mut out = Vec::new();
    for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let (marker, rest) = if line.starts_with(b"@") { word(line) } else { (&b""[..], line) };
        let (names, key) = word(rest);
        // A key that nobody may use is that for every host.
        let names = if marker == REVOKED && names == b"*" { names.to_vec() } else { admitted(names, hosts, &spelled) };
        if names.is_empty() || key.is_empty() {
            continue;
        }
        let words = [marker, &names, key];
        out.extend(words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(&b' '));
        out.push(b'\n');
    }
    out
}

/// Without a port a pattern means the web's.
fn is_own_port(pattern: &HostPattern) -> bool {
    pattern.ports().len() == 1
}

/// The host of a pattern as SSH writes it; none for one that stands for many.
fn spelled(pattern: &HostPattern) -> Option<String> {
    let target = HostTarget::parse(&pattern.to_string()).ok()?;
    let (name, port) = (target.name(), target.port());
    Some(if port == SSH_PORT { name.to_owned() } else { format!("[{name}]:{port}") })
}

/// The first word, and what follows it.
fn word(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    (word, rest.trim_ascii())
}

/// The names of one line that may be known, with commas between.
fn admitted(names: &[u8], hosts: &[HostPattern], spelled: &[String]) -> Vec<u8> {
    if names.starts_with(HASHED) {
        let meant = spelled.iter().find(|name| is_hash_of(names, name.as_bytes()));
        return meant.map(|name| name.clone().into_bytes()).unwrap_or_default();
    }
    let (taken_out, listed): (Vec<&[u8]>, Vec<&[u8]>) =
        names.split(|byte| *byte == b',').partition(|name| name.starts_with(b"!"));
    let is_out = |name: &[u8]| taken_out.iter().any(|pattern| glob(&pattern[1..], name));
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for item in listed {
        let meant = if item.iter().any(|byte| matches!(byte, b'*' | b'?')) {
            spelled.iter().map(String::as_bytes).filter(|name| glob(item, name)).collect()
        } else if target(item).is_some_and(|target| hosts.iter().any(|pattern| pattern.matches(&target))) {
            vec![item]
        } else {
            Vec::new()
        };
        for name in meant {
            if !is_out(name) && kept.iter().all(|known| known != name) {
                kept.push(name.to_vec());
            }
        }
    }
    kept.join(&b',')
}

/// `name` or `[name]:port`.
fn target(item: &[u8]) -> Option<HostTarget> {
    let text = std::str::from_utf8(item).ok()?;
    match text.strip_prefix('[').and_then(|rest| rest.rsplit_once("]:")) {
        Some((name, port)) => HostTarget::new(name, port.parse().ok()?).ok(),
        None => HostTarget::new(text, SSH_PORT).ok(),
    }
}

/// `*` stands for anything, `?` for one character; case does not count.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name, mut retry) = (0, 0, None);
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at, in_name));
                at += 1;
            }
            Some(byte) if *byte == b'?' || byte.eq_ignore_ascii_case(&name[in_name]) => {
                at += 1;
                in_name += 1;
            }
            // The last star takes one more.
            _ => match retry {
                Some((star, taken)) => {
                    retry = Some((star, taken + 1));
                    (at, in_name) = (star + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// `|1|salt|hash`, both in base 64.
fn is_hash_of(hashed: &[u8], name: &[u8]) -> bool {
    let mut parts = hashed[HASHED.len()..].split(|byte| *byte == b'|');
    let (Some(salt), Some(hash), None) = (parts.next(), parts.next(), parts.next()) else { return false };
    let (Some(salt), Some(hash)) = (decode(salt), decode(hash)) else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    hmac::verify(&key, &name.to_ascii_lowercase(), &hash).is_ok()
}

/// Base 64 with its padding.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.chunks(4) {
        let kept = four.iter().position(|byte| *byte == b'=').unwrap_or(4);
        if four.len() != 4 || kept < 2 || four[kept..].iter().any(|byte| *byte != b'=') {
            return None;
        }
        let bits = four.iter().try_fold(0_u32, |bits, byte| Some(bits << 6 | digit(*byte)?))?;
        bytes.extend(&bits.to_be_bytes()[1..kept]);
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hosts(patterns: &[&str]) -> Vec<HostPattern> {
        patterns.iter().map(|text| HostPattern::parse(text).unwrap()).collect()
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let hosts = hosts(&["github.com:22", "git.example.com:2222", "*.wild.example.org:22", "site.example.com"]);
        let kept = only(line.as_bytes(), &hosts);
        let expected = if expected.is_empty() { String::new() } else { format!("{expected}\n") };
        assert_eq!(String::from_utf8(kept).unwrap(), expected, "{line}");
    }

    #[test]
    fn names_that_may_be_reached_are_kept() {
        check("github.com ssh-ed25519 KEY", "github.com ssh-ed25519 KEY");
        check("GitHub.com ssh-ed25519 KEY", "GitHub.com ssh-ed25519 KEY");
        check("[git.example.com]:2222 ssh-rsa KEY who@where", "[git.example.com]:2222 ssh-rsa KEY who@where");
        check("a.wild.example.org\tssh-rsa  KEY", "a.wild.example.org ssh-rsa  KEY");
        check("  github.com ssh-rsa KEY\r", "github.com ssh-rsa KEY");
    }

    #[test]
    fn nothing_is_told_of_others() {
        check("build.corp.example ssh-ed25519 KEY", "");
        check("github.com,140.82.121.3,build.corp.example ssh-rsa KEY", "github.com ssh-rsa KEY");
        check("git.example.com ssh-rsa KEY", "");
        check("[github.com]:443 ssh-rsa KEY", "");
        check("site.example.com ssh-rsa KEY", "");
        check("# build.corp.example", "");
        check("", "");
        check("github.com", "");
    }

    #[test]
    fn patterns_become_the_names_they_mean() {
        check("*.com ssh-rsa KEY", "github.com ssh-rsa KEY");
        check("* ssh-rsa KEY", "github.com,[git.example.com]:2222 ssh-rsa KEY");
        check("*.com,!github.com ssh-rsa KEY", "");
        check("!git*,github.com ssh-rsa KEY", "");
        check("g?thub.com,github.com ssh-rsa KEY", "github.com ssh-rsa KEY");
        check("@cert-authority *.example,gith* ssh-rsa KEY", "@cert-authority github.com ssh-rsa KEY");
        check("@revoked * ssh-rsa KEY", "@revoked * ssh-rsa KEY");
        check("@revoked build.corp.example ssh-rsa KEY", "");
    }

    /// As `ssh-keygen -H` writes them.
    #[test]
    fn hashed_names_are_recognised() {
        let github = "|1|AAECAwQFBgcICQoLDA0ODxAREhM=|/vGHEQmgsSrggHW81/s0OAW0mAs=";
        check(&format!("{github} ssh-rsa KEY"), "github.com ssh-rsa KEY");
        let other = "|1|AAECAwQFBgcICQoLDA0ODxAREhM=|P8bgQeODILYY3OTgSIVr03wmvxA=";
        check(&format!("{other} ssh-rsa KEY"), "");
        for broken in ["|1|", "|1|AA|AA", "|1|AAAA|AAAA|AAAA", "|1|A===|AAAA", "|1|=AAA|AAAA", "|2|AAAA|AAAA"] {
            check(&format!("{broken} ssh-rsa KEY"), "");
        }
    }

    #[test]
    fn the_file_is_not_needed_for_the_web_alone() {
        assert!(!is_wanted(&hosts(&["github.com", "*.example.com"])));
        assert!(is_wanted(&hosts(&["github.com", "github.com:22"])));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        #[test]
        fn any_bytes_are_read(text in prop::collection::vec(prop::sample::select(b"@|1*?!,[]:. \tg=A\n".to_vec()), 0..80)) {
            let _ = only(&text, &hosts(&["g.g:22"]));
        }

        #[test]
        fn a_star_is_anything(name in "[a-z.]{0,9}", cut in 0usize..9) {
            let cut = cut.min(name.len());
            let pattern = format!("{}*{}", &name[..cut], &name[cut..]);
            prop_assert!(glob(pattern.as_bytes(), name.as_bytes()));
            prop_assert!(glob(b"*", name.as_bytes()));
            prop_assert!(!glob(b"?", name.as_bytes()) || name.len() == 1);
        }
    }
}
