//! What a pod does not hold, claim by claim, and what it does not give.

use ringfence_surface::policy::View;

use super::{ClusterVersion, FilesFrom, NamedHosts, PodOrder};
use crate::claim::{Claim, LayerName, Shortfall};
use crate::landlock::Withheld;
use crate::mounts::MountOp;
use crate::receipt::whole_claims;

pub(super) fn shortfalls(order: &PodOrder<'_>) -> Vec<Shortfall> {
    let claims = whole_claims(order.surface).into_iter();
    let linked = order.linked.iter().map(|path| Claim::OneName { path: path.to_string() });
    let short = |claim: Claim| {
        let reason = why_not(&claim, order)?.to_owned();
        Some(Shortfall { claim, layer: LayerName::Kubernetes, reason })
    };
    claims.chain(linked).filter_map(short).collect()
}

/// Why a claim does not hold; nothing where it does.
fn why_not(claim: &Claim, order: &PodOrder<'_>) -> Option<&'static str> {
    let is_node = order.files == FilesFrom::Node;
    let is_guard = |op: &MountOp| matches!(op, MountOp::Mask { .. } | MountOp::Freeze { .. } | MountOp::Hollow { .. });
    match claim {
        // The pod has a root of its own, and in it only what is mounted and what is the image's.
        Claim::NothingElseIsReadable
        | Claim::MetadataStays
        | Claim::DeniedNames
        // Process, network and interprocess namespaces are the pod's, and end with it.
        | Claim::NobodyElseIsSeen
        | Claim::OutsidersOutOfReach
        | Claim::TreeEndsWithSession
        // No capability, none to be gained, and the runtime's own filter.
        | Claim::FenceStays
        // The kubelet counts both.
        | Claim::Memory { .. }
        | Claim::Time { .. }
        // What was found is guarded; what was not is said of names that appear later.
        | Claim::Denied { .. }
        | Claim::Protected { .. } => None,
        Claim::NothingElseIsSeen => Some("/proc and /sys tell of the node, as in every pod"),
        Claim::NothingElseIsWritable if order.cluster >= ClusterVersion::RECURSIVE => None,
        Claim::NothingElseIsWritable => {
            Some("before Kubernetes 1.31 read-only does not go down to what is mounted below; what this machine has \
                  there is mounted by itself, and what a node has is not known")
        }
        Claim::SecondWall => Some("nothing of ringfence's runs in a pod: what the cluster makes of it stands alone"),
        Claim::DeniedLater if is_node => Some("what exists on this machine now is hidden; what appears later is readable"),
        Claim::DeniedLater => {
            Some("what exists on this machine now is hidden on the claim; what else is there, or appears later, is readable")
        }
        Claim::ProtectedLater if is_node => {
            Some("what exists on this machine now is read-only; names that do not exist yet can be made")
        }
        Claim::ProtectedLater => {
            Some("what exists on this machine now is read-only on the claim; other names can be made and changed")
        }
        Claim::HeldWhenReplaced if order.mounts.iter().any(is_guard) => {
            Some("a guard falls off when somebody outside replaces the file")
        }
        Claim::HeldWhenReplaced => None,
        Claim::OneName { .. } => Some("it has another name (a hard link) outside what was searched, by which it is not guarded"),
        // Sockets that exist are hidden like what is denied.
        Claim::NoHostSockets => None,
        Claim::NoLaterSockets if is_node => {
            Some("what is hidden is what exists now; a socket made later on the node can be reached")
        }
        Claim::NoLaterSockets => None,
        Claim::OnlyTheseHosts { hosts } if hosts.is_empty() || order.named == NamedHosts::Withheld => {
            Some("only where the cluster's network plugin enforces policies: some take them and do nothing. Try it before \
                  the first command")
        }
        Claim::OnlyTheseHosts { .. } => {
            Some("only where Cilium enforces policies, and then by the addresses that names lead to: other names at the \
                  same addresses are reached too, and names that lead to private addresses are not refused")
        }
        Claim::CleanEnvironment => Some("the image's variables are there, and those by which the cluster names itself"),
        Claim::Processes { .. } => Some("a pod cannot limit processes; the node's kubelet can (podPidsLimit)"),
    }
}

/// What the Surface gives beside files and hosts and a pod does not.
pub(super) fn withheld(order: &PodOrder<'_>) -> Vec<Withheld> {
    let surface = order.surface;
    let mut withheld = vec![Withheld {
        pattern: "`grant`, `revoke`, `exec`, hooks and the audit".to_owned(),
        source: "every session".to_owned(),
        reason: "nothing of ringfence's runs in a pod, so nothing changes or tells while it does",
    }];
    for entry in surface.env() {
        let (pattern, source) = (entry.value.as_str().to_owned(), entry.source.to_string());
        let reason = "a value of the caller's is not written into an object that others read: take a Secret";
        withheld.push(Withheld { pattern, source, reason });
    }
    if surface.view() == View::Host && order.files != FilesFrom::Node {
        let (pattern, source) = ("view = \"host\"".to_owned(), "the policy".to_owned());
        let reason = "the rest of this machine is not on a claim";
        withheld.push(Withheld { pattern, source, reason });
    }
    withheld
}
