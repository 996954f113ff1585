//! A session in a root of its own: what Landlock admits there, and where the session's own directories are.
//!
//! In a root exists what was put there, and the work. So the domain says of everything in the manifest that it can be read, of the
//! places for temporary files that they can be written, and of the work what the policy says. What a policy gives elsewhere on the
//! host is not in the root, and that is said.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;

use ringfence_plan::{
    Claim, Findings, LandlockPlan, LandlockRule, LayerName, Plan, Rights, Shortfall, UNIX_SOCKETS, Withheld,
};
use ringfence_surface::policy::View;
use ringfence_surface::{AbsPath, Effect, Role, Surface};

use rustix::fs::{AtFlags, Gid, Uid};

use crate::launch::Identity;
use crate::place::{open_place, open_root, relative};
use crate::remove::remove_tree;
use crate::roots::{Kind, Root};
use crate::stand_ins::Places;
use crate::walk::os_path;

/// What a session has of its own, that its command sees.
const INNER: [&str; 3] = ["given", "home", "tmp"];

/// The session's directories, in a root. They are removed with this value.
#[derive(Debug)]
pub struct MovedIn {
    place: AbsPath,
}

impl MovedIn {
    /// Moves what the session's command sees into the root, to the path that it has outside. A link stays behind for those who
    /// look for it there. What else is in the session's directory, its audit and its control, stays outside.
    pub(crate) fn new(root: &Root, session: &AbsPath) -> io::Result<Self> {
        let place = root.within(session);
        // Whoever works for root goes through it.
        let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
        fs::DirBuilder::new().mode(mode).create(os_path(&place))?;
        let moved = Self { place };
        for name in INNER {
            let (outside, inside) = (session.join(name), moved.place.join(name));
            fs::rename(os_path(&outside), os_path(&inside))?;
            rustix::fs::symlink(inside.as_bytes(), outside.as_bytes())?;
        }
        Ok(moved)
    }
}

impl Drop for MovedIn {
    fn drop(&mut self) {
        // What cannot be removed now is collected later: the session that it belongs to is gone.
        let _ = remove_tree(os_path(&self.place));
    }
}

/// What a root does not hold of what is in it.
pub(crate) fn shortfalls(surface: &Surface, root: &Root, found: &Findings, identity: Identity) -> Vec<Shortfall> {
    let short = |claim: Claim, reason: &str| Shortfall { claim, layer: LayerName::Root, reason: reason.to_owned() };
    let mut shortfalls = Vec::new();
    // Where the project is a part of the work, the rest of it is in the root too.
    let is_given = |path: &AbsPath| surface.allowed_writes().any(|rule| rule.pattern.as_path() == Some(path));
    let is_shared = !is_given(&root.work());
    if (!found.denied.is_empty() || is_shared) && surface.view() == View::Surface {
        let reason = "names and sizes of what is in the root can be seen, denied or not; nothing outside of it";
        shortfalls.push(short(Claim::NothingElseIsSeen, reason));
    }
    let reason = match identity {
        Identity::Caller { .. } => {
            "the programs in the root belong to whoever works there, who can change their mode and times"
        }
        Identity::Other { .. } if found.denied.is_empty() && found.protected.is_empty() && !is_shared => {
            return shortfalls;
        }
        Identity::Other { .. } => {
            "of what is denied, protected or elsewhere in the root's work, mode, owner and times can be changed"
        }
    };
    shortfalls.push(short(Claim::MetadataStays, reason));
    shortfalls
}

/// Gives the directories above a project's caches to whoever works: no mount shows them what lies in them.
pub(crate) fn open_caches(root: &Root, identity: Identity) -> io::Result<()> {
    let Identity::Other { uid, gid } = identity else { return Ok(()) };
    let (top, own) = (open_root()?, (Uid::from_raw(uid), Gid::from_raw(gid)));
    let mut ahead = vec![root.cache()];
    // A cache lies four below: ours, of projects, which project, and its own name.
    for _ in 0..4 {
        for dir in std::mem::take(&mut ahead) {
            // A link that somebody planted is not followed.
            let place = open_place(&top, &relative(&dir))?;
            rustix::fs::chownat(&place, c"", Some(own.0), Some(own.1), AtFlags::EMPTY_PATH)?;
            let below = fs::read_dir(os_path(&dir))?.flatten();
            let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            ahead.extend(below.map(|entry| dir.child(entry.file_name().as_bytes())));
        }
    }
    Ok(())
}

/// What stands in the place of devices, seen from outside.
pub(crate) fn stand_ins(root: &Root) -> Places {
    let of_kind = |kind: Kind| {
        let those = root.manifest().entries.iter().filter(move |entry| entry.kind == kind);
        those.filter_map(|entry| CString::new(root.within(&entry.path()?).as_bytes()).ok())
    };
    Places { pipes: of_kind(Kind::Pipe).collect(), null: of_kind(Kind::Substitute).next() }
}

/// The domain in a root, before what is denied is taken out of it.
pub(crate) fn rules(surface: &Surface, plan: &Plan, root: &Root, session: &AbsPath) -> (LandlockPlan, Vec<Withheld>) {
    let tree = root.tree();
    let is_inside = |path: &AbsPath| path.is_within(&tree) || path.is_within(session);
    let mut rules = of_manifest(root);
    rules.extend(plan.landlock.rules.iter().filter(|rule| is_inside(&rule.path)).cloned());
    // Where the whole host is given, the work is; it is all of the host that there is in a root.
    if plan.landlock.rules.iter().any(|rule| tree.is_within(&rule.path)) {
        rules.push(LandlockRule { path: root.work(), rights: Rights::Read });
    }
    let reason = "it is not in the root";
    let mut withheld = Vec::new();
    for rule in surface.allowed_reads() {
        let is_named = matches!(
            rule.effect,
            Effect::Write(role) | Effect::Read(role) if !matches!(role, Role::System | Role::Private | Role::Scratch)
        );
        let is_elsewhere = |path: &AbsPath| !is_inside(path) && os_path(path).exists();
        if is_named && rule.pattern.as_path().is_none_or(is_elsewhere) {
            let (pattern, source) = (rule.pattern.to_string(), rule.source.to_string());
            withheld.push(Withheld { pattern, source, reason });
        }
    }
    for entry in root.manifest().substitutes() {
        let reason = match entry.kind {
            Kind::Pipe => "no device could be made in this root: a pipe stands in its place",
            _ => {
                "no device could be made in this root: a file stands in its place, and what is written can be read for a moment"
            }
        };
        let (pattern, source) = (entry.path.shown(), "root".to_owned());
        withheld.push(Withheld { pattern, source, reason });
    }
    if surface.view() == View::Host {
        let (pattern, source) = ("/".to_owned(), "view = \"host\"".to_owned());
        withheld.push(Withheld { pattern, source, reason });
    }
    // Of temporary files there are the root's own.
    let sockets = plan.landlock.withheld.iter().filter(|one| one.pattern == UNIX_SOCKETS).cloned().collect();
    (LandlockPlan { rules, withheld: sockets, ..plan.landlock.clone() }, withheld)
}

/// Everything in the manifest can be read; devices can be used; temporary files can be written.
fn of_manifest(root: &Root) -> Vec<LandlockRule> {
    let manifest = root.manifest();
    let places: BTreeSet<AbsPath> = manifest.places().collect();
    // A directory that leads to a place is not given whole: what belongs to other sessions is in some of them.
    let mut leads_to_a_place: BTreeSet<AbsPath> = places.iter().flat_map(|place| place.ancestors().skip(1)).collect();
    // Nor one that leads to the link to the root itself. There is nothing else in it inside; outside, where what is denied is
    // left out of what is given, the whole root with everybody's work is.
    leads_to_a_place.extend(root.tree().ancestors());
    let mut given: BTreeSet<AbsPath> = BTreeSet::new();
    let mut rules = Vec::new();
    // Sorted: what contains comes before what is contained.
    for entry in &manifest.entries {
        let Some(path) = entry.path() else { continue };
        match entry.kind {
            Kind::Device { .. } | Kind::Substitute => rules.push(LandlockRule { path, rights: Rights::Device }),
            Kind::Pipe => rules.push(LandlockRule { path, rights: Rights::Read }),
            Kind::Link { .. } => {}
            Kind::Directory if leads_to_a_place.contains(&path) => {}
            Kind::Directory | Kind::File { .. } => {
                if !path.ancestors().any(|above| given.contains(&above)) {
                    given.insert(path);
                }
            }
        }
    }
    rules.extend(given.into_iter().map(|path| LandlockRule { path, rights: Rights::Read }));
    let temporary = places.into_iter().filter(crate::roots::is_temporary);
    rules.extend(temporary.map(|path| LandlockRule { path, rights: Rights::All }));
    rules
}
