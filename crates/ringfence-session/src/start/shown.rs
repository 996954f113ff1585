//! What a fence shows and what is guarded in it, from the plan's mounts to those that are made.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

use ringfence_plan::{BrokerUnavailable, Findings, LandlockPlan, MountAccess, MountOp, Plan, Rung, Withheld};
use ringfence_surface::policy::View;
use ringfence_surface::{AbsPath, Look, Role, Surface};

use super::denied::without_denied;
use super::own::{own_texts, write_texts};
use super::{Order, PrepareError};
use crate::agent::{self, Furnished};
use crate::container::{self, NoContainer};
use crate::doors::Doors;
use crate::given::Reached;
use crate::globs::Globs;
use crate::launch::Identity;
use crate::links;
use crate::rooted;
use crate::roots::Root;
use crate::script::OwnText;
use crate::visible::{Worker, is_reachable, with_ways};
use crate::walk::{Walked, os_path};

/// What is shown, before anything in it is guarded.
pub(super) struct Unguarded {
    pub(super) mounts: Vec<MountOp>,
    /// Homes that are searched for what is denied.
    pub(super) homes: Vec<AbsPath>,
    /// What may be written and is no place to mount.
    pub(super) globs: Globs,
}

impl Unguarded {
    pub(super) fn find(
        order: &Order<'_>,
        root: Option<&Root>,
        worker: Option<Worker>,
        doors: &Doors,
        listens: Result<(), BrokerUnavailable>,
        look: &mut dyn Look,
    ) -> Result<Self, PrepareError> {
        let Order { surface, facts, plan, rung, .. } = *order;
        let (mut mounts, mut homes) = (plan.mounts.clone(), facts.all_homes());
        if rung.engine().is_some() {
            mounts = container::without_root(mounts).map_err(NoContainer::Own)?;
        }
        mounts.extend(doors.mounts());
        let globs = Globs::find(surface, rung, (&mounts, &plan.skipped), listens, look);
        globs.mount(&mut mounts);
        if let Some(worker) = worker {
            mounts = with_ways(&mounts, worker);
            homes.retain(|home| is_reachable(home, worker));
        }
        if let Some(root) = root {
            mounts.retain(|op| op.destination().is_within(&root.tree()));
            if surface.view() == View::Host {
                // Nothing is mounted; what is shown is what is searched for what is denied.
                mounts.insert(0, MountOp::Bind { path: root.work(), access: MountAccess::ReadOnly, role: Role::Read });
            }
        }
        Ok(Self { mounts, homes, globs })
    }
}

/// Who works in root's place, if somebody does. With a map of owners root's own project is shown as theirs.
pub(super) fn worker(surface: &Surface, identity: Identity, idmap: Option<&OwnedFd>) -> Option<Worker> {
    let Identity::Other { uid, gid } = identity else { return None };
    let owner = fs::metadata(os_path(surface.root())).ok().map(|m| (m.uid(), m.gid()));
    Some(Worker { uid, gid, owner: owner.filter(|_| idmap.is_some()) })
}

/// What mounts are to guard. What they cannot is a shortfall.
pub(super) fn guards(order: &Order<'_>, walked: &mut Walked, mounts: &[MountOp], doors: &Doors) -> Findings {
    let (mut guards, unguarded) = match order.rung {
        Rung::Bwrap | Rung::Docker | Rung::Podman => links::without_links(order.surface, &walked.findings),
        Rung::Native | Rung::LandlockOnly | Rung::Chroot => (walked.findings.clone(), Vec::new()),
    };
    walked.shortfalls.extend(unguarded);
    if order.rung.engine().is_some() {
        walked.shortfalls.extend(container::without_proc(&mut guards));
        walked.hidden.extend(container::sayable(&mut guards, mounts, container::can_say));
    }
    // Our own socket stands in the place of the host's, and is what guards it.
    guards.denied.retain(|(path, _)| !doors.has(path));
    guards.protected.retain(|path| !doors.has(path));
    guards
}

/// Landlock's domain: behind a view as it was planned, and without one also without what exists and is denied.
pub(super) fn domain(order: &Order<'_>, root: Option<&Root>, walked: &mut Walked) -> (LandlockPlan, Vec<Withheld>) {
    let Order { surface, plan, rung, session, .. } = *order;
    match (rung, root) {
        (Rung::Native | Rung::Bwrap | Rung::Docker | Rung::Podman, _) => (plan.landlock.clone(), Vec::new()),
        (Rung::LandlockOnly | Rung::Chroot, None) => without_denied(plan, walked, session),
        (Rung::LandlockOnly | Rung::Chroot, Some(root)) => {
            let (inside, withheld) = rooted::rules(surface, plan, root, session.dir());
            let (landlock, more) = without_denied(&Plan { landlock: inside, ..plan.clone() }, walked, session);
            (landlock, [withheld, more].concat())
        }
    }
}

/// Adds what the session has its own of: files of the system, of the client's and ringfence itself. A native view takes texts as
/// they are; one that somebody else makes takes them from files.
pub(super) fn with_own(
    order: &Order<'_>,
    mut mounts: Vec<MountOp>,
    identity: Identity,
    client: Option<&Furnished>,
    program: Reached,
    look: &mut dyn Look,
) -> Result<(Vec<MountOp>, Vec<OwnText>), PrepareError> {
    let Order { rung, session, .. } = *order;
    let failed = |source| PrepareError::Home { source };
    let mut texts = Vec::new();
    if rung.has_view() {
        texts = own_texts(order, identity, look).map_err(failed)?;
    }
    if rung != Rung::Native {
        mounts.extend(write_texts(session.dir(), texts.drain(..)).map_err(failed)?);
    }
    if let Some(client) = client.filter(|_| rung.has_view()) {
        mounts = agent::with_room(mounts, &client.shown, look);
        mounts.extend(client.shown.iter().map(|(path, name)| MountOp::Own { path: path.clone(), name: name.clone() }));
    }
    if let Reached::Mounted(op) = program {
        mounts.push(op);
    }
    Ok((mounts, texts))
}
