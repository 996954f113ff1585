//! What exists inside the view and may not be read or written, as mounts.
//!
//! A mount guards a name only while its directories keep theirs: whoever may rename a directory above could put another in
//! its place. So every directory between a writable root and something guarded is pinned. Pins alone would make each of
//! them a mount of its own, and renames between them would fail; so the root is bound once more over the top, and the pins
//! hold from below.

use std::collections::BTreeSet;

use ringfence_surface::AbsPath;

use crate::mounts::{Found, MountAccess, MountOp};

/// What a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// What may not be read.
    pub denied: Vec<(AbsPath, Found)>,
    /// What may be read and not written.
    pub protected: Vec<AbsPath>,
}

/// The mounts with everything guarded that was found.
pub fn guarded(mounts: &[MountOp], findings: &Findings) -> Vec<MountOp> {
    let names = findings.denied.iter().map(|(path, _)| path).chain(&findings.protected);
    let guarded: BTreeSet<&AbsPath> = names.collect();
    let mut ops = Vec::new();
    for op in mounts {
        ops.push(op.clone());
        if let MountOp::Bind { path, access: MountAccess::ReadWrite, .. } = op {
            let pins = pins(path, mounts, &guarded);
            if !pins.is_empty() {
                ops.extend(pins.into_iter().map(|path| MountOp::Pin { path }));
                ops.push(MountOp::Cover { path: path.clone() });
            }
        }
    }
    // What lies in something read-only cannot be written anyway, and each mount costs time.
    let writable = findings.protected.iter().filter(|path| !is_read_only(path, mounts));
    let mut guards: Vec<MountOp> = writable.map(|path| MountOp::Freeze { path: path.clone() }).collect();
    guards.extend(findings.denied.iter().map(|(path, kind)| MountOp::Mask { path: path.clone(), kind: *kind }));
    guards.sort_by(|a, b| a.destination().cmp(b.destination()));
    ops.extend(guards);
    ops
}

/// Is the innermost of the mounts that show a path read-only?
fn is_read_only(path: &AbsPath, mounts: &[MountOp]) -> bool {
    let showing = mounts.iter().filter(|op| path.is_within(op.destination()));
    let innermost = showing.max_by_key(|op| op.destination().as_bytes().len());
    matches!(innermost, Some(MountOp::Bind { access: MountAccess::ReadOnly, .. }))
}

/// The directories between a root and what is guarded or mounted in it, both ends left out.
fn pins(root: &AbsPath, mounts: &[MountOp], guarded: &BTreeSet<&AbsPath>) -> BTreeSet<AbsPath> {
    let inner = mounts.iter().map(MountOp::destination).filter(|path| *path != root);
    let held = guarded.iter().copied().chain(inner).filter(|path| path.is_within(root) && *path != root);
    held.flat_map(|path| path.ancestors().skip(1).take_while(|above| above != root).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_surface::Role;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    fn bind(path: &str, access: MountAccess) -> MountOp {
        MountOp::Bind { path: abs(path), access, role: Role::Write }
    }

    #[test]
    fn ancestors_are_pinned_below_a_cover() {
        let mounts = [bind("/usr", MountAccess::ReadOnly), bind("/w", MountAccess::ReadWrite)];
        let findings = Findings {
            denied: vec![(abs("/w/a/b/.env"), Found::File)],
            protected: vec![abs("/w/.git/hooks"), abs("/w/top")],
        };
        let shown: Vec<String> = guarded(&mounts, &findings)
            .iter()
            .map(|op| match op {
                MountOp::Bind { path, .. } => format!("bind {path}"),
                MountOp::Pin { path } => format!("pin {path}"),
                MountOp::Cover { path } => format!("cover {path}"),
                MountOp::Mask { path, .. } => format!("mask {path}"),
                MountOp::Freeze { path } => format!("freeze {path}"),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "bind /usr",
                "bind /w",
                "pin /w/.git",
                "pin /w/a",
                "pin /w/a/b",
                "cover /w",
                "freeze /w/.git/hooks",
                "mask /w/a/b/.env",
                "freeze /w/top"
            ]
        );
    }

    #[test]
    fn what_is_read_only_anyway_is_not_frozen() {
        let mounts = [
            bind("/usr", MountAccess::ReadOnly),
            bind("/usr/src/w", MountAccess::ReadWrite),
            bind("/usr/src/w/docs", MountAccess::ReadOnly),
        ];
        let protected = ["/usr/lib/systemd", "/usr/src/w/.envrc", "/usr/src/w/docs/.envrc"].map(abs).to_vec();
        let denied = vec![(abs("/usr/lib/key"), Found::File)];
        let ops = guarded(&mounts, &Findings { denied, protected });
        let is_guard = |op: &&MountOp| matches!(op, MountOp::Freeze { .. } | MountOp::Mask { .. });
        let guards: Vec<&MountOp> = ops.iter().filter(is_guard).collect();
        let mask = MountOp::Mask { path: abs("/usr/lib/key"), kind: Found::File };
        let freeze = MountOp::Freeze { path: abs("/usr/src/w/.envrc") };
        assert_eq!(guards, [&mask, &freeze]);
    }

    #[test]
    fn nothing_found_nothing_pinned() {
        let mounts = [bind("/w", MountAccess::ReadWrite)];
        assert_eq!(guarded(&mounts, &Findings { denied: Vec::new(), protected: Vec::new() }), mounts);
    }
}
