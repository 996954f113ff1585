//! Absolute paths as bytes, and how bytes are shown.
//!
//! A file name on Linux is any bytes but `/` and NUL. ringfence never converts a path to text and back, since a name that
//! is not UTF-8 would become another name. This room knows nothing of what exists: symbolic links are followed in `facts`.

use std::borrow::Borrow;
use std::fmt;

use crate::spelling::is_ignored;

/// The kernel's PATH_MAX; longer paths cannot be named in one call, so no rule about them could be enforced.
pub const PATH_MAX: usize = 4096;

/// An absolute path without `.`, `..`, empty components or a trailing slash.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AbsPath(Vec<u8>);

/// Why bytes are not an absolute path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin with `/`.
    #[error("{} is not absolute", Shown(path))]
    NotAbsolute {
        /// What was given.
        path: Vec<u8>,
    },
    /// A NUL byte cannot be in a path.
    #[error("{} holds a NUL byte", Shown(path))]
    Nul {
        /// What was given.
        path: Vec<u8>,
    },
    /// Longer than the kernel takes.
    #[error("a path of {length} bytes is longer than the kernel's {PATH_MAX}")]
    TooLong {
        /// How long it is.
        length: usize,
    },
}

impl AbsPath {
    /// The root directory.
    pub fn root() -> Self {
        Self(b"/".to_vec())
    }

    /// Normalises by text alone: `a/../b` is `b` even where `a` is a link. Use `HostFacts::real_path` where links matter.
    ///
    /// # Errors
    /// When the bytes are not absolute, hold a NUL or are longer than [`PATH_MAX`].
    pub fn lexical(bytes: &[u8]) -> Result<Self, PathError> {
        if bytes.first() != Some(&b'/') {
            return Err(PathError::NotAbsolute { path: bytes.to_vec() });
        }
        check_bytes(bytes)?;
        let mut path = Self::root();
        for part in bytes.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => path.pop(),
                name => path.push(name),
            }
        }
        Ok(path)
    }

    /// The bytes, as a syscall takes them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The names from the root down; none for `/`.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/').filter(|part| !part.is_empty())
    }

    /// The last name; `None` for `/`.
    pub fn file_name(&self) -> Option<&[u8]> {
        self.split_last().1
    }

    /// The directory above, as bytes, and the last name; for `/` itself and no name.
    pub fn split_last(&self) -> (&[u8], Option<&[u8]>) {
        match self.0.iter().rposition(|b| *b == b'/') {
            _ if self.is_root() => (&self.0, None),
            Some(slash) => (&self.0[..slash.max(1)], Some(&self.0[slash + 1..])),
            None => (&self.0, None),
        }
    }

    /// The directory above; `None` for `/`.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let mut up = self.clone();
        up.pop();
        Some(up)
    }

    /// This path and every directory above it, the deepest first.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }

    /// One name further down. `name` must be one component.
    pub fn child(&self, name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        let mut below = Self(bytes);
        below.push(name);
        below
    }

    /// Several names further down.
    pub fn join(&self, names: &str) -> Self {
        let mut below = self.clone();
        for name in names.split('/').filter(|n| !n.is_empty()) {
            below.push(name.as_bytes());
        }
        below
    }

    /// Is `self` the same as `base` or below it? By components: `/ab` is not below `/a`.
    pub fn is_within(&self, base: &Self) -> bool {
        base.is_root()
            || self.0.strip_prefix(base.0.as_slice()).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    }

    /// Is this `/`?
    pub fn is_root(&self) -> bool {
        self.0 == b"/"
    }

    /// The same path, with room for what will be appended.
    pub(crate) fn with_room(&self, length: usize) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + length);
        bytes.extend_from_slice(&self.0);
        Self(bytes)
    }

    /// Appends names with a slash between each; one in front does not matter.
    pub(crate) fn append(&mut self, names: &[u8]) {
        let names = names.strip_prefix(b"/").unwrap_or(names);
        if !names.is_empty() {
            if !self.is_root() {
                self.0.push(b'/');
            }
            self.0.extend_from_slice(names);
        }
    }

    /// Appends one component, which must hold no slash and not be empty, `.` or `..`.
    pub(crate) fn push(&mut self, name: &[u8]) {
        debug_assert!(!name.is_empty() && !name.contains(&b'/') && name != b"." && name != b"..");
        if !self.is_root() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name);
    }

    /// Drops the last component; the root stays the root, as in the kernel.
    pub(crate) fn pop(&mut self) {
        let cut = self.0.iter().rposition(|b| *b == b'/').unwrap_or(0);
        self.0.truncate(cut.max(1));
    }
}

/// Refuses what no path can hold.
pub(crate) fn check_bytes(bytes: &[u8]) -> Result<(), PathError> {
    if bytes.contains(&0) {
        return Err(PathError::Nul { path: bytes.to_vec() });
    }
    check_length(bytes)
}

/// Refuses what is longer than a path can be.
pub(crate) fn check_length(bytes: &[u8]) -> Result<(), PathError> {
    // The limit counts the terminating NUL.
    if bytes.len() >= PATH_MAX {
        return Err(PathError::TooLong { length: bytes.len() });
    }
    Ok(())
}

impl Borrow<[u8]> for AbsPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(&self.0).fmt(f)
    }
}

impl fmt::Debug for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Bytes made safe for a terminal: control characters, bidirectional overrides and bytes that are not UTF-8 are escaped, so
/// that a hostile file name can neither move the cursor nor look like another name.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nearly all names are plain, and there are thousands of them.
        if let (true, Ok(text)) = (self.0.iter().all(|byte| (b' '..=b'~').contains(byte)), std::str::from_utf8(self.0))
        {
            return f.write_str(text);
        }
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if is_unsafe_to_show(c) { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Bytes as one word of a command line that is printed to be typed: whatever the name, a shell reads it back. Plain names are as
/// they are, and nothing in it moves a cursor.
#[derive(Debug, Clone, Copy)]
pub struct Word<'a>(pub &'a [u8]);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = Shown(self.0).to_string();
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./=+:,@%".contains(byte);
        if !self.0.is_empty() && self.0.iter().all(is_plain) {
            return f.write_str(&shown);
        }
        if shown.as_bytes() == self.0 {
            return write!(f, "'{}'", shown.replace('\'', r"'\''"));
        }
        f.write_str("$'")?;
        for &byte in self.0 {
            match byte {
                b'\'' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..=b'~' => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_str("'")
    }
}

/// Moves a cursor, changes the direction of a text, or is invisible: two names that differ in it look alike.
fn is_unsafe_to_show(c: char) -> bool {
    let moves = matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fff9}'..='\u{fffb}');
    c.is_control() || moves || is_ignored(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &[u8], expected: &str) {
        let got = AbsPath::lexical(input).map_or_else(|e| e.to_string(), |p| p.to_string());
        assert_eq!(got, expected);
    }

    #[test]
    fn a16_what_is_invisible_or_reorders_is_escaped() {
        let hostile = "\u{1b}\u{9b}\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180e}\u{200b}\u{200f}\u{2028}\u{202e}\u{2066}\u{2069}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{1d173}\u{e0041}\u{e0100}";
        for c in hostile.chars() {
            let shown = Shown(format!("a{c}b").as_bytes()).to_string();
            assert_eq!(shown, format!("a\\u{{{:x}}}b", u32::from(c)));
        }
        let plain = "/home/é/日本/ß/\u{1f600}";
        assert_eq!(Shown(plain.as_bytes()).to_string(), plain);
    }

    #[test]
    fn a_word_is_read_back() {
        for (bytes, expected) in [
            (&b"/home/u/a-b_c.d"[..], "/home/u/a-b_c.d"),
            (b"", "''"),
            (b"/a b", "'/a b'"),
            (b"~", "'~'"),
            (b"/it's", r"'/it'\''s'"),
            (b"/$(x)`y`", "'/$(x)`y`'"),
            ("/été".as_bytes(), "'/été'"),
            (b"/a\nb", r"$'/a\x0ab'"),
            (b"/\xff'\\", r"$'/\xff\'\\'"),
            ("/\u{202e}x".as_bytes(), r"$'/\xe2\x80\xaex'"),
        ] {
            assert_eq!(Word(bytes).to_string(), expected);
        }
    }

    #[test]
    fn lexical_paths() {
        check(b"/", "/");
        check(b"//", "/");
        check(b"/a", "/a");
        check(b"/a/", "/a");
        check(b"//a///b/./c/", "/a/b/c");
        check(b"/a/../b", "/b");
        check(b"/../../b", "/b");
        check(b"/a/..", "/");
        check(b"/...", "/...");
        check(b"a/b", "a/b is not absolute");
        check(b"", " is not absolute");
        check(b"/a\0b", "/a\\u{0}b holds a NUL byte");
        check(b"/\xff\xfe", "/\\xff\\xfe");
        check(b"/a\nb", "/a\\nb");
        check(b"/\x1b[2Jx", "/\\u{1b}[2Jx");
        check("/abc\u{202e}txt".as_bytes(), "/abc\\u{202e}txt");
        check("/日本".as_bytes(), "/日本");
        check(&[b"/".as_slice(), &[b'x'; 5000]].concat(), "a path of 5001 bytes is longer than the kernel's 4096");
    }

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    #[test]
    fn within_goes_by_components() {
        for (path, base, expected) in [
            ("/a/b", "/a", true),
            ("/a", "/a", true),
            ("/ab", "/a", false),
            ("/a", "/a/b", false),
            ("/", "/", true),
            ("/x", "/", true),
            ("/", "/x", false),
        ] {
            assert_eq!(abs(path).is_within(&abs(base)), expected, "{path} in {base}");
        }
    }

    #[test]
    fn parents_end_at_the_root() {
        let all: Vec<String> = abs("/a/b").ancestors().map(|p| p.to_string()).collect();
        assert_eq!(all, ["/a/b", "/a", "/"]);
        assert_eq!(abs("/").child(b"x"), abs("/x"));
        assert_eq!(abs("/a").join("b/c"), abs("/a/b/c"));
        assert_eq!(abs("/").file_name(), None);
        assert_eq!(abs("/").split_last(), (b"/".as_slice(), None));
        assert_eq!(abs("/a").split_last(), (b"/".as_slice(), Some(b"a".as_slice())));
        assert_eq!(abs("/a/b").split_last(), (b"/a".as_slice(), Some(b"b".as_slice())));
    }
}
