//! From single files to places that are worth a line.

use std::collections::{BTreeMap, BTreeSet};

use super::{Risk, Thing, is_of_the_kernel};
use crate::curated::packs::PACKS;
use crate::decide::{Access, Because};
use crate::path::{AbsPath, Shown};
use crate::surface::Surface;

/// So many files of one directory are that directory.
const MANY: usize = 3;

/// What is known of where a policy stands.
#[derive(Clone)]
pub struct Ground<'g> {
    /// The directory of the policy's file.
    pub dir: &'g AbsPath,
    /// The home directory that `~` stands for.
    pub home: Option<&'g AbsPath>,
    /// Every home directory of the user's.
    pub homes: &'g [AbsPath],
    /// Is there something at a path, or below it, that not everybody on the machine may read?
    pub is_private: &'g dyn Fn(&AbsPath) -> bool,
}

/// Where, what stands there, and for what of what was asked for.
pub(super) type Place = (AbsPath, Thing, Vec<usize>);

/// Puts a directory in the place of everything in it.
fn gather(places: &mut BTreeMap<AbsPath, (Thing, Vec<usize>)>, dir: &AbsPath) {
    let from = places.range(dir.clone()..).map(|(path, _)| path);
    let near = from.take_while(|path| path.as_bytes().starts_with(dir.as_bytes()));
    let inside: Vec<AbsPath> = near.filter(|path| path.is_within(dir)).cloned().collect();
    let mut covers: Vec<usize> =
        inside.iter().filter_map(|path| places.remove(path)).flat_map(|(_, covers)| covers).collect();
    covers.sort_unstable();
    places.insert(dir.clone(), (Thing::Directory, covers));
}

impl Ground<'_> {
    /// Is this so much that no line for it is proposed? The top, what stands directly below it, a home and what it is in, and what
    /// the project itself is in.
    pub fn is_too_much(&self, surface: &Surface, path: &AbsPath) -> bool {
        path.components().count() < 2
            || self.homes.iter().any(|home| home.is_within(path))
            || surface.root().is_within(path)
            || self.dir.is_within(path)
    }

    /// Those of these directories that may be shown while it is learned what of them is needed: where that is not too much, a line for
    /// it would be of no more risk than this, and nothing closes them.
    pub fn open(&self, surface: &Surface, dirs: impl Iterator<Item = AbsPath>, most: Risk) -> Vec<AbsPath> {
        let dirs: BTreeSet<AbsPath> = dirs.collect();
        let is_open = |dir: &AbsPath| {
            !self.is_too_much(surface, dir)
                && !is_of_the_kernel(dir)
                && self.risk_of(dir, Thing::Directory, Access::Read).0 <= most
                && matches!(surface.decide(dir, Access::Read).because, Because::View(_))
        };
        dirs.into_iter().filter(is_open).collect()
    }

    /// The places to name: itself for each, or a directory for many. Nothing that lies around something that stays closed.
    pub(super) fn places<'p>(
        &self,
        surface: &Surface,
        named: impl Iterator<Item = (&'p AbsPath, Thing, usize)>,
        closed: &[&AbsPath],
    ) -> (Vec<Place>, Vec<(usize, AbsPath)>) {
        let mut too_much = Vec::new();
        let mut places: BTreeMap<AbsPath, (Thing, Vec<usize>)> = BTreeMap::new();
        for (path, thing, at) in named {
            if thing == Thing::Directory && self.is_too_much(surface, path) {
                too_much.push((at, path.clone()));
                continue;
            }
            places.entry(path.clone()).or_insert((thing, Vec::new())).1.push(at);
        }
        let may = |dir: &AbsPath| {
            !self.is_too_much(surface, dir)
                && !closed.iter().any(|path| path.is_within(dir))
                && matches!(surface.decide(dir, Access::Read).because, Because::View(_) | Because::OnlyReadable(_))
        };
        // Whoever reads what says how a package is built is about to read the package, and of a repository all of it.
        let package = |path: &AbsPath| {
            let is_marker = |name: &[u8]| PACKS.iter().any(|pack| pack.markers.iter().any(|m| m.as_bytes() == name));
            let repository = path.ancestors().find(|above| above.file_name() == Some(b".git"));
            repository.or_else(|| path.parent().filter(|_| is_marker(path.file_name().unwrap_or_default())))
        };
        let packages: BTreeSet<AbsPath> = places.keys().filter_map(package).filter(|dir| may(dir)).collect();
        packages.iter().for_each(|dir| gather(&mut places, dir));
        loop {
            let mut parents: BTreeMap<AbsPath, usize> = BTreeMap::new();
            for parent in places.keys().filter_map(AbsPath::parent) {
                *parents.entry(parent).or_insert(0) += 1;
            }
            // The deepest first: what many files of one directory have in common is that directory, and not what it is in.
            let many: Vec<AbsPath> =
                parents.into_iter().filter(|(dir, count)| *count >= MANY && may(dir)).map(|(dir, _)| dir).collect();
            let depth = |dir: &AbsPath| dir.components().count();
            let Some(deepest) = many.iter().map(depth).max() else { break };
            many.iter().filter(|dir| depth(dir) == deepest).for_each(|dir| gather(&mut places, dir));
        }
        // What lies in another that is named needs no line of its own.
        let mut kept: Vec<Place> = Vec::new();
        for (path, (thing, covers)) in places {
            match kept.iter_mut().find(|(dir, of, _)| *of == Thing::Directory && path.is_within(dir)) {
                Some((.., all)) => all.extend(covers),
                None => kept.push((path, thing, covers)),
            }
        }
        (kept, too_much)
    }

    /// A path as a policy says it: from the policy's own directory where it lies there or beside it, from the home directory, or
    /// from the top. None where it is not text.
    pub(super) fn spell(&self, path: &AbsPath) -> Option<String> {
        let below = |base: &AbsPath| -> Option<Vec<u8>> {
            let names: Vec<&[u8]> = path.components().skip(base.components().count()).collect();
            (path.is_within(base) && !names.is_empty()).then(|| names.join(&b"/"[..]))
        };
        // What is in a home is said so, unless the project is there too and nearer.
        let is_homely = self.home.is_some_and(|home| path.is_within(home) && !self.dir.is_within(home));
        let beside = self
            .dir
            .parent()
            .filter(|parent| parent.components().count() >= 2 && !self.homes.contains(parent) && !is_homely);
        let (before, bytes) =
            match (below(self.dir), beside.and_then(|parent| below(&parent)), self.home.and_then(below)) {
                (Some(bytes), ..) => ("./", bytes),
                (None, Some(bytes), _) => ("../", bytes),
                (None, None, Some(bytes)) => ("~/", bytes),
                (None, None, None) => ("", path.as_bytes().to_vec()),
            };
        // What cannot be shown as it is could be read as something else by whoever looks at the proposal.
        let text = String::from_utf8(bytes).ok().filter(|text| Shown(text.as_bytes()).to_string() == *text)?;
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '$' | '\\') {
                escaped.push('\\');
            }
            escaped.push(c);
        }
        Some(format!("{before}{escaped}"))
    }
}
