//! What may not be passed: the managed file, and for an untrusted project everything that holds without it.
//!
//! A grant inside the limit stays. A grant that contains the limit is cut down to it. Anything else is left out and
//! reported, also where a cleverer comparison of two patterns might have found common ground.

use super::grants::{Grant, beyond};
use super::{Collected, Cx, Layer, Reading, covering};
use crate::matcher::Matcher;
use crate::path::AbsPath;
use crate::pattern::{PathRule, Pattern};
use crate::policy::{AllowRule, Rules};
use crate::report::Dropped;
use crate::source::Source;
use crate::surface::{Effect, Role};
use crate::text::Diagnostic;

impl Cx<'_> {
    /// Applies trust, the ceiling and the check for planted links, in this order.
    pub(super) fn limit(&mut self, mut collected: Collected) -> Result<Collected, Diagnostic> {
        if self.has_untrusted() {
            let baseline = self.collect(Reading::WithoutUntrusted)?;
            self.narrow_to_baseline(&mut collected, baseline);
        }
        if let Some(managed) = self.managed() {
            self.cap_reach(&mut collected.reach, managed);
            self.cap_settings(&mut collected.settings, managed);
        }
        // Only now is it known whether the session may govern itself.
        if let Some(place) = &collected.settings.self_governing {
            let source = Source::File(place.clone());
            collected.grants.push(Grant::known(Effect::Write(Role::WorkingDir), collected.root.clone(), source));
        }
        if let Some(managed) = self.managed() {
            self.narrow_to_managed(&mut collected, managed);
        }
        collected.grants = self.without_planted_links(&collected.root, std::mem::take(&mut collected.grants));
        self.check_workdir(&collected)?;
        Ok(collected)
    }

    /// With an untrusted file everything stays inside what holds without it, whoever asks: by choosing a root or a persona such
    /// a file also moves what others grant.
    fn narrow_to_baseline(&mut self, collected: &mut Collected, baseline: Collected) {
        let is_ground = |g: &Grant| matches!(g.effect, Effect::Write(role) | Effect::Read(role) if role.is_ground());
        // What is private to the session is not among what may be granted: a grant for `/tmp` would bring in the host's own.
        let on_the_host = |g: &&Grant| !is_ground(g) || matches!(g.effect, Effect::Read(Role::System | Role::Tooling));
        let grants = || baseline.grants.iter().filter(on_the_host);
        let is_write = |g: &&Grant| matches!(g.effect, Effect::Write(_));
        let writable = Limit::new(grants().filter(is_write).map(|g| g.pattern.clone()));
        let readable = Limit::new(grants().map(|g| g.pattern.clone()));
        let mut kept: Vec<Grant> = baseline.grants.iter().filter(|g| is_ground(g)).cloned().collect();
        for grant in std::mem::take(&mut collected.grants).into_iter().filter(|g| !is_ground(g)) {
            let limit = if is_write(&&grant) { &writable } else { &readable };
            self.cut(&mut kept, grant, limit, || Dropped::Untrusted);
        }
        collected.grants = kept;
        // The same roots, as when one call is narrowed: with fewer of them a floating deny would miss something, with more of
        // them a floating exception would reach further.
        collected.roots = baseline.roots;
        self.narrow_reach(&mut collected.reach, &baseline.reach);
        self.narrow_settings(&mut collected.settings, baseline.settings);
    }

    fn narrow_to_managed(&mut self, collected: &mut Collected, managed: &Layer) {
        let files = managed.file.files.as_ref();
        let limit = |word: &str| format!("the managed policy's `{word}`");
        // What is private to the session is no place where an agent could have left a link on the host.
        let is_write = |g: &&Grant| matches!(g.effect, Effect::Write(role) if role != Role::Private);
        let agents = covering(collected.grants.iter().filter(is_write).map(|grant| &grant.pattern));
        let places = (&collected.root, &agents);
        let writable = files.and_then(|f| self.patterns(&f.write, managed, places));
        let mut readable = files.and_then(|f| self.patterns(&f.read, managed, places));
        if let (Some(readable), Some(writable)) = (&mut readable, &writable) {
            readable.extend(writable.iter().cloned());
        }
        // What is writable is readable, so a limit on reading limits writing too.
        let writable = writable.or_else(|| readable.clone()).map(Limit::new);
        let readable = readable.map(Limit::new);
        let mut kept = Vec::new();
        for grant in std::mem::take(&mut collected.grants) {
            let (ceiling, word) = match grant.effect {
                Effect::Write(role) if !role.is_ground() => (&writable, "write"),
                Effect::Read(role) if !role.is_ground() => (&readable, "read"),
                _ => (&None, ""),
            };
            match ceiling {
                Some(patterns) => self.cut(&mut kept, grant, patterns, || beyond(limit(word))),
                None => kept.push(grant),
            }
        }
        collected.grants = kept;
    }

    /// The patterns of a ceiling; `None` where the file sets none. `agents` are the places that an agent may write.
    fn patterns(
        &mut self,
        rules: &Rules<AllowRule>,
        layer: &Layer,
        agents: (&AbsPath, &Matcher),
    ) -> Option<Vec<Pattern>> {
        let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
        let rules = rules.as_ref()?;
        let mut patterns = Vec::new();
        for rule in rules {
            match self.pattern(&rule.value.0, &dir, agents) {
                Ok(pattern) => {
                    // The repository of a session's own work tree is where the user works.
                    let twin = self.inputs.request.worktree.as_ref().and_then(|worktree| {
                        let base = super::rebased(pattern.base()?, &worktree.tree, &worktree.main)?;
                        Some(Pattern { rest: pattern.rest.clone(), ..Pattern::path(base) })
                    });
                    patterns.extend([Some(pattern), twin].into_iter().flatten());
                }
                Err(why) => self.omit(rule.value.0.text(), super::source_of(rule), why),
            }
        }
        Some(patterns)
    }

    /// A managed pattern. The caller's `$HOME` must not move an administrator's limit: the account's home counts. Neither must a
    /// symbolic link that an agent could have made, in this session's writable places or in an earlier one's: it would raise the
    /// limit to wherever the agent points it.
    fn pattern(
        &mut self,
        rule: &PathRule,
        dir: &AbsPath,
        (root, writable): (&AbsPath, &Matcher),
    ) -> Result<Pattern, Dropped> {
        let split = rule.split(&self.facts.account_variables())?;
        let followed = self.follow(dir, &split.literal)?;
        for link in &followed.links {
            if link.is_within(root) || !writable.hits(link).is_empty() || self.look.was_writable(link) {
                return Err(Dropped::PlantedLink { link: link.clone(), target: followed.path });
            }
        }
        Ok(Pattern { rest: split.rest, ..Pattern::path(followed.path) })
    }

    /// Keeps of a grant what the limit covers.
    fn cut(&mut self, kept: &mut Vec<Grant>, grant: Grant, limit: &Limit, why: impl Fn() -> Dropped) {
        if limit.covers(&grant.pattern) {
            kept.push(grant);
            return;
        }
        let inside: Vec<&Pattern> = match grant.pattern.as_path() {
            Some(path) => limit.patterns.iter().filter(|p| p.base().is_some_and(|base| base.is_within(path))).collect(),
            None => Vec::new(),
        };
        for pattern in &inside {
            kept.push(Grant { pattern: (*pattern).clone(), ..grant.clone() });
        }
        self.omit(grant.text, grant.source, why());
    }

    fn check_workdir(&mut self, collected: &Collected) -> Result<(), Diagnostic> {
        let readable = collected.grants.iter().filter(|g| !matches!(g.effect, Effect::Ask)).map(|g| &g.pattern);
        if covering(readable).hits(&collected.workdir).is_empty() {
            let message = format!(
                "the working directory {} is beyond what the managed policy or an untrusted project may use",
                collected.workdir
            );
            return Err(Diagnostic::refusal(message)
                .help("work in a directory that the managed `read` and `write` cover, or trust the project's file"));
        }
        if !self.is_directory(&collected.workdir) {
            return Err(Diagnostic::refusal(format!("the working directory {} does not exist", collected.workdir)));
        }
        Ok(())
    }
}

/// Patterns that others must lie inside.
pub(crate) struct Limit {
    patterns: Vec<Pattern>,
    matcher: Matcher,
}

impl Limit {
    pub(crate) fn new(patterns: impl IntoIterator<Item = Pattern>) -> Self {
        let patterns: Vec<Pattern> = patterns.into_iter().collect();
        let matcher = covering(&patterns);
        Self { patterns, matcher }
    }

    /// Is everything that `pattern` matches covered by one of these? Says no where it cannot tell.
    pub(crate) fn covers(&self, pattern: &Pattern) -> bool {
        let below_its_base = pattern.base().is_some_and(|base| !self.matcher.hits(base).is_empty());
        below_its_base || self.patterns.contains(pattern)
    }
}
