//! What may not be passed: the managed file, and for an untrusted project everything that holds without it.
//!
//! A grant inside the limit stays. A grant that contains the limit is cut down to it. Anything else is left out and
//! reported, also where a cleverer comparison of two patterns might have found common ground.

use super::grants::{Grant, beyond};
use super::{Collected, Cx, Layer, Reading, Trust, covering};
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

    fn narrow_to_baseline(&mut self, collected: &mut Collected, baseline: Collected) {
        // What is private to the session is not among it: a grant for `/tmp` would bring in the host's own.
        let on_the_host = |g: &&Grant| match g.effect {
            Effect::Write(role) => !role.is_ground(),
            Effect::Read(role) => role != Role::Private,
            _ => false,
        };
        let grants = || baseline.grants.iter().filter(on_the_host);
        let writable: Vec<Pattern> =
            grants().filter(|g| matches!(g.effect, Effect::Write(_))).map(|g| g.pattern.clone()).collect();
        let readable: Vec<Pattern> = grants().map(|g| g.pattern.clone()).collect();
        let untrusted = |grant: &Grant| grant.trust == Trust::Untrusted;
        let (asked, mut kept): (Vec<Grant>, Vec<Grant>) =
            std::mem::take(&mut collected.grants).into_iter().partition(untrusted);
        for grant in asked {
            let limit = if matches!(grant.effect, Effect::Write(_)) { &writable } else { &readable };
            self.cut(&mut kept, grant, limit, || Dropped::Untrusted);
        }
        collected.grants = kept;
        self.narrow_reach(&mut collected.reach, &baseline.reach);
        self.narrow_settings(&mut collected.settings, baseline.settings);
    }

    fn narrow_to_managed(&mut self, collected: &mut Collected, managed: &Layer) {
        let files = managed.file.files.as_ref();
        let limit = |word: &str| format!("the managed policy's `{word}`");
        let writable = files.and_then(|f| self.patterns(&f.write, managed));
        let mut readable = files.and_then(|f| self.patterns(&f.read, managed));
        if let (Some(readable), Some(writable)) = (&mut readable, &writable) {
            readable.extend(writable.iter().cloned());
        }
        // What is writable is readable, so a limit on reading limits writing too.
        let writable = writable.or_else(|| readable.clone());
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
        self.cap_reach(&mut collected.reach, managed);
        self.cap_settings(&mut collected.settings, managed);
    }

    /// The patterns of a ceiling; `None` where the file sets none.
    fn patterns(&mut self, rules: &Rules<AllowRule>, layer: &Layer) -> Option<Vec<Pattern>> {
        let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
        let rules = rules.as_ref()?;
        let mut patterns = Vec::new();
        for rule in rules {
            match self.pattern(&rule.value.0, &dir) {
                Ok(pattern) => patterns.push(pattern),
                Err(why) => self.omit(rule.value.0.text(), super::source_of(rule), why),
            }
        }
        Some(patterns)
    }

    fn pattern(&mut self, rule: &PathRule, dir: &AbsPath) -> Result<Pattern, Dropped> {
        let split = rule.split(&self.facts.environment)?;
        let followed = self.follow(dir, &split.literal)?;
        Ok(Pattern { rest: split.rest, ..Pattern::path(followed.path) })
    }

    /// Keeps of a grant what the limit covers.
    fn cut(&mut self, kept: &mut Vec<Grant>, grant: Grant, limit: &[Pattern], why: impl Fn() -> Dropped) {
        if is_covered(&grant.pattern, limit) {
            kept.push(grant);
            return;
        }
        let inside: Vec<&Pattern> = match grant.pattern.as_path() {
            Some(path) => limit.iter().filter(|p| p.base().is_some_and(|base| base.is_within(path))).collect(),
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

/// Is everything that `pattern` matches covered by one of `limit`? Says no where it cannot tell.
pub(crate) fn is_covered(pattern: &Pattern, limit: &[Pattern]) -> bool {
    let below_its_base = pattern.base().is_some_and(|base| !covering(limit).hits(base).is_empty());
    below_its_base || limit.contains(pattern)
}
