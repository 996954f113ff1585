//! Paths of entries in an index or a tree: which of them git could check out into a git directory, or outside the work tree.
//!
//! Git has the same check (`verify_path`) and applies it when an entry is made, not when an index is read. An attacker writes the index
//! file itself. The check here takes every file system into account, whatever `core.protectHFS` and `core.protectNTFS` say: a
//! repository made on Linux is cloned on macOS and Windows.

/// Longer than what any system opens. Paths of version 4 of the index grow with each entry; this bounds their memory.
pub const LONGEST: usize = 4096;

/// Why a path is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It has no bytes, starts or ends with a slash, or has two in a row.
    #[error("a part of the path is empty")]
    EmptyPart,
    /// A part is `.` or `..`, on some file system.
    #[error("a part of the path is `.` or `..`")]
    Dots,
    /// A part is `.git`, on some file system.
    #[error("a part of the path is `.git`, or another spelling of it")]
    GitDirectory,
    /// A symbolic link has the name of a file that git itself reads.
    #[error("`.gitmodules` is a symbolic link")]
    GitModulesLink,
    /// It contains a byte 0.
    #[error("the path contains a byte 0")]
    Nul,
    /// It has more than [`LONGEST`] bytes.
    #[error("the path has more than {LONGEST} bytes")]
    Long,
}

/// Checks the path of a file.
///
/// A backslash is an ordinary byte on Linux, where systemd's own repository uses it, and separates parts on Windows. So it does not
/// make a path wrong, and what stands around it may not be `.git`, `.` or `..` either.
///
/// # Errors
/// [`Fault`]: the first that is found.
pub fn verify(path: &[u8]) -> Result<(), Fault> {
    if path.len() > LONGEST {
        return Err(Fault::Long);
    }
    if path.contains(&0) {
        return Err(Fault::Nul);
    }
    path.split(|byte| *byte == b'/').try_for_each(|part| {
        if part.is_empty() {
            return Err(Fault::EmptyPart);
        }
        part.split(|byte| *byte == b'\\').try_for_each(verify_part)
    })
}

/// Checks the path of a symbolic link: as [`verify`], and it is not `.gitmodules`, which git would read through the link.
///
/// # Errors
/// [`Fault`]: the first that is found.
pub fn verify_link(path: &[u8]) -> Result<(), Fault> {
    verify(path)?;
    let is_modules = |part: &[u8]| {
        let name = without_ignored(part);
        let short = strip_prefix_ignoring_case(&name, b"gitmod").and_then(strip_tilde_number);
        let other_short = strip_prefix_ignoring_case(&name, b"gi7eba").and_then(strip_tilde_number);
        let rest = strip_prefix_ignoring_case(&name, b".gitmodules").or(short).or(other_short);
        rest.is_some_and(is_cut_off)
    };
    // Each part, not only the last: Windows ends a name at a colon, and git looks at all of them too.
    if path.split(|byte| matches!(byte, b'/' | b'\\')).any(is_modules) {
        return Err(Fault::GitModulesLink);
    }
    Ok(())
}

fn verify_part(part: &[u8]) -> Result<(), Fault> {
    // Most names begin with none of these, which settles it. 0xe2 and 0xef begin the code points that HFS+ ignores.
    if !matches!(part.first(), Some(b'.' | b'g' | b'G' | 0xe2 | 0xef)) {
        return Ok(());
    }
    let name = without_ignored(part);
    if matches!(name.as_slice(), b"." | b"..") {
        return Err(Fault::Dots);
    }
    let short = || strip_prefix_ignoring_case(&name, b"git").and_then(strip_tilde_number);
    let rest = strip_prefix_ignoring_case(&name, b".git").or_else(short);
    if rest.is_some_and(is_cut_off) { Err(Fault::GitDirectory) } else { Ok(()) }
}

/// HFS+ ignores these code points in a name. Bytes that are not UTF-8 end it, as they do for git.
fn without_ignored(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_vec();
    }
    let text = match std::str::from_utf8(name) {
        Ok(text) => text,
        Err(cause) => std::str::from_utf8(&name[..cause.valid_up_to()]).unwrap_or_default(),
    };
    let is_ignored = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    text.chars().filter(|c| !is_ignored(c)).collect::<String>().into_bytes()
}

fn strip_prefix_ignoring_case<'n>(name: &'n [u8], prefix: &[u8]) -> Option<&'n [u8]> {
    let (front, rest) = name.split_at_checked(prefix.len())?;
    front.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The end of a short name on NTFS: `~1`.
fn strip_tilde_number(rest: &[u8]) -> Option<&[u8]> {
    let rest = rest.strip_prefix(b"~")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &rest[digits..])
}

/// Whether NTFS drops all that follows a name: dots and blanks at its end, and the name of an alternate data stream.
fn is_cut_off(rest: &[u8]) -> bool {
    let name = rest.split(|byte| *byte == b':').next().unwrap_or_default();
    name.iter().all(|byte| matches!(byte, b'.' | b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: impl AsRef<[u8]>, expected: Result<(), Fault>) {
        let path = path.as_ref();
        assert_eq!(verify(path), expected, "{}", path.escape_ascii());
        assert_eq!(verify_link(path), expected, "{}", path.escape_ascii());
    }

    #[test]
    fn ordinary_paths() {
        for path in [
            "a",
            "a/b/c",
            ".gitignore",
            ".gitattributes",
            ".github/workflows/x.yml",
            "git",
            "git~",
            "git~x",
            "git~1x",
            "x.git",
            "x/.gitx",
            ".git-x",
            ". git",
            "...",
            "a/..b",
            "a b/c:d",
            "units/dev-disk\\x2d1.device",
            "-x",
            "\u{e9}\u{4e2d}",
            "line\nend",
            "HEAD",
            "gitmodules",
        ] {
            check(path, Ok(()));
        }
        check(b"\xff\xfe", Ok(()));
        check(vec![b'a'; LONGEST], Ok(()));
    }

    #[test]
    fn empty_parts() {
        for path in ["", "/", "/a", "a/", "a//b", "/etc/passwd"] {
            check(path, Err(Fault::EmptyPart));
        }
    }

    #[test]
    fn dots() {
        for path in [".", "..", "a/..", "../a", "a/./b", "a\\..\\b", "..\\a", "a/.\u{200d}.", "\u{feff}.."] {
            check(path, Err(Fault::Dots));
        }
    }

    #[test]
    fn git_directories() {
        for path in [
            ".git",
            ".GIT",
            ".gIt/config",
            "a/.git/config",
            "a/.git",
            "git~1",
            "GIT~1/config",
            "git~2",
            "git~12",
            ".git.",
            ".git ",
            ".git . .",
            ".git:x",
            ".git::$INDEX_ALLOCATION",
            ".git .::$INDEX_ALLOCATION/config",
            "git~1...",
            "git~1:x",
            "a\\.git\\config",
            ".git\\config",
            "a\\git~1",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git\u{200d}",
            ".\u{202e}G\u{206f}i\u{200f}T/config",
            ".git\u{200c}. :x",
            "g\u{200c}it~1",
        ] {
            check(path, Err(Fault::GitDirectory));
        }
        check(b".git\xff", Err(Fault::GitDirectory));
        check(b"a/.git\xe2\x80/x", Err(Fault::GitDirectory));
    }

    #[test]
    fn other_faults() {
        check("a\0b", Err(Fault::Nul));
        check(".git\0", Err(Fault::Nul));
        check(vec![b'a'; LONGEST + 1], Err(Fault::Long));
    }

    #[test]
    fn gitmodules_is_no_link() {
        for path in [
            ".gitmodules",
            ".GITMODULES",
            ".gitmodules ",
            ".gitmodules:x",
            "gitmod~1",
            "GI7EBA~1",
            ".g\u{200c}itmodules",
            "a/.gitmodules",
        ] {
            assert_eq!(verify(path.as_bytes()), Ok(()), "{path}");
            assert_eq!(verify_link(path.as_bytes()), Err(Fault::GitModulesLink), "{path}");
        }
    }

    proptest::proptest! {
        /// Whatever the spelling, a path that the file system could fold to `.git` is refused.
        #[test]
        fn every_spelling_of_git_is_refused(
            upper in proptest::collection::vec(proptest::bool::ANY, 4),
            ignored in proptest::collection::vec(proptest::sample::select(vec!["", "\u{200c}", "\u{202d}", "\u{206c}", "\u{feff}"]), 5),
            end in proptest::sample::select(vec!["", ".", " ", ". .", ":a", " ::$INDEX_ALLOCATION"]),
            front in proptest::sample::select(vec!["", "a/", "a\\", "b/c/"]),
            back in proptest::sample::select(vec!["", "/config", "\\hooks\\x"]),
        ) {
            let name: String = ".git".chars().zip(&upper).zip(&ignored).map(|((c, upper), ignored)| {
                format!("{ignored}{}", if *upper { c.to_ascii_uppercase() } else { c })
            }).collect();
            let path = format!("{front}{name}{}{end}{back}", ignored[4]);
            proptest::prop_assert_eq!(verify(path.as_bytes()), Err(Fault::GitDirectory));
        }

        /// A path of which every part is accepted is accepted, and the reverse.
        #[test]
        fn parts_are_judged_one_by_one(parts in proptest::collection::vec("[.gGitT~1 :\\\\a/]{0,6}", 1..4)) {
            let each = parts.iter().all(|part| verify(part.as_bytes()).is_ok());
            proptest::prop_assert_eq!(verify(parts.join("/").as_bytes()).is_ok(), each);
        }
    }
}
