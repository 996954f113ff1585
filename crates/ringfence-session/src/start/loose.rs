//! Guards that fall off when somebody outside replaces what they are over, and those that do not.
//!
//! A guard is a mount and hangs on a directory entry. Over a layer that is an entry of the overlay's own, which nobody outside can
//! take away: whatever the host puts in the place of the file, the guard stays over its name. Elsewhere it is the host's.

use ringfence_plan::{Claim, Findings, LayerName, MountAccess, MountOp, Shortfall};
use ringfence_surface::{AbsPath, Effect, Role, Sense, Surface};

use crate::aliases::Aliases;
use crate::layer::Landing;
use crate::visible::{Ground, Visible};

/// Something that the host has mounted below a place that a layer would be over. An overlay shows nothing of it, and a user cannot
/// make one there at all.
pub(super) fn mounted_below(mounts: &[MountOp]) -> Option<(AbsPath, AbsPath)> {
    let aliases = Aliases::of_host();
    let is_layered = |role: &Role| !matches!(role, Role::Cache | Role::Scratch);
    mounts.iter().find_map(|op| match op {
        MountOp::Bind { path, access: MountAccess::ReadWrite, role } if is_layered(role) => {
            aliases.mounted_below(path).map(|point| (path.clone(), point.clone()))
        }
        _ => None,
    })
}

/// Is anything guarded by a mount that can fall off?
pub(super) fn has_guards(found: &Findings, mounts: &[MountOp], landing: Landing) -> bool {
    match landing {
        Landing::Review(_) => first(found, mounts).is_some(),
        Landing::InPlace | Landing::Nowhere(_) => !found.denied.is_empty() || !found.protected.is_empty(),
    }
}

/// What does not hold, or not everywhere, where changes wait for a review.
pub(super) fn in_layers(
    surface: &Surface,
    found: &Findings,
    mounts: &[MountOp],
    landing: Landing,
) -> impl Iterator<Item = Shortfall> + use<> {
    let is_review = matches!(landing, Landing::Review(_));
    let denies = surface
        .rules()
        .iter()
        .any(|rule| matches!(rule.effect, Effect::Deny | Effect::Escape) && rule.sense == Sense::Rule);
    // An overlay remembers names that were asked for and not there. What somebody else makes under one of them is seen inside when
    // the kernel forgets that, which nobody is told of.
    let later = "what somebody else makes later is hidden once it is noticed; where the name was looked for inside before it was \
                 made, that may be too early, and it is readable later";
    let later = (is_review && denies).then(|| (Claim::DeniedLater, later.to_owned()));
    let loose = first(found, mounts).filter(|_| is_review).map(|path| {
        let reason = "guards stay over everything that waits for a review; elsewhere, as at";
        let rest = "one falls off when the file is replaced outside, and is put back some milliseconds later";
        (Claim::HeldWhenReplaced, format!("{reason} {path}, {rest}"))
    });
    let short = |(claim, reason)| Shortfall { claim, layer: LayerName::Mounts, reason };
    [later, loose].into_iter().flatten().map(short)
}

/// The first guard over a file of the host that is in no layer. The session's own `/proc` is replaced by nobody.
fn first(found: &Findings, mounts: &[MountOp]) -> Option<AbsPath> {
    let visible = Visible::new(mounts);
    let is_loose = |path: &&AbsPath| visible.ground(path) == Some(Ground::Host { is_writable: false });
    found.denied.iter().map(|(path, _)| path).chain(&found.protected).find(is_loose).cloned()
}

#[cfg(test)]
mod tests {
    use ringfence_plan::Found;

    use super::*;
    use crate::launch::Identity;

    #[test]
    fn only_a_guard_in_no_layer_is_loose() {
        let path = |text: &str| AbsPath::lexical(text.as_bytes()).unwrap();
        let bind = |at: &str, access| MountOp::Bind { path: path(at), access, role: Role::Read };
        let mounts = [bind("/etc", MountAccess::ReadOnly), bind("/p", MountAccess::ReadWrite)];
        let (review, in_place) = (Landing::Review(Identity::Caller { uid: 1, gid: 1 }), Landing::InPlace);
        for (denied, landing, expected) in [
            (vec!["/p/.env"], review, false),
            (vec!["/p/.env"], in_place, true),
            (vec!["/p/.env", "/etc/shadow"], review, true),
            (vec!["/elsewhere"], review, false),
            (vec![], in_place, false),
        ] {
            let denied: Vec<_> = denied.iter().map(|at| (path(at), Found::File)).collect();
            let found = Findings { denied, protected: Vec::new() };
            assert_eq!(has_guards(&found, &mounts, landing), expected, "{found:?} {landing:?}");
        }
    }
}
