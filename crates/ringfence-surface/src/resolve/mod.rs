//! Policy files and a host become one [`Surface`].
//!
//! Files are given in the order of their rights: the managed file is a ceiling, the user's file speaks for every project,
//! the project's file speaks for itself and only narrows until it is trusted, a file named on the command line stands in the
//! project's place. What does not take part is returned beside the Surface, never dropped in silence.

mod agent;
mod ceiling;
mod container;
mod grants;
mod links;
mod reach;
mod root;
mod settings;
mod taken;

use std::collections::HashSet;
use std::sync::Arc;

use crate::agent::AgentChoice;
use crate::facts::{Followed, HostFacts, Look, Trail};
use crate::matcher::{Matcher, RootKind};
use crate::path::{AbsPath, Shown};
use crate::pattern::{PathRule, Pattern};
use crate::policy::{EnvName, PolicyFile, Task, View, Watch};
use crate::report::{Dropped, Omission};
use crate::source::Source;
use crate::surface::{Effect, Governance, Parts, Sourced, Surface};
use crate::text::{Diagnostic, Place, PolicyText, Severity, Spanned};

pub(crate) use ceiling::Limit;
use grants::Grant;
pub(crate) use taken::OWN_CONFIGURATION;

/// Whose file it is, and so what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The administrator's: a ceiling.
    Managed,
    /// The user's own.
    User,
    /// The project's, found upward from the current directory.
    Project(Trust),
    /// Named on the command line, in the project's place.
    Explicit,
}

/// Has the user trusted exactly this content?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trust {
    /// Yes.
    Trusted,
    /// No: it may only narrow.
    Untrusted,
}

/// How a file came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// It was looked for or named.
    Itself,
    /// Another file extends it.
    Extends,
}

/// One policy file in its place.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Whose it is.
    pub level: Level,
    /// How it came in.
    pub via: Via,
    /// What it says.
    pub file: PolicyFile,
    /// Its text, for what is said about the file as a whole.
    pub text: Arc<PolicyText>,
    /// Where it is, links followed.
    pub path: AbsPath,
}

/// What the command line asks for.
#[derive(Debug, Clone)]
pub struct Request {
    /// `--persona`.
    pub persona: Option<String>,
    /// `--task`.
    pub task: Option<TaskChoice>,
    /// `--agent`.
    pub agent: Option<String>,
    /// `--ref`, as typed.
    pub references: Vec<Vec<u8>>,
    /// What a running session is to be given to write, as typed.
    pub writes: Vec<Vec<u8>>,
    /// `--env`.
    pub env: Vec<EnvName>,
    /// `--worktree`.
    pub worktree: Option<Worktree>,
}

/// A work tree of its own for a session. Whatever the policy says of the place where the user works holds for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// The work tree where the user works.
    pub main: AbsPath,
    /// The session's own.
    pub tree: AbsPath,
    /// Its git directory.
    pub git_dir: AbsPath,
    /// The repository's.
    pub common_dir: AbsPath,
}

impl Worktree {
    /// The same place where the user works; the path itself where it is not in the session's work tree.
    pub fn origin(&self, path: &AbsPath) -> AbsPath {
        rebased(path, &self.tree, &self.main).unwrap_or_else(|| path.clone())
    }

    /// The same place in the session's work tree; none where it is not in the user's, or is the repository itself.
    pub fn twin(&self, path: &AbsPath) -> Option<AbsPath> {
        let is_repository = path.is_within(&self.common_dir) || path.is_within(&self.git_dir);
        if is_repository || path.is_within(&self.tree) { None } else { rebased(path, &self.main, &self.tree) }
    }
}

/// The path seen from another base; none where it is not within the first.
fn rebased(path: &AbsPath, from: &AbsPath, to: &AbsPath) -> Option<AbsPath> {
    if !path.is_within(from) {
        return None;
    }
    let below = path.components().skip(from.components().count());
    Some(below.fold(to.clone(), |path, name| path.child(name)))
}

/// Which work item.
#[derive(Debug, Clone)]
pub enum TaskChoice {
    /// One of the policy's.
    Named(String),
    /// From a file of its own.
    File {
        /// What it asks.
        task: Task,
        /// Where the file is, links followed. It is protected, as a policy is.
        path: AbsPath,
    },
}

/// Everything that decides, but the host.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The policy files: managed, user, then project or explicit; what a file extends comes before it.
    pub layers: Vec<Layer>,
    /// The command line.
    pub request: Request,
}

/// A Surface, and what was said on the way.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// What may be touched.
    pub surface: Surface,
    /// What was asked for and does not take part.
    pub omissions: Vec<Omission>,
    /// Warnings and notes.
    pub diagnostics: Vec<Diagnostic>,
    /// What was chosen for the agent, where one was named.
    pub agent: Option<AgentChoice>,
    /// What the supervisor does by itself when too much of something happens. Those of all files: none takes one away.
    pub watches: Vec<Sourced<Watch>>,
}

/// Resolves policies on a host. `facts` gives the environment and directories, `look` answers about paths: on a live host it
/// looks and records, afterwards the recorded facts serve (`&mut &facts`).
///
/// # Errors
/// What makes the policy unusable: unknown persona or task, a root that is no directory, rules in the wrong file.
pub fn resolve(inputs: &Inputs, facts: &HostFacts, look: &mut dyn Look) -> Result<Resolved, Vec<Diagnostic>> {
    let refused: Vec<Diagnostic> = inputs.layers.iter().flat_map(settings::keys_in_the_wrong_file).collect();
    if !refused.is_empty() {
        return Err(refused);
    }
    let mut cx = Cx::new(inputs, facts, look);
    let collected = cx.collect(Reading::WithProject).map_err(|d| vec![d])?;
    let collected = cx.limit(collected).map_err(|d| vec![d])?;
    cx.warn_of_variables(&collected.settings, &collected.reach);
    cx.warn_of_unreached(&collected.reach);
    let agent = cx.agent_choice(&collected.grants, &collected.reach);
    let surface = cx.build(collected);
    cx.warn_of_contradictions(&surface);
    cx.warn_of_the_projects_name(&surface);
    if cx.said.iter().any(|d| d.severity == Severity::Error) {
        return Err(cx.said);
    }
    let watches = inputs.layers.iter().flat_map(|layer| layer.file.watches()).collect();
    Ok(Resolved { surface, omissions: cx.omissions, diagnostics: cx.said, agent, watches })
}

/// Where a repository keeps its work trees, if a file that is trusted says so.
pub fn pool_of(inputs: &Inputs, facts: &HostFacts, look: &mut dyn Look, repository: &AbsPath) -> Option<AbsPath> {
    let mut cx = Cx::new(inputs, facts, look);
    Some(cx.pooled(repository.clone())).filter(|pool| pool != repository)
}

/// Does an untrusted project file take part, or is this the baseline it may narrow?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    WithProject,
    WithoutUntrusted,
}

/// What the files ask for together, before ceilings.
struct Collected {
    root: AbsPath,
    workdir: AbsPath,
    packs: Vec<&'static crate::curated::packs::Pack>,
    grants: Vec<Grant>,
    reach: reach::Asked,
    settings: settings::Settings,
    /// Where floating patterns hold.
    roots: Vec<(AbsPath, RootKind)>,
}

/// The work in progress.
struct Cx<'a> {
    inputs: &'a Inputs,
    facts: &'a HostFacts,
    look: &'a mut dyn Look,
    trail: Trail,
    omissions: Vec<Omission>,
    /// What is among them already: the baseline of an untrusted project is collected a second time.
    omitted: HashSet<(String, Option<usize>)>,
    said: Vec<Diagnostic>,
}

impl<'a> Cx<'a> {
    fn new(inputs: &'a Inputs, facts: &'a HostFacts, look: &'a mut dyn Look) -> Self {
        let (trail, omitted) = (Trail::default(), HashSet::new());
        Self { inputs, facts, look, trail, omissions: Vec::new(), omitted, said: Vec::new() }
    }

    fn collect(&mut self, reading: Reading) -> Result<Collected, Diagnostic> {
        let settings = settings::collect(&self.layers(reading));
        let root = self.root(reading)?;
        let persona = self.persona(reading)?;
        let workdir = self.workdir(&root, persona)?;
        let packs = self.packs(reading, &root);
        let mut grants = self.grants(reading, &root, &workdir, persona, &packs)?;
        self.agent_program(&mut grants, reading, &root);
        let reach = self.reach(reading, &packs)?;
        let roots = floating_roots(&grants, settings.view.value, &root);
        let mut collected = Collected { root, workdir, packs, grants, reach, settings, roots };
        self.variables(&mut collected);
        collected.settings.env.extend(self.agent_variables(reading));
        Ok(collected)
    }

    /// The files that take part in a reading; the managed file never grants, so it is not among them.
    fn layers(&self, reading: Reading) -> Vec<&'a Layer> {
        let takes_part = |layer: &&Layer| match layer.level {
            Level::Managed => false,
            Level::Project(Trust::Untrusted) => reading == Reading::WithProject,
            _ => true,
        };
        self.inputs.layers.iter().filter(takes_part).collect()
    }

    fn managed(&self) -> Option<&'a Layer> {
        self.inputs.layers.iter().find(|layer| layer.level == Level::Managed)
    }

    fn has_untrusted(&self) -> bool {
        self.inputs.layers.iter().any(|layer| layer.level == Level::Project(Trust::Untrusted))
    }

    fn omit(&mut self, entry: impl AsRef<str>, source: Source, why: Dropped) {
        // A built-in row that a variable may move is listed under each of its names; that one of them is unset is no news.
        if matches!((&source, &why), (Source::Table { .. }, Dropped::Unset { .. })) {
            return;
        }
        // An entry is text of a file that nobody has trusted yet, and omissions are shown on terminals.
        let entry = Shown(entry.as_ref().as_bytes()).to_string();
        if self.omitted.insert((entry.clone(), source.place().map(Place::start))) {
            self.omissions.push(Omission { entry, source, why });
        }
    }

    /// Follows a path from a directory. What leads into the user's work tree leads into the session's, where it has its own.
    fn follow(&mut self, dir: &AbsPath, raw: &[u8]) -> Result<Followed, Dropped> {
        let found = self.trail.follow(dir, raw, self.look)?;
        match self.moved(&found.path) {
            Some(twin) => self.trail.follow(&AbsPath::root(), twin.as_bytes(), self.look),
            None => Ok(found),
        }
    }

    /// Where something of the user's work tree is in the session's own. What is ringfence's stays where it is.
    fn moved(&self, path: &AbsPath) -> Option<AbsPath> {
        let worktree = self.inputs.request.worktree.as_ref()?;
        let own = self.facts.own_directories();
        let is_ours = [own.config, own.state, own.cache].into_iter().flatten().any(|own| path.is_within(&own));
        if is_ours { None } else { worktree.twin(path) }
    }

    /// Expands a rule that names one place and follows it.
    fn place(&mut self, rule: &PathRule, dir: &AbsPath) -> Result<Followed, Dropped> {
        let split = rule.split(&self.facts.environment)?;
        self.follow(dir, &split.literal)
    }

    fn build(&mut self, collected: Collected) -> Surface {
        let Collected { root, workdir, packs, grants, reach, settings, roots } = collected;
        let mut rules = taken::rules(self, &grants, &reach);
        rules.extend(grants.iter().map(Grant::to_rule));
        let governance = match settings.self_governing {
            Some(place) => Governance::SelfGoverning(Source::File(place)),
            None => Governance::Fenced,
        };
        Surface::new(Parts {
            root,
            workdir,
            view: settings.view.value,
            tier: settings.tier.value,
            governance,
            rules,
            roots,
            reach: reach.finish(),
            env: settings.env,
            caps: settings.caps,
            packs: packs.iter().map(|pack| pack.name).collect(),
        })
    }

    /// A rule that matches the project's own name would take away the whole project, which it is most likely not about.
    fn warn_of_the_projects_name(&mut self, surface: &Surface) {
        for rule in surface.exempt_by_name() {
            let message = format!("{rule} does not hold for the project's own directory, {}", surface.root());
            let warning = Diagnostic::warning(rule.source.place().cloned(), message)
                .help("what is called so in it is taken away; to close the project itself, write its path");
            self.said.push(warning);
        }
    }

    /// A grant that a deny takes away again is most likely a slip: both places are shown.
    fn warn_of_contradictions(&mut self, surface: &Surface) {
        use crate::decide::{Access, Because};
        let written = surface.rules().iter().filter(|rule| rule.source.is_written());
        for rule in written {
            let Some(base) = rule.pattern.base() else { continue };
            let access = match rule.effect {
                Effect::Write(_) => Access::Write,
                Effect::Read(_) => Access::Read,
                _ => continue,
            };
            let Because::Rule(winner) = surface.decide(base, access).because else { continue };
            if !winner.effect.takes_away() {
                continue;
            }
            let message = format!("{rule} has no effect: {winner} wins ({})", winner.source);
            let mut warning = Diagnostic::warning(rule.source.place().cloned(), message);
            if let Some(place) = winner.source.place() {
                warning = warning.also(place.clone(), "the rule that wins");
            }
            self.said.push(warning);
        }
    }
}

/// Where `**/name` holds: in everything the agent was given to work on, not in the system's own directories. It is tested on
/// every component of a path there, so a grant inside a directory of that name does not get round it.
fn floating_roots(grants: &[Grant], view: View, root: &AbsPath) -> Vec<(AbsPath, RootKind)> {
    let mut roots = vec![(root.clone(), RootKind::Project)];
    if view == View::Host {
        roots.push((AbsPath::root(), RootKind::Granted));
    }
    for grant in grants {
        let Some(base) = grant.pattern.base() else { continue };
        match grant.effect {
            Effect::Write(role) | Effect::Read(role) if !role.is_ground() => {
                roots.push((base.clone(), RootKind::Granted));
            }
            _ => {}
        }
    }
    roots.sort_by(|a, b| a.0.cmp(&b.0));
    roots.dedup();
    roots
}

/// A matcher over plain patterns, to ask what they cover.
fn covering<'p>(patterns: impl IntoIterator<Item = &'p Pattern>) -> Matcher {
    let mut matcher = Matcher::new();
    for (id, pattern) in (0..).zip(patterns) {
        matcher.add(pattern, id);
    }
    matcher
}

fn source_of<T>(spanned: &Spanned<T>) -> Source {
    Source::File(spanned.place.clone())
}

/// The place of a file as a whole.
fn whole(layer: &Layer) -> Place {
    Place::new(&layer.text, 0..0)
}
