//! The view as a script: every mount laid out before the fork, so that the new process only makes the calls.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_plan::{Found, MountAccess, MountOp};
use ringfence_surface::{AbsPath, Look, PathFact, Role, Shown};
use ringfence_sys::mount::{MountAttr, Reach, mount_idmap, mount_setattr};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change, move_mount,
    open_tree, unmount,
};

/// One step. Paths without a leading slash are below the new root.
#[derive(Debug)]
pub(crate) enum Step {
    Mkdir {
        path: CString,
    },
    Touch {
        path: CString,
    },
    Symlink {
        target: CString,
        path: CString,
    },
    Bind {
        source: CString,
        path: CString,
        attributes: MountAttr,
        idmap: bool,
    },
    /// Something of the new root itself, bound again with other rights.
    Again {
        path: CString,
        attributes: Option<MountAttr>,
    },
    Mask {
        path: CString,
        kind: Found,
    },
    Mount {
        kind: &'static std::ffi::CStr,
        path: CString,
        flags: MountFlags,
        data: &'static std::ffi::CStr,
    },
}

impl Step {
    /// What the step was about, for a message.
    pub(crate) fn words(&self) -> String {
        let shown = |path: &CString| Shown(path.as_bytes()).to_string();
        match self {
            Self::Mkdir { path } => format!("mkdirat({})", shown(path)),
            Self::Touch { path } => format!("openat({}, O_CREAT)", shown(path)),
            Self::Symlink { target, path } => format!("symlinkat({}, {})", shown(target), shown(path)),
            Self::Bind { source, path, .. } => format!("open_tree({}) and move_mount({})", shown(source), shown(path)),
            Self::Again { path, .. } => format!("open_tree({0}) and move_mount({0})", shown(path)),
            Self::Mask { path, .. } => format!("mask {}", shown(path)),
            Self::Mount { kind, path, .. } => format!("mount({}, {})", Shown(kind.to_bytes()), shown(path)),
        }
    }
}

/// The whole view.
#[derive(Debug)]
pub(crate) struct View {
    /// An empty directory: what masks are made of is mounted there, and the new root over it.
    pub(crate) root: CString,
    pub(crate) steps: Vec<Step>,
    /// Whose files the writable directories show, where that differs from who works on them.
    pub(crate) idmap: Option<OwnedFd>,
}

/// Where in the script something failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed {
    /// The number of the step; those below are made before the first.
    pub(crate) step: u32,
    pub(crate) errno: rustix::io::Errno,
}

pub(crate) const PROPAGATION: u32 = u32::MAX;
pub(crate) const NEW_ROOT: u32 = u32::MAX - 1;
pub(crate) const MASKS: u32 = u32::MAX - 2;
pub(crate) const PIVOT: u32 = u32::MAX - 3;

/// Lays out the script.
pub(crate) fn script(ops: &[MountOp], session: &AbsPath, look: &mut dyn Look, maps_ids: bool) -> Vec<Step> {
    let mut script = Script { steps: Vec::new(), made: BTreeSet::new(), bound: Vec::new(), maps_ids };
    let links = [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")];
    for op in ops {
        match op {
            MountOp::Bind { path, access, role } => script.bind(path, *access, *role, look),
            MountOp::Link { path, target } => {
                script.parents(path);
                if let Some(target) = c_string(target) {
                    script.steps.push(Step::Symlink { target, path: relative(path) });
                }
            }
            MountOp::Private { path, .. } => script.private(path, session),
            MountOp::Pin { path } => script.steps.push(Step::Again { path: relative(path), attributes: None }),
            MountOp::Cover { path } => script.bind(path, MountAccess::ReadWrite, Role::Write, look),
            MountOp::Mask { path, kind } => script.steps.push(Step::Mask { path: relative(path), kind: *kind }),
            MountOp::Freeze { path } => {
                script.steps.push(Step::Again { path: relative(path), attributes: Some(MountAttr::FROZEN) });
            }
        }
    }
    // Shells open these for `<(...)`; they are the process's own descriptors.
    for (name, target) in links {
        let path = c_string(format!("dev/{name}").as_bytes()).unwrap_or_default();
        script.steps.push(Step::Symlink { target: c_string(target.as_bytes()).unwrap_or_default(), path });
    }
    script.steps
}

struct Script {
    steps: Vec<Step>,
    made: BTreeSet<AbsPath>,
    bound: Vec<AbsPath>,
    maps_ids: bool,
}

impl Script {
    /// Makes the directories above a place, where they are ours to make: below something bound they exist already.
    fn parents(&mut self, path: &AbsPath) {
        let mut above: Vec<AbsPath> = path.ancestors().skip(1).filter(|dir| !dir.is_root()).collect();
        above.reverse();
        for dir in above {
            self.mkdir(&dir);
        }
    }

    fn is_below_a_bind(&self, path: &AbsPath) -> bool {
        self.bound.iter().any(|bound| path.is_within(bound))
    }

    fn mkdir(&mut self, dir: &AbsPath) {
        if !self.is_below_a_bind(dir) && self.made.insert(dir.clone()) {
            self.steps.push(Step::Mkdir { path: relative(dir) });
        }
    }

    fn bind(&mut self, path: &AbsPath, access: MountAccess, role: Role, look: &mut dyn Look) {
        self.parents(path);
        if !path.is_root() && !self.is_below_a_bind(path) {
            let is_directory = matches!(role, Role::Cache | Role::Scratch) || look.path(path) == PathFact::Directory;
            if is_directory {
                self.mkdir(path);
            } else {
                self.steps.push(Step::Touch { path: relative(path) });
            }
        }
        let attributes = match access {
            MountAccess::ReadOnly => MountAttr::READ_ONLY,
            MountAccess::ReadWrite => MountAttr::TAME,
        };
        let idmap = self.maps_ids && access == MountAccess::ReadWrite && !matches!(role, Role::Cache | Role::Scratch);
        if let Some(source) = c_string(path.as_bytes()) {
            self.steps.push(Step::Bind { source, path: relative(path), attributes, idmap });
            self.bound.push(path.clone());
        }
    }

    /// `/tmp` is the session's own directory on disk; the rest is made of nothing.
    fn private(&mut self, path: &AbsPath, session: &AbsPath) {
        let mount = |kind, path: &AbsPath, flags, data| Step::Mount { kind, path: relative(path), flags, data };
        let tame = MountFlags::NOSUID | MountFlags::NODEV;
        self.parents(path);
        match path.as_bytes() {
            b"/proc" => {
                self.mkdir(path);
                self.steps.push(mount(c"proc", path, tame | MountFlags::NOEXEC, c""));
            }
            b"/tmp" | b"/var/tmp" => {
                self.mkdir(path);
                if let Some(source) = c_string(session.join("tmp").as_bytes()) {
                    let path = relative(path);
                    self.steps.push(Step::Bind { source, path, attributes: MountAttr::TAME, idmap: false });
                }
            }
            b"/dev/shm" => {
                self.mkdir(path);
                self.steps.push(mount(c"tmpfs", path, tame | MountFlags::NOEXEC, c"mode=1777"));
            }
            b"/dev/pts" => {
                self.mkdir(path);
                let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
                self.steps.push(mount(c"devpts", path, flags, c"newinstance,ptmxmode=0666,mode=620"));
            }
            b"/dev/ptmx" => {
                self.steps.push(Step::Symlink { target: c"pts/ptmx".into(), path: relative(path) });
            }
            _ => {
                self.steps.push(Step::Touch { path: relative(path) });
                if let Some(source) = c_string(path.as_bytes()) {
                    let path = relative(path);
                    self.steps.push(Step::Bind { source, path, attributes: MountAttr::DEVICE, idmap: false });
                }
            }
        }
    }
}

/// Paths of a Surface hold no NUL; one that did would be left out rather than cut short.
fn c_string(bytes: &[u8]) -> Option<CString> {
    CString::new(bytes).ok()
}

/// Seen from the new root; the root itself is `.`.
fn relative(path: &AbsPath) -> CString {
    let below = path.as_bytes().strip_prefix(b"/").filter(|rest| !rest.is_empty()).unwrap_or(b".");
    c_string(below).unwrap_or_default()
}

impl View {
    /// Makes the view and moves into it. Runs in the new process, in its own mount namespace, with the rights over it.
    /// Allocates nothing.
    pub(crate) fn enter(&self) -> Result<(), Failed> {
        let at = |step: u32| move |errno: rustix::io::Errno| Failed { step, errno };
        // Nothing travels either way: an unmount inside would reach the host, and what the host mounts later would arrive here
        // without a mask and writable.
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change(c"/", private).map_err(at(PROPAGATION))?;
        let masks = self.masks().map_err(at(MASKS))?;
        let tame = MountFlags::NOSUID | MountFlags::NODEV;
        mount(c"tmpfs", self.root.as_c_str(), c"tmpfs", tame, c"mode=0755").map_err(at(NEW_ROOT))?;
        // The session's directory may lie below something that is bound: unbindable, the new root does not show inside itself.
        mount_change(self.root.as_c_str(), MountPropagationFlags::UNBINDABLE).map_err(at(NEW_ROOT))?;
        let path_only = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(self.root.as_c_str(), path_only, Mode::empty()).map_err(at(NEW_ROOT))?;
        for (number, step) in (0..).zip(&self.steps) {
            self.make(step, root.as_fd(), masks.as_fd()).map_err(at(number))?;
        }
        rustix::process::fchdir(&root).map_err(at(PIVOT))?;
        rustix::process::pivot_root(c".", c".").map_err(at(PIVOT))?;
        unmount(c".", UnmountFlags::DETACH).map_err(at(PIVOT))?;
        rustix::process::chdir(c"/").map_err(at(PIVOT))?;
        let whole = OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let root = open_tree(CWD, c"/", whole).map_err(at(PIVOT))?;
        mount_setattr(root.as_fd(), MountAttr::FROZEN, Reach::One).map_err(|e| at(PIVOT)(errno(&e)))
    }

    /// One unreadable file and one unreadable directory, both empty: masks are made of them.
    fn masks(&self) -> rustix::io::Result<OwnedFd> {
        let tame = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount(c"tmpfs", self.root.as_c_str(), c"tmpfs", tame, c"mode=0755")?;
        let path_only = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let masks = rustix::fs::open(self.root.as_c_str(), path_only, Mode::empty())?;
        rustix::fs::mkdirat(&masks, c"directory", Mode::empty())?;
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&masks, c"file", create, Mode::empty())?;
        Ok(masks)
    }

    fn make(&self, step: &Step, root: BorrowedFd<'_>, masks: BorrowedFd<'_>) -> rustix::io::Result<()> {
        match step {
            Step::Mkdir { path } => match rustix::fs::mkdirat(root, path.as_c_str(), Mode::from_raw_mode(0o755)) {
                Err(rustix::io::Errno::EXIST) => Ok(()),
                other => other,
            },
            Step::Touch { path } => {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                rustix::fs::openat(root, path.as_c_str(), flags, Mode::from_raw_mode(0o644)).map(drop)
            }
            Step::Symlink { target, path } => rustix::fs::symlinkat(target.as_c_str(), root, path.as_c_str()),
            Step::Bind { source, path, attributes, idmap } => {
                let tree = clone_tree(CWD, source)?;
                if let (true, Some(namespace)) = (*idmap, &self.idmap) {
                    mount_idmap(tree.as_fd(), namespace.as_fd()).map_err(|e| errno(&e))?;
                }
                mount_setattr(tree.as_fd(), *attributes, Reach::Recursive).map_err(|e| errno(&e))?;
                attach(&tree, root, path)
            }
            Step::Again { path, attributes } => {
                let tree = clone_tree(root, path)?;
                if let Some(attributes) = attributes {
                    mount_setattr(tree.as_fd(), *attributes, Reach::Recursive).map_err(|e| errno(&e))?;
                }
                attach(&tree, root, path)
            }
            Step::Mask { path, kind } => {
                let name = if *kind == Found::Directory { c"directory" } else { c"file" };
                let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
                let tree = open_tree(masks, name, flags)?;
                mount_setattr(tree.as_fd(), MountAttr::DATA_ONLY, Reach::One).map_err(|e| errno(&e))?;
                attach(&tree, root, path)
            }
            Step::Mount { kind, path, flags, data } => {
                let path_only = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let target = rustix::fs::openat(root, path.as_c_str(), path_only, Mode::empty())?;
                rustix::process::fchdir(&target)?;
                mount(*kind, c".", *kind, *flags, *data)
            }
        }
    }
}

fn clone_tree(dir: BorrowedFd<'_>, path: &CString) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    open_tree(dir, path.as_c_str(), flags)
}

fn attach(tree: &OwnedFd, root: BorrowedFd<'_>, path: &CString) -> rustix::io::Result<()> {
    move_mount(tree, c"", root, path.as_c_str(), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn errno(error: &io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO)
}
