//! The view as a pod of Kubernetes: the same mounts as volumes, the hosts as rules of a network policy, and what neither can say.
//!
//! Nothing of ringfence's runs in such a pod, and the cluster is not asked anything: what is described here stands alone, so
//! what somebody else must do for it to hold is a [`Shortfall`]. What is described is data; the objects themselves, with their
//! types, are made by whoever prints them.

mod network;
mod shortfalls;
mod volumes;

use ringfence_surface::{AbsPath, Look, Surface};

use crate::claim::Shortfall;
use crate::container::{ContainerError, Laid, OperatorMount, Programs, layout};
use crate::landlock::Withheld;
use crate::mounts::{MountAccess, MountOp};

pub use network::{NEVER_DIALLED, NamedHosts, NetworkRule, NetworkRules, is_in_network};

/// Where the agent's own home is in a pod: no machine's path, and in every image's root.
pub const POD_HOME: &str = "/ringfence/home";

/// What is to be described.
#[derive(Debug, Clone, Copy)]
pub struct PodOrder<'a> {
    /// What it is called, and everything that belongs to it.
    pub name: &'a str,
    /// In which image.
    pub image: &'a str,
    /// Where its programs come from.
    pub programs: Programs,
    /// Where the files come from.
    pub files: FilesFrom<'a>,
    /// What may be touched.
    pub surface: &'a Surface,
    /// The view, with its guards.
    pub mounts: &'a [MountOp],
    /// What the operator adds, each with its guards, as mounts at its source.
    pub operator: &'a [(OperatorMount, Vec<MountOp>)],
    /// What is mounted where on this machine.
    pub submounts: &'a [AbsPath],
    /// Guarded files that have another name.
    pub linked: &'a [AbsPath],
    /// Who holds hosts that are named.
    pub named: NamedHosts,
    /// What the cluster can do.
    pub cluster: ClusterVersion,
    /// Which kind of runtime starts it; the cluster's usual one where nobody says.
    pub runtime_class: Option<&'a str>,
    /// Who works inside.
    pub user: (u32, u32),
    /// The command; nothing for the image's own.
    pub command: &'a [Vec<u8>],
}

/// Where the files of a pod come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesFrom<'a> {
    /// From the node that it runs on, at their own paths: for a cluster of one machine.
    Node,
    /// From a volume claim of this name, which holds this machine's tree from its root on.
    Claim(&'a str),
}

/// Which version of Kubernetes a cluster has: 1, and this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterVersion(pub u32);

impl ClusterVersion {
    /// Where "read-only" goes all the way down, if that is asked for.
    pub const RECURSIVE: Self = Self(31);
    /// Where a pod's users are not the node's, if that is asked for.
    pub const USERS: Self = Self(33);
    /// Before this one, fields of the network policy and of the pod that everything here is made of are missing.
    pub const OLDEST: Self = Self(25);
}

/// A pod, described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPlan {
    /// What it is called.
    pub name: String,
    /// In which image.
    pub image: String,
    /// Whether the image may be fetched.
    pub pull: Pull,
    /// Which kind of runtime starts it.
    pub runtime_class: Option<String>,
    /// Its command, spelled so that nothing in it is taken for a variable.
    pub arguments: Vec<String>,
    /// Where it starts.
    pub workdir: String,
    /// Its variables.
    pub variables: Vec<(&'static str, String)>,
    /// Who works inside.
    pub user: (u32, u32),
    /// Whether the pod's users are the node's.
    pub users: PodUsers,
    /// What is mounted, each once.
    pub volumes: Vec<PodVolume>,
    /// Where, sorted by path.
    pub mounts: Vec<PodMount>,
    /// How far "read-only" goes.
    pub recursive: ReadOnlyGoes,
    /// At most this many bytes of memory.
    pub memory: Option<u64>,
    /// At most this many seconds.
    pub seconds: Option<u64>,
    /// What can be reached.
    pub network: NetworkRules,
    /// What does not hold.
    pub shortfalls: Vec<Shortfall>,
    /// What the Surface gives and the pod does not.
    pub withheld: Vec<Withheld>,
}

/// May an image be fetched?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pull {
    /// No: it was made on this machine, and exists nowhere else.
    Never,
    /// Where the node does not have it.
    Absent,
}

/// Whose numbers are a pod's users?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodUsers {
    /// Its own: whoever gets out is nobody on the node.
    Own,
    /// The node's.
    Nodes,
}

/// How far does "read-only" go?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOnlyGoes {
    /// To everything that is mounted below; a node that cannot do it does not start the pod.
    AllTheWay,
    /// Not to what is mounted below.
    NotBelow,
}

/// Something to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodVolume {
    /// By what name mounts mean it.
    pub name: String,
    /// What it is.
    pub kind: PodVolumeKind,
}

/// What can be mounted in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodVolumeKind {
    /// Something of the node's. It must be there, and be this.
    Node {
        /// Where.
        path: String,
        /// What.
        kind: NodeKind,
    },
    /// A claim by its name.
    Claim(String),
    /// A directory of the pod's own, on the node's disk, of at most this many bytes.
    Disk(u64),
    /// The same in memory.
    Memory(u64),
    /// One empty file.
    EmptyFile,
}

/// What stands at a node's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// The device that holds nothing.
    Null,
}

/// One mount of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodMount {
    /// Where.
    pub path: String,
    /// Which volume.
    pub volume: String,
    /// Which part of it.
    pub part: Option<String>,
    /// What it permits.
    pub access: MountAccess,
}

/// The one file of a volume that is one empty file.
pub const EMPTY_FILE: &str = "empty";

/// Why a pod cannot be described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// As for every container.
    #[error(transparent)]
    Layout(#[from] ContainerError),
    /// Objects are text.
    #[error("{path} is not UTF-8, and Kubernetes cannot be told of it")]
    NotUtf8 {
        /// Which.
        path: AbsPath,
    },
    /// Where something is mounted may hold no colon.
    #[error("{path} holds a colon, which Kubernetes takes in no place where something is mounted")]
    Colon {
        /// Which.
        path: AbsPath,
    },
    /// A word of the command is no text.
    #[error("the command is not UTF-8, and Kubernetes cannot be told of it")]
    Command,
    /// Names of objects are short and plain.
    #[error(
        "{name:?} cannot be the name of an object: lower-case letters, digits and `-`, at most {MOST_NAME} of them"
    )]
    Name {
        /// Which.
        name: String,
    },
    /// An image must have a name.
    #[error("{image:?} is not the name of an image")]
    Image {
        /// Which.
        image: String,
    },
    /// The host's own programs are on no claim.
    #[error("with files from a claim an image must be named: `[agent.NAME.container] image`")]
    NoImage,
    /// A pod must not be root.
    #[error("whoever works in a pod may not be root, nor of root's group")]
    Root,
    /// A link would be followed on the node, to wherever it leads at that moment.
    #[error("{path} is a link, or nothing that can be mounted")]
    Source {
        /// Which.
        path: AbsPath,
    },
    /// Older than anything here was thought for.
    #[error("Kubernetes 1.{} is older than 1.{}", version.0, ClusterVersion::OLDEST.0)]
    TooOld {
        /// Which.
        version: ClusterVersion,
    },
}

/// The longest name: objects that belong together are called by it and a word more.
const MOST_NAME: usize = 50;

/// Describes a pod. `look` says what stands where on this machine.
///
/// # Errors
/// [`PodError`]; what cannot be said is refused, not approximated.
pub fn pod(order: &PodOrder<'_>, look: &mut dyn Look) -> Result<PodPlan, PodError> {
    check(order)?;
    let goes_down = order.cluster >= ClusterVersion::RECURSIVE;
    let made = layout(&Laid {
        programs: order.programs,
        mounts: order.mounts,
        operator: order.operator,
        submounts: if goes_down { &[] } else { order.submounts },
    })?;
    let (volumes, mounts) = volumes::volumes(order, made, look)?;
    let words = order.command.iter().map(|word| std::str::from_utf8(word).map(literal).map_err(|_| PodError::Command));
    let arguments = words.collect::<Result<_, _>>()?;
    let workdir = sayable(order.surface.workdir())?.to_owned();
    let caps = order.surface.caps();
    let (network, mut withheld) = network::rules(order.surface, order.named);
    withheld.extend(shortfalls::withheld(order));
    Ok(PodPlan {
        name: order.name.to_owned(),
        image: order.image.to_owned(),
        pull: if order.programs == Programs::Host { Pull::Never } else { Pull::Absent },
        runtime_class: order.runtime_class.map(str::to_owned),
        arguments,
        workdir,
        variables: variables(order.programs),
        user: order.user,
        users: if order.cluster >= ClusterVersion::USERS { PodUsers::Own } else { PodUsers::Nodes },
        volumes,
        mounts,
        recursive: if goes_down { ReadOnlyGoes::AllTheWay } else { ReadOnlyGoes::NotBelow },
        memory: caps.memory.as_ref().map(|cap| cap.value),
        // A pod that may last no time at all is none.
        seconds: caps.wall.as_ref().map(|cap| cap.value.as_secs().max(1)),
        network,
        shortfalls: shortfalls::shortfalls(order),
        withheld,
    })
}

fn check(order: &PodOrder<'_>) -> Result<(), PodError> {
    let claim = if let FilesFrom::Claim(name) = order.files { Some(name) } else { None };
    for name in [Some(order.name), claim, order.runtime_class].into_iter().flatten() {
        if !is_plain(name) {
            return Err(PodError::Name { name: name.to_owned() });
        }
    }
    if order.image.is_empty() || order.image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(PodError::Image { image: order.image.to_owned() });
    }
    if claim.is_some() && order.programs == Programs::Host {
        return Err(PodError::NoImage);
    }
    if order.user.0 == 0 || order.user.1 == 0 {
        return Err(PodError::Root);
    }
    if order.cluster < ClusterVersion::OLDEST {
        return Err(PodError::TooOld { version: order.cluster });
    }
    Ok(())
}

/// What the agent is told; an image with nothing in it says not even where programs are.
fn variables(programs: Programs) -> Vec<(&'static str, String)> {
    const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let path = (programs == Programs::Host).then(|| ("PATH", PATH.to_owned()));
    let mut variables = vec![("HOME", POD_HOME.to_owned())];
    variables.extend(path);
    variables.push(("TMPDIR", "/tmp".to_owned()));
    variables
}

/// A label as names of objects, volumes and claims are made of.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MOST_NAME).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('-') && !name.ends_with('-')
}

/// `$(NAME)` is a variable in a command, and `$$` a dollar sign; before anything else one is only itself.
fn literal(word: &str) -> String {
    let mut said = String::with_capacity(word.len());
    let mut rest = word.chars().peekable();
    while let Some(c) = rest.next() {
        said.push(c);
        if c == '$' && matches!(rest.peek(), Some('$' | '(')) {
            said.push('$');
        }
    }
    said
}

/// A path as a place where something is mounted.
fn sayable(path: &AbsPath) -> Result<&str, PodError> {
    let text = std::str::from_utf8(path.as_bytes()).map_err(|_| PodError::NotUtf8 { path: path.clone() })?;
    if text.contains(':') { Err(PodError::Colon { path: path.clone() }) } else { Ok(text) }
}

/// Can Kubernetes be told that something is mounted here?
pub fn can_mount_in_pod(path: &AbsPath) -> bool {
    sayable(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a kubelet reads a word, where a variable is known.
    fn expanded(word: &str) -> String {
        let mut said = String::new();
        let mut rest = word;
        while let Some((before, after)) = rest.split_once('$') {
            said.push_str(before);
            rest = after;
            if let Some(after) = rest.strip_prefix('$') {
                said.push('$');
                rest = after;
            } else if let Some((_, after)) = rest.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
                said.push_str("EXPANDED");
                rest = after;
            } else {
                said.push('$');
            }
        }
        said + rest
    }

    #[test]
    fn a_command_holds_no_variables() {
        assert_eq!(expanded("$(HOME)"), "EXPANDED");
        for word in
            ["$(HOME)", "$HOME", "$$", "$$$", "$$(HOME)", "$", "a$b$$c$(d", "$($(HOME))", "$$$(HOME)", "", "$ (x)"]
        {
            assert_eq!(expanded(&literal(word)), word);
        }
        assert_eq!(literal("echo $HOME"), "echo $HOME");
    }

    #[test]
    fn names_of_objects() {
        for name in ["a", "ringfence-session", "0", "a-0"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a.b", "a/b", "ä", "a\n", &"a".repeat(51)] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
