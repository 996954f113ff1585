//! `ringfence run`: resolves the policy, says what is fenced, and until a backend exists refuses to start anything.

use std::path::Path;
use std::process::ExitCode;

use ringfence_surface::{Effect, Governance, Role, Rule, Surface};

use crate::cli::RunArgs;
use crate::error::Failure;
use crate::load::Loader;
use crate::out::say;
use crate::tell::{self, Detail};

pub(crate) fn run(args: &RunArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let here = Loader::new(managed)?.resolve(&args.policy)?;
    tell::resolved(&here.resolved, Detail::Short);
    for line in summary(&here.resolved.surface) {
        say(&line);
    }
    // There is no path from here to an unfenced process: nothing is started without a layer that holds.
    Err(Failure::NoBackend)
}

/// What is fenced, in three lines.
fn summary(surface: &Surface) -> Vec<String> {
    let writes = paths(surface.allowed_writes());
    let mut reads = paths(surface.rules().iter().filter(|rule| matches!(rule.effect, Effect::Read(_))));
    reads.retain(|path| !writes.contains(path));
    let mut hosts: Vec<String> = surface.reach().hosts.iter().map(|entry| entry.value.to_string()).collect();
    hosts.sort();
    let reads = if reads.is_empty() { String::new() } else { few(&reads) + " and " };
    let packs: Vec<String> = surface.packs().iter().map(|pack| (*pack).to_owned()).collect();
    let mut lines = vec![
        format!("ringfence: writes {}", few(&writes)),
        format!("ringfence: reads {reads}the system; packs: {}", few(&packs)),
        format!("ringfence: reaches {}", few(&hosts)),
    ];
    if matches!(surface.governance(), Governance::SelfGoverning(_)) {
        lines.push("ringfence: SELF-GOVERNING: no OS layer is applied to this session".to_owned());
    }
    lines
}

/// The places that somebody would name, sorted: what programs need to run at all is not among them.
fn paths<'s>(rules: impl Iterator<Item = &'s Rule>) -> Vec<String> {
    let is_named = |rule: &&Rule| match rule.effect {
        Effect::Write(role) | Effect::Read(role) => {
            !matches!(role, Role::System | Role::Private | Role::Tooling | Role::Cache | Role::Scratch)
        }
        _ => false,
    };
    let mut paths: Vec<String> = rules.filter(is_named).map(|rule| rule.pattern.to_string()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// A list that fits on a line.
fn few(items: &[String]) -> String {
    match items.len() {
        0 => "none".to_owned(),
        1..=4 => items.join(", "),
        more => format!("{} and {} more", items[..3].join(", "), more - 3),
    }
}
