//! What the native backend cannot carry yet, said before anything starts.

use ringfence_plan::{Claim, LayerName, Shortfall};
use ringfence_surface::{AbsPath, Effect, Sense, Surface};

use crate::walk::Walked;

/// Does Landlock stand beside the mounts?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondWall {
    /// Yes.
    Stands,
    /// The kernel has none.
    Missing,
}

/// Every claim that falls short in a native session.
pub fn shortfalls(surface: &Surface, walked: &Walked, wall: SecondWall) -> Vec<Shortfall> {
    let mut short = Vec::new();
    let mut add = |claim, layer, reason: &str| short.push(Shortfall { claim, layer, reason: reason.to_owned() });
    let has = |wanted: &[Effect]| {
        surface.rules().iter().any(|rule| wanted.contains(&rule.effect) && rule.sense == Sense::Rule)
    };
    if has(&[Effect::Protect]) {
        let claim = Claim::Protected { pattern: "names that do not exist yet".into() };
        add(claim, LayerName::Mounts, "a mount guards what exists; such a name can be created inside");
    }
    if has(&[Effect::Deny, Effect::Escape]) {
        let claim = Claim::Denied { pattern: "names that do not exist yet".into() };
        add(claim, LayerName::Mounts, "a mount guards what exists; what appears later under such a name is readable");
    }
    if !walked.findings.denied.is_empty() || !walked.findings.protected.is_empty() {
        let claim = Claim::Denied { pattern: "files that the host replaces meanwhile".into() };
        add(claim, LayerName::Mounts, "a guard falls off when an editor outside saves the file anew");
    }
    walked.shortfalls.iter().for_each(|short| add(short.claim.clone(), short.layer, &short.reason));
    for path in &walked.linked {
        add(protected(path), LayerName::Mounts, "it has another name (a hard link), by which it is not guarded");
    }
    if wall == SecondWall::Missing {
        add(Claim::NothingElseIsWritable, LayerName::Landlock, "this kernel has no Landlock: the mounts stand alone");
    }
    let caps = surface.caps();
    let limits = [
        caps.memory.as_ref().map(|cap| Claim::Memory { bytes: cap.value }),
        caps.pids.as_ref().map(|cap| Claim::Processes { count: cap.value }),
        caps.wall.as_ref().map(|cap| Claim::Time { seconds: cap.value.as_secs() }),
    ];
    for claim in limits.into_iter().flatten() {
        add(claim, LayerName::Processes, "limits are not built yet");
    }
    short
}

fn protected(path: &AbsPath) -> Claim {
    Claim::Protected { pattern: path.to_string() }
}
