//! How a case is worked on in a root, and the reasons for which something does not work there.

use crate::desk::{Desk, Who};

/// Where a case is worked on.
pub(crate) struct Place {
    /// The classes of tools that a root for it has.
    pub(crate) with: &'static str,
    /// What does not work in it.
    pub(crate) lacks: &'static [Lack],
    /// Who starts it in a root.
    pub(crate) who: &'static [Who],
    /// Where the project is in the work of a root.
    pub(crate) below: &'static str,
    /// What the user has before anything is made.
    pub(crate) before: fn(Desk) -> Desk,
}

/// An action, and why it does not work in a root.
#[derive(Clone, Copy)]
pub(crate) struct Lack(pub(crate) &'static str, pub(crate) Why);

/// Why something does not work in a root.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Why {
    /// It takes a program that is of no class.
    NoProgram(&'static str),
    /// It takes `/proc`, which takes a mount.
    NoProc,
    /// It takes a network: without a namespace every socket would be the host's.
    NoNetwork,
    /// Temporary files are the session's own, by the path that they have outside, and not at the usual one.
    OwnTemporaries,
    /// It takes a device, and whoever made the root may make none.
    NoDevice,
    /// It is about what is not to be seen beside the project in the same work; it cannot be read.
    NamesAreSeen,
    /// It is about what stays as it is below what can be written, which takes a mount; the receipt says that it is not held.
    NoProtection,
}

impl Why {
    /// What the receipt says of it.
    pub(crate) fn on_receipt(self) -> &'static str {
        match self {
            Self::NoProtection => "  NOT HELD  protect **",
            Self::NoNetwork => "  withheld  unix sockets: without namespaces ",
            Self::NoDevice => "  withheld  /dev/null: no device could be made in this root: ",
            Self::NamesAreSeen => "  NOT HELD  nothing else can be seen [seen]: names and sizes",
            Self::NoProgram(_) | Self::NoProc | Self::OwnTemporaries => "",
        }
    }

    /// Succeeds inside where the reason is true.
    pub(crate) fn shown(self) -> String {
        match self {
            Self::NoProgram(name) => format!("! command -v {name}"),
            Self::NoProc => "test ! -e /proc/self".to_owned(),
            Self::NoNetwork => {
                "! said=$({ : > /dev/tcp/127.0.0.1/1; } 2>&1) && [[ $said == *'family not supported'* ]]".to_owned()
            }
            Self::OwnTemporaries => {
                "case $TMPDIR in */sessions/*/tmp) test -w \"$TMPDIR\" ;; *) false ;; esac".to_owned()
            }
            Self::NoDevice => "test ! -e /dev/zero && test ! -c /dev/null".to_owned(),
            Self::NamesAreSeen => "test -e ../main/file && ! cat ../main/file".to_owned(),
            Self::NoProtection => "true".to_owned(),
        }
    }
}

impl Place {
    /// With these classes of tools; nothing is lacking, and both users start it.
    pub(crate) const fn with(with: &'static str) -> Self {
        Self { with, lacks: &[], who: &[Who::RootForThem, Who::Ordinary], below: "", before: |desk| desk }
    }
}
