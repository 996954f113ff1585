//! Where a rule came from, so that `explain` can say it.

use std::fmt;

use crate::text::Place;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In a policy file.
    File(Place),
    /// In a built-in table.
    Table {
        /// The table.
        name: &'static str,
        /// Why the row is there.
        reason: &'static str,
    },
    /// By a pack.
    Pack {
        /// The pack.
        name: &'static str,
        /// Why the row is there.
        reason: &'static str,
    },
    /// On the command line.
    Flag {
        /// The flag, with its dashes.
        name: &'static str,
    },
    /// What holds when nobody says otherwise.
    Default {
        /// In words.
        reason: &'static str,
    },
    /// Read off the host: a repository's real git directory, the session's own directories.
    Host {
        /// In words.
        reason: &'static str,
    },
    /// By whoever narrowed the Surface for one call.
    Call,
    /// Git executes or reads it because of a setting.
    Git {
        /// The setting, and the file that it is in.
        setting: String,
    },
}

impl Source {
    /// Did a person write it for this run, rather than ringfence bring it along?
    pub fn is_written(&self) -> bool {
        matches!(self, Self::File(_) | Self::Flag { .. } | Self::Call)
    }

    /// Where in a file it stands.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::File(place) => Some(place),
            _ => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(place) => write!(f, "{place}"),
            Self::Table { name, reason } => write!(f, "built-in {name} set ({reason})"),
            Self::Pack { name, reason } => write!(f, "pack {name} ({reason})"),
            Self::Flag { name } => write!(f, "flag {name}"),
            Self::Default { reason } => write!(f, "default ({reason})"),
            Self::Host { reason } => write!(f, "this host ({reason})"),
            Self::Call => f.write_str("this call's own policy"),
            Self::Git { setting } => write!(f, "run by git: {setting}"),
        }
    }
}
