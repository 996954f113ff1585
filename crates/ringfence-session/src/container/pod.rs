//! A pod described and not started: what a cluster would be told, with everything guarded that is found on this machine now.
//!
//! Nothing of ours runs in it, and no session is made for it: caches and files of a session's own are not in it.

use ringfence_plan::{
    ClusterVersion, DroppedMount, FilesFrom, MountOp, NamedHosts, PodOrder, PodPlan, Programs, Withheld,
    can_mount_in_pod, guarded, pod,
};
use ringfence_surface::{AbsPath, ContainerChoice, HostFacts, Look, Role, Surface};

use super::contained::{NoContainer, Operator, image_of, programs_of, without_root};
use super::glue;
use super::image::image_name;
use crate::identity::identity;
use crate::launch::Identity;
use crate::links;
use crate::walk::{self, Hidden};

/// What is to be described.
pub struct DescribedPod<'a> {
    /// What it is called.
    pub name: &'a str,
    /// The image and the operator's mounts; the host's own programs and none where nobody says.
    pub choice: Option<&'a ContainerChoice>,
    /// What may be touched, with the mounts that say so.
    pub surface: (&'a Surface, &'a [MountOp]),
    /// On which host.
    pub facts: &'a HostFacts,
    /// The command; nothing for the image's own.
    pub command: &'a [Vec<u8>],
    /// Where the files come from.
    pub files: FilesFrom<'a>,
    /// Who holds hosts that are named.
    pub named: NamedHosts,
    /// What the cluster can do.
    pub cluster: ClusterVersion,
    /// Which kind of runtime starts it.
    pub runtime_class: Option<&'a str>,
}

/// A description.
#[derive(Debug)]
pub struct RenderedPod {
    /// The pod, with what it does not hold and does not give.
    pub plan: PodPlan,
    /// Mounts of the operator's that were left out.
    pub dropped: Vec<DroppedMount>,
    /// What is hidden although no rule denies it.
    pub hidden: Vec<Hidden>,
}

/// Describes a pod.
///
/// # Errors
/// [`NoContainer`].
pub fn render_pod(described: &DescribedPod<'_>, look: &mut dyn Look) -> Result<RenderedPod, NoContainer> {
    let DescribedPod { choice, surface: (surface, ops), facts, .. } = *described;
    let programs = programs_of(choice);
    let (ops, cached) = of_the_host(without_root(ops.to_vec()).map_err(NoContainer::Own)?);
    let walked = walk::walk(surface, facts, &ops, &facts.all_homes())?;
    let (mut findings, mut short) = links::without_links(surface, &walked.findings);
    short.extend(glue::without_proc(&mut findings));
    short.extend(walked.shortfalls);
    let mut hidden = walked.hidden;
    hidden.extend(glue::sayable(&mut findings, &ops, can_mount_in_pod));
    let operator = Operator::compose(choice, surface, facts, &ops, look)?;
    let mounts = guarded(surface, &ops, &findings);
    let image = match programs {
        Programs::Host => image_name(&mounts),
        Programs::Image => image_of(choice).to_owned(),
    };
    let submounts: Vec<AbsPath> = facts.mounts.iter().map(|mount| mount.target.clone()).collect();
    let linked: Vec<AbsPath> = walked.linked.into_iter().chain(operator.linked).collect();
    // As for a session: where root starts it, somebody else works.
    let (Identity::Caller { uid, gid } | Identity::Other { uid, gid }) = identity(surface.root());
    let order = PodOrder {
        name: described.name,
        image: &image,
        programs,
        files: described.files,
        surface,
        mounts: &mounts,
        operator: &operator.kept,
        submounts: &submounts,
        linked: &linked,
        named: described.named,
        cluster: described.cluster,
        runtime_class: described.runtime_class,
        user: (uid, gid),
        command: described.command,
    };
    let mut plan = pod(&order, look)?;
    plan.shortfalls.splice(0..0, short);
    plan.withheld.extend(cached);
    Ok(RenderedPod { plan, dropped: operator.dropped, hidden })
}

/// Without what a session makes for itself, which no node has.
fn of_the_host(ops: Vec<MountOp>) -> (Vec<MountOp>, Vec<Withheld>) {
    let is_own = |op: &MountOp| matches!(op, MountOp::Bind { role: Role::Cache | Role::Scratch, .. });
    let (own, hosts): (Vec<_>, Vec<_>) = ops.into_iter().partition(is_own);
    let withheld = own.iter().map(|op| Withheld {
        pattern: op.destination().to_string(),
        source: "the session".to_owned(),
        reason: "a pod's caches begin empty, in its own home, and end with it",
    });
    let withheld = withheld.collect();
    (hosts, withheld)
}
