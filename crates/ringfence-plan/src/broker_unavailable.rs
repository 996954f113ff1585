//! Why no broker carries out the calls of a session.

use crate::features::Feature;
use crate::rung::Rung;

/// Why no broker carries out the calls of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BrokerUnavailable {
    /// It runs in the namespaces of the session, and only one backend starts it there.
    #[error("only the {} backend has a process of ringfence in the mount namespace", Rung::Native)]
    Backend,
    /// The user wants none.
    #[error("the broker is switched off")]
    SwitchedOff,
    /// The kernel has no such listener.
    #[error(
        "this kernel has no seccomp listener whose calls wait through signals (Linux {} has it)",
        Feature::SeccompListener.row().since
    )]
    NoListener,
    /// A process has one listener at most.
    #[error("another seccomp listener is there already")]
    OtherListener,
    /// A copy of a process with several threads has one of them, and the locks of the others.
    #[error("it is started by a program with several threads, so the broker cannot be forked from it")]
    Threads,
}
