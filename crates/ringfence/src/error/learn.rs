//! Why nothing is learned.

use ringfence_surface::AbsPath;
use ringfence_surface::learn::NotEdited;

/// Why nothing is learned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LearnFailure {
    /// A project's file that only narrows is nothing to add to.
    #[error("{path} is not trusted as it is")]
    Untrusted {
        /// Which.
        path: AbsPath,
    },
    /// The command was not run.
    #[error("the command was not run, so nothing was learned")]
    NotRun,
    /// What a run left cannot be read.
    #[error("what was learned cannot be read")]
    Unread {
        /// Why.
        source: serde_json::Error,
    },
    /// There is no fence that could be learned from.
    #[error("this project governs itself: there is no fence, and nothing is denied")]
    Ungoverned,
    /// Nobody can be asked.
    #[error("nobody can be asked before {path} is changed")]
    NobodyThere {
        /// Which.
        path: AbsPath,
    },
    /// Somebody else changed it.
    #[error("{path} was changed meanwhile")]
    Changed {
        /// Which.
        path: AbsPath,
    },
    /// The shorter text would say something else.
    #[error("{path} without what is unused would give {what} besides")]
    Widens {
        /// Which.
        path: AbsPath,
        /// What would be gained.
        what: String,
    },
    /// There is nothing to shrink.
    #[error("there is no policy file to shrink")]
    NoFile,
    /// The text cannot be changed.
    #[error("{path} cannot be changed")]
    Edit {
        /// Which.
        path: AbsPath,
        /// Why.
        source: NotEdited,
    },
}

impl LearnFailure {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Untrusted { .. } => "look at it and run `ringfence trust`, or name a file with `--policy`".to_owned(),
            Self::NobodyThere { .. } => "`--yes` changes it without a question".to_owned(),
            Self::Changed { .. } => "run it again".to_owned(),
            Self::NoFile => {
                "without a file nothing is granted but what a project needs; `ringfence init` writes one".to_owned()
            }
            Self::Widens { .. } => "write its lists plainly, one string to a line".to_owned(),
            Self::NotRun | Self::Unread { .. } | Self::Ungoverned | Self::Edit { .. } => return None,
        })
    }
}
