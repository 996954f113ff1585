//! Who the payload is, for programs that look into the list of accounts and not at `HOME`: SSH and Java find their files so.
//!
//! The session has its own list: the host's, in which whoever works inside has the private home. An account that the list does
//! not have is added, since some programs refuse to run for nobody.

use ringfence_surface::AbsPath;

/// Where the list is.
pub(crate) fn list() -> AbsPath {
    AbsPath::root().join("etc/passwd")
}

/// The session's own list. None where the home cannot stand in one.
pub(crate) fn own_list(host: &[u8], (uid, gid): (u32, u32), home: &AbsPath) -> Option<Vec<u8>> {
    if home.as_bytes().iter().any(|byte| matches!(byte, b':' | b'\n')) {
        return None;
    }
    let mut out = Vec::with_capacity(host.len() + 128);
    let mut is_known = false;
    for line in host.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        if let [_, _, number, _, _, own_home, _] = fields.as_mut_slice()
            && *number == uid.to_string().as_bytes()
        {
            *own_home = home.as_bytes();
            is_known = true;
        }
        out.extend(fields.join(&b':'));
        out.push(b'\n');
    }
    if !is_known {
        let name = free_name(host);
        out.extend([name.as_bytes(), format!(":x:{uid}:{gid}::").as_bytes(), home.as_bytes(), b":/bin/sh\n"].concat());
    }
    Some(out)
}

/// A name that no account has.
fn free_name(list: &[u8]) -> String {
    let is_taken = |name: &str| {
        list.split(|byte| *byte == b'\n').any(|line| line.split(|byte| *byte == b':').next() == Some(name.as_bytes()))
    };
    let mut names = std::iter::once("agent".to_owned()).chain((1_u32..).map(|number| format!("agent{number}")));
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &[u8] = b"root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000:Ann,,,:/home/ann:/bin/bash\n+::::::\n";

    #[track_caller]
    fn check(uid: u32, expected: &str) {
        let home = AbsPath::lexical(b"/s/home").unwrap();
        let list = String::from_utf8(own_list(HOST, (uid, 7), &home).unwrap()).unwrap();
        assert!(list.starts_with("root:x:0:0:root:") && list.contains("\n+::::::\n"), "{list}");
        let line = list.lines().find(|line| line.split(':').nth(2) == Some(uid.to_string().as_str()));
        assert_eq!(line, Some(expected));
    }

    #[test]
    fn whoever_works_inside_has_the_private_home() {
        check(1000, "ann:x:1000:1000:Ann,,,:/s/home:/bin/bash");
        check(44_444, "agent:x:44444:7::/s/home:/bin/sh");
    }

    #[test]
    fn a_home_that_would_be_read_as_more_than_one_field_is_not_written() {
        for home in [&b"/a:b"[..], b"/a\nroot::0:0::/:/bin/sh"] {
            assert_eq!(own_list(HOST, (1000, 7), &AbsPath::lexical(home).unwrap()), None);
        }
    }

    #[test]
    fn the_name_is_nobody_elses() {
        assert_eq!(free_name(b"agent:x:1:1::/:/bin/sh\nagent1:x\n"), "agent2");
        assert_eq!(free_name(b""), "agent");
    }
}
