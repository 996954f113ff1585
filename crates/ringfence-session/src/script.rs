//! The mounts of a plan as a script: every path and every right laid out before the fork.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString};

use ringfence_plan::{Found, MountAccess, MountOp, PrivateKind, PrivatePlace};
use ringfence_surface::{AbsPath, Look, PathFact, Role, Shown};
use ringfence_sys::mount::MountAttr;
use rustix::fs::{AtFlags, FileType};
use rustix::mount::MountFlags;

use crate::layer::{Landing, Layer, Over};
use crate::place::{Id, open_root, relative};
use crate::walk::Walked;

/// One step. Paths are below the new root.
#[derive(Debug)]
pub(crate) enum Step {
    Mkdir {
        path: CString,
        mode: u32,
    },
    Touch {
        path: CString,
    },
    Symlink {
        target: CString,
        path: CString,
    },
    /// Something of the host's.
    Bind {
        source: CString,
        from: Id,
        to: Target,
        attributes: MountAttr,
        idmap: bool,
    },
    /// What is written above what stands there stays in a layer.
    Layer {
        to: Target,
        layer: Layer,
    },
    /// A directory that is bound over once more afterwards: what is mounted here only keeps its name.
    Pin {
        to: Target,
    },
    /// Something of the new root itself, bound again with fewer rights.
    Again {
        to: Target,
        attributes: MountAttr,
    },
    Mask {
        to: Target,
        kind: Found,
    },
    /// A file that exists nowhere else: one of the script's texts.
    Put {
        to: Target,
        name: CString,
    },
    /// A new file system.
    Mount {
        kind: &'static CStr,
        to: Target,
        flags: MountFlags,
        data: &'static CStr,
    },
    /// No more writing here: what had to be made in it is made.
    Seal {
        path: CString,
    },
}

/// Where something is mounted.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) path: CString,
    /// What must stand there, where it is the host's.
    pub(crate) id: Option<Id>,
    /// What if nothing stands there?
    pub(crate) absent: Absent,
}

/// What the absence of something means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It was moved away: nothing starts.
    Refused,
    /// It ended: nothing is left to guard.
    Fine,
}

impl Step {
    /// What the step was about, for a message.
    pub(crate) fn words(&self) -> String {
        let shown = |path: &CString| Shown(path.as_bytes()).to_string();
        match self {
            Self::Mkdir { path, .. } => format!("mkdirat(/{})", shown(path)),
            Self::Touch { path } => format!("openat(/{}, O_CREAT)", shown(path)),
            Self::Symlink { target, path } => format!("symlinkat({}, /{})", shown(target), shown(path)),
            Self::Bind { source, to, .. } => {
                format!("open_tree(/{}) and move_mount(/{})", shown(source), shown(&to.path))
            }
            Self::Layer { to, .. } => format!("mount(overlay, /{})", shown(&to.path)),
            Self::Pin { to } => format!("pinning /{}", shown(&to.path)),
            Self::Again { to, .. } => format!("making /{} read-only", shown(&to.path)),
            Self::Mask { to, .. } => format!("masking /{}", shown(&to.path)),
            Self::Put { to, .. } => format!("putting a file of the session at /{}", shown(&to.path)),
            Self::Mount { kind, to, .. } => format!("mount({}, /{})", Shown(kind.to_bytes()), shown(&to.path)),
            Self::Seal { path } => format!("mount_setattr(/{}, MOUNT_ATTR_RDONLY)", shown(path)),
        }
    }
}

/// What the new root is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// Nothing: only what is mounted exists.
    Nothing,
    /// The host's own root, with everything that is mounted there, read-only.
    Host,
}

/// A view as it will be made.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) base: Base,
    /// Files that are made with what masks are made of, by name.
    pub(crate) texts: Vec<(CString, Vec<u8>)>,
    pub(crate) steps: Vec<Step>,
}

/// A file of the session in the place of the host's.
#[derive(Debug)]
pub(crate) struct OwnText {
    pub(crate) path: AbsPath,
    /// Another for each.
    pub(crate) name: &'static str,
    pub(crate) content: Vec<u8>,
}

/// What went wrong while laying out.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// Something that is to be shown cannot be looked at.
    #[error("fstatat({path}, AT_SYMLINK_NOFOLLOW)")]
    Look {
        /// Which.
        path: AbsPath,
        /// Why.
        source: std::io::Error,
    },
    /// A layer cannot be made.
    #[error("cannot make the layer that keeps {path} as it is")]
    Layer {
        /// Over what.
        path: AbsPath,
        /// Why.
        source: std::io::Error,
    },
    /// The whole disk cannot be a project.
    #[error("`/` itself cannot be writable")]
    WritableRoot,
    /// A place of the host where something private must be mounted.
    #[error("{path} is needed as a place to mount at, and is no directory here")]
    NoPlace {
        /// Which.
        path: AbsPath,
    },
    /// What every session has of `/dev` is a few character devices.
    #[error("{path} is no character device on this host")]
    NoDevice {
        /// Which.
        path: AbsPath,
    },
}

/// Lays out the script. Only what the walk saw is mounted from or over.
///
/// # Errors
/// [`ScriptError`]; nothing was mounted.
pub(crate) fn script(
    ops: &[MountOp],
    texts: Vec<OwnText>,
    session: &AbsPath,
    walked: &Walked,
    look: &mut dyn Look,
    (maps_ids, landing): (bool, Landing),
) -> Result<Script, ScriptError> {
    let top = open_root().map_err(|errno| ScriptError::Look { path: AbsPath::root(), source: errno.into() })?;
    let mut layout = Layout {
        steps: Vec::new(),
        seals: Vec::new(),
        base: Base::Nothing,
        grounds: HashMap::new(),
        made: BTreeSet::new(),
        top,
        walked,
        session,
        look,
        maps_ids,
        landing,
        layered: Vec::new(),
    };
    for op in ops {
        layout.op(op)?;
    }
    let mut contents = Vec::with_capacity(texts.len());
    for OwnText { path, name, content } in texts {
        let name = c_string(name.as_bytes());
        let to = layout.room(&path);
        layout.steps.push(Step::Put { to, name: name.clone() });
        contents.push((name, content));
    }
    // Shells open these for `<(...)`; they are the process's own descriptors.
    for (name, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        let path = AbsPath::root().join("dev").join(name);
        layout.parents(&path);
        layout.steps.push(Step::Symlink { target: c_string(target.as_bytes()), path: relative(&path) });
    }
    let mut steps = layout.steps;
    steps.extend(layout.seals.into_iter().map(|path| Step::Seal { path }));
    Ok(Script { base: layout.base, texts: contents, steps })
}

/// What a place in the new root stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    /// Host files: names there exist, or do not.
    Host,
    /// Ours, with this mode for directories that must be made.
    Own(u32),
}

struct Layout<'l> {
    steps: Vec<Step>,
    seals: Vec<CString>,
    base: Base,
    grounds: HashMap<AbsPath, Ground>,
    made: BTreeSet<AbsPath>,
    top: std::os::fd::OwnedFd,
    walked: &'l Walked,
    session: &'l AbsPath,
    look: &'l mut dyn Look,
    maps_ids: bool,
    landing: Landing,
    /// What is written here goes into a layer.
    layered: Vec<AbsPath>,
}

impl Layout<'_> {
    fn op(&mut self, op: &MountOp) -> Result<(), ScriptError> {
        match op {
            // What is written into a layer lands nowhere, so nothing in it needs to be kept by a mount as it is: the broker refuses
            // what is protected. Binding it over again would show the host's own.
            // Nor needs a directory to keep its name: the kernel moves none that is below an overlay.
            MountOp::Pin { path } | MountOp::Cover { path } if self.is_layered(path) => {}
            MountOp::Freeze { path } if matches!(self.landing, Landing::Nowhere(_)) && self.is_layered(path) => {}
            MountOp::Bind { path, access, .. } if path.is_root() => {
                if *access == MountAccess::ReadWrite {
                    return Err(ScriptError::WritableRoot);
                }
                self.base = Base::Host;
                self.grounds.insert(path.clone(), Ground::Host);
            }
            MountOp::Bind { path, access, role } => self.bind(path, *access, *role)?,
            MountOp::Cover { path } => {
                // The session's own directories belong to whoever works in them, whoever owns the project.
                let role = if path.is_within(self.session) { Role::Scratch } else { Role::Write };
                self.bind(path, MountAccess::ReadWrite, role)?;
            }
            MountOp::Link { path, target } => {
                self.parents(path);
                self.steps.push(Step::Symlink { target: c_string(target), path: relative(path) });
            }
            MountOp::Private { place, .. } => self.private(place)?,
            MountOp::Pin { path } => self.steps.push(Step::Pin { to: self.target(path) }),
            MountOp::Mask { path, kind } => {
                let kind = *kind;
                self.steps.push(Step::Mask { to: self.target(path), kind });
            }
            MountOp::Freeze { path } => {
                self.steps.push(Step::Again { to: self.target(path), attributes: MountAttr::FROZEN });
            }
            MountOp::Own { path, name } => self.own_file(path, &self.session.join(name))?,
            MountOp::Program { path, source } => self.own_file(path, source)?,
            MountOp::Hollow { path } => self.hollow(path),
            MountOp::Rebuilt { path } => self.rebuilt(path),
        }
        Ok(())
    }

    fn target(&self, path: &AbsPath) -> Target {
        let absent = if self.walked.sockets.contains(path) { Absent::Fine } else { Absent::Refused };
        // Of what is seen through a layer the kernel says other numbers than of what is below it.
        let id = self.walked.seen.get(path).copied().filter(|_| !self.is_layered(path));
        Target { path: relative(path), id, absent }
    }

    fn is_layered(&self, path: &AbsPath) -> bool {
        self.layered.iter().any(|over| path.is_within(over))
    }

    /// A place that is ours: nobody else can change what stands there.
    fn own(path: &AbsPath) -> Target {
        Target { path: relative(path), id: None, absent: Absent::Refused }
    }

    /// What a place stands on: the innermost mount above it.
    fn ground(&self, path: &AbsPath) -> Ground {
        path.ancestors().find_map(|above| self.grounds.get(&above).copied()).unwrap_or(Ground::Own(0o755))
    }

    /// Makes the directories above a place, where they are ours to make.
    fn parents(&mut self, path: &AbsPath) {
        let mut above: Vec<AbsPath> = path.ancestors().skip(1).filter(|dir| !dir.is_root()).collect();
        above.reverse();
        for dir in above {
            self.mkdir(&dir);
        }
    }

    fn mkdir(&mut self, dir: &AbsPath) {
        if let Ground::Own(mode) = self.ground(dir)
            && !self.grounds.contains_key(dir)
            && self.made.insert(dir.clone())
        {
            self.steps.push(Step::Mkdir { path: relative(dir), mode });
        }
    }

    fn bind(&mut self, path: &AbsPath, access: MountAccess, role: Role) -> Result<(), ScriptError> {
        let (from, kind) = self.identify(path)?;
        self.parents(path);
        // Where the host's own files are the ground, the place and what is mounted there are one.
        let to = match self.ground(path) {
            Ground::Host => {
                let id = Some(from).filter(|_| !self.is_layered(path));
                Target { path: relative(path), id, absent: Absent::Refused }
            }
            Ground::Own(_) if kind == FileType::Directory => {
                self.mkdir(path);
                Self::own(path)
            }
            Ground::Own(_) => {
                self.steps.push(Step::Touch { path: relative(path) });
                Self::own(path)
            }
        };
        let attributes = match access {
            MountAccess::ReadOnly => MountAttr::READ_ONLY,
            // A device that the policy names is of no use unless it can be opened.
            MountAccess::ReadWrite if is_named_device(path, kind) => MountAttr::DEVICE,
            MountAccess::ReadWrite => MountAttr::TAME,
        };
        let is_own = matches!(role, Role::Cache | Role::Scratch);
        let idmap = self.maps_ids && access == MountAccess::ReadWrite && !is_own;
        if self.landing != Landing::InPlace && access == MountAccess::ReadWrite && !is_own {
            return self.bind_layered(path, (from, kind), (to, idmap));
        }
        self.steps.push(Step::Bind { source: relative(path), from, to, attributes, idmap });
        self.grounds.insert(path.clone(), Ground::Host);
        Ok(())
    }

    /// A writable place, so that nothing that is written there lands on the host.
    fn bind_layered(
        &mut self,
        path: &AbsPath,
        (from, kind): (Id, FileType),
        (to, idmap): (Target, bool),
    ) -> Result<(), ScriptError> {
        let number = self.layered.len();
        let over = Over { session: self.session, number, path, landing: self.landing, idmap };
        let failed = |source| ScriptError::Layer { path: path.clone(), source };
        let source = relative(path);
        let attributes = MountAttr::READ_ONLY;
        match kind {
            FileType::Directory => {
                let layer = over.make().map_err(failed)?;
                let over = Target { path: relative(path), id: None, absent: Absent::Refused };
                self.steps.push(Step::Bind { source, from, to, attributes, idmap });
                self.steps.push(Step::Layer { to: over, layer });
            }
            FileType::RegularFile => {
                let copy = over.copy().map_err(failed)?;
                let (from, _) = self.identify(&copy)?;
                let (source, attributes) = (relative(&copy), MountAttr::TAME);
                self.steps.push(Step::Bind { source, from, to, attributes, idmap: false });
            }
            _ => self.steps.push(Step::Bind { source, from, to, attributes, idmap }),
        }
        self.layered.push(path.clone());
        self.grounds.insert(path.clone(), Ground::Host);
        Ok(())
    }

    /// A file or a socket of the session in the place of the host's.
    fn own_file(&mut self, path: &AbsPath, source: &AbsPath) -> Result<(), ScriptError> {
        let (from, kind) = self.identify(source)?;
        let to = match (self.ground(path), kind) {
            // Whoever listens may make it anew, or end, at any time.
            (Ground::Host, FileType::Socket) => Target { path: relative(path), id: None, absent: Absent::Fine },
            _ => self.room(path),
        };
        let (source, attributes) = (relative(source), MountAttr::READ_ONLY);
        self.steps.push(Step::Bind { source, from, to, attributes, idmap: false });
        Ok(())
    }

    /// Where a file of the session goes: over the host's, or into room that is made for it.
    fn room(&mut self, path: &AbsPath) -> Target {
        self.parents(path);
        match self.ground(path) {
            Ground::Host => self.target(path),
            Ground::Own(_) => {
                self.steps.push(Step::Touch { path: relative(path) });
                Self::own(path)
            }
        }
    }

    /// What stands at a place of the host: what the walk saw there, or else what stands there now.
    fn identify(&self, path: &AbsPath) -> Result<(Id, FileType), ScriptError> {
        let look = |errno: rustix::io::Errno| ScriptError::Look { path: path.clone(), source: errno.into() };
        // Links on the way are followed here and nowhere else: what they lead to is not what is opened when it is mounted.
        let status = rustix::fs::statat(&self.top, relative(path), AtFlags::SYMLINK_NOFOLLOW).map_err(look)?;
        let id = self.walked.seen.get(path).copied().unwrap_or_else(|| Id::of(&status));
        Ok((id, FileType::from_raw_mode(status.st_mode)))
    }

    /// A directory of nothing. What is mounted in it must find its way, and nobody else may look around.
    fn hollow(&mut self, path: &AbsPath) {
        if matches!(self.ground(path), Ground::Own(_)) {
            // Nothing of the host's is there to be hidden.
            return;
        }
        let data = c"mode=0111";
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        self.steps.push(Step::Mount { kind: c"tmpfs", to: self.target(path), flags, data });
        self.seals.push(relative(path));
        self.grounds.insert(path.clone(), Ground::Own(0o111));
    }

    /// A directory of ours with the host's names in it, which are mounted afterwards.
    fn rebuilt(&mut self, path: &AbsPath) {
        if matches!(self.ground(path), Ground::Own(_)) {
            self.parents(path);
            self.mkdir(path);
            return;
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        self.steps.push(Step::Mount { kind: c"tmpfs", to: self.target(path), flags, data: c"mode=0755" });
        self.seals.push(relative(path));
        self.grounds.insert(path.clone(), Ground::Own(0o755));
    }

    /// `/tmp` is the session's own directory on disk; the rest is made of nothing.
    fn private(&mut self, place: &PrivatePlace) -> Result<(), ScriptError> {
        let path = place.path();
        let tame = MountFlags::NOSUID | MountFlags::NODEV;
        self.parents(path);
        if self.ground(path) == Ground::Host && !self.is_place(path)? {
            return Ok(());
        }
        match place.kind() {
            PrivateKind::Processes => {
                let flags = tame | MountFlags::NOEXEC | MountFlags::RDONLY;
                self.fresh(path, c"proc", flags, c"");
            }
            PrivateKind::Temporary => {
                let source = self.session.join("tmp");
                let (from, _) = self.identify(&source)?;
                self.mkdir(path);
                let (source, to) = (relative(&source), Self::own(path));
                self.steps.push(Step::Bind { source, from, to, attributes: MountAttr::TAME, idmap: false });
                self.grounds.insert(path.clone(), Ground::Own(0o755));
            }
            PrivateKind::Devices => {
                self.fresh(path, c"tmpfs", tame | MountFlags::NOEXEC, c"mode=0755");
                self.seals.push(relative(path));
            }
            PrivateKind::SharedMemory => self.fresh(path, c"tmpfs", tame | MountFlags::NOEXEC, c"mode=1777"),
            PrivateKind::Terminals => {
                let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
                self.fresh(path, c"devpts", flags, c"newinstance,ptmxmode=0666,mode=620");
            }
            PrivateKind::Multiplexer => {
                self.steps.push(Step::Symlink { target: c"pts/ptmx".into(), path: relative(path) });
            }
            PrivateKind::CharacterDevice => {
                // The one private thing that is an inode of the host's. A file or a socket there would be the host's, readable
                // and writable.
                let (from, kind) = self.identify(path)?;
                if kind != FileType::CharacterDevice {
                    return Err(ScriptError::NoDevice { path: path.clone() });
                }
                self.steps.push(Step::Touch { path: relative(path) });
                let (source, to) = (relative(path), Self::own(path));
                self.steps.push(Step::Bind { source, from, to, attributes: MountAttr::DEVICE, idmap: false });
            }
        }
        Ok(())
    }

    fn fresh(&mut self, path: &AbsPath, kind: &'static CStr, flags: MountFlags, data: &'static CStr) {
        self.mkdir(path);
        self.steps.push(Step::Mount { kind, to: Self::own(path), flags, data });
        self.grounds.insert(path.clone(), Ground::Own(0o755));
    }

    /// Can something private be mounted over a place of the host's? A link there leads to another such place (`/var/tmp` to
    /// `/tmp`) and needs nothing; where there is nothing, nothing of the host's needs to be hidden.
    fn is_place(&mut self, path: &AbsPath) -> Result<bool, ScriptError> {
        match self.look.path(path) {
            PathFact::Directory => Ok(true),
            PathFact::Missing => Ok(false),
            PathFact::Link(_) => {
                let leads_to = ringfence_surface::follow(&AbsPath::root(), path.as_bytes(), self.look);
                let is_private = leads_to.is_ok_and(|found| matches!(self.ground(&found.path), Ground::Own(_)));
                if is_private { Ok(false) } else { Err(ScriptError::NoPlace { path: path.clone() }) }
            }
            PathFact::File | PathFact::Special => Err(ScriptError::NoPlace { path: path.clone() }),
        }
    }
}

/// Paths of a Surface hold no NUL.
fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_default()
}

/// Directories that hold only character devices.
const DEVICE_DIRECTORIES: &[&[u8]] =
    &[b"/dev/accel", b"/dev/bus/usb", b"/dev/dri", b"/dev/infiniband", b"/dev/input", b"/dev/nvidia-caps", b"/dev/snd"];

/// Does a policy name a character device, or a directory of nothing else? Block devices stay closed: a program that opens one is past the
/// file system on it.
fn is_named_device(path: &AbsPath, kind: FileType) -> bool {
    match kind {
        FileType::CharacterDevice => true,
        FileType::Directory => DEVICE_DIRECTORIES.contains(&path.as_bytes()),
        _ => false,
    }
}
