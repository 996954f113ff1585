//! What is asked for and cannot be had, whatever the host has.

use ringfence_plan::Rung;
use ringfence_surface::Access;

use super::{BrokerChoice, Changes, Order, PrepareError, loose};
use crate::launch::Identity;
use crate::layer::Landing;
use crate::roots::Root;

/// There must be a command and a place to start it in, and where the fence is built of a root there must be one.
pub(super) fn root<'a>(order: &Order<'a>) -> Result<Option<&'a Root>, PrepareError> {
    if order.command.is_empty() {
        return Err(PrepareError::NoCommand);
    }
    let root = match (order.rung, order.root) {
        (Rung::Chroot, None) => return Err(PrepareError::NoRoot),
        (Rung::Chroot, Some(_)) if order.client.is_some() => return Err(PrepareError::ClientInRoot),
        (Rung::Chroot, root) => root,
        _ => None,
    };
    let path = order.surface.workdir();
    let workdir = order.surface.decide(path, Access::Read);
    if !workdir.is_allowed() {
        return Err(PrepareError::Workdir { path: path.clone(), rule: workdir.because.to_string() });
    }
    Ok(root)
}

/// Where what is written lands. Only our own mounts can hold it back, and only where they cover all of it.
pub(super) fn landing(order: &Order<'_>, identity: Identity) -> Result<Landing, PrepareError> {
    match (order.broker, order.changes) {
        (BrokerChoice::Learn, _) => Ok(Landing::Nowhere(identity)),
        (_, Changes::Land) => Ok(Landing::InPlace),
        (_, Changes::Wait) if order.rung != Rung::Native => Err(PrepareError::NoReview { rung: order.rung }),
        (_, Changes::Wait) => match loose::mounted_below(&order.plan.mounts) {
            Some((path, point)) => Err(PrepareError::MountedBelow { path, point }),
            None => Ok(Landing::Review(identity)),
        },
    }
}
