//! The view as a container engine makes it: the same mounts, as arguments of `docker run` and `podman run`.
//!
//! One argument for each mount, `--mount` with its fields quoted, since nothing else says a colon and a comma. An engine makes
//! one mount for each destination and orders them by depth itself, so pins are not buried under a cover here: directories above
//! something guarded cannot be renamed, and what is moved out of one of them is copied.
//!
//! Nothing is asked of an engine that it would have to make in the user's own files, and nothing that it cannot be told.

mod operator;
mod words;

use std::collections::BTreeMap;

use ringfence_surface::{AbsPath, Role};

use crate::bwrap::Places;
use crate::mounts::{Found, MountAccess, MountOp};

pub use words::LABEL;

pub use operator::{DroppedMount, OperatorMount, WhyDropped, compose};

/// Which engine, and what the one that is installed can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineFacts {
    /// Which.
    pub engine: Engine,
    /// Whether it makes a read-only mount read-only with everything that is mounted below it, and fails where it cannot.
    pub recursive: Recursive,
    /// Whose rights it has.
    pub rights: EngineRights,
    /// Whether it can limit memory and processes.
    pub limits: Limits,
    /// Whether the host labels its files, which keeps a container from them.
    pub labels: Labels,
    /// Whether the kernel has the newer kind of addresses.
    pub newer: NewerAddresses,
}

/// Does the kernel have IPv6?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewerAddresses {
    /// Yes.
    Had,
    /// No, or it is switched off.
    None,
}

/// A container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl Engine {
    /// Its name, which is that of its program.
    pub fn word(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// How far "read-only" goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recursive {
    /// To what is mounted below, if that is asked for (Docker from API 1.44 on).
    Asked,
    /// Not to what is mounted below: each of those needs a mount of its own.
    No,
}

/// Whose rights an engine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineRights {
    /// Root's.
    Root,
    /// Those of the user who starts it, with other numbers mapped beside the user's own.
    User,
    /// Those of the user, who has no other numbers: inside, the user is number 0, and has no right that root has.
    UserAlone,
}

/// Whether an engine can limit what a container uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory.
    pub memory: Limited,
    /// Processes.
    pub pids: Limited,
}

/// Can it be limited?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// Yes.
    Can,
    /// No: no control group with that controller is the engine's.
    Cannot,
}

/// Does the host label its files?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Labels {
    /// SELinux does. Without a relabelling, which nobody asked for, a container reads nothing of the host's.
    Enforced,
    /// No.
    None,
}

/// Where the programs in a container come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// From the host: the image holds nothing but links.
    Host,
    /// From the image.
    Image,
}

/// What is to be started.
#[derive(Debug, Clone)]
pub struct ContainerOrder<'a> {
    /// By whom.
    pub facts: EngineFacts,
    /// In which image.
    pub image: &'a str,
    /// Where its programs come from.
    pub programs: Programs,
    /// The view, with its guards. Nothing where no Surface is given.
    pub mounts: &'a [MountOp],
    /// What the operator adds, each with its guards, as mounts at its source.
    pub operator: &'a [(OperatorMount, Vec<MountOp>)],
    /// What is mounted where on the host.
    pub submounts: &'a [AbsPath],
    /// Files of the session that mounts are made of.
    pub places: &'a Places,
    /// Who works inside.
    pub user: (u32, u32),
    /// By what name it is found again.
    pub label: Option<&'a str>,
    /// What the machine is called inside.
    pub hostname: Option<&'a str>,
    /// Where the command starts.
    pub workdir: Option<&'a AbsPath>,
    /// At most this much memory.
    pub memory: Option<u64>,
    /// At most this many processes, together with those of ours.
    pub pids: Option<u32>,
    /// The first process.
    pub first: First<'a>,
}

/// What becomes the first process.
#[derive(Debug, Clone, Copy)]
pub enum First<'a> {
    /// ringfence itself, with these words. It brings a filter of its own, which takes the place of the engine's.
    Ourselves(&'a [Vec<u8>]),
    /// The engine's own, and this command; nothing for the image's.
    Engines(&'a [Vec<u8>]),
}

/// A container, described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerPlan {
    /// What the engine's program is started with.
    pub words: Vec<Vec<u8>>,
    /// What is then mounted where, sorted by destination.
    pub bound: Vec<Bound>,
}

/// One mount of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Where.
    pub destination: AbsPath,
    /// What.
    pub material: Material,
}

/// What a mount is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Material {
    /// Something of the host's.
    Host {
        /// Where it is there.
        source: AbsPath,
        /// What it permits.
        access: MountAccess,
    },
    /// Memory, as a directory with this mode.
    Memory {
        /// Which.
        mode: u32,
    },
}

/// Why a container cannot be described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// Engines speak JSON among themselves.
    #[error("{path} is not UTF-8, and a container engine cannot be told of it")]
    NotUtf8 {
        /// Which.
        path: AbsPath,
    },
    /// Their reader of fields turns it into another character.
    #[error("{path} holds a carriage return, which container engines lose")]
    Lost {
        /// Which.
        path: AbsPath,
    },
    /// A container has a root of its own.
    #[error("a container has a root of its own, and cannot show the host's whole")]
    WholeHost,
    /// Nothing can be mounted over what an engine makes itself.
    #[error("{path} is the engine's own")]
    Engines {
        /// Which.
        path: AbsPath,
    },
    /// An image that could be taken for an option.
    #[error("{image:?} is not the name of an image")]
    Image {
        /// Which.
        image: String,
    },
}

/// Describes a container.
///
/// # Errors
/// [`ContainerError`]; what cannot be said is refused, not approximated.
pub fn container(order: &ContainerOrder<'_>) -> Result<ContainerPlan, ContainerError> {
    if order.image.is_empty() || order.image.starts_with('-') {
        return Err(ContainerError::Image { image: order.image.to_owned() });
    }
    let bound = bound(order)?;
    let words = words::words(order, &bound)?;
    Ok(ContainerPlan { words, bound })
}

/// What an engine mounts itself, whatever it is asked.
pub const ENGINES_OWN: &[&str] = &["/proc", "/dev", "/sys"];

/// What tells of the host's hardware, and of its control groups.
const HIDDEN: [&str; 2] = ["sys", "sys/fs/cgroup"];

fn bound(order: &ContainerOrder<'_>) -> Result<Vec<Bound>, ContainerError> {
    let mut layout: BTreeMap<AbsPath, Material> = BTreeMap::new();
    let is_shown = |path: &AbsPath| order.programs == Programs::Host || is_brought(path, order.mounts);
    for op in order.mounts {
        if !is_shown(op.destination()) {
            continue;
        }
        if let Some(material) = material(op, order)? {
            layout.insert(op.destination().clone(), material);
        }
    }
    for (mount, guards) in order.operator {
        let own = Material::Host { source: mount.source.clone(), access: mount.access };
        layout.insert(mount.destination.clone(), own);
        for op in guards.iter().filter(|op| !matches!(op, MountOp::Bind { .. })) {
            let Some(at) = rebase(op.destination(), &mount.source, &mount.destination) else { continue };
            if let Some(material) = material(op, order)? {
                layout.insert(at, material);
            }
        }
    }
    if order.facts.recursive == Recursive::No {
        read_only_below(order.submounts, &mut layout);
    }
    let engines = |path: &AbsPath| ENGINES_OWN.iter().any(|own| path.as_bytes() == own.as_bytes());
    if let Some(path) = layout.keys().find(|path| engines(path)) {
        return Err(ContainerError::Engines { path: path.clone() });
    }
    if layout.keys().any(AbsPath::is_root) {
        return Err(ContainerError::WholeHost);
    }
    if !order.mounts.is_empty() {
        // What an engine shows there of the host is no part of a Surface.
        layout.extend(HIDDEN.map(|path| (AbsPath::root().join(path), Material::Memory { mode: 0o555 })));
    }
    Ok(layout.into_iter().map(|(destination, material)| Bound { destination, material }).collect())
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
fn material(op: &MountOp, order: &ContainerOrder<'_>) -> Result<Option<Material>, ContainerError> {
    let (read_only, read_write) = (MountAccess::ReadOnly, MountAccess::ReadWrite);
    let host = |source: &AbsPath, access| Some(Material::Host { source: source.clone(), access });
    let places = order.places;
    Ok(match op {
        MountOp::Bind { path, .. } if path.is_root() => return Err(ContainerError::WholeHost),
        MountOp::Bind { path, access, .. } => host(path, *access),
        MountOp::Pin { path } => host(path, read_write),
        MountOp::Freeze { path } => host(path, read_only),
        MountOp::Mask { kind: Found::File, .. } => host(&places.mask_file, read_only),
        MountOp::Mask { kind: Found::Directory, .. } => host(&places.mask_directory, read_only),
        MountOp::Own { name, .. } => host(&places.session.join(name), read_only),
        MountOp::Program { source, .. } => host(source, read_only),
        MountOp::Hollow { .. } => Some(Material::Memory { mode: 0o111 }),
        MountOp::Rebuilt { .. } => Some(Material::Memory { mode: 0o755 }),
        MountOp::Private { path, .. } => match path.as_bytes() {
            b"/tmp" | b"/var/tmp" => host(&places.tmp, read_write),
            own if own.starts_with(b"/dev") || own == b"/proc" => None,
            _ => Some(Material::Memory { mode: 0o755 }),
        },
        // One destination, one mount: see above. Links are the image's.
        MountOp::Cover { .. } | MountOp::Link { .. } => None,
    })
}

/// What is mounted on the host below something read-only would stay writable: it gets a mount of its own.
fn read_only_below(submounts: &[AbsPath], layout: &mut BTreeMap<AbsPath, Material>) {
    let mut more = Vec::new();
    for (destination, material) in &*layout {
        let Material::Host { source, access: MountAccess::ReadOnly } = material else { continue };
        for submount in submounts.iter().filter(|at| *at != source && at.is_within(source)) {
            let Some(at) = rebase(submount, source, destination) else { continue };
            // Whatever stands closest around it decides what is seen there.
            let closest = at.ancestors().find(|around| layout.contains_key(around));
            if closest.as_ref() == Some(destination) {
                more.push((at, Material::Host { source: submount.clone(), access: MountAccess::ReadOnly }));
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
