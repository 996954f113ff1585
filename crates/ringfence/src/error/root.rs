//! What can go wrong with roots.

#[cfg(target_os = "linux")]
use ringfence_session::roots::{Class, RootError};
#[cfg(target_os = "linux")]
use ringfence_surface::AbsPath;

/// What whoever may not change their root can do about it.
#[cfg(target_os = "linux")]
pub(super) const NO_RIGHT: &str =
    "give it that right, and no other: `setcap cap_sys_chroot+ep` on the ringfence program; or start as root";

/// Why a root is not made, found or used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RootFailure {
    /// It cannot be made, found or used.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Itself(#[from] RootError),
    /// A root without what it is for, or that without a root.
    #[error("a root is named by `--root NAME`, with `run --backend chroot`, `verify` or `render chroot`")]
    Alone,
    /// Calls from outside see the host's programs.
    #[cfg(target_os = "linux")]
    #[error("calls cannot be made within a session that has a root of its own")]
    Call,
    /// The root does not have the program.
    #[cfg(target_os = "linux")]
    #[error("{program}: not found inside the fence")]
    NoProgram {
        /// As asked.
        program: String,
        /// Which root.
        name: String,
        /// The classes of tools that it was made for.
        with: Vec<String>,
    },
    /// The command would work outside the root that it is to run in.
    #[cfg(target_os = "linux")]
    #[error("the policy's project {project} is not in root `{name}`")]
    Outside {
        /// Where it is.
        project: AbsPath,
        /// Which root.
        name: String,
        /// Where work belongs.
        work: AbsPath,
    },
}

impl RootFailure {
    /// Is it the command line that is wrong?
    pub(crate) fn is_usage(&self) -> bool {
        match self {
            Self::Alone => true,
            #[cfg(target_os = "linux")]
            Self::Itself(cause) => matches!(cause, RootError::Name { .. }),
            #[cfg(target_os = "linux")]
            Self::Call | Self::NoProgram { .. } | Self::Outside { .. } => false,
        }
    }

    /// What the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Alone => Some("`ringfence root create NAME --with git,shell` makes a root".into()),
            #[cfg(target_os = "linux")]
            Self::Itself(cause) => cause.hint(),
            #[cfg(target_os = "linux")]
            Self::Call => Some("start it as a session: `ringfence run --backend chroot --root NAME -- CMD`".into()),
            #[cfg(target_os = "linux")]
            Self::NoProgram { program, name, with } => Some(where_it_is(program, name, with)),
            #[cfg(target_os = "linux")]
            Self::Outside { project, work, .. } => Some(format!(
                "put the project into {work}, or below it: `git clone` it there, or let root bind it there (`mount --bind {project} \
                 {work}/NAME`) and start in that directory"
            )),
        }
    }
}

/// Which root has a program that this one has not.
#[cfg(target_os = "linux")]
fn where_it_is(program: &str, name: &str, with: &[String]) -> String {
    let file = program.rsplit('/').next().unwrap_or(program);
    match Class::having(file) {
        Some(class) if with.iter().any(|known| known == class.word()) => {
            format!(
                "it was not on this host when the root was made: `ringfence root show {name}` says what was left out"
            )
        }
        Some(class) => {
            let with: Vec<&str> = with.iter().map(String::as_str).chain([class.word()]).collect();
            format!(
                "class `{class}` has it: `ringfence root create NAME --with {}` makes a root with it",
                with.join(",")
            )
        }
        None => format!(
            "no class of tools has `{file}`: put it into the work of the root, with the libraries that it needs"
        ),
    }
}
