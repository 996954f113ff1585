//! Why a root cannot be made, found or used.

use std::io;

use ringfence_surface::AbsPath;

use super::classes::Class;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// A name that is none.
    #[error(
        "`{name}` is no name for a root: letters, digits, `.`, `_` and `-`, at most 64, the first a letter or a digit"
    )]
    Name {
        /// As asked.
        name: String,
    },
    /// There is one of that name.
    #[error("there is a root `{name}` already")]
    Exists {
        /// Which.
        name: String,
    },
    /// There is none of that name.
    #[error("there is no root `{name}`")]
    NotFound {
        /// Which.
        name: String,
    },
    /// A class whose program is not on this host, or cannot be run.
    #[error("{class}: {program}: {why}")]
    Missing {
        /// Which class.
        class: Class,
        /// Its program.
        program: String,
        /// Why it is not to be had.
        why: String,
    },
    /// A program that is to run in it, and cannot.
    #[error("{program}: {why}")]
    Carried {
        /// Which.
        program: AbsPath,
        /// Why not.
        why: String,
    },
    /// Sessions run in it.
    #[error("root `{name}` is in use")]
    InUse {
        /// Which.
        name: String,
    },
    /// Something is mounted in it, which would be emptied with it.
    #[error("{at} is a mount")]
    Mounted {
        /// Where.
        at: AbsPath,
    },
    /// Somebody's work is in it.
    #[error("{work} is not empty")]
    Work {
        /// Where.
        work: AbsPath,
    },
    /// It is not what was made.
    #[error("root `{name}` is not as it was made: {}{}", what.join(", "), more(*more_of))]
    Changed {
        /// Which.
        name: String,
        /// The first few differences.
        what: Vec<String>,
        /// How many more there are.
        more_of: usize,
    },
    /// Its manifest is of another version, or none.
    #[error("the manifest of root `{name}` cannot be read")]
    Manifest {
        /// Which.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Something could not be read or written.
    #[error("{}", path)]
    File {
        /// Which.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
}

fn more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {count} more") }
}

impl RootError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { .. } => Some("`ringfence root list` shows them, `ringfence root create` makes one".into()),
            Self::Missing { class, program, .. } => {
                Some(format!("see to it that `{program}` runs here, or leave `{class}` out of `--with`"))
            }
            Self::InUse { .. } => Some("`ringfence ps` shows the sessions that run".into()),
            Self::Mounted { .. } => Some("unmount it first".into()),
            Self::Work { .. } => Some("move it elsewhere first, or add `--force` to remove it too".into()),
            Self::Changed { name, .. } => Some(format!(
                "make it anew: `ringfence root remove {name}`, then `ringfence root create {name} --with ..`"
            )),
            _ => None,
        }
    }
}
