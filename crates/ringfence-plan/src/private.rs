//! The places that every session has its own of.
//!
//! Only the listed paths are such places. Any other path below one needs no mount, and a mount for it could only show the host's file of that
//! name.

use ringfence_surface::AbsPath;

/// A place that a session has its own of. There is none but those of [`PrivatePlace::at`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivatePlace {
    path: AbsPath,
    kind: PrivateKind,
}

/// What a private place is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrivateKind {
    /// `/proc`: a procfs of the session's PID namespace.
    Processes,
    /// `/tmp` and `/var/tmp`: the session's temporary directory.
    Temporary,
    /// `/dev`: a tmpfs.
    Devices,
    /// `/dev/shm`: a tmpfs.
    SharedMemory,
    /// `/dev/pts`: a devpts of its own.
    Terminals,
    /// `/dev/ptmx`: a symbolic link into `/dev/pts`.
    Multiplexer,
    /// A character device without authority, the one thing here that is the host's inode.
    CharacterDevice,
}

impl PrivatePlace {
    /// The private place at exactly this path, if there is one.
    pub fn at(path: &AbsPath) -> Option<Self> {
        let kind = match path.as_bytes() {
            b"/proc" => PrivateKind::Processes,
            b"/tmp" | b"/var/tmp" => PrivateKind::Temporary,
            b"/dev" => PrivateKind::Devices,
            b"/dev/shm" => PrivateKind::SharedMemory,
            b"/dev/pts" => PrivateKind::Terminals,
            b"/dev/ptmx" => PrivateKind::Multiplexer,
            b"/dev/full" | b"/dev/null" | b"/dev/random" | b"/dev/tty" | b"/dev/urandom" | b"/dev/zero" => {
                PrivateKind::CharacterDevice
            }
            _ => return None,
        };
        Some(Self { path: path.clone(), kind })
    }

    /// The session's own `/dev`.
    pub(crate) fn devices() -> Self {
        Self { path: AbsPath::root().join("dev"), kind: PrivateKind::Devices }
    }

    /// Where.
    pub fn path(&self) -> &AbsPath {
        &self.path
    }

    /// What it is made of.
    pub fn kind(&self) -> PrivateKind {
        self.kind
    }
}

#[cfg(test)]
mod tests {
    use ringfence_surface::curated::system::{PRIVATE_READABLE, PRIVATE_WRITABLE};

    use super::*;

    fn at(path: &[u8]) -> Option<PrivatePlace> {
        PrivatePlace::at(&AbsPath::lexical(path).unwrap())
    }

    /// H1: each row of the tables is a private place, and nothing below one is.
    #[test]
    fn h1_the_tables_and_nothing_below_them() {
        for row in PRIVATE_WRITABLE.iter().chain(PRIVATE_READABLE) {
            assert!(at(row.pattern.as_bytes()).is_some(), "{}", row.pattern);
            assert_eq!(at(format!("{}/x", row.pattern).as_bytes()), None, "{}", row.pattern);
        }
        for other in ["/", "/dev/mem", "/dev/sda", "/tmpx", "/var", "/home"] {
            assert_eq!(at(other.as_bytes()), None, "{other}");
        }
    }
}
