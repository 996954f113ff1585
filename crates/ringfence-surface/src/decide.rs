//! The oracle: may this path be read or written, this host be reached, this variable be passed, and why.
//!
//! The order for a path is the same in every layer: escape vectors deny, then `deny`, then for writes `protect`, then `write`
//! allows, then `read` allows reads, then the view. Whether the path exists plays no part.

use std::collections::BTreeSet;
use std::fmt;

use crate::curated;
use crate::host::{HostPattern, HostTarget};
use crate::matcher::{Covering, Hit};
use crate::path::{AbsPath, Shown, Word};
use crate::pattern::{Anchor, Pattern};
use crate::policy::View;
use crate::source::Source;
use crate::surface::{Effect, Injection, MANAGED, PROTECTED_ANYWHERE, Role, Rule, Sense, Sourced, Stage, Surface};

/// What is to be done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// Look at it: its content, its entries.
    Read,
    /// Change it: content, name, attributes, existence.
    Write,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

/// Which rule decided about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because<'s> {
    /// This one.
    Rule(&'s Rule),
    /// It is readable by this rule, and nothing makes it writable.
    OnlyReadable(&'s Rule),
    /// No rule speaks of it; the view decides.
    View(View),
}

/// An answer about a path, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'s> {
    /// The answer.
    pub outcome: Outcome,
    /// Why.
    pub because: Because<'s>,
    /// In accept-edits the user is asked first: a lockfile.
    pub ask: Option<&'s Rule>,
}

impl Verdict<'_> {
    /// Is it allowed?
    pub fn is_allowed(&self) -> bool {
        self.outcome == Outcome::Allow
    }
}

impl Surface {
    /// May `path` be read or written? `path` must be real: links on the way already followed. A path through a magic link of
    /// `/proc`, which only the kernel can follow, is refused.
    pub fn decide(&self, path: &AbsPath, access: Access) -> Verdict<'_> {
        if let Some(rule) = curated::magic_links::through(path) {
            return Verdict { outcome: Outcome::Deny, because: Because::Rule(rule), ask: None };
        }
        self.judge(&self.covering(path), access)
    }

    fn covering(&self, path: &AbsPath) -> Covering {
        let mut covering = self.matcher.covering(path);
        covering.hits.sort_unstable_by_key(|hit| hit.id);
        covering
    }

    /// Decides from every rule that covers a path, in the order of the rules.
    pub(crate) fn judge(&self, covering: &Covering, access: Access) -> Verdict<'_> {
        let hits = Hits { surface: self, covering };
        let (writable, readable) = hits.grants();
        let is_own = writable.is_some_and(|rule| matches!(rule.effect, Effect::Write(role) if role.is_ground()))
            || readable.is_some_and(|rule| rule.effect == Effect::Read(Role::Scratch));
        let deny = |because| Verdict { outcome: Outcome::Deny, because, ask: None };
        let allow = |because, ask| Verdict { outcome: Outcome::Allow, because, ask };
        let stages: &[Stage] = match access {
            Access::Read => &[Stage::Escape, Stage::Deny],
            Access::Write => &[Stage::Escape, Stage::Deny, Stage::Protect],
        };
        if let Some(rule) = stages.iter().find_map(|stage| hits.taken_away(*stage, is_own)) {
            return deny(Because::Rule(rule));
        }
        match (access, writable, readable, self.parts.view) {
            (Access::Read, Some(rule), ..) | (Access::Read, None, Some(rule), _) => allow(Because::Rule(rule), None),
            (Access::Write, Some(rule), ..) => {
                let ask = hits.at(Stage::Ask).first().map(|hit| self.rule(*hit)).filter(|_| !is_own);
                allow(Because::Rule(rule), ask)
            }
            (Access::Write, None, Some(rule), _) => deny(Because::OnlyReadable(rule)),
            (Access::Read, None, None, View::Host) => allow(Because::View(View::Host), None),
            (_, None, None, view) => deny(Because::View(view)),
        }
    }

    /// The rules that would take away the project's root by its own name, and do not.
    pub(crate) fn exempt_by_name(&self) -> Vec<&Rule> {
        let covering = self.covering(self.root());
        let exempt = covering.hits.iter().map(|hit| (hit, self.rule(*hit))).filter(|(hit, rule)| {
            let is_taken = rule.effect.takes_away() && rule.sense == Sense::Rule && rule.list != MANAGED;
            let is_written = rule.source.is_written() && rule.pattern.anchor == Anchor::Floating;
            is_taken && is_written && hit.depth == covering.root
        });
        exempt.map(|(_, rule)| rule).collect()
    }

    /// The rule that grants a path, whatever else takes it away.
    pub(crate) fn grant(&self, path: &AbsPath, access: Access) -> Option<&Rule> {
        let covering = self.covering(path);
        let (writable, readable) = Hits { surface: self, covering: &covering }.grants();
        if access == Access::Write { writable } else { writable.or(readable) }
    }

    fn rule(&self, hit: Hit) -> &Rule {
        &self.parts.rules[hit.id as usize]
    }

    /// May this host and port be reached? The entry that says so.
    pub fn decide_host(&self, target: &HostTarget) -> Option<&Sourced<HostPattern>> {
        self.parts.reach.hosts.iter().find(|entry| entry.value.matches(target))
    }

    /// May the name of a host that is reached lead to a private address? The entry that says so.
    pub fn decide_private(&self, target: &HostTarget) -> Option<&Sourced<HostPattern>> {
        self.decide_host(target)?;
        self.parts.reach.private.iter().find(|entry| entry.value.matches(target))
    }

    /// May this port on the host's loopback be reached?
    pub fn decide_host_port(&self, port: u16) -> Option<&Sourced<u16>> {
        self.parts.reach.host_ports.iter().find(|entry| entry.value == port)
    }

    /// May this unix socket of the host be connected to? Only one that is named.
    pub fn decide_socket(&self, path: &AbsPath) -> Option<&Sourced<AbsPath>> {
        self.parts.reach.sockets.iter().find(|entry| entry.value == *path)
    }

    /// Does this variable hold a secret that is added to requests on the way out? The entry that says so.
    pub fn decide_injected(&self, name: &[u8]) -> Option<&Sourced<Injection>> {
        self.parts.reach.inject.iter().find(|entry| entry.value.variable.as_str().as_bytes() == name)
    }

    /// Is this variable passed on?
    pub fn decide_variable(&self, name: &[u8]) -> Outcome {
        // What is added outside does not come in, whoever names it.
        if self.decide_injected(name).is_some() {
            return Outcome::Deny;
        }
        let named = self.parts.env.iter().any(|entry| entry.value.means(name));
        if named || curated::env::passes_by_default(name).is_some() { Outcome::Allow } else { Outcome::Deny }
    }

    /// What the user can do about a refusal, in one line.
    pub fn remedy(&self, path: &AbsPath, access: Access, verdict: &Verdict<'_>) -> Option<String> {
        if verdict.is_allowed() {
            return None;
        }
        Some(match verdict.because {
            Because::Rule(rule) => match rule.effect {
                Effect::Escape if curated::magic_links::through(path).is_some() => {
                    "ask for the path that it leads to".into()
                }
                Effect::Escape => "none: this is closed in every policy".into(),
                Effect::Deny if rule.source.place().is_some() => {
                    match entry_text("!", path) {
                        Some(entry) => format!("change the rule, or add an exception below it in the same list: {entry}"),
                        None => "change the rule: no exception can name a path that is not UTF-8".into(),
                    }
                }
                Effect::Deny if access == Access::Read => {
                    format!("for one run, name it yourself: --ref {}", Word(path.as_bytes()))
                }
                _ if rule.source.place().is_some() => format!("change the rule at {}", rule.source),
                _ => "make this change yourself, outside the fence".into(),
            },
            Because::OnlyReadable(Rule { effect: Effect::Read(Role::System | Role::Tooling), .. }) => {
                "make this change yourself, outside the fence: of the system and of toolchains nothing is writable but what `write` names"
                    .into()
            }
            // No list and no grant speaks of it: the host's own is another, and nobody inside writes to either.
            Because::OnlyReadable(Rule { effect: Effect::Read(Role::Private), .. }) => {
                "none: what the kernel shows of processes is never writable, and only what a process may see of another is readable".into()
            }
            // Outside what was granted `**/NAME` is not asked about, and it would deny the path again.
            Because::OnlyReadable(_) | Because::View(_) if self.floating(path, access).is_some() => {
                let rule = self.floating(path, access).map(|rule| format!("{rule} ({})", rule.source));
                format!("no grant helps: {} would deny it", rule.unwrap_or_default())
            }
            Because::OnlyReadable(_) => self.to_write(path),
            Because::View(_) if access == Access::Read => {
                let word = Word(path.as_bytes());
                match entry_text("", path) {
                    Some(entry) => format!("add {entry} to `read` in [files], or for one run: --ref {word}"),
                    None => format!("for one run: --ref {word}"),
                }
            }
            Because::View(_) => self.to_write(path),
        })
    }

    /// What the user can do about a host that is not reached.
    pub fn to_reach(&self, host: &str) -> String {
        match HostPattern::parse(host) {
            Ok(_) => format!("add \"{host}\" to `allow` in [network]{}", self.beside_allow()),
            Err(why) => format!("no entry of `allow` can name it: {why}"),
        }
    }

    /// What a first list of `allow` needs: one in the project's file takes the place of what packs bring, which would be lost.
    pub fn beside_allow(&self) -> String {
        let packs = self.parts.reach.hosts.iter().filter_map(|entry| match entry.source {
            Source::Pack { name, .. } => curated::packs::pack(name),
            _ => None,
        });
        let groups: BTreeSet<&str> = packs.flat_map(|pack| pack.groups.iter().copied()).collect();
        if groups.is_empty() {
            return String::new();
        }
        let groups: Vec<String> = groups.into_iter().map(|group| format!("\"{group}\"")).collect();
        format!(", in a new list with {} so that those stay reachable", groups.join(", "))
    }

    /// A list that is written takes the place of the default, which is the project: with this path alone it would be lost.
    fn to_write(&self, path: &AbsPath) -> String {
        let is_new = self.rules().iter().any(|rule| rule.source == PROJECT_IS_WRITABLE);
        let beside = if is_new { ", in a new list with \".\" so that the project stays writable" } else { "" };
        match entry_text("", path) {
            Some(entry) => format!("add {entry} to `write` in [files]{beside}"),
            None => "make this change yourself, outside the fence: no entry can name a path that is not UTF-8".into(),
        }
    }

    /// The floating rule that would take a path away if it were granted.
    fn floating(&self, path: &AbsPath, access: Access) -> Option<&Rule> {
        let mut covering = self.covering(path);
        covering.searched.get_or_insert(0);
        match self.judge(&covering, access).because {
            Because::Rule(rule) if rule.effect.takes_away() => Some(rule),
            _ => None,
        }
    }
}

/// What makes the project writable where no list says what is.
pub(crate) const PROJECT_IS_WRITABLE: Source = Source::Default { reason: "the project is writable" };

/// The rules that cover one path, in their order.
struct Hits<'s, 'h> {
    surface: &'s Surface,
    covering: &'h Covering,
}

impl<'s> Hits<'s, '_> {
    fn at(&self, stage: Stage) -> &[Hit] {
        // By their numbers: the rules themselves lie far apart in memory.
        let hits = &self.covering.hits;
        let before = |end: u32| hits.partition_point(|hit| hit.id < end);
        let ends = &self.surface.ends;
        let from = (stage as usize).checked_sub(1).map_or(0, |last| before(ends[last]));
        &hits[from..before(ends[stage as usize])]
    }

    /// The most specific rule of a stage, and how deep it reaches.
    fn deepest(&self, stage: Stage) -> Option<(&'s Rule, u32)> {
        self.at(stage).iter().max_by_key(|hit| hit.depth).map(|hit| (self.surface.rule(*hit), hit.depth))
    }

    /// What makes the path writable and what makes it readable. What is private covers the host's own directory of that name,
    /// but not what is bound below it.
    fn grants(&self) -> (Option<&'s Rule>, Option<&'s Rule>) {
        let bound = [Stage::Read, Stage::Withheld].into_iter().filter_map(|stage| self.deepest(stage));
        let bound = bound.map(|(_, depth)| depth).max().unwrap_or(0);
        let is_there = |(rule, depth): &(&Rule, u32)| !is_private(rule) || bound <= *depth;
        let grant = |stage| self.deepest(stage).filter(is_there).map(|(rule, _)| rule);
        (grant(Stage::Write), grant(Stage::Read))
    }

    /// The rule that takes the path away, if any list does: in each list the last match counts.
    fn taken_away(&self, stage: Stage, is_own: bool) -> Option<&'s Rule> {
        // Directories above a grant, or above the project, do not decide about its content.
        let outermost = self.covering.searched.unwrap_or(u32::MAX).max(self.covering.root);
        let inside = self.at(Stage::ThirdParty).iter().filter(|hit| hit.depth > outermost);
        let third_party = inside.map(|hit| hit.depth).min().unwrap_or(u32::MAX);
        let list = |hit: &Hit| self.surface.rule(*hit).list;
        self.at(stage)
            .chunk_by(|a, b| list(a) == list(b))
            .filter_map(|hits| hits.iter().rfind(|hit| self.speaks(**hit, is_own, third_party)))
            .map(|hit| self.surface.rule(*hit))
            .find(|rule| rule.sense == Sense::Rule)
    }

    /// Whether a rule applies to this path.
    fn speaks(&self, hit: Hit, is_own: bool, third_party: u32) -> bool {
        let rule = self.surface.rule(hit);
        let (floats, built_in) = (rule.pattern.anchor == Anchor::Floating, !rule.source.is_written());
        // In the system's directories and toolchains nothing is searched for.
        if floats && self.covering.searched.is_none() {
            return false;
        }
        // Floating patterns, and built-in places such as `/tmp/tmux-*`, speak of the host's files. What exists only in the
        // session, or belongs to ringfence's caches, is not among them: agents keep settings there, package managers unpack
        // there.
        let is_about_the_host = floats || (built_in && rule.text.starts_with('/'));
        // A project may lie below a name that is protected anywhere, such as `.claude/worktrees`: what counts is inside it. It may
        // also be called what a rule of the user's says: of a rule that somebody wrote its own name alone is left out, which
        // `resolve` warns of, and of the administrator's nothing.
        let is_exempt = match rule.list {
            _ if !floats => false,
            _ if built_in => hit.depth <= self.covering.root,
            MANAGED => false,
            _ => hit.depth == self.covering.root,
        };
        // Other people's code may hold names that are protected anywhere else.
        let is_anywhere = rule.effect == Effect::Protect && rule.list == PROTECTED_ANYWHERE;
        let is_theirs = is_anywhere && hit.depth > third_party;
        rule.effect == Effect::Escape || !(is_own && is_about_the_host || is_exempt || is_theirs)
    }
}

fn is_private(rule: &Rule) -> bool {
    matches!(rule.effect, Effect::Write(Role::Private) | Effect::Read(Role::Private))
}

/// A path as an entry of a list in TOML, after a mark. What would be a wildcard or a variable is escaped, and so is what does
/// not show. `None` where no entry means exactly this path.
fn entry_text(mark: &str, path: &AbsPath) -> Option<String> {
    let name = std::str::from_utf8(path.as_bytes()).ok()?;
    let mut rule = String::new();
    for c in name.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '$' | '\\') {
            rule.push('\\');
        }
        rule.push(c);
    }
    if Pattern::parse(&rule).ok()?.as_path() != Some(path) {
        return None;
    }
    let text = format!("{mark}{rule}");
    let is_shown = Shown(text.as_bytes()).to_string() == text;
    if is_shown && !text.contains(['\\', '"']) {
        return Some(format!("\"{text}\""));
    }
    if is_shown && !text.contains('\'') {
        return Some(format!("'{text}'"));
    }
    let mut quoted = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if Shown(c.encode_utf8(&mut [0; 4]).as_bytes()).to_string().starts_with('\\') => {
                quoted.push_str(&format!("\\U{:08x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    Some(format!("\"{quoted}\""))
}

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "{rule}"),
            Self::OnlyReadable(rule) => write!(f, "{rule}, and no `write` covers it"),
            Self::View(View::Surface) => f.write_str("nothing in the surface covers it"),
            Self::View(View::Host) => f.write_str("view = \"host\": readable, and no `write` covers it"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.effect {
            Effect::Escape | Effect::Deny => "deny",
            Effect::Protect => "protect",
            Effect::Write(_) => "write",
            Effect::Read(_) => "read",
            Effect::Ask => "ask",
            Effect::ThirdParty => "third-party",
            Effect::Withheld => "withheld",
        };
        let mark = if self.sense == Sense::Exception { "!" } else { "" };
        write!(f, "{word} \"{mark}{}\"", crate::path::Shown(self.text.as_bytes()))
    }
}
