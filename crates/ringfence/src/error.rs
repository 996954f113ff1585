//! What can go wrong, which exit code it has, and what the user can do about it: all in one place.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use ringfence_surface::text::Diagnostic;
use ringfence_surface::{AbsPath, HostError, PathError, Shown};

use crate::out::say;

/// Why a command did not do its job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The policy is wrong; each mistake has its place.
    #[error("the policy cannot be used")]
    Policy {
        /// The mistakes.
        said: Vec<Diagnostic>,
    },
    /// A file could not be read.
    #[error("cannot read {}", Shown(path.as_os_str().as_encoded_bytes()))]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", Shown(path.as_os_str().as_encoded_bytes()))]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Writing would replace something.
    #[error("{} exists already", Shown(path.as_os_str().as_encoded_bytes()))]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// There is no project file to trust.
    #[error("there is no ringfence.toml in {dir} or above")]
    NoProjectFile {
        /// Where the search began.
        dir: AbsPath,
    },
    /// Trusted once, and changed since.
    #[error("{path} has changed since it was trusted")]
    TrustedBefore {
        /// Which.
        path: AbsPath,
    },
    /// No home directory, so no place for state.
    #[error("there is no home directory to keep trust in")]
    NoHome,
    /// The current directory cannot be told.
    #[error("cannot tell the current directory")]
    CurrentDirectory {
        /// Why.
        source: io::Error,
    },
    /// A path on the command line.
    #[error("not a usable path")]
    Path {
        /// Why.
        source: PathError,
    },
    /// A path on the command line that leads nowhere.
    #[error("not a usable path: {reason}")]
    BadPath {
        /// Why.
        reason: String,
    },
    /// A host on the command line.
    #[error("not a usable host")]
    Host {
        /// Why.
        source: HostError,
    },
    /// Facts that were given are not facts.
    #[error("{} does not describe a host", Shown(path.as_os_str().as_encoded_bytes()))]
    Facts {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A variable's name on the command line.
    #[error("`{name}` is not the name of a variable")]
    VariableName {
        /// As typed.
        name: String,
    },
    /// Nothing here can fence a process.
    #[error("this build cannot fence a process yet, so it does not start one")]
    NoBackend,
    /// Printing failed.
    #[error("cannot print")]
    Output {
        /// Why.
        source: io::Error,
    },
    /// Printing JSON failed.
    #[error("cannot print JSON")]
    Json {
        /// Why.
        source: serde_json::Error,
    },
}

/// ringfence refused or failed; nothing was started.
pub(crate) const REFUSED: u8 = 125;
/// The command line is wrong.
const USAGE: u8 = 2;

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Path { .. } | Self::BadPath { .. } | Self::Host { .. } | Self::VariableName { .. } => USAGE,
            _ => REFUSED,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Exists { .. } => "look at it first; `--force` replaces it".into(),
            Self::NoProjectFile { .. } => "`ringfence init` writes a starter policy".into(),
            Self::TrustedBefore { .. } => "read what has changed, then `ringfence trust --force`".into(),
            Self::NoHome => "set HOME or XDG_STATE_HOME".into(),
            Self::Host { source } => return source.hint(),
            Self::VariableName { .. } => "name one variable: letters, digits and `_`".into(),
            Self::NoBackend => {
                "`ringfence plan` shows what will be enforced, `ringfence explain` answers single questions".into()
            }
            Self::Facts { .. } => "`ringfence plan --facts` prints those of this host".into(),
            _ => return None,
        })
    }

    /// Tells the user, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if let Self::Policy { said } = self {
            for diagnostic in said {
                say(&format!("{diagnostic}\n"));
            }
        }
        say(&format!("error: {self}"));
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            say(&format!("caused by: {error}"));
            cause = error.source();
        }
        if let Some(hint) = self.hint() {
            say(&format!("\nhint: {hint}"));
        }
        ExitCode::from(self.exit_code())
    }
}
