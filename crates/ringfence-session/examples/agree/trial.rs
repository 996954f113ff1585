//! Tries a case in a layer, and makes one smaller in which something came out otherwise than it must.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use ringfence_plan::Rung;
use ringfence_plan::verify::{Came, Deed, Expected, Judged, Oracle, Said, Shape, hook, judge};
use ringfence_session::look::Live;
use ringfence_session::roots::Roots;
use ringfence_session::start::{BrokerChoice, Last, PrepareError};
use ringfence_session::store::Session;
use ringfence_session::verify::{NotTried, Outsiders, Rooted, Tree, Trying, differences};
use ringfence_session::walk::os_path;
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    AbsPath, GitFact, HostFacts, Inputs, Layer as PolicyLayer, Level, Look, PathFact, Request, Surface, Trust, Via,
    resolve,
};

use super::case::{Case, Made};

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    Fence(Rung),
    /// The native fence without its broker: what the walls hold by themselves.
    Walls,
    Hook,
}

impl Layer {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Fence(rung) => rung.word(),
            Self::Walls => "no-broker",
            Self::Hook => "hook",
        }
    }

    /// Which one this word means.
    pub(crate) fn named(word: &str) -> Option<Self> {
        match word {
            "hook" => Some(Self::Hook),
            "no-broker" => Some(Self::Walls),
            word => {
                let mut rungs = Rung::LADDER.into_iter().chain([Rung::Chroot]);
                rungs.find(|rung| rung.word() == word).map(Self::Fence)
            }
        }
    }
}

/// What came of a case.
pub(crate) struct Found {
    /// How many deeds something was said of.
    pub(crate) tried: usize,
    /// What came out otherwise than it must.
    pub(crate) wrong: Vec<String>,
}

/// Where cases are tried.
pub(crate) struct World {
    state: AbsPath,
    place: AbsPath,
    /// The root that the chroot backend is tried in, and where the tree is in it.
    rooted: Option<(Rooted, AbsPath)>,
    outsiders: Outsiders,
}

/// Who owns the tree, and works in it, where root tries.
const NOBODY: u32 = 65534;

impl World {
    /// In a directory that is there, and empty, for these layers.
    pub(crate) fn new(dir: &str, layers: &[Layer]) -> io::Result<Self> {
        let dir = super::absolute(dir)?;
        let state = dir.join("state");
        let rooted = if layers.contains(&Layer::Fence(Rung::Chroot)) {
            let roots = Roots::of(&dir.join("data"), &state)?;
            let rooted = Rooted::make(&roots, owner()).map_err(io::Error::other)?;
            let room = rooted.room("room")?;
            Some((rooted, room.join("tree")))
        } else {
            None
        };
        Ok(Self { state, place: dir.join("tree"), rooted, outsiders: Outsiders::start(1)? })
    }

    /// Where the tree is made for a layer.
    fn place(&self, layer: Layer) -> &AbsPath {
        match (&self.rooted, layer) {
            (Some((_, place)), Layer::Fence(Rung::Chroot)) => place,
            _ => &self.place,
        }
    }

    /// Tries a case; `None` where nothing can be started with its policy.
    pub(crate) fn try_case(
        &self,
        case: &Case,
        layer: Layer,
        change: &mut dyn FnMut(Last<'_>),
    ) -> io::Result<Option<Found>> {
        let place = self.place(layer);
        let shape = case.shape(place);
        let session = Session::create_call(&self.state)?;
        let facts = facts(place, session.dir());
        let Some(surface) = self.surface(case, &shape, &facts) else { return Ok(None) };
        let deeds = case.deeds(place, Some(&self.outsiders));
        let oracle = Oracle::new(&surface, &shape);
        let trials: Vec<(Deed, Expected)> =
            deeds.into_iter().map(|deed| (deed.clone(), oracle.expected(&deed))).collect();
        let trials: Vec<(Deed, Expected)> =
            trials.into_iter().filter(|(_, expected)| *expected != Expected::Open).collect();
        let (came, said, mut wrong) = match layer {
            Layer::Hook => {
                let home = session.dir().join("home");
                let came: Vec<Came> = trials.iter().map(|(deed, _)| hook(&surface, &shape, &home, deed)).collect();
                (came, Said { short: Vec::new(), less: Vec::new(), hidden: Vec::new(), unwritable: None }, Vec::new())
            }
            Layer::Fence(_) | Layer::Walls => {
                let rung = if let Layer::Fence(rung) = layer { rung } else { Rung::Native };
                let deeds: Vec<&Deed> = trials.iter().map(|(deed, _)| deed).collect();
                let tree = Tree::make(shape.clone(), owner()).map_err(io::Error::other)?;
                let trying = Trying {
                    surface: &surface,
                    facts: &facts,
                    rung,
                    session: &session,
                    tree: &tree,
                    deeds: &deeds,
                    outsiders: Some(&self.outsiders),
                    container: None,
                    rooted: self.rooted.as_ref().map(|(rooted, _)| rooted).filter(|_| rung == Rung::Chroot),
                    broker: if layer == Layer::Walls { BrokerChoice::Off } else { BrokerChoice::On },
                    user: None,
                };
                let tried = trying.run_with(change, &mut |_| ());
                let left = if tried.is_ok() { differences(&shape) } else { Vec::new() };
                fs::remove_dir_all(os_path(place))?;
                match tried {
                    Ok(tried) => (tried.came, tried.said, left),
                    Err(NotTried::Prepare(PrepareError::Workdir { .. })) => return Ok(None),
                    Err(cause) => return Err(io::Error::other(format!("{cause:?}\n{}", case.to_text()))),
                }
            }
        };
        if layer != Layer::Hook && came.contains(&Came::NotTried) {
            wrong.push("whoever tried got no further".to_owned());
        }
        let mut tried = 0;
        for ((deed, expected), came) in trials.iter().zip(&came) {
            tried += usize::from(*came != Came::NotTried);
            if judge(expected, *came, &said) == Judged::DoesNot {
                let deed = deed.to_string().replace(&format!("{place}/"), "");
                let expected = format!("{expected:?}").replace(&format!("{place}/"), "");
                wrong.push(format!("{deed}: {came}, expected {expected}"));
            }
        }
        Ok(Some(Found { tried, wrong }))
    }

    /// What the case's policy says, trusted; nothing where it is none.
    fn surface(&self, case: &Case, shape: &Shape, facts: &HostFacts) -> Option<Surface> {
        let path = shape.place().join("project/ringfence.toml");
        let policy = case.policy(self.outsiders.listed.first().copied());
        let text = PolicyText::new(path.as_bytes(), policy.into_bytes()).ok()?;
        let file = PolicyFile::parse(&text).ok()?;
        let request = Request {
            persona: None,
            task: None,
            agent: None,
            references: Vec::new(),
            env: Vec::new(),
            writes: Vec::new(),
            worktree: None,
        };
        let layer = PolicyLayer { level: Level::Project(Trust::Trusted), via: Via::Itself, file, text, path };
        let mut look = Both { shape, host: Live::new() };
        Some(resolve(&Inputs { layers: vec![layer], request }, facts, &mut look).ok()?.surface)
    }
}

/// Who owns the tree where root tries.
fn owner() -> Option<(u32, u32)> {
    rustix::process::geteuid().is_root().then_some((NOBODY, NOBODY))
}

fn facts(place: &AbsPath, session: &AbsPath) -> HostFacts {
    HostFacts {
        environment: [(b"HOME".to_vec(), place.join("home").as_bytes().to_vec())].into(),
        cwd: place.join("project"),
        homes: Vec::new(),
        paths: BTreeMap::new(),
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: Vec::new(),
        kernel: "unknown".into(),
        session: Some(session.clone()),
    }
}

/// The tree, before it is made, on the host.
struct Both<'s> {
    shape: &'s Shape,
    host: Live,
}

impl Look for Both<'_> {
    fn path(&mut self, path: &AbsPath) -> PathFact {
        if path.is_within(self.shape.place()) { (&mut &*self.shape).path(path) } else { self.host.path(path) }
    }

    fn git(&mut self, _: &AbsPath) -> Option<GitFact> {
        None
    }

    fn git_runs(&mut self, _: &AbsPath, _: &AbsPath) -> Vec<ringfence_surface::GitRun> {
        Vec::new()
    }
}

/// How often a case is tried while it is made smaller.
const MOST_TRIES: usize = 120;

/// The smallest case found in which something still comes out otherwise than it must.
pub(crate) fn shrunk(world: &World, case: &Case, layer: Layer) -> io::Result<Case> {
    let (mut case, mut left) = (case.clone(), MOST_TRIES);
    let mut is_wrong = |case: &Case| -> io::Result<bool> {
        left = left.saturating_sub(1);
        Ok(left > 0 && world.try_case(case, layer, &mut |_| ())?.is_some_and(|found| !found.wrong.is_empty()))
    };
    // Many at once first, then one by one.
    for part in [Part::Acts, Part::Rules, Part::Nodes, Part::Acts] {
        let mut size = part.len(&case).div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < part.len(&case) {
                let smaller = part.without(&case, at, size);
                if is_wrong(&smaller)? {
                    case = smaller;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
    }
    Ok(case)
}

/// What is made smaller.
#[derive(Debug, Clone, Copy)]
enum Part {
    Acts,
    Rules,
    Nodes,
}

impl Part {
    fn len(self, case: &Case) -> usize {
        match self {
            Self::Acts => case.acts.len(),
            Self::Rules => case.rules.len(),
            Self::Nodes => case.nodes.len(),
        }
    }

    fn without(self, case: &Case, at: usize, count: usize) -> Case {
        let mut case = case.clone();
        let end = (at + count).min(self.len(&case));
        match self {
            Self::Acts => drop(case.acts.drain(at..end)),
            Self::Rules => drop(case.rules.drain(at..end)),
            Self::Nodes => drop(case.nodes.drain(at..end)),
        }
        // Without the project there is nothing to start in.
        if !case.nodes.iter().any(|(path, _)| path == b"project") {
            case.nodes.insert(0, (b"project".to_vec(), Made::Directory));
        }
        case
    }
}
