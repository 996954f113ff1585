//! Why a session did not start.

use std::io;

use ringfence_plan::{BrokerUnavailable, Rung};
use ringfence_surface::AbsPath;

use crate::bwrap::NoBubble;
use crate::container::NoContainer;
use crate::record::RecordError;
use crate::script::ScriptError;
use crate::sufficient::LandlockUnavailable;
use crate::walk::WalkError;

/// Why a session did not start.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The walk failed.
    #[error("cannot find what must be guarded")]
    Walk(#[from] WalkError),
    /// The repositories of the project could not be looked at.
    #[error("cannot look at the repositories of the project")]
    Git {
        /// Why.
        source: io::Error,
    },
    /// A directory of the session could not be made.
    #[error("cannot make {path}")]
    Directory {
        /// Which.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// What is looked for inside cannot be noticed here.
    #[error("nothing can be learned here: {why}")]
    NothingLearned {
        /// Why.
        why: BrokerUnavailable,
    },
    /// Only our own mounts can hold changes back.
    #[error(
        "what is written cannot wait for a review on the rung {rung}: nothing but the native fence holds that it does not land"
    )]
    NoReview {
        /// On which it was asked for.
        rung: Rung,
    },
    /// What is mounted there would not be under review.
    #[error("{point} is mounted below {path}, and what is written there cannot wait for a review")]
    MountedBelow {
        /// What would be under review.
        path: AbsPath,
        /// What is mounted in it.
        point: AbsPath,
    },
    /// No command was given.
    #[error("there is no command to run")]
    NoCommand,
    /// The command holds a NUL.
    #[error("the command holds a NUL byte")]
    Nul,
    /// There is nothing to start in.
    #[error("the working directory {path} is denied: {rule}")]
    Workdir {
        /// Which.
        path: AbsPath,
        /// By what.
        rule: String,
    },
    /// The view could not be laid out.
    #[error("cannot lay out the view")]
    Script(#[from] ScriptError),
    /// A standard stream that is refused.
    #[error("a standard stream of the caller's is refused")]
    Standard {
        /// Why.
        source: io::Error,
    },
    /// The session's home could not be filled.
    #[error("cannot write settings into the session's home")]
    Home {
        /// Why.
        source: io::Error,
    },
    /// What the session gives to the agent could not be written.
    #[error("cannot give the session what is its own")]
    Given {
        /// Why.
        source: io::Error,
    },
    /// The session's record could not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A socket in the place of one of the host's could not be made.
    #[error("cannot make a socket that leads out")]
    Socket {
        /// Why.
        source: io::Error,
    },
    /// The filter could not be made.
    #[error("cannot make the seccomp filter")]
    Filter {
        /// Why.
        source: io::Error,
    },
    /// No container can be laid out.
    #[error("cannot lay out the container")]
    Container(#[from] NoContainer),
    /// Bubblewrap cannot be used.
    #[error("cannot use bubblewrap")]
    Bwrap(#[from] NoBubble),
    /// Without namespaces everything rests on Landlock.
    #[error("this kernel has no Landlock that holds everything the receipt claims")]
    NoLandlock {
        /// Why.
        source: LandlockUnavailable,
    },
    /// A fence that is built of a root needs one, and others have none.
    #[error("there is no root to run in")]
    NoRoot,
    /// Hooks are asked inside, where ringfence is not.
    #[error("an agent's client cannot be started in a root")]
    ClientInRoot,
    /// What belongs to the session could not be put into the root.
    #[error("cannot put the session's directories into the root")]
    MoveIn {
        /// Why.
        source: io::Error,
    },
    /// A pipe could not be made.
    #[error("pipe2")]
    Pipe {
        /// Why.
        source: io::Error,
    },
}

impl PrepareError {
    /// May another way to build the fence succeed where this one failed?
    pub fn is_the_hosts(&self) -> bool {
        matches!(self, Self::Bwrap(_) | Self::NoLandlock { .. })
    }
}
