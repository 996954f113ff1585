//! How each layer will say the Surface: operations as data, compiled once from a [`Surface`] and the facts of a host.
//!
//! Pure, like the Surface. A layer interprets or prints these operations; none of them decides anything again. What was
//! asked ([`Claim`]) and what holds ([`Receipt`]) are different types: a claim no layer carries is a [`Shortfall`].
//!
//! Mounts and claims are compiled today; the other layers' operations arrive with their layers.

#![forbid(unsafe_code)]

mod claim;
mod guards;
mod landlock;
mod mounts;
mod seccomp;

use ringfence_surface::{HostFacts, Surface};

pub use claim::{Claim, Kept, LayerName, Receipt, ReceiptLine, Shortfall, claims};
pub use guards::{Findings, guarded};
pub use landlock::{
    Files, Ground, LandlockClaims, LandlockPlan, LandlockRule, Rights, Scope, Withheld, landlock, landlock_claims,
};
pub use mounts::{Found, MountAccess, MountOp, Skipped, Why};
pub use seccomp::{ArgTest, Errno, Fence, SyscallAction, SyscallRule, syscalls};

/// What would be enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Mounts, sorted by destination: what contains comes before what is contained.
    pub mounts: Vec<MountOp>,
    /// What the Surface names and the mounts leave out, and why.
    pub skipped: Vec<Skipped>,
}

/// Compiles the operations of every layer.
pub fn compile(surface: &Surface, facts: &HostFacts) -> Plan {
    let (mounts, skipped) = mounts::compile(surface, facts);
    Plan { mounts, skipped }
}
