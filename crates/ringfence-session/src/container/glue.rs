//! What a start must know of containers: what the operator adds, what does not go along, and what an engine cannot limit.

use ringfence_plan::{
    Claim, EngineRights, Findings, Found, LayerName, Limited, MountOp, Programs, Shortfall, Why, WhyDropped, Withheld,
};
use ringfence_surface::{AbsPath, Look};

use super::contained::{NoContainer, Operator};
use super::loader::is_whole;
use crate::start::{Order, PrepareError};
use crate::walk::{Hidden, WhyHidden};

/// The operator's mounts beside a view, for a fence that is made by an engine.
pub(crate) fn operator(
    order: &Order<'_>,
    mounts: &[MountOp],
    look: &mut dyn Look,
) -> Result<Option<Operator>, PrepareError> {
    if order.rung.engine().is_none() {
        return Ok(None);
    }
    let container = order.container.ok_or(NoContainer::NoEngine)?;
    if order.client.is_some() && container.programs() == Programs::Image && !is_whole().map_err(NoContainer::Own)? {
        return Err(NoContainer::NeedsLibraries.into());
    }
    Ok(Some(Operator::compose(container.choice, order.surface, order.facts, mounts, look)?))
}

/// What is denied in `/proc`, taken out of what is guarded: an engine mounts its own, and nothing over it. Whatever only root can
/// read stays closed to whoever works inside; the rest does not, and that is said.
pub(crate) fn without_proc(findings: &mut Findings) -> Vec<Shortfall> {
    let proc = AbsPath::root().join("proc");
    let (inside, denied): (Vec<_>, Vec<_>) =
        std::mem::take(&mut findings.denied).into_iter().partition(|(path, _)| path.is_within(&proc));
    findings.denied = denied;
    findings.protected.retain(|path| !path.is_within(&proc));
    let is_open = |path: &AbsPath| rustix::fs::lstat(path.as_bytes()).is_ok_and(|status| status.st_mode & 0o004 != 0);
    let reason = "an engine mounts a /proc of its own, over which nothing can be mounted";
    let open = inside.into_iter().filter(|(path, _)| is_open(path));
    let short = open.map(|(path, _)| Shortfall {
        claim: Claim::Denied { pattern: path.to_string() },
        layer: LayerName::Mounts,
        reason: reason.to_owned(),
    });
    short.collect()
}

/// Can an engine be told of it?
pub(crate) fn can_say(path: &AbsPath) -> bool {
    std::str::from_utf8(path.as_bytes()).is_ok_and(|text| !text.contains('\r'))
}

/// What an engine can be told, of what is guarded. Where it cannot be told of a name, as of one that is not UTF-8, the closest
/// directory above that it can be told of is hidden as a whole; one that is mounted itself is not, and the start is refused.
pub(crate) fn sayable(findings: &mut Findings, mounts: &[MountOp], can_say: impl Fn(&AbsPath) -> bool) -> Vec<Hidden> {
    let is_mounted = |path: &AbsPath| mounts.iter().any(|op| op.destination().is_within(path));
    let unsayable =
        findings.denied.iter().map(|(path, _)| path).chain(&findings.protected).filter(|path| !can_say(path));
    let mut hidden: Vec<AbsPath> =
        unsayable.filter_map(|path| path.ancestors().find(&can_say).filter(|above| !is_mounted(above))).collect();
    hidden.sort();
    hidden.dedup();
    let covers = |path: &AbsPath| hidden.iter().any(|above| path.is_within(above));
    findings.denied.retain(|(path, _)| !covers(path));
    findings.protected.retain(|path| !covers(path));
    findings.denied.extend(hidden.iter().map(|path| (path.clone(), Found::Directory)));
    hidden.into_iter().map(|path| Hidden { path, why: WhyHidden::Unsayable }).collect()
}

/// What a container does not give although somebody asked for it.
pub(crate) fn withheld(order: &Order<'_>, operator: Option<&Operator>) -> Vec<Withheld> {
    let Some(operator) = operator else { return Vec::new() };
    let dropped = operator.dropped.iter().map(|dropped| Withheld {
        pattern: format!("mount {} at {}", dropped.mount.source, dropped.mount.destination),
        source: dropped.mount.written.clone(),
        reason: match dropped.why {
            WhyDropped::Exclusive => "surface_mode is \"exclusive\"",
            WhyDropped::Surface(_) => "the surface has something there, and wins",
            WhyDropped::Another(_) => "another mount of the operator's is there",
            WhyDropped::Engines => "the engine makes this itself",
            WhyDropped::Missing => "nothing is there to mount",
            WhyDropped::Denied(_) => "a rule takes its source away",
        },
    });
    // What the tables name is not on every host, and nobody asked for it. The others are said of every fence.
    let is_said = |why| matches!(why, Why::Pattern | Why::Missing | Why::Own);
    let skipped = order.plan.skipped.iter().filter(|skipped| skipped.is_written && !is_said(skipped.why));
    let skipped = skipped.map(|skipped| Withheld {
        pattern: skipped.pattern.clone(),
        source: skipped.source.clone(),
        reason: skipped.why.words(),
    });
    let is_address = |host: &&ringfence_surface::Sourced<ringfence_surface::HostPattern>| host.value.is_network();
    let addresses = order.surface.reach().hosts.iter().filter(is_address).map(|host| Withheld {
        pattern: host.value.to_string(),
        source: host.source.to_string(),
        reason: "in a container an address is reached only by a proxy, at 127.198.0.2:1080",
    });
    dropped.chain(skipped).chain(addresses).collect()
}

/// Whether the kernel's own count of a user's processes is that of this container alone: it has a user namespace, and no control
/// group of the engine's counts.
pub(crate) fn counts_alone(order: &Order<'_>) -> bool {
    let facts = order.container.map(|container| container.here.facts);
    facts.is_some_and(|facts| facts.rights != EngineRights::Root && facts.limits.pids == Limited::Cannot)
}
