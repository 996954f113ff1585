//! What can go wrong, which exit code it has, and what the user can do about it: all in one place.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use ringfence_session::native::StartError;
use ringfence_session::start::PrepareError;
use ringfence_session::walk::WalkError;
use ringfence_surface::text::Diagnostic;
use ringfence_surface::{AbsPath, HostError, PathError, Shown};

use crate::out::say;
use crate::tell;

/// Why a command did not do its job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The policy is wrong, or it cannot be used here.
    #[error("the policy cannot be used")]
    Policy {
        /// The mistakes, each with its place where it has one.
        said: Vec<Diagnostic>,
    },
    /// The command line names a persona, a task or an agent that no file describes.
    #[error("the command line names what no policy file describes")]
    Unknown {
        /// Which.
        said: Vec<Diagnostic>,
    },
    /// The command line asks for the manual of a command that does not exist.
    #[error("there is no command `{}`", Shown(name.as_bytes()))]
    NoCommand {
        /// As typed.
        name: String,
        /// Those that exist.
        known: Vec<String>,
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
    /// A link in the place of a project's policy.
    #[error("{} is a symbolic link", Shown(path.as_os_str().as_encoded_bytes()))]
    LinkedProjectFile {
        /// Which.
        path: PathBuf,
    },
    /// Something that an untrusted project extends; its content is not shown.
    #[error("{path} is not a policy, and what is wrong with it is not shown since the project is not trusted")]
    NotAPolicy {
        /// Which.
        path: AbsPath,
    },
    /// No home directory, so no place for state.
    #[error("there is no place outside the project to keep trust in")]
    NoHome,
    /// The current directory cannot be told.
    #[error("cannot tell the current directory")]
    CurrentDirectory {
        /// Why.
        source: io::Error,
    },
    /// The current directory has a name, and whoever runs this may not go there by it.
    #[error("cannot look at the current directory, {}", Shown(dir.as_os_str().as_encoded_bytes()))]
    UnreadableDirectory {
        /// Which.
        dir: PathBuf,
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
    /// A session could not be laid out.
    #[error("cannot prepare the fence")]
    Prepare {
        /// Why.
        source: PrepareError,
    },
    /// A session could not be started.
    #[error("cannot start inside the fence")]
    Start {
        /// Why.
        source: StartError,
    },
    /// Production needs every claim.
    #[error("tier = \"production\", and not every claim holds")]
    Shortfalls {
        /// Those that do not, with the reason.
        short: Vec<String>,
    },
    /// A session that governs itself has no fence, and its other layers are not built.
    #[error("a self-governing session cannot be started yet")]
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
/// The command is there and cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The command is not there.
const NOT_FOUND: u8 = 127;
/// The command line is wrong.
const USAGE: u8 = 2;

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Start { source: StartError::NotFound { .. } } => NOT_FOUND,
            Self::Start { source: StartError::NotExecutable { .. } } => NOT_EXECUTABLE,
            Self::Prepare { source: PrepareError::NoCommand } => USAGE,
            Self::Path { .. }
            | Self::BadPath { .. }
            | Self::Host { .. }
            | Self::VariableName { .. }
            | Self::Unknown { .. }
            | Self::NoCommand { .. } => USAGE,
            _ => REFUSED,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Exists { .. } => "look at it first; `--force` replaces it".into(),
            Self::NoProjectFile { .. } => "`ringfence init` writes a starter policy".into(),
            Self::LinkedProjectFile { .. } => "copy the file there, or name the other one with `--policy`".into(),
            Self::TrustedBefore { .. } => "read what has changed, then `ringfence trust --force`".into(),
            Self::NoCommand { known, .. } => format!("the commands are {}", known.join(", ")),
            Self::UnreadableDirectory { .. } => "go to a directory that you may open by its full name".into(),
            Self::NoHome => "set HOME or XDG_STATE_HOME".into(),
            Self::Host { source } => return source.hint(),
            Self::VariableName { .. } => "name one variable: letters, digits and `_`".into(),
            Self::Prepare { source: PrepareError::NoCommand } => "name one: `ringfence run -- bash`".into(),
            Self::Start { source: StartError::Clone { .. } } => {
                "this host gives no namespaces: see docs/kernel-features.md".into()
            }
            Self::Start { source: StartError::FileSystem { kind: "proc", .. } } => {
                "a container that masks parts of /proc forbids another: start it with `--security-opt systempaths=unconfined` \
                 (docker) or `unmask=ALL` (podman)"
                    .into()
            }
            Self::Start { source: StartError::FileSystem { kind: "devpts", .. } } => {
                "this kernel has no terminals of its own for a session (CONFIG_UNIX98_PTYS), or a container forbids them".into()
            }
            Self::Start { source: StartError::Replaced { .. } }
            | Self::Prepare { source: PrepareError::Walk(WalkError::Changing { .. }) } => {
                "start it again when nothing moves files about there".into()
            }
            Self::NoBackend => {
                "`ringfence plan` shows what will be enforced, `ringfence explain` answers single questions".into()
            }
            Self::Facts { .. } => "`ringfence plan --facts` prints those of this host".into(),
            _ => return None,
        })
    }

    /// The failure as something said about a policy; itself again when it is about something else.
    pub(crate) fn into_said(self) -> Result<Vec<Diagnostic>, Self> {
        match self {
            Self::Policy { said } | Self::Unknown { said } => Ok(said),
            Self::Read { ref source, .. } => Ok(vec![Diagnostic::refusal(format!("{self}: {source}"))]),
            Self::BadPath { .. } => Ok(vec![Diagnostic::refusal(self.to_string())]),
            other => Err(other),
        }
    }

    /// Tells the user, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Policy { said } | Self::Unknown { said } => {
                tell::diagnostics(said);
                // What has no place in a file is about the command line or this host, and has said so itself.
                if said.iter().any(|diagnostic| diagnostic.place.is_some()) {
                    say(&format!("error: {self}"));
                }
            }
            _ => self.tell_causes(),
        }
        if let Some(hint) = self.hint() {
            say(&format!("\nhint: {hint}"));
        }
        ExitCode::from(self.exit_code())
    }

    fn tell_causes(&self) {
        say(&format!("error: {self}"));
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            say(&format!("caused by: {error}"));
            cause = error.source();
        }
    }
}
