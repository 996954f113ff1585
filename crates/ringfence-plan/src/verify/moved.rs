//! A Surface seen from another place: the same rules about a copy of the tree, so that nothing of the user's is touched.
//!
//! What programs need in order to run at all, the system's own files and what is private to a session, stays where it is.
//! Everything else goes below one directory, under its own path.

use std::collections::BTreeMap;

use ringfence_surface::{AbsPath, Anchor, Caps, Effect, HostFacts, PATH_VARIABLES, Pattern, Role, Rule, Surface};

/// Where paths go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    place: AbsPath,
    /// What stays, and what goes although it lies in there. The longest counts.
    stays: Vec<AbsPath>,
    goes: Vec<AbsPath>,
    /// The directory of the session, and of the one in its place.
    session: (AbsPath, AbsPath),
    /// The project's own caches, and those of the copy: where they are depends on where the project is.
    caches: Option<(AbsPath, AbsPath)>,
    /// Ports of the host that canaries stand in for.
    ports: BTreeMap<u16, u16>,
}

impl Moved {
    /// Into `place`. The Surface was resolved for a session in the first directory, and is used for one in the second.
    pub fn new(surface: &Surface, facts: &HostFacts, place: AbsPath, session: (AbsPath, AbsPath)) -> Self {
        let (mut stays, mut goes) = (Vec::new(), vec![surface.root().clone(), surface.workdir().clone()]);
        for rule in surface.allowed_reads() {
            let Some(path) = rule.pattern.as_path() else { continue };
            match rule.effect {
                Effect::Write(Role::System | Role::Private) | Effect::Read(Role::System | Role::Private) => {
                    stays.push(path.clone());
                }
                _ => goes.push(path.clone()),
            }
        }
        goes.extend(surface.roots().cloned().chain(facts.all_homes()));
        // A project in `/` has nothing but itself, and the system stays where it is.
        goes.retain(|path| !path.is_root());
        let moved = Self { place, stays, goes, session, caches: None, ports: BTreeMap::new() };
        let of_copy = moved.facts(facts).project_cache(&moved.path(surface.root()));
        let caches = caches(surface, facts).zip(of_copy);
        Self { caches, ..moved }
    }

    /// With other ports in the place of those that the policy names.
    pub fn with_ports(self, ports: BTreeMap<u16, u16>) -> Self {
        Self { ports, ..self }
    }

    /// Where a path is now.
    pub fn path(&self, path: &AbsPath) -> AbsPath {
        if path.is_within(&self.session.0) {
            return below(path, &self.session.0, &self.session.1);
        }
        if let Some((from, to)) = self.caches.as_ref().filter(|(from, _)| path.is_within(from)) {
            return below(path, from, to);
        }
        let longest = |of: &[AbsPath]| {
            of.iter().filter(|base| path.is_within(base)).map(|base| base.as_bytes().len()).max().unwrap_or(0)
        };
        if longest(&self.stays) > longest(&self.goes) {
            path.clone()
        } else {
            below(path, &AbsPath::root(), &self.place)
        }
    }

    /// Where a path of the copy was.
    pub fn back(&self, path: &AbsPath) -> Option<AbsPath> {
        if let Some((from, to)) = self.caches.as_ref().filter(|(_, to)| path.is_within(to)) {
            return Some(below(path, to, from));
        }
        path.is_within(&self.place).then(|| below(path, &self.place, &AbsPath::root()))
    }

    /// The Surface, about the copy. What is not tried is left out: limits, and secrets that are added to requests.
    pub fn surface(&self, surface: &Surface) -> Surface {
        let mut parts = surface.parts().clone();
        parts.root = self.path(&parts.root);
        parts.workdir = self.path(&parts.workdir);
        for rule in &mut parts.rules {
            rule.pattern = self.pattern(&rule.pattern);
        }
        for (path, _) in &mut parts.roots {
            *path = self.path(path);
        }
        for socket in &mut parts.reach.sockets {
            socket.value = self.path(&socket.value);
        }
        for port in &mut parts.reach.host_ports {
            port.value = self.ports.get(&port.value).copied().unwrap_or(port.value);
        }
        parts.reach.inject.clear();
        parts.caps = Caps { memory: None, pids: None, wall: None };
        Surface::from_parts(parts)
    }

    /// The facts of the host that the copy is on. What stands at paths is looked up again.
    pub fn facts(&self, facts: &HostFacts) -> HostFacts {
        let mut facts = facts.clone();
        for (name, value) in &mut facts.environment {
            let is_path = PATH_VARIABLES.iter().chain(&["XDG_STATE_HOME"]).any(|known| known.as_bytes() == name);
            if let Some(path) = AbsPath::lexical(value).ok().filter(|_| is_path) {
                *value = self.path(&path).as_bytes().to_vec();
            }
        }
        facts.cwd = self.path(&facts.cwd);
        facts.homes.iter_mut().for_each(|home| *home = self.path(home));
        facts.session = Some(self.session.1.clone());
        facts.paths.clear();
        facts.git.clear();
        facts.git_runs.clear();
        facts
    }

    fn pattern(&self, pattern: &Pattern) -> Pattern {
        let anchor = match &pattern.anchor {
            Anchor::At(path) => Anchor::At(self.path(path)),
            Anchor::Floating => Anchor::Floating,
        };
        Pattern { anchor, rest: pattern.rest.clone() }
    }
}

/// Where the project's caches are, as rules say it: links above them are followed already.
fn caches(surface: &Surface, facts: &HostFacts) -> Option<AbsPath> {
    let named = facts.project_cache(surface.root())?;
    let is_cache = |rule: &&Rule| matches!(rule.effect, Effect::Write(Role::Cache) | Effect::Read(Role::Cache));
    let places = surface.rules().iter().filter(is_cache).filter_map(|rule| rule.pattern.as_path());
    let mut above = places.flat_map(AbsPath::ancestors);
    above.find(|path| path.file_name() == named.file_name()).or(Some(named))
}

/// A path below `from`, seen below `to`.
fn below(path: &AbsPath, from: &AbsPath, to: &AbsPath) -> AbsPath {
    path.components().skip(from.components().count()).fold(to.clone(), |at, name| at.child(name))
}
