//! `verify` as typed.

use clap::Args;

use super::PolicyArgs;

/// Try every rule for real, in every layer that this host has
///
/// A copy of the shape of what the policy speaks of is made in ringfence's own state, with canaries in it; none of your files is
/// touched. Inside each layer every rule is tried at its edges, and what comes of it is compared with what the policy says.
/// Exits with 0 when every layer does what it claims, 1 when one does not.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Try this layer only; may be given more than once
    #[arg(long = "backend", value_name = "LAYER")]
    pub(crate) layers: Vec<VerifyLayer>,
    /// Started by root: run what tries as this user (a name, or UID:GID)
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Try the chroot layer in this root of yours (`ringfence root list`); without it one is made for this
    #[arg(long, value_name = "NAME")]
    pub(crate) root: Option<String>,
    /// Show the built-in rules one by one
    #[arg(long)]
    pub(crate) all: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum VerifyLayer {
    /// Namespaces and mounts of our own, with Landlock, seccomp and the broker
    Native,
    /// The same without the broker: what the walls hold by themselves
    NoBroker,
    /// The same mounts, made by bubblewrap
    Bwrap,
    /// Landlock and seccomp on the host's own files
    Landlock,
    /// A root of its own, made for this, with Landlock and seccomp (needs CAP_SYS_CHROOT)
    Chroot,
    /// The same mounts, made by Docker
    Docker,
    /// The same mounts, made by Podman
    Podman,
    /// What an agent's client asks before each tool
    Hook,
}
