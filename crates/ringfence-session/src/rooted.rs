//! A session in a root of its own: what Landlock admits there, and where the session's own directories are.
//!
//! In a root exists what was put there, and the work. So the domain says of everything in the manifest that it can be read, of the
//! places for temporary files that they can be written, and of the work what the policy says. What a policy gives elsewhere on the
//! host is not in the root, and that is said.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;

use ringfence_plan::{LandlockPlan, LandlockRule, Plan, Rights, Withheld};
use ringfence_surface::policy::View;
use ringfence_surface::{AbsPath, Effect, Role, Surface};

use crate::remove::remove_tree;
use crate::roots::{Kind, Root};
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

/// The domain in a root, before what is denied is taken out of it.
pub(crate) fn rules(surface: &Surface, plan: &Plan, root: &Root, session: &AbsPath) -> (LandlockPlan, Vec<Withheld>) {
    let tree = root.tree();
    let is_inside = |path: &AbsPath| path.is_within(&tree) || path.is_within(session);
    let mut rules = of_manifest(root);
    rules.extend(plan.landlock.rules.iter().filter(|rule| is_inside(&rule.path)).cloned());
    let reason = "it is not in the root";
    let mut withheld = Vec::new();
    for rule in surface.allowed_reads() {
        let is_named = matches!(
            rule.effect,
            Effect::Write(role) | Effect::Read(role) if !matches!(role, Role::System | Role::Private | Role::Scratch)
        );
        if is_named && rule.pattern.as_path().is_none_or(|path| !is_inside(path)) {
            let (pattern, source) = (rule.pattern.to_string(), rule.source.to_string());
            withheld.push(Withheld { pattern, source, reason });
        }
    }
    if surface.view() == View::Host {
        let (pattern, source) = ("/".to_owned(), "view = \"host\"".to_owned());
        withheld.push(Withheld { pattern, source, reason });
    }
    (LandlockPlan { rules, withheld: Vec::new(), ..plan.landlock.clone() }, withheld)
}

/// Everything in the manifest can be read; devices can be used; temporary files can be written.
fn of_manifest(root: &Root) -> Vec<LandlockRule> {
    let manifest = root.manifest();
    let places: BTreeSet<AbsPath> = manifest.places().collect();
    // A directory that leads to a place is not given whole: what belongs to other sessions is in some of them.
    let leads_to_a_place: BTreeSet<AbsPath> = places.iter().flat_map(|place| place.ancestors().skip(1)).collect();
    let mut given: BTreeSet<AbsPath> = BTreeSet::new();
    let mut rules = Vec::new();
    // Sorted: what contains comes before what is contained.
    for entry in &manifest.entries {
        let Some(path) = entry.path() else { continue };
        match entry.kind {
            Kind::Device { .. } | Kind::Substitute => rules.push(LandlockRule { path, rights: Rights::Device }),
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
    let temporary = places.into_iter().filter(|place| crate::roots::is_temporary(place));
    rules.extend(temporary.map(|path| LandlockRule { path, rights: Rights::All }));
    rules
}
