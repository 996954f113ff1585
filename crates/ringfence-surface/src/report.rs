//! What was asked for and does not take part, and why. Nothing is left out in silence: `resolve` returns these beside the
//! Surface, and whoever runs it shows them.

use crate::path::{AbsPath, PathError, Shown};
use crate::source::Source;

/// Why a well-written entry does not take part on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// The variable is not set, or empty.
    #[error("${variable} is not set")]
    Unset {
        /// Its name.
        variable: &'static str,
    },
    /// A path variable that does not hold an absolute path.
    #[error("${variable} is {}, not an absolute path", Shown(value))]
    NotAbsolute {
        /// Its name.
        variable: &'static str,
        /// What it holds.
        value: Vec<u8>,
    },
    /// `USER` with a slash or dots in it would walk elsewhere.
    #[error("${variable} is {}, not a plain name", Shown(value))]
    NotAName {
        /// Its name.
        variable: &'static str,
        /// What it holds.
        value: Vec<u8>,
    },
    /// What the variables hold here makes no pattern of it.
    #[error("with the variables of this host, {rule} is not a pattern")]
    Malformed {
        /// As written.
        rule: String,
    },
    /// An exception that leads through a link: it holds as written, or not at all.
    #[error("it leads through a symbolic link to {target}, and an exception holds only as written")]
    LeadsElsewhere {
        /// Where it leads.
        target: AbsPath,
    },
    /// A toolchain's place that is a whole home, disk or project.
    #[error("it leads to {path}, which is too much for a toolchain")]
    TooBroad {
        /// Where it leads.
        path: AbsPath,
    },
    /// The path is longer than the kernel takes, or holds a NUL.
    #[error(transparent)]
    BadPath(#[from] PathError),
    /// Links that lead in a circle, or more than the kernel follows.
    #[error("{path} goes through too many symbolic links")]
    LinkLoop {
        /// The path as asked.
        path: String,
    },
    /// A link that the agent could have planted leads out of what is otherwise allowed.
    #[error("{link} is a symbolic link inside a writable directory and leads to {target}")]
    PlantedLink {
        /// The link.
        link: AbsPath,
        /// Where it leads.
        target: AbsPath,
    },
    /// What the entry asks is beyond what the level above permits.
    #[error("{limit} does not permit it")]
    BeyondCeiling {
        /// Which ceiling.
        limit: String,
    },
    /// The file that chooses the pack was not there when the user last looked: a session may have made it.
    #[error(
        "{marker} is new here since a session ran: `ringfence trust --packs` accepts the pack, `run --pack {name}` for one run"
    )]
    NewPack {
        /// The pack.
        name: &'static str,
        /// What chooses it.
        marker: &'static str,
    },
    /// Only a trusted project file may widen the fence.
    #[error("the project's file is not trusted, so it can only narrow")]
    Untrusted,
}

/// An entry that does not take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omission {
    /// The entry as it was written.
    pub entry: String,
    /// Where it was written.
    pub source: Source,
    /// Why it does not take part.
    pub why: Dropped,
}
