//! Fences that are broken on purpose, each in a way in which one was broken somewhere.

use ringfence_plan::{LandlockRule, MountAccess, MountOp, Rights, Rung};
use ringfence_session::start::Last;
use ringfence_surface::Role;

use super::trial::Layer;

/// One way to break a fence.
pub(crate) struct Bug {
    pub(crate) layer: Layer,
    pub(crate) change: fn(Last<'_>),
}

/// Which, by name.
pub(crate) fn named(name: &str) -> Option<Bug> {
    // A broker before the walls would hide what is wrong with them.
    let (layer, change): (Layer, fn(Last<'_>)) = match name {
        "dropped-pin" => (Layer::Walls, dropped_pin),
        "shallow-read-only" => (Layer::Walls, shallow_read_only),
        "missing-deny" => (Layer::Fence(Rung::LandlockOnly), missing_deny),
        "missing-deny-chroot" => (Layer::Fence(Rung::Chroot), missing_deny),
        "missing-mask" => (Layer::Walls, missing_mask),
        "missing-mask-bwrap" => (Layer::Fence(Rung::Bwrap), missing_mask),
        _ => return None,
    };
    Some(Bug { layer, change })
}

/// A directory above something guarded can be renamed.
fn dropped_pin(last: Last<'_>) {
    if let Last::Mounts(mounts) = last {
        mounts.retain(|op| !matches!(op, MountOp::Pin { .. }));
    }
}

/// What is read-only is so itself, and not what is mounted below it: each directory in it is bound again as it was.
fn shallow_read_only(last: Last<'_>) {
    let Last::Mounts(mounts) = last else { return };
    let frozen: Vec<_> = mounts
        .iter()
        .filter_map(|op| if let MountOp::Freeze { path } = op { Some(path.clone()) } else { None })
        .collect();
    for path in frozen {
        let entries = std::fs::read_dir(ringfence_session::walk::os_path(&path)).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let path = path.child(entry.file_name().as_encoded_bytes());
            mounts.push(MountOp::Bind { path, access: MountAccess::ReadWrite, role: Role::Write });
        }
    }
}

/// What was left out is given after all.
fn missing_deny(last: Last<'_>) {
    if let Last::Landlock(landlock) = last {
        let listed: Vec<_> = landlock.rules.iter().filter(|rule| rule.rights == Rights::List).cloned().collect();
        landlock.rules.extend(listed.into_iter().map(|rule| LandlockRule { rights: Rights::All, ..rule }));
    }
}

/// One thing that is denied has nothing over it.
fn missing_mask(last: Last<'_>) {
    if let Last::Mounts(mounts) = last {
        mounts.retain(|op| !matches!(op, MountOp::Mask { .. }));
    }
}
