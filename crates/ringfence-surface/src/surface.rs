//! The Surface: everything one spawned agent may touch, resolved.
//!
//! It is the only input of every layer. What it holds is data; the answers are in `decide`, the narrowing in `tighten`.
//! A Surface is made by `resolve` or from another Surface, never by hand and never by default. Its [`Parts`] are what another
//! process needs to have the same one.

use std::borrow::Cow;
use std::time::Duration;

use crate::facts::{GitNamed, GitRun};
use crate::host::HostPattern;
use crate::matcher::Matcher;
use crate::path::AbsPath;
use crate::pattern::{Anchor, Pattern, Segment};
use crate::policy::{EnvName, Tier, View};
use crate::source::Source;

pub use crate::matcher::RootKind;
pub use crate::policy::Sense;

/// What a path is to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Where the agent works.
    WorkingDir,
    /// Granted for writing besides.
    Write,
    /// Another repository of the workspace.
    Sibling,
    /// The workspace's metadata.
    Metadata,
    /// A toolchain's own files.
    Tooling,
    /// The operating system's own files.
    System,
    /// Granted for reading besides.
    Read,
    /// Named by the user for this run.
    Reference,
    /// A cache kept private to the project.
    Cache,
    /// A git directory that lies outside the work tree.
    GitDir,
    /// The session's own home and temporary files.
    Scratch,
    /// Exists only inside: `/tmp`, `/proc`, a few devices.
    Private,
}

impl Role {
    /// The word for it in output.
    pub fn word(self) -> &'static str {
        match self {
            Self::WorkingDir => "working-dir",
            Self::Write => "write",
            Self::Sibling => "sibling",
            Self::Metadata => "metadata",
            Self::Tooling => "tooling",
            Self::System => "system",
            Self::Read => "read",
            Self::Reference => "reference",
            Self::Cache => "cache",
            Self::GitDir => "git-dir",
            Self::Scratch => "scratch",
            Self::Private => "private",
        }
    }

    /// Brought along so that programs run at all; narrowing what the agent works on leaves it.
    pub(crate) fn is_ground(self) -> bool {
        matches!(self, Self::Tooling | Self::System | Self::Cache | Self::Scratch | Self::Private)
    }
}

/// What a rule does. The order is the order of decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// A way out of any fence: denied whatever the policy says.
    Escape,
    /// Denied.
    Deny,
    /// Readable at most.
    Protect,
    /// Readable and writable.
    Write(Role),
    /// Readable.
    Read(Role),
    /// Writable, but worth a question in accept-edits.
    Ask,
    /// Other people's code: below it the names that are protected anywhere do not count.
    ThirdParty,
    /// Granted to the session and not to this call. It grants nothing, and shows that the path is the host's: without it a
    /// private `/tmp` would reappear where something of the host's was bound.
    Withheld,
}

/// One rule about paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it does.
    pub effect: Effect,
    /// An exception undoes the rules above it in the same list.
    pub sense: Sense,
    /// Which paths.
    pub pattern: Pattern,
    /// As it was written.
    pub text: Cow<'static, str>,
    /// Where it was written.
    pub source: Source,
    /// Rules of one list belong together: an exception reaches no other list.
    pub list: u32,
}

impl Rule {
    /// The rule that protects what git executes or reads because of a setting; none where it is unknown what that is.
    pub fn of_git_run(run: &GitRun) -> Option<Self> {
        let (pattern, list) = match &run.named {
            GitNamed::At(path) => (Pattern::path(path.clone()), RUN_BY_GIT),
            // Packages that are unpacked into caches have directories of hooks, too, and they are no work trees.
            GitNamed::InEachWorkTree(path) => {
                let names = path.split(|byte| *byte == b'/').map(|name| Segment::Name(name.to_vec()));
                (Pattern { anchor: Anchor::Floating, rest: names.collect() }, PROTECTED_ANYWHERE)
            }
            GitNamed::Unknown(_) => return None,
        };
        let (text, source) = (pattern.to_string().into(), Source::Git { setting: run.setting.clone() });
        Some(Self { effect: Effect::Protect, sense: Sense::Rule, pattern, text, source, list })
    }

    /// Does this protect a file of a git directory, whose content the broker judges instead?
    pub fn is_of_git_directory(&self) -> bool {
        self.effect == Effect::Protect && self.list == GIT_DIRECTORY && !self.source.is_written()
    }
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    /// What.
    pub value: T,
    /// Where.
    pub source: Source,
}

/// What can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Hosts.
    pub hosts: Vec<Sourced<HostPattern>>,
    /// Those of them whose names may lead to private addresses.
    pub private: Vec<Sourced<HostPattern>>,
    /// Ports on the host's loopback.
    pub host_ports: Vec<Sourced<u16>>,
    /// Unix sockets.
    pub sockets: Vec<Sourced<AbsPath>>,
    /// What is added to requests on the way out.
    pub inject: Vec<Sourced<Injection>>,
}

/// A header that is added to the requests for one host on the way out. The secret itself is not known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    /// The host, in lower case.
    pub host: String,
    /// The header, in lower case.
    pub header: String,
    /// The variable of the caller that holds the secret.
    pub variable: EnvName,
    /// What stands before the secret.
    pub prefix: String,
}

impl std::fmt::Display for Injection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} for {} from {}", self.header, self.host, self.variable.as_str())
    }
}

/// Limits on resources; what is `None` is not limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Bytes of memory.
    pub memory: Option<Sourced<u64>>,
    /// Processes and threads.
    pub pids: Option<Sourced<u32>>,
    /// How long the session may last.
    pub wall: Option<Sourced<Duration>>,
}

/// Who governs the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Governance {
    /// ringfence, with every layer.
    Fenced,
    /// The project itself: no OS layer. Hooks and the sanitised environment stay.
    SelfGoverning(Source),
}

/// The resolved capabilities of one spawn.
#[derive(Debug, Clone)]
pub struct Surface {
    pub(crate) parts: Parts,
    pub(crate) matcher: Matcher,
    /// Where the rules of each stage end.
    pub(crate) ends: [u32; Stage::COUNT],
}

/// What a Surface is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The project's root.
    pub root: AbsPath,
    /// Where the agent starts.
    pub workdir: AbsPath,
    /// What exists beside what is named.
    pub view: View,
    /// How much must hold before a session starts.
    pub tier: Tier,
    /// Who governs the session.
    pub governance: Governance,
    /// Every rule.
    pub rules: Vec<Rule>,
    /// The directories in which patterns that float hold.
    pub roots: Vec<(AbsPath, RootKind)>,
    /// What can be reached.
    pub reach: Reach,
    /// Variables that pass beside the built-in table.
    pub env: Vec<Sourced<EnvName>>,
    /// Limits on resources.
    pub caps: Caps,
    /// The packs that took part.
    pub packs: Vec<&'static str>,
}

/// Orders rules as they decide; within one list the order of the file stays. Rules are large and come in long runs that are
/// in order already, so their places are sorted and each rule is moved once.
fn order(rules: &mut [Rule]) {
    let key = |(rule, place): (&Rule, u32)| (rule.effect.stage(), rule.list, place);
    let mut places: Vec<(Stage, u32, u32)> = rules.iter().zip(0..).map(key).collect();
    places.sort();
    for to in 0..rules.len() {
        // What stood there may have been moved on in the place of an earlier one.
        let mut from = places[to].2 as usize;
        while from < to {
            from = places[from].2 as usize;
        }
        places[to].2 = from as u32;
        rules.swap(to, from);
    }
}

impl Surface {
    /// Orders the rules as they decide and builds the tree that finds them.
    pub(crate) fn new(mut parts: Parts) -> Self {
        order(&mut parts.rules);
        let mut matcher = Matcher::with_room(parts.rules.len());
        for (id, rule) in (0..).zip(&parts.rules) {
            matcher.add(&rule.pattern, id);
        }
        for (path, kind) in &parts.roots {
            matcher.add_root(path, *kind);
        }
        let end = |stage| parts.rules.partition_point(|rule| rule.effect.stage() <= stage) as u32;
        let ends = Stage::ALL.map(end);
        Self { parts, matcher, ends }
    }

    /// The Surface that another process described by its parts. Only for what [`Surface::parts`] gave and nobody could change on
    /// the way: what `resolve` checks is not checked again.
    pub fn from_parts(parts: Parts) -> Self {
        Self::new(parts)
    }

    /// The same, and what git executes or reads because of settings of repositories that were found later is protected.
    #[must_use]
    pub fn with_git_runs(&self, runs: &[GitRun]) -> Self {
        let mut parts = self.parts.clone();
        parts.rules.extend(runs.iter().filter_map(Rule::of_git_run));
        Self::new(parts)
    }

    /// What it is made of.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The project's root.
    pub fn root(&self) -> &AbsPath {
        &self.parts.root
    }

    /// Where the agent starts.
    pub fn workdir(&self) -> &AbsPath {
        &self.parts.workdir
    }

    /// What exists beside what is named.
    pub fn view(&self) -> View {
        self.parts.view
    }

    /// How much must hold before a session starts.
    pub fn tier(&self) -> Tier {
        self.parts.tier
    }

    /// Who governs the session.
    pub fn governance(&self) -> &Governance {
        &self.parts.governance
    }

    /// Every rule, in the order of decision.
    pub fn rules(&self) -> &[Rule] {
        &self.parts.rules
    }

    /// What may be written, flat.
    pub fn allowed_writes(&self) -> impl Iterator<Item = &Rule> {
        self.parts.rules.iter().filter(|rule| matches!(rule.effect, Effect::Write(_)))
    }

    /// What may be read, flat: what may be written, and what is read-only.
    pub fn allowed_reads(&self) -> impl Iterator<Item = &Rule> {
        self.parts.rules.iter().filter(|rule| matches!(rule.effect, Effect::Write(_) | Effect::Read(_)))
    }

    /// Where ringfence's own configuration is, as the session's host had it.
    pub fn own_configuration(&self) -> impl Iterator<Item = &Pattern> {
        let is_it = |rule: &&Rule| {
            let reason = crate::resolve::OWN_CONFIGURATION;
            matches!(rule.source, Source::Table { reason: why, .. } if why == reason) && rule.sense == Sense::Rule
        };
        self.parts.rules.iter().filter(is_it).map(|rule| &rule.pattern)
    }

    /// What can be reached.
    pub fn reach(&self) -> &Reach {
        &self.parts.reach
    }

    /// Variables that pass beside the built-in table.
    pub fn env(&self) -> &[Sourced<EnvName>] {
        &self.parts.env
    }

    /// Limits on resources.
    pub fn caps(&self) -> &Caps {
        &self.parts.caps
    }

    /// The packs that took part.
    pub fn packs(&self) -> &[&'static str] {
        &self.parts.packs
    }

    /// The directories in which patterns such as `**/.env` hold.
    pub fn roots(&self) -> impl Iterator<Item = &AbsPath> {
        self.parts.roots.iter().map(|(path, _)| path)
    }
}

/// The list of the names that are protected anywhere.
pub(crate) const PROTECTED_ANYWHERE: u32 = 0;
/// The list of what git executes or reads because of a setting.
const RUN_BY_GIT: u32 = 1;
/// The lists of the administrator's file.
pub(crate) const MANAGED: u32 = 99;
/// The list of what is protected in a git directory.
pub(crate) const GIT_DIRECTORY: u32 = 5;

/// What rules decide together. The order is the order of decision; the last three only inform it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Escape,
    Deny,
    Protect,
    Write,
    Read,
    Ask,
    ThirdParty,
    Withheld,
}

impl Stage {
    pub(crate) const COUNT: usize = 8;
    pub(crate) const ALL: [Self; Self::COUNT] =
        [Self::Escape, Self::Deny, Self::Protect, Self::Write, Self::Read, Self::Ask, Self::ThirdParty, Self::Withheld];
}

impl Effect {
    pub(crate) fn stage(self) -> Stage {
        match self {
            Self::Escape => Stage::Escape,
            Self::Deny => Stage::Deny,
            Self::Protect => Stage::Protect,
            Self::Write(_) => Stage::Write,
            Self::Read(_) => Stage::Read,
            Self::Ask => Stage::Ask,
            Self::ThirdParty => Stage::ThirdParty,
            Self::Withheld => Stage::Withheld,
        }
    }

    /// Does it take something away?
    pub(crate) fn takes_away(self) -> bool {
        self.stage() <= Stage::Protect
    }
}
