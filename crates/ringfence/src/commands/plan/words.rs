//! A plan in words, one function for each section.

use std::time::Duration;

use ringfence_plan::{MountOp, Plan};
use ringfence_surface::{Caps, Effect, Governance, HostFacts, HostPattern, Rule, Shown, Source, Sourced, Surface};

use crate::wire::plan::{access_word, tier_word, view_word};

/// Which rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// What somebody wrote.
    Written,
    /// The built-in ones too.
    All,
}

impl Rows {
    fn shows(self, source: &Source) -> bool {
        self == Self::All || source.is_written()
    }
}

/// What is put in words.
pub(super) struct Words<'a> {
    pub(super) surface: &'a Surface,
    pub(super) facts: &'a HostFacts,
    pub(super) plan: &'a Plan,
    pub(super) rows: Rows,
}

/// What stands in the place of whatever the operating system would enforce.
const NOT_APPLIED: &str = "  not applied: this project governs itself";

impl Words<'_> {
    pub(super) fn to_text(&self) -> String {
        let sections = [
            self.head(),
            self.mounts(),
            self.skipped(),
            self.taken_away(),
            self.network(),
            self.variables(),
            self.limits(),
            self.claims(),
        ];
        let sections = sections.iter().filter(|lines| !lines.is_empty());
        sections.map(|lines| lines.join("\n") + "\n").collect::<Vec<_>>().join("\n")
    }

    fn is_fenced(&self) -> bool {
        matches!(self.surface.governance(), Governance::Fenced)
    }

    fn head(&self) -> Vec<String> {
        let surface = self.surface;
        let packs = if surface.packs().is_empty() { "none".to_owned() } else { surface.packs().join(" ") };
        let mut lines = vec![
            format!("root      {}", surface.root()),
            format!("workdir   {}", surface.workdir()),
            format!("view      {}", view_word(surface)),
            format!("tier      {}", tier_word(surface)),
            format!("packs     {packs}"),
            format!("kernel    {}", Shown(self.facts.kernel.as_bytes())),
        ];
        if let Governance::SelfGoverning(source) = surface.governance() {
            lines.push(format!("SELF-GOVERNING: no OS layer is applied ({source})"));
        }
        lines
    }

    fn mounts(&self) -> Vec<String> {
        let heading = "mounts".to_owned();
        if !self.is_fenced() {
            return vec![heading, NOT_APPLIED.to_owned()];
        }
        [heading].into_iter().chain(self.plan.mounts.iter().map(mount)).collect()
    }

    fn skipped(&self) -> Vec<String> {
        if !self.is_fenced() {
            return Vec::new();
        }
        // A skip names its rule by pattern and source.
        let rules = self.surface.rules().iter().filter(|rule| self.rows.shows(&rule.source));
        let shown: Vec<(String, String)> =
            rules.map(|rule| (rule.pattern.to_string(), rule.source.to_string())).collect();
        let is_shown = |pattern: &str, source: &str| shown.iter().any(|(p, s)| p == pattern && s == source);
        let skips = self.plan.skipped.iter().filter(|skip| is_shown(&skip.pattern, &skip.source));
        let lines: Vec<String> =
            skips.map(|skip| format!("  {}: {} ({})", skip.pattern, skip.why.words(), skip.source)).collect();
        if lines.is_empty() { lines } else { [vec!["skipped".to_owned()], lines].concat() }
    }

    fn taken_away(&self) -> Vec<String> {
        let takes = |rule: &&Rule| matches!(rule.effect, Effect::Escape | Effect::Deny | Effect::Protect);
        let taken: Vec<&Rule> = self.surface.rules().iter().filter(takes).collect();
        let built_in = taken.iter().filter(|rule| !rule.source.is_written()).count();
        let heading = format!("deny and protect   {} rules, {built_in} of them built in", taken.len());
        let shown = taken.iter().filter(|rule| self.rows.shows(&rule.source));
        [heading].into_iter().chain(shown.map(|rule| format!("  {rule}  ({})", rule.source))).collect()
    }

    fn network(&self) -> Vec<String> {
        let reach = self.surface.reach();
        let mut lines = vec!["network".to_owned()];
        if !self.is_fenced() {
            lines.push(NOT_APPLIED.to_owned());
            return lines;
        }
        lines.extend(reach.hosts.iter().map(|entry| format!("  {}  ({})", entry.value, entry.source)));
        let private = |entry: &Sourced<HostPattern>| format!("  private {}  ({})", entry.value, entry.source);
        lines.extend(reach.private.iter().map(private));
        lines.extend(reach.host_ports.iter().map(|port| format!("  loopback port {}  ({})", port.value, port.source)));
        lines.extend(reach.sockets.iter().map(|entry| format!("  socket {}  ({})", entry.value, entry.source)));
        lines.extend(reach.inject.iter().map(|entry| format!("  inject {}  ({})", entry.value, entry.source)));
        if lines.len() == 1 {
            lines.push("  nothing".to_owned());
        }
        lines
    }

    /// The environment is cleaned in every session, also in a self-governing one.
    fn variables(&self) -> Vec<String> {
        let env = self.surface.env();
        let built_in = env.iter().filter(|entry| !entry.source.is_written()).count();
        let heading = match built_in {
            0 => "env       harmless variables".to_owned(),
            count => format!("env       harmless variables, and {count} of the packs"),
        };
        let shown = env.iter().filter(|entry| self.rows.shows(&entry.source));
        let lines = shown.map(|entry| format!("  {}  ({})", entry.value.as_str(), entry.source));
        [heading].into_iter().chain(lines).collect()
    }

    fn limits(&self) -> Vec<String> {
        let Caps { memory, pids, wall } = self.surface.caps();
        let mut lines = vec!["limits".to_owned()];
        if !self.is_fenced() {
            lines.push(NOT_APPLIED.to_owned());
            return lines;
        }
        lines.extend(memory.as_ref().map(|cap| format!("  memory {}  ({})", bytes(cap.value), cap.source)));
        lines.extend(pids.as_ref().map(|cap| format!("  processes {}  ({})", cap.value, cap.source)));
        lines.extend(wall.as_ref().map(|cap| format!("  time {}  ({})", time(cap.value), cap.source)));
        if lines.len() == 1 {
            lines.push("  none".to_owned());
        }
        lines
    }

    fn claims(&self) -> Vec<String> {
        vec![format!(
            "claims    {}; `run` says at the start which it does not hold",
            ringfence_plan::claims(self.surface).len()
        )]
    }
}

fn mount(op: &MountOp) -> String {
    match op {
        MountOp::Bind { path, access, role } => format!("  {} {path}  ({})", access_word(*access), role.word()),
        MountOp::Link { path, target } => format!("  -> {path} -> {}", Shown(target)),
        MountOp::Private { place, access } => format!("  {} {}  (private)", access_word(*access), place.path()),
        MountOp::Pin { path } => format!("  pin {path}"),
        MountOp::Cover { path } => format!("  rw {path}  (again, over its pins)"),
        MountOp::Mask { path, .. } => format!("  -- {path}"),
        MountOp::Freeze { path } => format!("  ro {path}  (protected)"),
        MountOp::Program { path, .. } => format!("  ro {path}  (ringfence itself)"),
        MountOp::Own { path, .. } => format!("  ro {path}  (the session's own)"),
        MountOp::Rebuilt { path } => format!("  ro {path}  (made anew, with the host's names in it)"),
        MountOp::Hollow { path } => format!("  -- {path}  (but for what is mounted in it)"),
    }
}

/// A number of bytes in the largest unit that needs no fraction.
fn bytes(count: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| count > 0 && count.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("{} {unit}", count >> shift),
        None => format!("{count} bytes"),
    }
}

/// A time as it can be written in a policy.
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_in_words() {
        assert_eq!(
            [bytes(4 << 30), bytes(512 << 20), bytes(1 << 10), bytes(1500), bytes(0)],
            ["4 GiB", "512 MiB", "1 KiB", "1500 bytes", "0 bytes"]
        );
        let times = [7200, 5400, 59, 3601, 0].map(|seconds| time(Duration::from_secs(seconds)));
        assert_eq!(times, ["2h", "1h30m", "59s", "1h1s", "0s"]);
    }
}
