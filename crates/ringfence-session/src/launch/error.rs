//! Why a command was not started, and whether another way to build the fence may succeed.

use std::io;

use rustix::io::Errno;

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Namespaces are not to be had.
    #[error("clone3(CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWNET|..)")]
    Clone {
        /// Why.
        source: io::Error,
    },
    /// A step of the new process failed.
    #[error("{step}")]
    Step {
        /// Which.
        step: String,
        /// Why.
        source: io::Error,
    },
    /// A file system that every session has of its own cannot be had.
    #[error("{step}")]
    FileSystem {
        /// Which kind.
        kind: &'static str,
        /// The whole call.
        step: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody moves things about in what is being fenced.
    #[error("{step}: something else was put there while the session started")]
    Replaced {
        /// Where.
        step: String,
    },
    /// Each call inside a fence stacks a layer, and there is no room for another.
    #[error("landlock_restrict_self: sixteen layers are stacked already")]
    TooManyLayers,
    /// Another root directory takes a right.
    #[error("chroot takes CAP_SYS_CHROOT, which you do not have")]
    NoRight,
    /// The program is not there.
    #[error("{program}: not found inside the fence")]
    NotFound {
        /// As asked.
        program: String,
    },
    /// The program cannot be executed.
    #[error("{program} cannot be executed")]
    NotExecutable {
        /// As asked.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Bubblewrap ended before it had started anything; what it said is on the error output.
    #[error("bubblewrap could not make the view")]
    Bubblewrap,
    /// The engine ended before anything of ours ran in its container.
    #[error("{engine} did not start the container: {said}")]
    Engine {
        /// Which.
        engine: &'static str,
        /// What it said.
        said: String,
    },
    /// The engine made something else than it was asked for.
    #[error("the container is not what was asked for: {what}")]
    NotAsAsked {
        /// What is different.
        what: String,
    },
    /// Something before the fork failed.
    #[error("{what}")]
    Prepare {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl StartError {
    /// May another way to build the fence succeed where this one failed?
    pub fn is_the_hosts(&self) -> bool {
        let (Self::Clone { source } | Self::Step { source, .. } | Self::FileSystem { source, .. }) = self else {
            return matches!(self, Self::Bubblewrap);
        };
        // What the kernel says where namespaces or mounts are forbidden, used up, or not built in.
        // EROFS: a read-only `/proc/sys`, as in most containers.
        // EOPNOTSUPP, EAFNOSUPPORT: no veth devices, no rtnetlink, no raw sockets.
        let denied = [
            Errno::PERM,
            Errno::ACCESS,
            Errno::NOSPC,
            Errno::USERS,
            Errno::NOSYS,
            Errno::INVAL,
            Errno::ROFS,
            Errno::OPNOTSUPP,
            Errno::AFNOSUPPORT,
        ];
        denied.iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
    }
}
