//! The view as a container engine makes it: the same mounts, as arguments of `docker run` and `podman run`.
//!
//! One argument for each mount, `--mount` with its fields quoted, since nothing else says a colon and a comma. An engine makes
//! one mount for each destination and orders them by depth itself, so pins are not buried under a cover here: directories above
//! something guarded cannot be renamed, and what is moved out of one of them is copied.
//!
//! Nothing is asked of an engine that it would have to make in the user's own files, and nothing that it cannot be told.

mod layout;
mod operator;
mod words;

use std::collections::BTreeMap;

use ringfence_surface::AbsPath;

use crate::bwrap::Places;
use crate::mounts::{Found, MountAccess, MountOp};

pub(crate) use layout::{Laid, Made, layout};
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
    let laid = layout(&Laid {
        programs: order.programs,
        mounts: order.mounts,
        operator: order.operator,
        submounts: if order.facts.recursive == Recursive::No { order.submounts } else { &[] },
    })?;
    let mut bound: BTreeMap<AbsPath, Material> =
        laid.into_iter().map(|(path, made)| (path, material(made, order.places))).collect();
    if !order.mounts.is_empty() {
        // What an engine shows there of the host is no part of a Surface.
        bound.extend(HIDDEN.map(|path| (AbsPath::root().join(path), Material::Memory { mode: 0o555 })));
    }
    Ok(bound.into_iter().map(|(destination, material)| Bound { destination, material }).collect())
}

/// What a place is made of, where a session has what it needs.
fn material(made: Made, places: &Places) -> Material {
    let (read_only, read_write) = (MountAccess::ReadOnly, MountAccess::ReadWrite);
    let host = |source: &AbsPath, access| Material::Host { source: source.clone(), access };
    match made {
        Made::Host { source, access } => Material::Host { source, access },
        Made::Mask(Found::File) => host(&places.mask_file, read_only),
        Made::Mask(Found::Directory) => host(&places.mask_directory, read_only),
        Made::Own(name) => host(&places.session.join(&name), read_only),
        Made::Tmp => host(&places.tmp, read_write),
        Made::Memory(mode) => Material::Memory { mode },
    }
}
