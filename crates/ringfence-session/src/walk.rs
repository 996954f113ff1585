//! Finds what exists below the roots and may not be read or written, in one walk.
//!
//! Links are not followed: what they lead to is decided where it stands. Each directory is entered once, with the rules in
//! hand, and each name costs one step.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ringfence_plan::{Findings, Found, MountOp};
use ringfence_surface::{AbsPath, Cursor, Effect, Role, Sense, Standing, Surface};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

/// How many names are looked at before the walk gives up: a tree this large is not a project.
pub const MOST_NAMES: usize = 2_000_000;

/// Why a walk did not find everything.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// A directory could not be listed.
    #[error("getdents64({path})")]
    List {
        /// Which.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// More names than anybody waits for.
    #[error("more than {MOST_NAMES} names below {root}")]
    TooMany {
        /// Where.
        root: AbsPath,
    },
}

/// What a walk found.
#[derive(Debug)]
pub struct Walked {
    /// What mounts guard.
    pub findings: Findings,
    /// Guarded files that have another name somewhere, by which they are not guarded.
    pub linked: Vec<AbsPath>,
    /// How many names were looked at.
    pub names: usize,
}

/// Walks everything the session works on, and looks at each place that a rule names outright.
///
/// # Errors
/// [`WalkError`] when something could not be looked at; what cannot be looked at cannot be guarded.
pub fn walk(surface: &Surface, mounts: &[MountOp]) -> Result<Walked, WalkError> {
    let findings = Findings { denied: Vec::new(), protected: Vec::new() };
    let mut walked = Walked { findings, linked: Vec::new(), names: 0 };
    named_places(surface, mounts, &mut walked);
    let roots = outermost(surface);
    for root in roots.iter().filter(|root| is_visible(root, mounts)) {
        below(surface, root, &mut walked)?;
    }
    walked.findings.denied.sort();
    walked.findings.denied.dedup();
    walked.findings.protected.sort();
    walked.findings.protected.dedup();
    without_inner(&mut walked.findings);
    Ok(walked)
}

/// What lies inside something denied needs no guard of its own.
fn without_inner(findings: &mut Findings) {
    let denied: Vec<AbsPath> = findings.denied.iter().map(|(path, _)| path.clone()).collect();
    let is_inner = |path: &AbsPath| path.ancestors().skip(1).any(|above| denied.binary_search(&above).is_ok());
    findings.denied.retain(|(path, _)| !is_inner(path));
    findings.protected.retain(|path| !is_inner(path) && denied.binary_search(path).is_err());
}

fn is_visible(path: &AbsPath, mounts: &[MountOp]) -> bool {
    let binds = mounts.iter().filter(|op| matches!(op, MountOp::Bind { .. } | MountOp::Private { .. }));
    let innermost =
        binds.filter(|op| path.is_within(op.destination())).max_by_key(|op| op.destination().as_bytes().len());
    matches!(innermost, Some(MountOp::Bind { role, .. }) if !matches!(role, Role::Cache | Role::Scratch))
}

/// Rules that name one place are looked up, wherever it is.
fn named_places(surface: &Surface, mounts: &[MountOp], walked: &mut Walked) {
    let takes_away = |effect| matches!(effect, Effect::Escape | Effect::Deny | Effect::Protect);
    for rule in surface.rules().iter().filter(|rule| takes_away(rule.effect) && rule.sense == Sense::Rule) {
        let Some(path) = rule.pattern.as_path().filter(|path| is_visible(path, mounts)) else { continue };
        let Ok(status) = rustix::fs::lstat(path.as_bytes()) else { continue };
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { continue };
        note(surface.cursor(&parent).standing(name), path.clone(), FileType::from_raw_mode(status.st_mode), walked);
    }
}

/// The roots that lie in no other; the host's own root is not walked, its secrets are named outright.
fn outermost(surface: &Surface) -> Vec<AbsPath> {
    let roots: Vec<&AbsPath> = surface.roots().filter(|root| !root.is_root()).collect();
    let is_outermost = |root: &&&AbsPath| !roots.iter().any(|other| *other != **root && root.is_within(other));
    roots.iter().filter(is_outermost).map(|root| (*root).clone()).collect()
}

fn below(surface: &Surface, root: &AbsPath, walked: &mut Walked) -> Result<(), WalkError> {
    let mut ahead: Vec<(AbsPath, Cursor<'_>)> = vec![(root.clone(), surface.cursor(root))];
    while let Some((path, cursor)) = ahead.pop() {
        let Some(names) = list(&path)? else {
            // It cannot be listed, but a name in it can be opened by whoever knows it, and its owner can change that.
            walked.findings.denied.push((path.clone(), Found::Directory));
            continue;
        };
        for (name, kind) in names {
            walked.names += 1;
            if walked.names > MOST_NAMES {
                return Err(WalkError::TooMany { root: root.clone() });
            }
            if is_git_pointer(&path, &name, kind) {
                walked.findings.protected.push(path.child(&name));
            }
            // A socket carries the authority of whoever listens; those that a policy names are not relayed yet either.
            if kind == FileType::Socket {
                walked.findings.denied.push((path.child(&name), Found::File));
            }
            let standing = cursor.standing(&name);
            let is_denied = matches!(standing, Standing::Denied(_));
            if standing != Standing::Open {
                note(standing, path.child(&name), kind, walked);
            }
            if kind == FileType::Directory && !is_denied {
                let inner = cursor.enter(&name);
                if !inner.is_exhausted() {
                    ahead.push((path.child(&name), inner));
                }
            }
        }
    }
    Ok(())
}

/// Notes what must be guarded. A link is guarded by its own name: a mount lands on it and not where it leads.
fn note(standing: Standing<'_>, path: AbsPath, kind: FileType, walked: &mut Walked) {
    let found = if kind == FileType::Directory { Found::Directory } else { Found::File };
    if standing == Standing::Open {
        return;
    }
    let links = || rustix::fs::lstat(path.as_bytes()).is_ok_and(|status| status.st_nlink > 1);
    if kind == FileType::RegularFile && links() {
        walked.linked.push(path.clone());
    }
    match standing {
        Standing::Denied(_) => walked.findings.denied.push((path, found)),
        _ => walked.findings.protected.push(path),
    }
}

/// Files that choose where git takes its settings from: `.git` as a file, and what ties a linked work tree to its repository.
/// Where they exist they stay; new ones are made by `git worktree add`.
fn is_git_pointer(dir: &AbsPath, name: &[u8], kind: FileType) -> bool {
    let is_tie = matches!(name, b"commondir" | b"gitdir" | b"config.worktree");
    let in_worktrees = dir.parent().is_some_and(|above| above.file_name() == Some(b"worktrees"));
    kind == FileType::RegularFile && (name == b".git" || is_tie && in_worktrees)
}

/// What a directory holds.
type Names = Vec<(Vec<u8>, FileType)>;

/// The names in a directory, with their kinds; `None` where it may not be listed. What is no directory, or vanished meanwhile,
/// has none.
fn list(path: &AbsPath) -> Result<Option<Names>, WalkError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let failed = |errno: rustix::io::Errno| WalkError::List { path: path.clone(), source: errno.into() };
    let dir = match rustix::fs::open(path.as_bytes(), flags, Mode::empty()) {
        Ok(dir) => dir,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
            return Ok(Some(Vec::new()));
        }
        Err(rustix::io::Errno::ACCESS) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    let mut names = Vec::new();
    for entry in Dir::read_from(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(&dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(status) => FileType::from_raw_mode(status.st_mode),
                Err(_) => continue,
            },
            kind => kind,
        };
        names.push((name.to_vec(), kind));
    }
    Ok(Some(names))
}

/// A path of ours as the system takes it.
pub fn os_path(path: &AbsPath) -> &Path {
    Path::new(OsStr::from_bytes(path.as_bytes()))
}
