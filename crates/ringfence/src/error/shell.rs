//! What can go wrong with the user's shell.

use std::io;
use std::path::PathBuf;

use ringfence_surface::Shown;

/// Why a shell's start file is not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShellFailure {
    /// A name that no function can have.
    #[error("`{}` cannot be the name of a shell function here", Shown(name.as_bytes()))]
    Name {
        /// As typed.
        name: String,
    },
    /// There is no function for it in the block.
    #[error("`{}` is not among the programs that the shell starts fenced", Shown(name.as_bytes()))]
    NotInstalled {
        /// As typed.
        name: String,
        /// Those that are.
        names: Vec<String>,
    },
    /// `SHELL` names none that we know.
    #[error("SHELL names neither bash, zsh nor fish")]
    Unknown,
    /// No home directory.
    #[error("HOME is not an absolute path")]
    NoHome,
    /// The markers are not as they were written.
    #[error("the lines of ringfence in {} were edited at their edges", Shown(path.as_os_str().as_encoded_bytes()))]
    Block {
        /// Which file.
        path: PathBuf,
    },
    /// Nothing is written without a yes.
    #[error("there is no terminal to ask on")]
    NobodyToAsk,
    /// Where this program is cannot be found out.
    #[error("cannot read /proc/self/exe")]
    OwnPath {
        /// Why.
        source: io::Error,
    },
    /// A path that a start file cannot contain.
    #[error("{} has bytes that a shell's start file cannot contain", Shown(path.as_os_str().as_encoded_bytes()))]
    PathAsText {
        /// Where this program is.
        path: PathBuf,
    },
}

impl ShellFailure {
    /// Is it the command line that is wrong?
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Name { .. } | Self::NotInstalled { .. } | Self::Unknown)
    }

    pub(super) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Name { .. } => "letters, digits, `-`, `_` and `.`, and no word of the shell's own".into(),
            Self::NotInstalled { names, .. } => format!("those are: {}", names.join(", ")),
            Self::Unknown => "name it: `--shell bash`, `--shell zsh` or `--shell fish`".into(),
            Self::Block { .. } => "take them out by hand, from `# >>> ringfence` to `# <<< ringfence`".into(),
            Self::NobodyToAsk => "`--yes` writes the lines that are shown".into(),
            Self::PathAsText { .. } => "put ringfence on PATH: then the lines name it without its directory".into(),
            Self::NoHome | Self::OwnPath { .. } => return None,
        })
    }
}
