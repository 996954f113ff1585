//! A container described and not started: what an engine would be told, for somebody who starts it in another way.
//!
//! Nothing of ours runs in such a container. What belongs to a session stands there with its place in the session's directory.

use ringfence_plan::{
    ContainerOrder, DroppedMount, EngineFacts, Findings, First, MountOp, Places, Programs, Shortfall, Skipped,
    container, guarded,
};
use ringfence_surface::policy::SurfaceMode;
use ringfence_surface::{AbsPath, HostFacts, Look, Surface};

use super::contained::{InContainer, NoContainer, Operator, operator_mounts, without_root};
use super::glue;
use super::image::image_name;
use crate::identity::identity;
use crate::launch::Identity;
use crate::links;
use crate::walk::{self, Hidden};

/// What is to be described.
pub struct Described<'a> {
    /// The engine, the image and the operator's mounts.
    pub container: InContainer<'a>,
    /// What may be touched, with the mounts that say so; nothing for the operator's mounts alone.
    pub surface: Option<(&'a Surface, &'a [MountOp])>,
    /// On which host.
    pub facts: &'a HostFacts,
    /// The directory of a session.
    pub session: &'a AbsPath,
    /// The command; nothing for the image's own.
    pub command: &'a [Vec<u8>],
}

/// A description.
#[derive(Debug)]
pub struct Rendered {
    /// What the engine's program is started with.
    pub words: Vec<Vec<u8>>,
    /// Mounts of the operator's that were left out.
    pub dropped: Vec<DroppedMount>,
    /// What is hidden although no rule denies it.
    pub hidden: Vec<Hidden>,
    /// What does not hold: an engine follows links where it mounts, and makes `/proc` itself.
    pub shortfalls: Vec<Shortfall>,
}

/// Describes a container.
///
/// # Errors
/// [`NoContainer`].
pub fn render(described: &Described<'_>, look: &mut dyn Look) -> Result<Rendered, NoContainer> {
    let Described { container: inside, facts, session, .. } = *described;
    let engine = inside.here.facts;
    let dir = session.join("masks");
    let places = Places {
        session: session.clone(),
        tmp: session.join("tmp"),
        mask_file: dir.join("file"),
        mask_directory: dir.join("directory"),
    };
    let (mut mounts, mut hidden, mut shortfalls) = (Vec::new(), Vec::new(), Vec::new());
    let (programs, operator) = match described.surface {
        Some((surface, ops)) => {
            let ops = without_root(ops.to_vec()).map_err(NoContainer::Own)?;
            let walked = walk::walk(surface, facts, &ops, &facts.all_homes())?;
            let (mut findings, short): (Findings, _) = links::without_links(surface, &walked.findings);
            shortfalls.extend(short);
            shortfalls.extend(glue::without_proc(&mut findings));
            shortfalls.extend(walked.shortfalls);
            hidden = walked.hidden;
            hidden.extend(glue::sayable(&mut findings, &ops, glue::can_say));
            let operator = Operator::compose(inside.choice, surface, facts, &ops, look)?;
            mounts = guarded(surface, &ops, &findings);
            (inside.programs(), operator)
        }
        None => {
            let (kept, dropped) = ringfence_plan::compose(&[], &operator_mounts(inside.choice), SurfaceMode::Additive);
            let kept = kept.into_iter().map(|mount| (mount, Vec::new())).collect();
            (Programs::Image, Operator { kept, dropped, linked: Vec::new() })
        }
    };
    let image = match (programs, described.surface) {
        (Programs::Host, _) => image_name(&mounts),
        (Programs::Image, None) if inside.programs() == Programs::Host => return Err(NoContainer::NoImage),
        (Programs::Image, _) => inside.image().to_owned(),
    };
    let submounts: Vec<AbsPath> = facts.mounts.iter().map(|mount| mount.target.clone()).collect();
    let caps = described.surface.map(|(surface, _)| surface.caps());
    // As for a session: where root starts it, somebody else works.
    let who = described.surface.map(|(surface, _)| identity(surface.root()));
    let user = match who {
        Some(Identity::Caller { uid, gid } | Identity::Other { uid, gid }) => (uid, gid),
        None => (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
    };
    let plan = container(&ContainerOrder {
        facts: engine,
        image: &image,
        programs,
        mounts: &mounts,
        operator: &operator.kept,
        submounts: &submounts,
        places: &places,
        user,
        label: None,
        hostname: None,
        workdir: described.surface.map(|(surface, _)| surface.workdir()),
        memory: caps.and_then(|caps| caps.memory.as_ref()).map(|cap| cap.value),
        pids: caps.and_then(|caps| caps.pids.as_ref()).map(|cap| cap.value),
        first: First::Engines(described.command),
    })?;
    Ok(Rendered { words: plan.words, dropped: operator.dropped, hidden, shortfalls })
}

/// What a policy names and the mounts leave out, as far as somebody wrote it.
pub fn written(skipped: &[Skipped]) -> impl Iterator<Item = &Skipped> {
    skipped.iter().filter(|skipped| skipped.is_written)
}

/// What is said of an engine that is not here: the usual one, with root's rights.
pub fn usual(engine: ringfence_plan::Engine) -> EngineFacts {
    use ringfence_plan::{EngineRights, Labels, Limited, Limits, NewerAddresses, Recursive};
    EngineFacts {
        engine,
        recursive: Recursive::No,
        rights: EngineRights::Root,
        limits: Limits { memory: Limited::Can, pids: Limited::Can },
        labels: Labels::None,
        newer: NewerAddresses::None,
    }
}
