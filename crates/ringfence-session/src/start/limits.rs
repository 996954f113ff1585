//! Who counts what a session uses.

use ringfence_plan::features::{Feature, FeatureFindings, Finding};
use ringfence_plan::{LayerName, Limited, Limits, Rung};

use super::Order;
use crate::cgroup::{Group, Wanted};
use crate::container;
use crate::launch::Identity;
use crate::payload::Pids;
use crate::probe::cgroup;

/// A control group, where limits are wanted and one is ours to make.
pub(super) fn group(order: &Order<'_>) -> Option<Group> {
    let wanted = Wanted::of(order.surface.caps());
    // A container has one of its engine's.
    let is_wanted = (wanted.memory.is_some() || wanted.pids.is_some()) && order.rung.engine().is_none();
    is_wanted.then(|| Group::create(wanted, order.session.name())).flatten()
}

/// A limit on processes by the user's own count, where no control group has one.
pub(super) fn pids(order: &Order<'_>, identity: Identity, group: Option<&Group>) -> Option<Pids> {
    let most = order.surface.caps().pids.as_ref().filter(|_| group.is_none())?.value;
    let most = u64::from(most);
    // One of ours is counted, which waits for the rest: the first process, or bubblewrap's. In a namespace that the payload
    // makes for itself there is nobody else.
    match (order.rung, identity) {
        (Rung::LandlockOnly | Rung::Chroot, _) => None,
        // Its user namespace is its own where the engine has no control group; the first process is counted.
        (Rung::Docker | Rung::Podman, _) => {
            container::counts_alone(order).then_some(Pids { most: most + 1, needs_namespace: None })
        }
        (Rung::Native | Rung::Bwrap, Identity::Other { uid, gid }) => {
            Some(Pids { most, needs_namespace: Some((uid, gid)) })
        }
        (Rung::Native | Rung::Bwrap, Identity::Caller { .. }) => Some(Pids { most: most + 1, needs_namespace: None }),
    }
}

/// Notes what the limits that are wanted need and this host lacks.
pub(super) fn note_missing(
    order: &Order<'_>,
    group: Option<&Group>,
    pids: Option<Pids>,
    features: &mut FeatureFindings,
) {
    let caps = order.surface.caps();
    let missing = |controller| match engine(order) {
        Some(_) => {
            Finding::missing(format!("the container engine has no control group with the {controller} controller"))
        }
        None => Finding::missing(cgroup::look().why_unlimited(controller)),
    };
    let counts = |limited: fn(Limits) -> Limited| match engine(order) {
        Some(limits) => limited(limits) == Limited::Can,
        None => group.is_some(),
    };
    if caps.memory.is_some() && !counts(|limits| limits.memory) {
        features.note(Feature::MemoryCgroup, missing("memory"));
    }
    if caps.pids.is_some() && !counts(|limits| limits.pids) && pids.is_none() {
        features.note(Feature::PidsCgroup, missing("pids"));
    }
}

/// What counts the processes, if they are limited and anything does.
pub(super) fn counts_processes(order: &Order<'_>, group: Option<&Group>) -> LayerName {
    let is_cgroup = group.is_some() || engine(order).is_some_and(|limits| limits.pids == Limited::Can);
    if is_cgroup { LayerName::Cgroup } else { LayerName::Processes }
}

/// What the engine of a container can limit.
fn engine(order: &Order<'_>) -> Option<Limits> {
    order.container.map(|container| container.here.facts.limits)
}
