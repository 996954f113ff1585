//! How each layer will say the Surface: operations as data, compiled once from a [`Surface`] and the facts of a host.
//!
//! Pure, like the Surface. A layer interprets or prints these operations; none of them decides anything again. What was
//! asked ([`Claim`]) and what holds ([`Receipt`]) are different types: a claim no layer carries is a [`Shortfall`].
//!
//! [`compile`] makes what every fence of a session is made of: mounts, Landlock's domain, rules for system calls. What others are
//! told comes from the same Surface: container engines ([`container()`]), clusters ([`pod`]), security modules ([`apparmor()`],
//! [`selinux()`]), agents' clients ([`agent()`], [`hook`]) and the model itself ([`preamble()`]). [`verify`] says what must come of
//! trying it.

#![forbid(unsafe_code)]

mod agent;
mod apparmor;
mod broker_unavailable;
mod bwrap;
mod chroot;
mod claim;
mod complement;
mod container;
mod env;
pub mod features;
mod guards;
pub mod hook;
mod host_profile;
mod json;
mod kubernetes;
mod landlock;
mod mounts;
mod preamble;
mod private;
mod receipt;
mod rung;
mod seccomp;
mod selinux;
pub mod verify;

use ringfence_surface::{HostFacts, Surface};

pub use agent::{
    AgentFile, AgentGround, AgentPlan, ClientUser, Etc, FilePlace, HOOK_SECONDS, agent, claude, codex, gemini,
};
pub use apparmor::{apparmor, namespaces_profile};
pub use broker_unavailable::BrokerUnavailable;
pub use bwrap::{BwrapError, Places, Starter, bwrap};
pub use chroot::chroot;
pub use claim::{Claim, HOST_SOCKETS, LayerName, Shortfall};
pub use complement::{Entry, complement};
pub use container::{
    Bound, ContainerError, ContainerOrder, ContainerPlan, DroppedMount, ENGINES_OWN, Engine, EngineFacts, EngineRights,
    First, LABEL, Labels, Limited, Limits, Material, NewerAddresses, OperatorMount, Programs, Recursive, WhyDropped,
    compose, container,
};
pub use env::{env, set_inside};
pub use guards::{Findings, guarded, guarded_operator, guarded_with_broker, unseen_exceptions};
pub use host_profile::Profile;
pub use kubernetes::{
    ClusterVersion, EMPTY_FILE, FilesFrom, NEVER_DIALLED, NamedHosts, NetworkRule, NetworkRules, NodeKind, POD_HOME,
    PodError, PodMount, PodOrder, PodPlan, PodUsers, PodVolume, PodVolumeKind, Pull, ReadOnlyGoes, can_mount_in_pod,
    is_in_network, pod,
};
pub use landlock::{
    Fares, Files, Ground, LandlockPlan, LandlockRule, Rights, Scope, UNIX_SOCKETS, Withheld, fares, landlock,
};
pub use mounts::{Found, MountAccess, MountOp, Skipped, Why};
pub use preamble::preamble;
pub use private::{PrivateKind, PrivatePlace};
pub use receipt::{Kept, Lines, Receipt, ReceiptLine, Standing, claims, receipt, without_fence};
pub use rung::Rung;
pub use seccomp::{
    ArgTest, BROKERED, Errno, FIRST_JUDGED_DESCRIPTOR, Fence, JUDGED_DESCRIPTORS, LOOKED_AT, SET_IDS, SyscallAction,
    SyscallRule, brokered_with_reads, syscalls,
};
pub use selinux::selinux;

/// What would be enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Mounts, sorted by destination: what contains comes before what is contained.
    pub mounts: Vec<MountOp>,
    /// What the Surface names and the mounts leave out, and why.
    pub skipped: Vec<Skipped>,
    /// The Landlock domain: behind the mounts, or in their place.
    pub landlock: LandlockPlan,
    /// What becomes of system calls.
    pub syscalls: Vec<SyscallRule>,
}

/// Compiles the operations of every layer, for a fence built in one way. Without namespaces nothing is mounted; the mounts
/// then say what would be, and where to look for what is denied.
pub fn compile(surface: &Surface, facts: &HostFacts, rung: Rung) -> Plan {
    let (mut mounts, skipped) = mounts::compile(surface, facts);
    mounts.iter_mut().for_each(|op| guards::assert_writable(surface, op));
    let (ground, fence) = match rung {
        Rung::Native => (Ground::View, Fence::Namespaces),
        Rung::Bwrap | Rung::Docker | Rung::Podman => (Ground::ForeignView, Fence::Namespaces),
        Rung::LandlockOnly | Rung::Chroot => (Ground::Host, Fence::LandlockOnly),
    };
    Plan { mounts, skipped, landlock: landlock(surface, ground), syscalls: syscalls(fence) }
}
