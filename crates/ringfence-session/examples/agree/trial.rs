//! Tries a case in a layer, and makes one smaller in which something came out otherwise than it must.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use ringfence_plan::Rung;
use ringfence_plan::verify::{Came, Deed, Expected, Judged, Oracle, Said, Shape, hook, judge};
use ringfence_session::look::Live;
use ringfence_session::start::{Last, PrepareError};
use ringfence_session::store::Session;
use ringfence_session::verify::{NotTried, Trying, differences};
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
    Hook,
}

impl Layer {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Fence(rung) => rung.word(),
            Self::Hook => "hook",
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
}

/// Who owns the tree, and works in it, where root tries.
const NOBODY: u32 = 65534;

impl World {
    /// In a directory that is there, and empty.
    pub(crate) fn new(dir: &str) -> io::Result<Self> {
        let dir = super::absolute(dir)?;
        Ok(Self { state: dir.join("state"), place: dir.join("tree") })
    }

    /// Tries a case; `None` where nothing can be started with its policy.
    pub(crate) fn try_case(
        &self,
        case: &Case,
        layer: Layer,
        change: &mut dyn FnMut(Last<'_>),
    ) -> io::Result<Option<Found>> {
        let shape = case.shape(&self.place);
        let session = Session::create_call(&self.state)?;
        let facts = self.facts(session.dir());
        let Some(surface) = self.surface(case, &shape, &facts) else { return Ok(None) };
        let deeds = case.deeds(&self.place);
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
            Layer::Fence(rung) => {
                let deeds: Vec<&Deed> = trials.iter().map(|(deed, _)| deed).collect();
                let owner = rustix::process::geteuid().is_root().then_some((NOBODY, NOBODY));
                let trying = Trying {
                    surface: &surface,
                    facts: &facts,
                    rung,
                    session: &session,
                    shape: &shape,
                    deeds: &deeds,
                    outsiders: None,
                    container: None,
                    user: None,
                    owner,
                };
                let tried = trying.run_with(change, &mut |_| ());
                let left = if tried.is_ok() { differences(&shape) } else { Vec::new() };
                fs::remove_dir_all(os_path(&self.place))?;
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
                let deed = deed.to_string().replace(&format!("{}/", self.place), "");
                let expected = format!("{expected:?}").replace(&format!("{}/", self.place), "");
                wrong.push(format!("{deed}: {came}, expected {expected}"));
            }
        }
        Ok(Some(Found { tried, wrong }))
    }

    fn facts(&self, session: &AbsPath) -> HostFacts {
        let home = self.place.join("home");
        HostFacts {
            environment: [(b"HOME".to_vec(), home.as_bytes().to_vec())].into(),
            cwd: self.place.join("project"),
            homes: Vec::new(),
            paths: BTreeMap::new(),
            git: BTreeMap::new(),
            git_runs: BTreeMap::new(),
            mounts: Vec::new(),
            kernel: "unknown".into(),
            session: Some(session.clone()),
        }
    }

    /// What the case's policy says, trusted; nothing where it is none.
    fn surface(&self, case: &Case, shape: &Shape, facts: &HostFacts) -> Option<Surface> {
        let path = self.place.join("project/ringfence.toml");
        let text = PolicyText::new(path.as_bytes(), case.policy().into_bytes()).ok()?;
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

    fn git_runs(&mut self, _: &AbsPath, _: &AbsPath) -> Vec<AbsPath> {
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
