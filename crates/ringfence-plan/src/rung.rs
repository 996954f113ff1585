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
    /// The fallback order, from the strongest down. The others start only if they are asked for.
    pub const LADDER: [Self; 3] = [Self::Native, Self::Bwrap, Self::LandlockOnly];

    /// All of them.
    pub const ALL: &[Self] = &[Self::Native, Self::Bwrap, Self::LandlockOnly, Self::Chroot, Self::Docker, Self::Podman];

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

    /// What it is, in a line.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Native => "all layers, set up by ringfence",
            Self::Bwrap => "the same file system, set up by bubblewrap",
            Self::LandlockOnly => "no mount namespace: names and sizes of other files are visible",
            Self::Chroot => "a root directory that holds the tools and the work",
            Self::Docker => "the same view, in a container of Docker's",
            Self::Podman => "the same view, in a container of Podman's",
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

    /// The next one of the fallback order.
    pub fn next(self) -> Option<Self> {
        let at = Self::LADDER.iter().position(|rung| *rung == self)?;
        Self::LADDER.get(at + 1).copied()
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
