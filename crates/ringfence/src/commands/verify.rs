//! `ringfence verify`: tries every rule of the policy for real, in every layer that this host has, and compares.

mod copies;
mod progress;
mod table;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use ringfence_plan::Rung;
use ringfence_plan::verify::{Came, Deed, Said, Standing, Trial, Trials, hook};
use ringfence_session::container::{EngineHere, InContainer, note_use};
use ringfence_session::roots::Roots;
use ringfence_session::start::BrokerChoice;
use ringfence_session::store::Session;
use ringfence_session::verify::{NotTried, Outsiders, Rooted, Tried, Trying};
use ringfence_surface::{AbsPath, Governance};

use crate::cli::{VerifyArgs, VerifyLayer};
use crate::error::{Failure, RootFailure};
use crate::host::{mounts, os_path, user};
use crate::load::Loader;
use crate::out;
use copies::{About, Copy, Original, reached};
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
    let begun = Instant::now();
    let loader = Loader::new(managed)?;
    let state = loader.facts().own_directories().state.ok_or(Failure::NoHome)?;
    // Nothing is there: each layer has a directory of its own, and what is resolved for this one is used for those.
    let nowhere = state.join("calls/verify");
    let here = loader.in_session(&nowhere).resolve(&args.policy)?;
    let account = args.user.as_deref().map(user).transpose()?;
    let root = std::fs::metadata(os_path(here.resolved.surface.root()));
    let owner = root.ok().map(|root| (root.uid(), root.gid()));
    let owner = owner.filter(|_| rustix::process::geteuid().is_root());
    let original = Original { here: &here, nowhere, owner };
    let mut verifying = Verifying { original, state, account, root: args.root.as_deref(), copies: Vec::new() };
    if args.root.is_some() && !args.layers.is_empty() && !args.layers.contains(&VerifyLayer::Chroot) {
        return Err(Failure::Root { source: RootFailure::Alone });
    }
    let is_asked = |(name, _): &&(VerifyLayer, Layer)| args.layers.is_empty() || args.layers.contains(name);
    let is_fenced = *here.resolved.surface.governance() == Governance::Fenced;
    let mut columns = Vec::new();
    for (_, layer) in LAYERS.iter().filter(is_asked).filter(|(_, layer)| is_fenced || *layer == Layer::Hook) {
        let (progress, since) = (Progress::new(layer.word()), Instant::now());
        let tried = match layer.rung() {
            Some(rung) => verifying.fence(*layer, rung, &progress),
            None => Ok(verifying.hook()),
        };
        progress.clear();
        columns.push(match tried {
            Ok(column) => column.in_time(since.elapsed()),
            // Only one that was asked for must be there. Why an engine starts nothing is its own matter.
            Err(cause) if !is_named(args, *layer) && (cause.is_the_hosts() || layer.is_an_engines()) => {
                Column::missing(layer.word(), &cause)
            }
            Err(source) => return Err(Failure::Verify { layer: layer.word(), source }),
        });
    }
    // The copies go before anybody is told how long it took.
    drop(verifying);
    let table = Table::new(&here.resolved.surface, columns, begun.elapsed());
    if args.json {
        out::print_json(&table.wire())?;
    } else {
        out::print(&table.to_text(args.all))?;
    }
    Ok(ExitCode::from(u8::from(!table.holds())))
}

/// Was it asked for by its name, or with a root to try it in?
fn is_named(args: &VerifyArgs, layer: Layer) -> bool {
    !args.layers.is_empty() || layer == Layer::Fence(Rung::Chroot) && args.root.is_some()
}

/// What is verified, and where.
struct Verifying<'a> {
    original: Original<'a>,
    state: AbsPath,
    account: Option<(u32, u32)>,
    /// The root of the user's that the chroot backend is tried in.
    root: Option<&'a str>,
    /// Those that stand. They go together at the end: a file system that has just removed much finds room slowly.
    copies: Vec<Copy>,
}

/// A fence, and what it is built of.
struct Fence<'f> {
    layer: Layer,
    rung: Rung,
    engine: Option<&'f EngineHere>,
    rooted: Option<&'f Rooted>,
}

impl Verifying<'_> {
    /// Tries a fence twice: with everything there that rules take away, and with nothing of it.
    fn fence(&mut self, layer: Layer, rung: Rung, progress: &Progress) -> Result<Column, NotTried> {
        let mut column = Column::new(layer.word());
        let rooted = (rung == Rung::Chroot).then(|| self.rooted()).transpose()?;
        let engine = rung.engine().map(EngineHere::find).transpose()?;
        let fence = Fence { layer, rung, engine: engine.as_ref(), rooted: rooted.as_ref() };
        let is_own = rung.has_view() || rooted.is_some();
        let state = if is_own { self.state.clone() } else { super::run::reachable(self.state.clone()) };
        for standing in [Standing::There, Standing::NotYet] {
            let mut copy = self.take(standing, &state, rooted.as_ref())?;
            self.try_in(&copy, &state, &fence, progress, &mut column)?;
            // A root goes at once, and its copies with it.
            if rooted.is_none() {
                copy.tree.set_right()?;
                self.copies.push(copy);
            }
        }
        Ok(column)
    }

    /// A copy that stands, or a new one.
    fn take(&mut self, standing: Standing, state: &AbsPath, rooted: Option<&Rooted>) -> Result<Copy, NotTried> {
        let Some(rooted) = rooted else {
            let found = self.copies.iter().position(|copy| copy.standing == standing && copy.state == *state);
            return found.map_or_else(|| self.original.copy(state, standing), |at| Ok(self.copies.swap_remove(at)));
        };
        let name = match standing {
            Standing::There => "there",
            Standing::NotYet => "not-yet",
        };
        let room = rooted.room(name).map_err(|source| NotTried::Tree { place: state.clone(), source })?;
        self.original.copy_in(&room, (state, None), standing)
    }

    /// Starts a fence once, and does every deed in it.
    fn try_in(
        &self,
        copy: &Copy,
        state: &AbsPath,
        fence: &Fence<'_>,
        progress: &Progress,
        column: &mut Column,
    ) -> Result<(), NotTried> {
        let surface = &self.original.here.resolved.surface;
        // Those of each start are its own: one that was struck must not count for the next.
        let outsiders = Outsiders::start(surface.reach().host_ports.len());
        let outsiders = outsiders.map_err(|source| NotTried::Talk { source })?;
        let failed = |source| NotTried::Tree { place: state.clone(), source };
        let session = Session::create_call(state).map_err(failed)?;
        if let Some(engine) = fence.engine {
            // What a killed one leaves is found by whoever collects.
            note_use(session.state(), engine.facts.engine).map_err(failed)?;
        }
        let dir = copy.tree.shape().place().parent().unwrap_or_else(AbsPath::root);
        let About { moved, surface, mut facts } = self.original.about(session.dir(), &dir, Some(&outsiders));
        if fence.engine.is_some() {
            facts.mounts = mounts();
        }
        let others = match copy.standing {
            Standing::There => reached(&surface, &copy.tree, &outsiders),
            Standing::NotYet => Vec::new(),
        };
        let deeds: Vec<&Deed> = copy.trials.iter().chain(&others).map(|trial| &trial.deed).collect();
        let choice = self.original.here.resolved.agent.as_ref().map(|choice| &choice.container);
        let trying = Trying {
            surface: &surface,
            facts: &facts,
            rung: fence.rung,
            session: &session,
            tree: &copy.tree,
            deeds: &deeds,
            outsiders: Some(&outsiders),
            container: fence.engine.map(|here| InContainer { here, choice, program: None }),
            rooted: fence.rooted,
            broker: if fence.layer == Layer::Walls { BrokerChoice::Off } else { BrokerChoice::On },
            user: self.account,
        };
        let tried = trying.run(&mut |done| progress.show(done, deeds.len()))?;
        let Tried { said, came, .. } = tried.whole(&deeds)?;
        column.add(copy.trials.iter().chain(&others), &came, &said, &moved);
        Ok(())
    }

    /// A root to try the chroot backend in.
    fn rooted(&self) -> Result<Rooted, NotTried> {
        let failed = |source| NotTried::Tree { place: self.state.clone(), source };
        let data = self.original.here.facts.own_directories().data.unwrap_or_else(|| self.state.clone());
        let roots = Roots::of(&data, &self.state).map_err(failed)?;
        match self.root {
            Some(name) => Rooted::in_root(roots.open(name)?, &self.state),
            None => Rooted::make(&roots, self.original.owner),
        }
    }

    /// Asks the hook. It looks at paths alone, so nothing has to be made.
    fn hook(&self) -> Column {
        let mut column = Column::new(Layer::Hook.word());
        let said = Said { short: Vec::new(), less: Vec::new(), hidden: Vec::new(), unwritable: None };
        let nowhere = &self.original.nowhere;
        let About { moved, surface, .. } = self.original.about(nowhere, nowhere, None);
        let home = nowhere.join("home");
        for standing in [Standing::There, Standing::NotYet] {
            let Trials { shape, trials } = self.original.trials(nowhere, standing);
            let answer = |trial: &Trial| hook(&surface, &shape, &home, &trial.deed);
            let came: Vec<Came> = trials.iter().map(answer).collect();
            column.add(&trials, &came, &said, &moved);
        }
        column
    }
}
