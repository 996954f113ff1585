//! What a fence is built of: the rungs of a ladder, the strongest first.

use std::fmt;

use crate::container::Engine;

/// One way to build the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// Namespaces and mounts of our own, Landlock and seccomp in them.
    Native,
    /// The same mounts made by bubblewrap, for hosts that allow namespaces to it alone.
    Bwrap,
    /// Landlock and seccomp on the host's own files, where no namespaces are to be had.
    LandlockOnly,
    /// A root directory of its own that holds the tools and the work, Landlock and seccomp in it. Never fallen back to: there must
    /// be a root, and somebody must ask for it.
    Chroot,
    /// The same mounts made by Docker, with Landlock and seccomp of our own in the container.
    Docker,
    /// The same by Podman.
    Podman,
}

impl Rung {
    /// From the strongest down.
    pub const LADDER: [Self; 3] = [Self::Native, Self::Bwrap, Self::LandlockOnly];

    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::LandlockOnly => "landlock",
            Self::Chroot => "chroot",
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// Does it have a view of its own, made of mounts?
    pub fn has_view(self) -> bool {
        !matches!(self, Self::LandlockOnly | Self::Chroot)
    }

    /// Which container engine makes it, if one does?
    pub fn engine(self) -> Option<Engine> {
        match self {
            Self::Docker => Some(Engine::Docker),
            Self::Podman => Some(Engine::Podman),
            Self::Native | Self::Bwrap | Self::LandlockOnly | Self::Chroot => None,
        }
    }

    /// Is there a network of its own, with a way out through the supervisor?
    pub fn has_way_out(self) -> bool {
        matches!(self, Self::Native | Self::Docker | Self::Podman)
    }

    /// The next one down.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Native => Some(Self::Bwrap),
            Self::Bwrap => Some(Self::LandlockOnly),
            // Whoever asks for a container wants that and nothing else.
            Self::LandlockOnly | Self::Chroot | Self::Docker | Self::Podman => None,
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
