//! The oracle: may this path be read or written, this host be reached, this variable be passed, and why.
//!
//! The order for a path is the same in every layer: escape vectors deny, then `deny`, then for writes `protect`, then `write`
//! allows, then `read` allows reads, then the view. Whether the path exists plays no part.

use std::fmt;

use crate::curated;
use crate::host::{HostPattern, HostTarget};
use crate::matcher::Hit;
use crate::path::AbsPath;
use crate::pattern::Anchor;
use crate::policy::View;
use crate::surface::{Effect, PROTECTED_ANYWHERE, Role, Rule, Sense, Sourced, Surface};

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
    /// May `path` be read or written? `path` must be real: links on the way already followed.
    pub fn decide(&self, path: &AbsPath, access: Access) -> Verdict<'_> {
        let mut hits = self.matcher.hits(path);
        hits.sort_unstable_by_key(|hit| hit.id);
        let stage = |stage: u8| {
            let from = hits.partition_point(|hit| self.rule(*hit).effect.stage() < stage);
            let to = hits.partition_point(|hit| self.rule(*hit).effect.stage() <= stage);
            &hits[from..to]
        };
        let deny = |because| Verdict { outcome: Outcome::Deny, because, ask: None };
        let allow = |rule, ask| Verdict { outcome: Outcome::Allow, because: Because::Rule(rule), ask };
        // What is private covers the host's own directory of that name, but not what is bound below it.
        let bound =
            [stage(4), stage(7)].into_iter().filter_map(|hits| self.deepest(hits)).max_by_key(|(_, depth)| *depth);
        let is_there =
            |(rule, depth): &(&Rule, u32)| !is_private(rule) || bound.is_none_or(|(_, deeper)| deeper <= *depth);
        let readable = self.deepest(stage(4)).filter(is_there);
        let writable = self.deepest(stage(3)).filter(is_there);
        // Floating patterns, and built-in places such as `/tmp/tmux-*`, speak of the host's files. What exists only in the
        // session, or belongs to ringfence's caches, is not among them: agents keep settings there, package managers unpack
        // there.
        let is_own = writable.is_some_and(|(rule, _)| matches!(rule.effect, Effect::Write(role) if role.is_ground()));
        let is_about_the_host = |rule: &Rule| {
            rule.pattern.anchor == Anchor::Floating || (!rule.source.is_written() && rule.text.starts_with('/'))
        };
        let third_party = stage(6).iter().map(|hit| hit.depth).min().unwrap_or(u32::MAX);
        let speaks = |hit: &Hit| {
            let rule = self.rule(*hit);
            let is_anywhere = rule.effect == Effect::Protect && rule.list == PROTECTED_ANYWHERE;
            let is_theirs = is_anywhere && hit.depth > third_party;
            rule.effect == Effect::Escape || !(is_theirs || is_own && is_about_the_host(rule))
        };
        let denied = |number: u8| self.taken_away(stage(number), &speaks);
        if let Some(rule) = denied(0).or_else(|| denied(1)) {
            return deny(Because::Rule(rule));
        }
        if access == Access::Write
            && let Some(rule) = denied(2)
        {
            return deny(Because::Rule(rule));
        }
        if let Some((rule, _)) = writable {
            let ask = stage(5).first().map(|hit| self.rule(*hit)).filter(|_| access == Access::Write && !is_own);
            return allow(rule, ask);
        }
        match (access, readable, self.view) {
            (Access::Read, Some((rule, _)), _) => allow(rule, None),
            (Access::Write, Some((rule, _)), _) => deny(Because::OnlyReadable(rule)),
            (Access::Read, None, View::Host) => {
                Verdict { outcome: Outcome::Allow, because: Because::View(View::Host), ask: None }
            }
            (_, None, view) => deny(Because::View(view)),
        }
    }

    fn rule(&self, hit: Hit) -> &Rule {
        &self.rules[hit.id as usize]
    }

    /// The rule that takes the path away, if any list does: in each list the last match counts.
    fn taken_away(&self, hits: &[Hit], speaks: &dyn Fn(&Hit) -> bool) -> Option<&Rule> {
        hits.chunk_by(|a, b| self.rule(*a).list == self.rule(*b).list)
            .filter_map(|list| list.iter().rfind(|hit| speaks(hit)))
            .map(|hit| self.rule(*hit))
            .find(|rule| rule.sense == Sense::Rule)
    }

    /// The most specific rule, and how deep it reaches.
    fn deepest(&self, hits: &[Hit]) -> Option<(&Rule, u32)> {
        hits.iter().max_by_key(|hit| hit.depth).map(|hit| (self.rule(*hit), hit.depth))
    }

    /// May this host and port be reached? The entry that says so.
    pub fn decide_host(&self, target: &HostTarget) -> Option<&Sourced<HostPattern>> {
        self.reach.hosts.iter().find(|entry| entry.value.matches(target))
    }

    /// May this port on the host's loopback be reached?
    pub fn decide_host_port(&self, port: u16) -> Option<&Sourced<u16>> {
        self.reach.host_ports.iter().find(|entry| entry.value == port)
    }

    /// May this unix socket of the host be connected to? Only one that is named.
    pub fn decide_socket(&self, path: &AbsPath) -> Option<&Sourced<AbsPath>> {
        self.reach.sockets.iter().find(|entry| entry.value == *path)
    }

    /// Is this variable passed on?
    pub fn decide_variable(&self, name: &[u8]) -> Outcome {
        let named = self.env.iter().any(|entry| entry.value.as_str().as_bytes() == name);
        if named || curated::env::passes_by_default(name).is_some() { Outcome::Allow } else { Outcome::Deny }
    }

    /// What the user can do about a refusal, in one line.
    pub fn remedy(&self, path: &AbsPath, access: Access, verdict: &Verdict<'_>) -> Option<String> {
        if verdict.is_allowed() {
            return None;
        }
        Some(match verdict.because {
            Because::Rule(rule) => match rule.effect {
                Effect::Escape => "none: this is closed in every policy".into(),
                Effect::Deny if rule.source.place().is_some() => {
                    format!("change the rule, or add an exception below it in the same list: \"!{path}\"")
                }
                Effect::Deny if access == Access::Read => format!("for one run, name it yourself: --ref {path}"),
                _ if rule.source.place().is_some() => format!("change the rule at {}", rule.source),
                _ => "make this change yourself, outside the fence".into(),
            },
            Because::OnlyReadable(Rule { effect: Effect::Read(Role::System | Role::Tooling), .. }) => {
                "none: system files and toolchains are never writable".into()
            }
            Because::OnlyReadable(_) => format!("add \"{path}\" to `write` in [files]"),
            Because::View(_) if access == Access::Read => {
                format!("add \"{path}\" to `read` in [files], or for one run: --ref {path}")
            }
            Because::View(_) => format!("add \"{path}\" to `write` in [files]"),
        })
    }
}

fn is_private(rule: &Rule) -> bool {
    matches!(rule.effect, Effect::Write(Role::Private) | Effect::Read(Role::Private))
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
