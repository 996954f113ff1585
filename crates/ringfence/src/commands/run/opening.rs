//! What `ringfence run` says first: what may be touched, and what is hidden although no rule denies it.

use std::collections::BTreeMap;

use ringfence_plan::Rung;
use ringfence_session::start::Changes;
use ringfence_session::walk::Hidden;
use ringfence_surface::{AbsPath, Access, Because, Effect, Governance, Look, PathFact, Role, Rule, Surface};

use crate::out::say;

/// What a start reports, held back until the sandbox stands: a backend that is tried and does not start reports nothing but that.
pub(super) struct Opening {
    lines: Vec<String>,
}

impl Opening {
    pub(super) fn new() -> Self {
        Self { lines: Vec::new() }
    }

    pub(super) fn add(&mut self, lines: impl IntoIterator<Item = String>) {
        self.lines.extend(lines);
    }

    pub(super) fn print(&self) {
        self.lines.iter().for_each(|line| say(line));
    }
}

/// Which backend it is, where that is not the first, and why the others do not work.
pub(super) fn fallback(rung: Rung, tried: &[String]) -> Vec<String> {
    if tried.is_empty() {
        return Vec::new();
    }
    let failed = tried.iter().map(|line| format!("ringfence: not started: {line}"));
    failed.chain([format!("ringfence: the backend is {rung}")]).collect()
}

/// What is fenced, in three lines. `rung` is what it is fenced by; nothing where the session governs itself.
pub(super) fn summary(surface: &Surface, rung: Option<Rung>, changes: Changes, look: &mut dyn Look) -> Vec<String> {
    let writes = paths(surface, Access::Write, surface.allowed_writes(), look);
    let reads = surface.rules().iter().filter(|rule| matches!(rule.effect, Effect::Read(_)));
    // What can be written was said to be.
    let is_written = |path: &AbsPath| surface.decide(path, Access::Write).is_allowed();
    let is_read = |rule: &&Rule| !rule.pattern.as_path().is_some_and(is_written);
    let reads = paths(surface, Access::Read, reads.filter(is_read), look);
    let mut hosts: Vec<String> = surface.reach().hosts.iter().map(|entry| entry.value.to_string()).collect();
    hosts.sort();
    let reads = if reads.is_empty() { String::new() } else { few(&reads) + " and " };
    let packs: Vec<String> = surface.packs().iter().map(|pack| (*pack).to_owned()).collect();
    let writes = match changes {
        Changes::Wait if !writes.is_empty() => {
            format!("ringfence: what is written in {} waits for `ringfence diff` and `ringfence apply`", few(&writes))
        }
        Changes::Wait | Changes::Land => format!("ringfence: writes {}", few(&writes)),
    };
    let mut lines = vec![
        writes,
        format!("ringfence: reads {reads}the system; packs: {}", few(&packs)),
        // Nobody is there to tell of a name that is then looked for.
        match hosts.as_slice() {
            hosts if !hosts.is_empty() && rung.is_some_and(|rung| !rung.has_way_out()) => {
                let rung = rung.map_or("", Rung::word);
                format!("ringfence: reaches none: the {rung} backend has no network (allowed: {})", few(hosts))
            }
            [] => "ringfence: reaches none: `allow` in [network] names hosts".to_owned(),
            hosts => format!("ringfence: reaches {}", few(hosts)),
        },
    ];
    if matches!(surface.governance(), Governance::SelfGoverning(_)) {
        // What follows is what the hooks ask for; nothing holds anybody to it.
        let loud =
            "ringfence: SELF-GOVERNING: no OS layer is applied to this session; its hooks ask for the following:";
        lines.insert(0, loud.to_owned());
    }
    lines
}

/// The places that somebody would name, sorted, without what lies in another: what programs need to run at all is not among
/// them, and neither is what another rule takes away, nor what is not there: that is withheld, which is said.
fn paths<'s>(
    surface: &Surface,
    access: Access,
    rules: impl Iterator<Item = &'s Rule>,
    look: &mut dyn Look,
) -> Vec<String> {
    let is_named = |rule: &&Rule| match rule.effect {
        Effect::Write(role) | Effect::Read(role) => {
            !matches!(role, Role::System | Role::Private | Role::Tooling | Role::Cache | Role::Scratch)
        }
        _ => false,
    };
    let is_had = |rule: &&Rule| rule.pattern.as_path().is_none_or(|path| surface.decide(path, access).is_allowed());
    let mut is_there = |rule: &&Rule| match rule.pattern.as_path() {
        Some(path) if look.path(path) != PathFact::Missing => true,
        // In a directory of the project it can be made.
        Some(path) if access == Access::Write && path.is_within(surface.root()) => {
            path.parent().is_some_and(|dir| look.path(&dir) == PathFact::Directory)
        }
        Some(_) => false,
        None => true,
    };
    let rules: Vec<&Rule> = rules.filter(is_named).filter(is_had).filter(|rule| is_there(rule)).collect();
    let is_part = |rule: &&&Rule| {
        let of = |other: &&Rule| match (rule.pattern.as_path(), other.pattern.as_path()) {
            (Some(path), Some(whole)) => path != whole && path.is_within(whole),
            _ => false,
        };
        !rules.iter().any(of)
    };
    let mut paths: Vec<String> = rules.iter().filter(is_part).map(|rule| rule.pattern.to_string()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Is the project a part of a repository that is not shown? All that git says inside is that there is none. A repository of the whole
/// home holds settings, and nobody means it.
pub(super) fn repository_around(surface: &Surface, home: Option<&AbsPath>, look: &mut dyn Look) -> Option<String> {
    let mut is_repository = |dir: &AbsPath| look.path(&dir.child(b".git")) != PathFact::Missing;
    let mut above = surface.root().ancestors().take_while(|dir| !dir.is_root() && Some(dir) != home);
    let found = above.find(|dir| is_repository(dir))?;
    let inner = found.child(b".git");
    let verdict = surface.decide(&inner, Access::Read);
    // In a temporary directory the session has its own.
    let is_own = matches!(verdict.because, Because::Rule(rule) if rule.effect == Effect::Write(Role::Private));
    let is_shown = verdict.is_allowed() && !is_own;
    (!is_shown).then(|| format!("ringfence: hidden: the repository {found} around this directory: start there for git"))
}

/// Variables that were asked for by name and that nobody has set: a slip of the keys would pass for a variable that is passed on.
pub(super) fn unset(names: &[String]) -> Vec<String> {
    let unset = names.iter().filter(|name| std::env::var_os(name).is_none());
    unset.map(|name| format!("ringfence: withheld: {name} (`--env`): it is not set")).collect()
}

/// What is hidden, a line for each reason. With a receipt each is named.
pub(super) fn hidden(hidden: &[Hidden], is_whole: bool) -> Vec<String> {
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in hidden {
        kinds.entry(one.why.words()).or_default().push(one.path.to_string());
    }
    let all = |paths: &[String]| if is_whole { paths.join(", ") } else { few(paths) };
    kinds.iter().map(|(why, paths)| format!("ringfence: hidden: {}: {why}", all(paths))).collect()
}

/// A list that fits on a line.
fn few(items: &[String]) -> String {
    match items.len() {
        0 => "none".to_owned(),
        1..=4 => items.join(", "),
        more => format!("{} and {} more", items[..3].join(", "), more - 3),
    }
}
