//! What exists inside the view and may not be read or written, as mounts.
//!
//! A mount guards a name only while its directories keep theirs: whoever may rename a directory above could put another in
//! its place. So every directory between a writable root and something guarded is pinned. Pins alone would make each of
//! them a mount of its own, and renames between them would fail; so the root is bound once more over the top, and the pins
//! hold from below.
//!
//! What is shown inside something denied (the session's own home, in a home directory that is the project) is mounted after
//! it: the denied directory becomes a hollow one, in which nothing else exists.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_surface::{AbsPath, Access, Because, Rule, Sense, Surface};

use crate::landlock::Withheld;
use crate::mounts::{Found, MountAccess, MountOp};

/// What a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// What may not be read.
    pub denied: Vec<(AbsPath, Found)>,
    /// What may be read and not written.
    pub protected: Vec<AbsPath>,
}

/// The mounts with everything guarded that was found, sorted by destination: what contains comes before what is contained.
/// Only the pins of a root come before it is covered, the deepest first.
///
/// No operation makes a place writable that the Surface refuses to be written, whatever was found there.
pub fn guarded(surface: &Surface, mounts: &[MountOp], findings: &Findings) -> Vec<MountOp> {
    let mut ops = arranged(mounts, findings);
    ops.iter_mut().for_each(|op| assert_writable(surface, op));
    ops
}

/// The same beside a broker, which writes in `brokered` places what a pattern names and nothing else: these are mounted writable, though
/// not everything in them may be written, and nothing but the broker can write there.
pub fn guarded_with_broker(
    surface: &Surface,
    mounts: &[MountOp],
    findings: &Findings,
    brokered: &[AbsPath],
) -> Vec<MountOp> {
    let mut ops = arranged(mounts, findings);
    let by_mounts = ops.iter_mut().filter(|op| !brokered.iter().any(|place| op.destination().is_within(place)));
    by_mounts.for_each(|op| assert_writable(surface, op));
    ops
}

/// A writable mount of a place that may not be written is made read-only. Each operation is checked by itself: an engine that
/// mounts every place separately knows nothing of the read-only mount around it.
pub(crate) fn assert_writable(surface: &Surface, op: &mut MountOp) {
    let path = match op {
        MountOp::Bind { path, access: MountAccess::ReadWrite, .. }
        | MountOp::Pin { path }
        | MountOp::Cover { path } => path.clone(),
        _ => return,
    };
    if surface.decide(&path, Access::Write).is_allowed() {
        return;
    }
    match op {
        MountOp::Bind { access, .. } => *access = MountAccess::ReadOnly,
        _ => *op = MountOp::Freeze { path },
    }
}

/// The same for mounts that the operator adds to a Surface: whether they are writable is the operator's decision.
pub fn guarded_operator(mounts: &[MountOp], findings: &Findings) -> Vec<MountOp> {
    arranged(mounts, findings)
}

fn arranged(mounts: &[MountOp], findings: &Findings) -> Vec<MountOp> {
    let layout = Layout::new(mounts, findings);
    let pins = layout.pins();
    let mut ops: Vec<MountOp> = mounts.to_vec();
    let frozen = findings.protected.iter().filter(|path| layout.is_writable(path));
    ops.extend(frozen.map(|path| MountOp::Freeze { path: path.clone() }));
    ops.extend(findings.denied.iter().map(|(path, kind)| {
        let (path, kind) = (path.clone(), *kind);
        if layout.hollow.contains(&path) { MountOp::Hollow { path } } else { MountOp::Mask { path, kind } }
    }));
    // Stable: at one place the mount comes first, then what guards it.
    ops.sort_by(|a, b| a.destination().cmp(b.destination()));
    let mut placed = Vec::with_capacity(ops.len());
    for op in ops {
        let root = matches!(op, MountOp::Bind { .. }).then(|| op.destination().clone());
        placed.push(op);
        if let Some((root, pins)) = root.and_then(|root| pins.get_key_value(&root)) {
            placed.extend(pins.iter().rev().map(|path| MountOp::Pin { path: path.clone() }));
            placed.push(MountOp::Cover { path: root.clone() });
        }
    }
    placed
}

/// Exceptions that are not looked for: in a directory that is closed as a whole only those that name one place are.
pub fn unseen_exceptions(surface: &Surface, findings: &Findings) -> Vec<Withheld> {
    let is_pattern = |rule: &&Rule| rule.sense == Sense::Exception && rule.pattern.as_path().is_none();
    let rules = surface.rules().iter().enumerate();
    let exceptions: Vec<(usize, &Rule)> =
        rules.filter(|(_, rule)| is_pattern(rule) && rule.source.is_written()).collect();
    if exceptions.is_empty() {
        return Vec::new();
    }
    let denied = findings.denied.iter().filter(|(_, kind)| *kind == Found::Directory).map(|(path, _)| path);
    let denied = denied.map(|path| (path, Access::Read));
    let closed = denied.chain(findings.protected.iter().map(|path| (path, Access::Write)));
    // What is taken away as a whole is not shown, or read-only from the start.
    let given = surface.allowed_reads().filter_map(|rule| rule.pattern.as_path());
    let closed = closed.chain(given.flat_map(|path| [(path, Access::Read), (path, Access::Write)]));
    let closed = closed.filter(|(path, access)| !surface.decide(path, *access).is_allowed());
    let closed: Vec<(&AbsPath, usize, u32)> = closed
        .filter_map(|(path, access)| match surface.decide(path, access).because {
            Because::Rule(by) => {
                let at = surface.rules().iter().position(|rule| std::ptr::eq(rule, by))?;
                Some((path, at, by.list))
            }
            Because::OnlyReadable(_) | Because::View(_) => None,
        })
        .collect();
    // Only what stands later in the same list undoes anything.
    let reaches = |at: usize, rule: &Rule| {
        closed.iter().any(|(dir, by, list)| {
            *list == rule.list
                && at > *by
                && rule.pattern.base().is_none_or(|base| base.is_within(dir) || dir.is_within(base))
        })
    };
    let unseen = exceptions.into_iter().filter(|(at, rule)| reaches(*at, rule));
    let reason = "an exception that is a pattern is not looked for in a directory that is closed as a whole";
    unseen
        .map(|(_, rule)| Withheld { pattern: rule.pattern.to_string(), source: rule.source.to_string(), reason })
        .collect()
}

/// What is mounted where, and what is denied.
struct Layout<'m> {
    mounts: BTreeMap<&'m AbsPath, &'m MountOp>,
    findings: &'m Findings,
    denied: BTreeSet<&'m AbsPath>,
    protected: BTreeSet<&'m AbsPath>,
    /// Denied directories in which something is mounted.
    hollow: BTreeSet<AbsPath>,
}

impl<'m> Layout<'m> {
    fn new(mounts: &'m [MountOp], findings: &'m Findings) -> Self {
        let denied: BTreeSet<&AbsPath> = findings.denied.iter().map(|(path, _)| path).collect();
        let above = mounts.iter().flat_map(|op| op.destination().ancestors().skip(1));
        let hollow = above.filter(|path| denied.contains(path)).collect();
        let mounts = mounts.iter().map(|op| (op.destination(), op)).collect();
        let protected = findings.protected.iter().collect();
        Self { mounts, findings, denied, protected, hollow }
    }

    /// The mount that shows a place; itself, if something is mounted there.
    fn shown_by(&self, path: &AbsPath) -> Option<&'m MountOp> {
        path.ancestors().find_map(|above| self.mounts.get(&above).copied())
    }

    fn is_writable(&self, path: &AbsPath) -> bool {
        matches!(self.shown_by(path), Some(MountOp::Bind { access: MountAccess::ReadWrite, .. }))
    }

    /// For each writable root, the directories between it and what is guarded or mounted in it, both ends left out.
    fn pins(&self) -> BTreeMap<AbsPath, BTreeSet<AbsPath>> {
        let mut pins: BTreeMap<AbsPath, BTreeSet<AbsPath>> = BTreeMap::new();
        let held = self.denied.iter().chain(self.mounts.keys()).copied().chain(&self.findings.protected);
        for path in held {
            let mut between = Vec::new();
            for above in path.ancestors().skip(1) {
                // What lies in something denied has its own way in, which nobody can rename.
                if self.denied.contains(&above) {
                    break;
                }
                // What is frozen is a mount point, and read-only with everything in it. A pin in it would be a writable mount
                // there for programs that mount each place by itself, as container engines do.
                if self.protected.contains(&above) {
                    between.clear();
                    continue;
                }
                if let Some(op) = self.mounts.get(&above) {
                    if let MountOp::Bind { access: MountAccess::ReadWrite, .. } = op {
                        pins.entry(above).or_default().extend(between);
                    }
                    break;
                }
                between.push(above);
            }
        }
        pins.retain(|_, between| !between.is_empty());
        pins
    }
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

    fn show(op: &MountOp) -> String {
        match op {
            MountOp::Bind { path, .. } => format!("bind {path}"),
            MountOp::Pin { path } => format!("pin {path}"),
            MountOp::Cover { path } => format!("cover {path}"),
            MountOp::Mask { path, .. } => format!("mask {path}"),
            MountOp::Freeze { path } => format!("freeze {path}"),
            MountOp::Own { path, .. } => format!("own {path}"),
            MountOp::Rebuilt { path } => format!("rebuilt {path}"),
            MountOp::Program { path, .. } => format!("program {path}"),
            MountOp::Hollow { path } => format!("hollow {path}"),
            MountOp::Link { path, .. } => format!("link {path}"),
            MountOp::Private { place, .. } => format!("private {}", place.path()),
        }
    }

    #[track_caller]
    fn check(mounts: &[MountOp], denied: &[(&str, Found)], protected: &[&str], expected: &[&str]) {
        let findings = Findings {
            denied: denied.iter().map(|(path, kind)| (abs(path), *kind)).collect(),
            protected: protected.iter().map(|path| abs(path)).collect(),
        };
        let shown: Vec<String> = arranged(mounts, &findings).iter().map(show).collect();
        assert_eq!(shown, expected);
    }

    const RO: MountAccess = MountAccess::ReadOnly;
    const RW: MountAccess = MountAccess::ReadWrite;

    #[test]
    fn ancestors_are_pinned_below_a_cover() {
        check(
            &[bind("/usr", RO), bind("/w", RW)],
            &[("/w/a/b/.env", Found::File)],
            &["/w/.git/hooks", "/w/top"],
            &[
                "bind /usr",
                "bind /w",
                "pin /w/a/b",
                "pin /w/a",
                "pin /w/.git",
                "cover /w",
                "freeze /w/.git/hooks",
                "mask /w/a/b/.env",
                "freeze /w/top",
            ],
        );
    }

    /// A directory in something frozen is not made writable again by a pin.
    #[test]
    fn e3_nothing_in_something_frozen_is_pinned() {
        check(
            &[bind("/w", RW)],
            &[("/w/b/c/.env", Found::File)],
            &["/w/b", "/w/b/c/a", "/w/d/e"],
            &["bind /w", "pin /w/d", "cover /w", "freeze /w/b", "mask /w/b/c/.env", "freeze /w/b/c/a", "freeze /w/d/e"],
        );
        // What an exception opens in it is a mount of its own, and its directories are part of what is frozen.
        check(
            &[bind("/w", RW), bind("/w/b/c/open", RW)],
            &[("/w/b/c/open/x/.env", Found::File)],
            &["/w/b"],
            &[
                "bind /w",
                "freeze /w/b",
                "bind /w/b/c/open",
                "pin /w/b/c/open/x",
                "cover /w/b/c/open",
                "mask /w/b/c/open/x/.env",
            ],
        );
    }

    #[test]
    fn what_is_mounted_in_a_root_is_pinned_too() {
        check(&[bind("/w", RW), bind("/w/a/b", RW)], &[], &[], &["bind /w", "pin /w/a", "cover /w", "bind /w/a/b"]);
        check(
            &[bind("/w", RO), bind("/w/a/b", RW)],
            &[("/w/a/b/c/.env", Found::File)],
            &[],
            &["bind /w", "bind /w/a/b", "pin /w/a/b/c", "cover /w/a/b", "mask /w/a/b/c/.env"],
        );
    }

    #[test]
    fn what_is_read_only_needs_no_freezing() {
        check(&[bind("/w", RO)], &[], &["/w/.git/hooks"], &["bind /w"]);
        check(
            &[bind("/w", RO), bind("/w/a", RW)],
            &[],
            &["/w/a/x", "/w/b"],
            &["bind /w", "bind /w/a", "freeze /w/a/x"],
        );
    }

    /// [E3] Whatever was found, nothing that the Surface refuses to be written is mounted writable. (`e3_` in tests/containers.rs
    /// shows it of what is rendered.)
    #[test]
    fn e3_a_writable_mount_of_what_may_not_be_written_is_read_only() {
        let surface = crate::mounts::tests::surface("[files]\nprotect = [\"b\", \"!b/open\"]\n");
        let (root, below) = ("/home/u/proj", |path: &str| format!("/home/u/proj/{path}"));
        let mut ops = [
            bind(root, RW),
            MountOp::Pin { path: abs(&below("b/c")) },
            MountOp::Pin { path: abs(&below("a")) },
            MountOp::Cover { path: abs(root) },
            bind(&below("b"), RW),
            bind(&below("b/open"), RW),
        ];
        ops.iter_mut().for_each(|op| assert_writable(&surface, op));
        let frozen = MountOp::Freeze { path: abs(&below("b/c")) };
        assert_eq!(ops[1], frozen);
        assert_eq!((&ops[4], &ops[5]), (&bind(&below("b"), RO), &bind(&below("b/open"), RW)));
        assert!(matches!((&ops[0], &ops[2], &ops[3]), (_, MountOp::Pin { .. }, MountOp::Cover { .. })));
    }

    /// The session's own home in a home directory that is the project.
    #[test]
    fn what_is_shown_in_something_denied_comes_after_it() {
        check(
            &[bind("/home/u", RW), bind("/home/u/.state/rf/s/1/home", RW)],
            &[("/home/u/.state/rf", Found::Directory), ("/home/u/.ssh", Found::Directory)],
            &[],
            &[
                "bind /home/u",
                "pin /home/u/.state",
                "cover /home/u",
                "mask /home/u/.ssh",
                "hollow /home/u/.state/rf",
                "bind /home/u/.state/rf/s/1/home",
            ],
        );
    }

    #[test]
    fn nothing_found_nothing_pinned() {
        let mounts = [bind("/w", MountAccess::ReadWrite)];
        assert_eq!(arranged(&mounts, &Findings { denied: Vec::new(), protected: Vec::new() }), mounts);
    }
}
