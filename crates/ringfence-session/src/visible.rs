//! Which places of the host a view shows.

use std::collections::{BTreeSet, HashMap};

use ringfence_plan::{MountAccess, MountOp, PrivateKind};
use ringfence_surface::{AbsPath, Role};

/// What a place in the view is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ground {
    /// The host's own files.
    Host {
        /// Can they be written?
        is_writable: bool,
    },
    /// The session's own `/proc`: the same names as the host's, other files.
    Processes,
    /// The session's own files.
    Own,
}

/// What is mounted where, found by any path below it.
#[derive(Debug)]
pub(crate) struct Visible<'m> {
    mounts: HashMap<&'m [u8], Ground>,
}

impl<'m> Visible<'m> {
    pub(crate) fn new(mounts: &'m [MountOp]) -> Self {
        let mounts = mounts.iter().filter_map(|op| Some((op.destination().as_bytes(), ground_of(op)?)));
        Self { mounts: mounts.collect() }
    }

    /// What shows a path, if anything does: the innermost mount.
    pub(crate) fn ground(&self, path: &AbsPath) -> Option<Ground> {
        let mut rest = path.as_bytes();
        loop {
            if let Some(ground) = self.mounts.get(rest) {
                return Some(*ground);
            }
            match rest.iter().rposition(|byte| *byte == b'/') {
                Some(0) => return self.mounts.get(b"/".as_slice()).copied(),
                Some(cut) => rest = &rest[..cut],
                None => return None,
            }
        }
    }

    /// The mounts that show files of the host.
    pub(crate) fn of_host(&self) -> impl Iterator<Item = AbsPath> {
        let hosts = self.mounts.iter().filter(|(_, ground)| matches!(ground, Ground::Host { .. }));
        hosts.filter_map(|(path, _)| AbsPath::lexical(path).ok())
    }

    /// Is something mounted below a place that can be written?
    pub(crate) fn is_written_below(&self, path: &AbsPath) -> bool {
        let is_writable = |ground: &Ground| matches!(ground, Ground::Host { is_writable: true });
        self.mounts.iter().any(|(mount, ground)| is_writable(ground) && is_below(mount, path))
    }

    /// Is something of the host's shown at a place or below it?
    pub(crate) fn shows_below(&self, path: &AbsPath) -> bool {
        let is_shown = |ground: Option<Ground>| matches!(ground, Some(Ground::Host { .. } | Ground::Processes));
        is_shown(self.ground(path))
            || self.mounts.iter().any(|(mount, ground)| is_shown(Some(*ground)) && is_below(mount, path))
    }
}

fn is_below(mount: &[u8], path: &AbsPath) -> bool {
    mount.strip_prefix(path.as_bytes()).is_some_and(|rest| path.is_root() || rest.first() == Some(&b'/'))
}

fn ground_of(op: &MountOp) -> Option<Ground> {
    Some(match op {
        MountOp::Bind { role: Role::Cache | Role::Scratch, .. } => Ground::Own,
        MountOp::Bind { access, .. } => Ground::Host { is_writable: *access == MountAccess::ReadWrite },
        MountOp::Private { place, .. } if place.kind() == PrivateKind::Processes => Ground::Processes,
        MountOp::Private { .. } | MountOp::Hollow { .. } | MountOp::Rebuilt { .. } => Ground::Own,
        MountOp::Link { .. }
        | MountOp::Pin { .. }
        | MountOp::Cover { .. }
        | MountOp::Mask { .. }
        | MountOp::Own { .. }
        | MountOp::Program { .. }
        | MountOp::Freeze { .. } => return None,
    })
}

/// Who works in root's place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worker {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Whose files are shown as the worker's in what is writable.
    pub(crate) owner: Option<(u32, u32)>,
}

/// The mounts, with a way to each of them for somebody who works in root's place: directories of the host above something
/// mounted that they may not enter become hollow. Nothing is lost by it, since they could read nothing in there.
pub(crate) fn with_ways(mounts: &[MountOp], worker: Worker) -> Vec<MountOp> {
    let visible = Visible::new(mounts);
    let mut hollow: BTreeSet<AbsPath> = BTreeSet::new();
    for op in mounts {
        let mut above: Vec<AbsPath> = op.destination().ancestors().skip(1).filter(|dir| !dir.is_root()).collect();
        above.reverse();
        let is_closed = |dir: &&AbsPath| match visible.ground(dir) {
            Some(Ground::Host { is_writable: false }) => !may_enter(dir, (worker.uid, worker.gid)),
            Some(Ground::Host { is_writable: true }) => {
                !may_enter(dir, worker.owner.unwrap_or((worker.uid, worker.gid)))
            }
            _ => false,
        };
        hollow.extend(above.iter().find(is_closed).cloned());
    }
    let is_shown = |op: &&MountOp| !hollow.contains(op.destination());
    let mut mounts: Vec<MountOp> = mounts.iter().filter(is_shown).cloned().collect();
    mounts.extend(hollow.iter().map(|path| MountOp::Hollow { path: path.clone() }));
    mounts.sort_by(|a, b| a.destination().cmp(b.destination()));
    mounts
}

/// Could somebody who works in root's place get into a directory?
pub(crate) fn is_reachable(dir: &AbsPath, worker: Worker) -> bool {
    dir.ancestors().all(|dir| may_enter(&dir, (worker.uid, worker.gid)))
}

/// By the mode alone: an access list may say more, and then less is shown than could be.
fn may_enter(dir: &AbsPath, (uid, gid): (u32, u32)) -> bool {
    let Ok(status) = rustix::fs::stat(dir.as_bytes()) else { return true };
    let bit = match (status.st_uid == uid, status.st_gid == gid) {
        (true, _) => 0o100,
        (_, true) => 0o010,
        _ => 0o001,
    };
    status.st_mode & bit != 0
}

#[cfg(test)]
mod tests {
    use ringfence_plan::PrivatePlace;

    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_innermost_mount_decides() {
        let bind = |path: &str, access, role| MountOp::Bind { path: abs(path), access, role };
        let mounts = [
            bind("/", MountAccess::ReadOnly, Role::System),
            MountOp::Hollow { path: abs("/run") },
            MountOp::Private { place: PrivatePlace::at(&abs("/proc")).unwrap(), access: MountAccess::ReadOnly },
            bind("/w", MountAccess::ReadWrite, Role::WorkingDir),
            bind("/w/.state/s/home", MountAccess::ReadWrite, Role::Scratch),
        ];
        let read_only = Some(Ground::Host { is_writable: false });
        let writable = Some(Ground::Host { is_writable: true });
        for (path, expected) in [
            ("/", read_only),
            ("/etc/shadow", read_only),
            ("/w", writable),
            ("/w/a/b", writable),
            ("/wx", read_only),
            ("/run/docker.sock", Some(Ground::Own)),
            ("/runx", read_only),
            ("/proc/keys", Some(Ground::Processes)),
            ("/w/.state/s/home/x", Some(Ground::Own)),
        ] {
            assert_eq!(Visible::new(&mounts).ground(&abs(path)), expected, "{path}");
        }
        assert_eq!(Visible::new(&mounts[3..]).ground(&abs("/etc")), None);
        assert!(Visible::new(&mounts[3..]).shows_below(&abs("/")));
        assert!(!Visible::new(&mounts[4..]).shows_below(&abs("/w")));
        assert!(!Visible::new(&mounts[3..]).shows_below(&abs("/ww")));
    }
}
