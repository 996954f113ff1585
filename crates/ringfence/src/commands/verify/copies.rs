//! Copies of the shape of what a policy speaks of, and what is tried in them.
//!
//! A copy is made once and every layer that can tries in the same: making it takes longer than trying. After each layer it is
//! set right.

use std::collections::BTreeMap;

use ringfence_plan::verify::{Deed, Edge, Moved, Oracle, Standing, Subject, Trial, Trials, generate};
use ringfence_session::store::Session;
use ringfence_session::verify::{NotTried, Outsiders, Tree};
use ringfence_surface::{AbsPath, HostFacts, Look as _, PathFact, Surface};

use crate::host::Recorder;
use crate::load::Here;

/// What is copied.
pub(super) struct Original<'a> {
    pub(super) here: &'a Here,
    /// The session that everything was resolved for. Nothing is there.
    pub(super) nowhere: AbsPath,
    /// Who owns copies where root makes them.
    pub(super) owner: Option<(u32, u32)>,
}

/// A copy that stands.
pub(super) struct Copy {
    pub(super) standing: Standing,
    /// Below which state it was made.
    pub(super) state: AbsPath,
    pub(super) trials: Vec<Trial>,
    pub(super) tree: Tree,
    /// What it lies in, and goes with; not where it lies in a root.
    _session: Option<Session>,
}

/// The rules about a copy, for one session.
pub(super) struct About {
    pub(super) moved: Moved,
    pub(super) surface: Surface,
    pub(super) facts: HostFacts,
}

impl Original<'_> {
    /// Makes a copy below a state directory.
    pub(super) fn copy(&self, state: &AbsPath, standing: Standing) -> Result<Copy, NotTried> {
        let session = Session::create_call(state);
        // What lies in a session's own directory is not as the host's files are, so this is not one that anything is started in.
        let session = session.map_err(|source| NotTried::Tree { place: state.clone(), source })?;
        let dir = session.dir().clone();
        self.copy_in(&dir, (state, Some(session)), standing)
    }

    /// Makes a copy in a directory of somebody else's.
    pub(super) fn copy_in(
        &self,
        dir: &AbsPath,
        (state, session): (&AbsPath, Option<Session>),
        standing: Standing,
    ) -> Result<Copy, NotTried> {
        let Trials { shape, trials } = self.trials(dir, standing);
        let tree = Tree::make(shape, self.owner)?;
        Ok(Copy { standing, state: state.clone(), trials, tree, _session: session })
    }

    /// What is tried in a copy in a directory, whoever tries it.
    pub(super) fn trials(&self, dir: &AbsPath, standing: Standing) -> Trials {
        let About { moved, surface, .. } = self.about(&self.nowhere, dir, None);
        let mut look = Recorder::new(Vec::new());
        let mut host = |path: &AbsPath| match moved.back(path) {
            Some(path) => look.path(&path),
            None => PathFact::Missing,
        };
        generate(&surface, &dir.join("tree"), standing, &mut host)
    }

    /// The rules about a copy in a directory, for a session in another.
    pub(super) fn about(&self, session: &AbsPath, dir: &AbsPath, outsiders: Option<&Outsiders>) -> About {
        let (surface, facts) = (&self.here.resolved.surface, &self.here.facts);
        let listed = surface.reach().host_ports.iter().map(|entry| entry.value);
        let ports: BTreeMap<u16, u16> =
            listed.zip(outsiders.iter().flat_map(|outsiders| outsiders.listed.iter().copied())).collect();
        let both = (self.nowhere.clone(), session.clone());
        let moved = Moved::new(surface, facts, dir.join("tree"), both).with_ports(ports);
        let (surface, facts) = (moved.surface(surface), moved.facts(facts));
        About { moved, surface, facts }
    }
}

/// Whom a fenced process might reach.
pub(super) fn reached(surface: &Surface, tree: &Tree, outsiders: &Outsiders) -> Vec<Trial> {
    let hosts = surface.reach().hosts.iter().filter_map(|entry| {
        let text = entry.value.to_string();
        let name = text.rsplit_once(':').map_or(text.as_str(), |(name, _)| name).replace("*.", "verify.");
        name.contains(|c: char| c.is_ascii_alphabetic()).then_some(name).filter(|name| !name.contains(':'))
    });
    let hosts = hosts.chain(["unlisted.ringfence.invalid".to_owned()]);
    let ports = outsiders.listed.iter().chain([&outsiders.unlisted]);
    let network = hosts.map(Deed::Resolve).chain(ports.map(|port| Deed::Dial(*port)));
    let network = network.map(|deed| (Subject::Network, deed));
    let others = [
        (Subject::Sockets, Deed::Abstract(outsiders.name.clone())),
        (Subject::Processes, Deed::Signal(outsiders.process())),
    ];
    let oracle = Oracle::new(surface, tree.shape());
    let trial = |(subject, deed): (Subject, Deed)| {
        let expected = oracle.expected(&deed);
        Trial { subject, edge: Edge::Itself, deed, expected }
    };
    network.chain(others).map(trial).collect()
}
