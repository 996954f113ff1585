//! Tries a case in a layer, and makes one smaller in which something came out otherwise than it must.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use ringfence_plan::verify::{Came, Deed, Expected, Judged, Node, Oracle, Said, Shape, hook, judge};
use ringfence_plan::{Rung, compile};
use ringfence_session::launch::StartError;
use ringfence_session::look::{Live, facts_of};
use ringfence_session::roots::Roots;
use ringfence_session::start::{BrokerChoice, Last, PrepareError};
use ringfence_session::store::Session;
use ringfence_session::verify::{NotTried, Outsiders, Rooted, Tree, Trying, differences};
use ringfence_session::walk::os_path;
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    AbsPath, GitFact, HostFacts, Inputs, Layer as PolicyLayer, Level, Look, PathFact, Pattern, Request, SubPolicy,
    Surface, Trust, Via, resolve,
};

use super::case::{Case, List, Made, Whose, at};
use super::properties::{self, Answers};
use super::rendered::{Reader, rendered};

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    Fence(Rung),
    /// The native fence without its broker: what the walls hold by themselves.
    Walls,
    /// One call within a session, narrower than that: the same fence around less.
    Call(Rung),
    /// What a container engine or a cluster would make of what is rendered.
    Rendered(Reader),
    /// The policy alone: see [`properties`].
    Policy,
    Hook,
}

impl Layer {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Fence(rung) => rung.word(),
            Self::Walls => "no-broker",
            Self::Call(Rung::LandlockOnly) => "call-landlock",
            Self::Call(_) => "call",
            Self::Rendered(reader) => reader.word(),
            Self::Policy => "policy",
            Self::Hook => "hook",
        }
    }

    /// Is something started in it?
    pub(crate) fn is_fence(self) -> bool {
        matches!(self, Self::Fence(_) | Self::Walls | Self::Call(_))
    }

    /// Which one this word means.
    pub(crate) fn named(word: &str) -> Option<Self> {
        match word {
            "hook" => Some(Self::Hook),
            "no-broker" => Some(Self::Walls),
            "call" => Some(Self::Call(Rung::Native)),
            "call-landlock" => Some(Self::Call(Rung::LandlockOnly)),
            "policy" => Some(Self::Policy),
            word if word.starts_with("render-") => {
                Reader::ALL.into_iter().find(|reader| reader.word() == word).map(Self::Rendered)
            }
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
        let Some(session_surface) = self.surface(case, &shape, &facts) else { return Ok(None) };
        let surface = match layer {
            Layer::Call(_) => match called(case, &shape, &session_surface) {
                Some(surface) => surface,
                None => return Ok(None),
            },
            Layer::Policy => return Ok(Some(self.policy(case, &shape, &facts, &session_surface))),
            _ => session_surface,
        };
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
            Layer::Policy => return Ok(None),
            Layer::Rendered(reader) => {
                let tree = Tree::make(shape.clone(), owner()).map_err(io::Error::other)?;
                let rendered = rendered(&surface, &shape, &facts, session.dir(), reader);
                fs::remove_dir_all(os_path(place))?;
                drop(tree);
                let Some(rendered) = rendered? else { return Ok(None) };
                let came: Vec<Came> = trials.iter().map(|(deed, _)| rendered.attempt(&shape, deed)).collect();
                (came, rendered.said, Vec::new())
            }
            Layer::Fence(_) | Layer::Walls | Layer::Call(_) => {
                let rung = if let Layer::Fence(rung) | Layer::Call(rung) = layer { rung } else { Rung::Native };
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
                    // The place where the session works may not be shown to a call.
                    Err(NotTried::Start(StartError::Step { step, .. }))
                        if matches!(layer, Layer::Call(_)) && step.contains("working directory") =>
                    {
                        return Ok(None);
                    }
                    Err(cause) if case.acts.len() > 20 => return Err(io::Error::other(format!("{cause:?}"))),
                    Err(cause) => return Err(io::Error::other(format!("{cause:?}\n{}", case.to_text()))),
                }
            }
        };
        if layer.is_fence() && came.contains(&Came::NotTried) {
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

    /// What must hold of the policy by itself.
    fn policy(&self, case: &Case, shape: &Shape, facts: &HostFacts, surface: &Surface) -> Found {
        let mut answers = Answers::new();
        properties::of_one(case, shape, surface, false, &mut answers);
        let mut look = Both { shape, host: Live::new(), earlier: Vec::new() };
        let known = facts_of(surface, facts.clone(), &mut look);
        properties::of_mounts(surface, &compile(surface, &known, Rung::Native).mounts, &mut answers);
        if let Some(call) = called(case, shape, surface) {
            properties::of_one(case, shape, &call, true, &mut answers);
            properties::of_two(shape, &call, surface, "a call has more than its session", &mut answers);
        }
        if let Some(without) = properties::without_links(case, shape, surface)
            && let Some(narrow) = self.surface(case, &without, facts)
        {
            properties::of_two(shape, surface, &narrow, "gained by a link of the agent's", &mut answers);
        }
        let place = format!("{}/", shape.place());
        let wrong = answers.wrong.into_iter().map(|wrong| wrong.replace(&place, "")).collect();
        Found { tried: answers.asked, wrong }
    }

    /// What the case's policy says, trusted; nothing where it is none.
    fn surface(&self, case: &Case, shape: &Shape, facts: &HostFacts) -> Option<Surface> {
        let place = shape.place();
        let layer = |level, path: AbsPath, policy: String| {
            let text = PolicyText::new(path.as_bytes(), policy.into_bytes()).ok()?;
            let file = PolicyFile::parse(&text).ok()?;
            Some(PolicyLayer { level, via: Via::Itself, file, text, path })
        };
        let mut layers = Vec::new();
        if let Some(policy) = case.policy_of(Whose::Managed, place) {
            layers.push(layer(Level::Managed, AbsPath::root().join("etc/ringfence/managed.toml"), policy)?);
        }
        if let Some(policy) = case.policy_of(Whose::User, place) {
            layers.push(layer(Level::User, place.join("home/.config/ringfence/config.toml"), policy)?);
        }
        let policy = case.policy(self.outsiders.listed.first().copied());
        layers.push(layer(Level::Project(Trust::Trusted), place.join("project/ringfence.toml"), policy)?);
        let request = Request {
            persona: None,
            task: None,
            agent: None,
            references: Vec::new(),
            env: Vec::new(),
            writes: Vec::new(),
            worktree: None,
        };
        let earlier = case.earlier.iter().map(|path| at(place, path)).collect();
        let mut look = Both { shape, host: Live::new(), earlier };
        Some(resolve(&Inputs { layers, request }, facts, &mut look).ok()?.surface)
    }
}

/// What a call within a session may touch; nothing where it asks for nothing of its own, or for more than the session has.
fn called(case: &Case, shape: &Shape, session: &Surface) -> Option<Surface> {
    // Links are followed, as the command line does: what is granted is a place.
    let real = |pattern: Pattern| match pattern.as_path().and_then(|path| shape.follow(path)) {
        Some(found) => Pattern::path(found.path),
        None => pattern,
    };
    let patterns = |list: List| -> Option<Vec<Pattern>> {
        let entries = case.entries(Whose::Call, list, shape.place());
        let parsed: Option<Vec<Pattern>> = entries.iter().map(|entry| Pattern::parse(entry).ok()).collect();
        let is_given = matches!(list, List::Read | List::Write);
        parsed.map(|all| all.into_iter().map(|pattern| if is_given { real(pattern) } else { pattern }).collect())
    };
    let named = |list| patterns(list).map(|patterns| Some(patterns).filter(|patterns| !patterns.is_empty()));
    let (read, write) = (named(List::Read)?, named(List::Write)?);
    let (deny, protect) = (patterns(List::Deny)?, patterns(List::Protect)?);
    if read.is_none() && write.is_none() && deny.is_empty() && protect.is_empty() {
        return None;
    }
    // Where it may work: in the first directory that it names.
    let is_directory = |path: &&AbsPath| shape.get(path) == Some(&Node::Directory);
    let mut named = read.iter().chain(&write).flatten().filter_map(Pattern::as_path);
    let own = named.find(is_directory).cloned();
    let asked = |workdir| SubPolicy {
        workdir,
        read: read.clone(),
        write: write.clone(),
        deny: deny.clone(),
        protect: protect.clone(),
        ..SubPolicy::unchanged()
    };
    session.tighten(&asked(own)).or_else(|_| session.tighten(&asked(None))).ok()
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
    /// What an earlier session could write.
    earlier: Vec<AbsPath>,
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

    fn was_writable(&mut self, path: &AbsPath) -> bool {
        self.earlier.iter().any(|dir| path.is_within(dir))
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
    for part in [Part::Acts, Part::Rules, Part::Others, Part::Nodes, Part::Acts] {
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
    Others,
    Nodes,
}

impl Part {
    fn len(self, case: &Case) -> usize {
        match self {
            Self::Acts => case.acts.len(),
            Self::Rules => case.rules.len(),
            Self::Others => case.others.len(),
            Self::Nodes => case.nodes.len(),
        }
    }

    fn without(self, case: &Case, at: usize, count: usize) -> Case {
        let mut case = case.clone();
        let end = (at + count).min(self.len(&case));
        match self {
            Self::Acts => drop(case.acts.drain(at..end)),
            Self::Rules => drop(case.rules.drain(at..end)),
            Self::Others => drop(case.others.drain(at..end)),
            Self::Nodes => drop(case.nodes.drain(at..end)),
        }
        // Without the project there is nothing to start in.
        if !case.nodes.iter().any(|(path, _)| path == b"project") {
            case.nodes.insert(0, (b"project".to_vec(), Made::Directory));
        }
        case
    }
}
