//! Paths below a root, as they are given to the kernel: no `..`, no `.`, nothing absolute.
//!
//! `a/../b` is `b` here, whatever `a` is: links are never followed, so there is nothing that a look at `a` could change. What
//! would climb above the root is refused. This is no containment; it only makes sure that policy and kernel see the same names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Escape, FileError};

/// A path below a root; empty for the root itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RelPath {
    bytes: Vec<u8>,
}

impl RelPath {
    /// Reads a path as it was given.
    ///
    /// # Errors
    /// When it is absolute, climbs above the root, or holds a zero byte.
    pub(crate) fn new(path: &Path) -> Result<Self, FileError> {
        let given = path.as_os_str().as_bytes();
        let escape = |how| FileError::PathEscape { path: path.to_owned(), how };
        if given.first() == Some(&b'/') {
            return Err(escape(Escape::Absolute));
        }
        if given.contains(&0) {
            return Err(FileError::BadPath { path: path.to_owned(), fault: "it holds a zero byte" });
        }
        let mut bytes = Vec::with_capacity(given.len());
        for name in given.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." if bytes.is_empty() => return Err(escape(Escape::Parent)),
                b".." => bytes.truncate(bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0)),
                name => {
                    if !bytes.is_empty() {
                        bytes.push(b'/');
                    }
                    bytes.extend_from_slice(name);
                }
            }
        }
        Ok(Self { bytes })
    }

    /// The names, joined by `/`; empty for the root.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_root(&self) -> bool {
        self.bytes.is_empty()
    }

    /// As the kernel takes it: the root itself is `.`.
    pub(crate) fn for_kernel(&self) -> &[u8] {
        if self.bytes.is_empty() { b"." } else { &self.bytes }
    }

    /// For messages and answers.
    pub(crate) fn to_path(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.bytes))
    }

    /// The directory it is in and its name there; nothing for the root.
    pub(crate) fn split(&self) -> Option<(Self, &[u8])> {
        if self.bytes.is_empty() {
            return None;
        }
        let slash = self.bytes.iter().rposition(|byte| *byte == b'/');
        let parent = Self { bytes: self.bytes[..slash.unwrap_or(0)].to_vec() };
        Some((parent, &self.bytes[slash.map_or(0, |slash| slash + 1)..]))
    }

    /// What stands in it under a name that a listing gave.
    pub(crate) fn join(&self, name: &[u8]) -> Self {
        let separator: &[u8] = if self.bytes.is_empty() { b"" } else { b"/" };
        Self { bytes: [&self.bytes, separator, name].concat() }
    }

    /// Each name on the way.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, expected: Result<&str, Escape>) {
        let got = match RelPath::new(Path::new(given)) {
            Ok(path) => Ok(path.bytes().to_vec()),
            Err(FileError::PathEscape { how, .. }) => Err(how),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(got, expected.map(|path| path.as_bytes().to_vec()), "{given}");
    }

    #[test]
    fn t2_paths() {
        check("a", Ok("a"));
        check("a/b", Ok("a/b"));
        check("./a//b/.", Ok("a/b"));
        check("", Ok(""));
        check(".", Ok(""));
        check("a/..", Ok(""));
        check("a/../b", Ok("b"));
        check("a/b/../../c", Ok("c"));
        check("a/...", Ok("a/..."));
        check("a\nb/ ", Ok("a\nb/ "));
        check("~", Ok("~"));
        check("..", Err(Escape::Parent));
        check("a/../..", Err(Escape::Parent));
        check("a/../../a", Err(Escape::Parent));
        check("/", Err(Escape::Absolute));
        check("/a", Err(Escape::Absolute));
        check("//a", Err(Escape::Absolute));
        assert!(matches!(RelPath::new(Path::new("a\0b")), Err(FileError::BadPath { .. })));
    }

    #[test]
    fn parts() {
        let path = |text: &str| RelPath::new(Path::new(text)).unwrap();
        assert_eq!(path("a/b/c").split(), Some((path("a/b"), b"c".as_slice())));
        assert_eq!(path("a").split(), Some((path(""), b"a".as_slice())));
        assert_eq!(path("").split(), None);
        assert_eq!((path("").join(b"a"), path("a").join(b"b")), (path("a"), path("a/b")));
        assert_eq!(path("a/b").names().collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!((path("").for_kernel(), path("").names().count()), (b".".as_slice(), 0));
    }
}
