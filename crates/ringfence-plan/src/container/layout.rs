//! What stands where in a container, whoever makes it: the view, what the operator adds, and what guards both.

use std::collections::BTreeMap;

use ringfence_surface::{AbsPath, Role};

use super::{ContainerError, ENGINES_OWN, OperatorMount, Programs};
use crate::mounts::{Found, MountAccess, MountOp};
use crate::private::PrivateKind;

/// What is laid out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Laid<'a> {
    /// Where the programs come from.
    pub(crate) programs: Programs,
    /// The view, with its guards.
    pub(crate) mounts: &'a [MountOp],
    /// What the operator adds, each with its guards, as mounts at its source.
    pub(crate) operator: &'a [(OperatorMount, Vec<MountOp>)],
    /// What is mounted on the host below something read-only and needs a mount of its own; nothing where whoever mounts goes
    /// all the way down.
    pub(crate) submounts: &'a [AbsPath],
}

/// What a place is made of; how that is said differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Made {
    /// Something of the host's.
    Host {
        /// Where it is there.
        source: AbsPath,
        /// What it permits.
        access: MountAccess,
    },
    /// Nothing, and nothing can be put there.
    Mask(Found),
    /// Something of the session's own, by its name.
    Own(String),
    /// The session's own temporary directory.
    Tmp,
    /// Memory, as a directory with this mode.
    Memory(u32),
}

/// Lays out a container: one thing at each place.
pub(crate) fn layout(laid: &Laid<'_>) -> Result<BTreeMap<AbsPath, Made>, ContainerError> {
    let mut layout: BTreeMap<AbsPath, Made> = BTreeMap::new();
    let is_shown = |path: &AbsPath| laid.programs == Programs::Host || is_brought(path, laid.mounts);
    for op in laid.mounts {
        if !is_shown(op.destination()) {
            continue;
        }
        if let Some(made) = made(op)? {
            layout.insert(op.destination().clone(), made);
        }
    }
    for (mount, guards) in laid.operator {
        let own = Made::Host { source: mount.source.clone(), access: mount.access };
        layout.insert(mount.destination.clone(), own);
        for op in guards.iter().filter(|op| !matches!(op, MountOp::Bind { .. })) {
            let Some(at) = rebase(op.destination(), &mount.source, &mount.destination) else { continue };
            if let Some(made) = made(op)? {
                layout.insert(at, made);
            }
        }
    }
    read_only_below(laid.submounts, &mut layout);
    let engines = |path: &AbsPath| ENGINES_OWN.iter().any(|own| path.as_bytes() == own.as_bytes());
    if let Some(path) = layout.keys().find(|path| engines(path)) {
        return Err(ContainerError::Engines { path: path.clone() });
    }
    if layout.keys().any(AbsPath::is_root) {
        return Err(ContainerError::WholeHost);
    }
    Ok(layout)
}

/// Does the view bring this along, where the programs are the image's? The system's directories are the image's own then, and
/// so is what would be guarded in them.
fn is_brought(path: &AbsPath, mounts: &[MountOp]) -> bool {
    let is_ours = |op: &MountOp| match op {
        MountOp::Bind { role, .. } => *role != Role::System,
        MountOp::Private { .. } | MountOp::Rebuilt { .. } | MountOp::Hollow { .. } | MountOp::Program { .. } => true,
        // Names are looked up by us, whoever's programs ask.
        MountOp::Own { path, .. } => path.as_bytes() != b"/etc/passwd",
        MountOp::Link { .. }
        | MountOp::Pin { .. }
        | MountOp::Cover { .. }
        | MountOp::Mask { .. }
        | MountOp::Freeze { .. } => false,
    };
    let own = mounts.iter().filter(|op| is_ours(op)).map(MountOp::destination);
    let is_system = |op: &MountOp| matches!(op, MountOp::Bind { role: Role::System, .. });
    let innermost = |shown: &dyn Fn(&MountOp) -> bool| {
        let around = mounts.iter().filter(|op| shown(op) && path.is_within(op.destination()));
        around.map(|op| op.destination().as_bytes().len()).max()
    };
    own.into_iter().any(|own| own == path) || innermost(&is_ours) > innermost(&is_system)
}

/// What an operation is in a container; nothing for those that the engine, the image or the order of mounts takes care of.
fn made(op: &MountOp) -> Result<Option<Made>, ContainerError> {
    let (read_only, read_write) = (MountAccess::ReadOnly, MountAccess::ReadWrite);
    let host = |source: &AbsPath, access| Some(Made::Host { source: source.clone(), access });
    Ok(match op {
        MountOp::Bind { path, .. } if path.is_root() => return Err(ContainerError::WholeHost),
        MountOp::Bind { path, access, .. } => host(path, *access),
        MountOp::Pin { path } => host(path, read_write),
        MountOp::Freeze { path } => host(path, read_only),
        MountOp::Mask { kind, .. } => Some(Made::Mask(*kind)),
        MountOp::Own { name, .. } => Some(Made::Own(name.clone())),
        MountOp::Program { source, .. } => host(source, read_only),
        MountOp::Hollow { .. } => Some(Made::Memory(0o111)),
        MountOp::Rebuilt { .. } => Some(Made::Memory(0o755)),
        MountOp::Private { place, .. } => match place.kind() {
            PrivateKind::Temporary => Some(Made::Tmp),
            // The engine makes these.
            PrivateKind::Processes
            | PrivateKind::Devices
            | PrivateKind::SharedMemory
            | PrivateKind::Terminals
            | PrivateKind::Multiplexer
            | PrivateKind::CharacterDevice => None,
        },
        // One destination, one mount. Links are the image's.
        MountOp::Cover { .. } | MountOp::Link { .. } => None,
    })
}

/// What is mounted on the host below something read-only would stay writable: it gets a mount of its own.
fn read_only_below(submounts: &[AbsPath], layout: &mut BTreeMap<AbsPath, Made>) {
    let mut more = Vec::new();
    for (destination, made) in &*layout {
        let Made::Host { source, access: MountAccess::ReadOnly } = made else { continue };
        for submount in submounts.iter().filter(|at| *at != source && at.is_within(source)) {
            let Some(at) = rebase(submount, source, destination) else { continue };
            // Whatever stands closest around it decides what is seen there.
            let closest = at.ancestors().find(|around| layout.contains_key(around));
            if closest.as_ref() == Some(destination) {
                more.push((at, Made::Host { source: submount.clone(), access: MountAccess::ReadOnly }));
            }
        }
    }
    layout.extend(more);
}

/// The same place below another directory.
fn rebase(path: &AbsPath, from: &AbsPath, to: &AbsPath) -> Option<AbsPath> {
    if path == from {
        return Some(to.clone());
    }
    let prefix = if from.is_root() { 0 } else { from.as_bytes().len() };
    let rest = path.is_within(from).then(|| &path.as_bytes()[prefix..])?;
    AbsPath::lexical(&[if to.is_root() { b"" } else { to.as_bytes() }, rest].concat()).ok()
}
