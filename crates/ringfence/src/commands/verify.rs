//! `ringfence verify`: tries every rule of the policy for real, in every layer that this host has, and compares.

mod progress;
mod table;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use ringfence_plan::Rung;
use ringfence_plan::verify::{Came, Deed, Edge, Moved, Oracle, Said, Standing, Subject, Trial, Trials, generate, hook};
use ringfence_session::container::{EngineHere, InContainer, note_use};
use ringfence_session::roots::Roots;
use ringfence_session::start::BrokerChoice;
use ringfence_session::store::Session;
use ringfence_session::verify::{NotTried, Outsiders, Rooted, Tried, Trying};
use ringfence_surface::{AbsPath, Governance, HostFacts, Look as _, Surface};

use crate::cli::{VerifyArgs, VerifyLayer};
use crate::error::Failure;
use crate::host::{Recorder, mounts, os_path, user};
use crate::load::{Here, Loader};
use crate::out;
use progress::Progress;
use table::{Column, Table};

/// What can be tried. A layer that is built later has its row here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// A fence, around a process of ours that tries.
    Fence(Rung),
    /// The native one without its broker, which would hide whether the walls behind it stand.
    Walls,
    /// The hook, asked directly.
    Hook,
}

const LAYERS: [(VerifyLayer, Layer); 8] = [
    (VerifyLayer::Native, Layer::Fence(Rung::Native)),
    (VerifyLayer::NoBroker, Layer::Walls),
    (VerifyLayer::Bwrap, Layer::Fence(Rung::Bwrap)),
    (VerifyLayer::Landlock, Layer::Fence(Rung::LandlockOnly)),
    (VerifyLayer::Chroot, Layer::Fence(Rung::Chroot)),
    (VerifyLayer::Docker, Layer::Fence(Rung::Docker)),
    (VerifyLayer::Podman, Layer::Fence(Rung::Podman)),
    (VerifyLayer::Hook, Layer::Hook),
];

impl Layer {
    fn word(self) -> &'static str {
        match self {
            Self::Fence(rung) => rung.word(),
            Self::Walls => "no-broker",
            Self::Hook => "hook",
        }
    }

    /// How it is built, where it is a fence.
    fn rung(self) -> Option<Rung> {
        match self {
            Self::Fence(rung) => Some(rung),
            Self::Walls => Some(Rung::Native),
            Self::Hook => None,
        }
    }

    fn is_an_engines(self) -> bool {
        self.rung().is_some_and(|rung| rung.engine().is_some())
    }
}

pub(crate) fn run(args: &VerifyArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let loader = Loader::new(managed)?;
    let state = loader.facts().own_directories().state.ok_or(Failure::NoHome)?;
    // Nothing is there: each layer has a directory of its own, and what is resolved for this one is used for those.
    let nowhere = state.join("calls/verify");
    let here = loader.in_session(&nowhere).resolve(&args.policy)?;
    let account = args.user.as_deref().map(user).transpose()?;
    let verifying = Verifying { here: &here, state, nowhere, account };
    let is_asked = |(name, _): &&(VerifyLayer, Layer)| args.layers.is_empty() || args.layers.contains(name);
    let is_fenced = *here.resolved.surface.governance() == Governance::Fenced;
    let mut columns = Vec::new();
    for (_, layer) in LAYERS.iter().filter(is_asked).filter(|(_, layer)| is_fenced || *layer == Layer::Hook) {
        let progress = Progress::new(layer.word());
        let tried = match layer.rung() {
            Some(rung) => verifying.fence(*layer, rung, &progress),
            None => verifying.hook(),
        };
        progress.clear();
        columns.push(match tried {
            Ok(column) => column,
            // Only one that was asked for must be there. Why an engine starts nothing is its own matter.
            Err(cause) if args.layers.is_empty() && (cause.is_the_hosts() || layer.is_an_engines()) => {
                Column::missing(layer.word(), &cause)
            }
            Err(source) => return Err(Failure::Verify { layer: layer.word(), source }),
        });
    }
    let table = Table::new(&here.resolved.surface, columns);
    if args.json {
        out::print_json(&table.wire())?;
    } else {
        out::print(&table.to_text(args.all))?;
    }
    Ok(ExitCode::from(u8::from(!table.holds())))
}

/// What is verified, and where.
struct Verifying<'a> {
    here: &'a Here,
    state: AbsPath,
    nowhere: AbsPath,
    account: Option<(u32, u32)>,
}

/// One copy of the tree, and what is tried in it.
struct Ground {
    moved: Moved,
    surface: Surface,
    facts: HostFacts,
    trials: Trials,
}

impl Verifying<'_> {
    /// Tries a fence twice: with everything there that rules take away, and with nothing of it.
    fn fence(&self, layer: Layer, rung: Rung, progress: &Progress) -> Result<Column, NotTried> {
        let ports = self.here.resolved.surface.reach().host_ports.len();
        let mut column = Column::new(layer.word());
        let root = std::fs::metadata(os_path(self.here.resolved.surface.root()));
        let owner = root.ok().map(|root| (root.uid(), root.gid()));
        let owner = owner.filter(|_| rustix::process::geteuid().is_root());
        let rooted = (rung == Rung::Chroot).then(|| self.rooted(owner)).transpose()?;
        let engine = rung.engine().map(EngineHere::find).transpose()?;
        let choice = self.here.resolved.agent.as_ref().map(|choice| &choice.container);
        for standing in [Standing::There, Standing::NotYet] {
            let outsiders = Outsiders::start(ports).map_err(|source| NotTried::Talk { source })?;
            let is_own = rung.has_view() || rooted.is_some();
            let state = if is_own { self.state.clone() } else { super::run::reachable(self.state.clone()) };
            // Two of them: what lies in a session's own directory is not as the host's files are.
            let make =
                || Session::create_call(&state).map_err(|source| NotTried::Tree { place: state.clone(), source });
            let (session, tree) = (make()?, make()?);
            if let Some(engine) = &engine {
                // What a killed one leaves is found by whoever collects.
                let noted = note_use(session.state(), engine.facts.engine);
                noted.map_err(|source| NotTried::Tree { place: state.clone(), source })?;
            }
            let place = match (&rooted, standing) {
                (None, _) => Ok(tree.dir().clone()),
                (Some(rooted), Standing::There) => rooted.room("there"),
                (Some(rooted), Standing::NotYet) => rooted.room("not-yet"),
            };
            let place = place.map_err(|source| NotTried::Tree { place: state.clone(), source })?;
            let mut ground = self.ground((session.dir(), &place), standing, Some(&outsiders));
            if engine.is_some() {
                ground.facts.mounts = mounts();
            }
            let deeds: Vec<&Deed> = ground.trials.trials.iter().map(|trial| &trial.deed).collect();
            let trying = Trying {
                surface: &ground.surface,
                facts: &ground.facts,
                rung,
                session: &session,
                shape: &ground.trials.shape,
                deeds: &deeds,
                outsiders: Some(&outsiders),
                container: engine.as_ref().map(|here| InContainer { here, choice, program: None }),
                rooted: rooted.as_ref(),
                broker: if layer == Layer::Walls { BrokerChoice::Off } else { BrokerChoice::On },
                user: self.account,
                owner,
            };
            let Tried { said, came, .. } = trying.run(&mut |done| progress.show(done, deeds.len()))?;
            column.add(&ground.trials.trials, &came, &said, &ground.moved);
        }
        Ok(column)
    }

    /// A root to try the chroot backend in.
    fn rooted(&self, owner: Option<(u32, u32)>) -> Result<Rooted, NotTried> {
        let failed = |source| NotTried::Tree { place: self.state.clone(), source };
        let data = self.here.facts.own_directories().data.unwrap_or_else(|| self.state.clone());
        Rooted::make(&Roots::of(&data, &self.state).map_err(failed)?, owner)
    }

    /// Asks the hook. It looks at paths alone, so nothing has to be made.
    fn hook(&self) -> Result<Column, NotTried> {
        let mut column = Column::new(Layer::Hook.word());
        let said = Said { short: Vec::new(), less: Vec::new(), hidden: Vec::new(), unwritable: None };
        for standing in [Standing::There, Standing::NotYet] {
            let ground = self.ground((&self.nowhere, &self.nowhere), standing, None);
            let home = self.nowhere.join("home");
            let answer = |trial: &Trial| hook(&ground.surface, &ground.trials.shape, &home, &trial.deed);
            let came: Vec<Came> = ground.trials.trials.iter().map(answer).collect();
            column.add(&ground.trials.trials, &came, &said, &ground.moved);
        }
        Ok(column)
    }

    /// `session` and where the tree is.
    fn ground(
        &self,
        (session, dir): (&AbsPath, &AbsPath),
        standing: Standing,
        outsiders: Option<&Outsiders>,
    ) -> Ground {
        let (surface, facts) = (&self.here.resolved.surface, &self.here.facts);
        let listed = surface.reach().host_ports.iter().map(|entry| entry.value);
        let ports: BTreeMap<u16, u16> =
            listed.zip(outsiders.iter().flat_map(|outsiders| outsiders.listed.iter().copied())).collect();
        let both = (self.nowhere.clone(), session.clone());
        let moved = Moved::new(surface, facts, dir.join("tree"), both).with_ports(ports);
        let mut look = Recorder::new(Vec::new());
        let mut host = |path: &AbsPath| match moved.back(path) {
            Some(path) => look.path(&path),
            None => ringfence_surface::PathFact::Missing,
        };
        let (about_copy, facts) = (moved.surface(surface), moved.facts(facts));
        let mut trials = generate(&about_copy, &dir.join("tree"), standing, &mut host);
        if let Some(outsiders) = outsiders.filter(|_| standing == Standing::There) {
            trials.trials.extend(reached(&about_copy, &trials, outsiders));
        }
        Ground { moved, surface: about_copy, facts, trials }
    }
}

/// Whom a fenced process might reach.
fn reached(surface: &Surface, trials: &Trials, outsiders: &Outsiders) -> Vec<Trial> {
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
    let oracle = Oracle::new(surface, &trials.shape);
    let trial = |(subject, deed): (Subject, Deed)| {
        let expected = oracle.expected(&deed);
        Trial { subject, edge: Edge::Itself, deed, expected }
    };
    network.chain(others).map(trial).collect()
}
