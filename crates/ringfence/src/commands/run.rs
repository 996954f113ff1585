//! `ringfence run`: resolves the policy, says what is fenced, and until a backend exists refuses to start anything.

use std::process::ExitCode;

use ringfence_surface::{Effect, Governance, Role, Surface};

use crate::cli::RunArgs;
use crate::error::Failure;
use crate::load;
use crate::out::say;

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let here = load::here(&args.policy)?;
    load::tell(&here);
    for line in summary(&here.resolved.surface) {
        say(&line);
    }
    // There is no path from here to an unfenced process: nothing is started without a layer that holds.
    Err(Failure::NoBackend)
}

/// What is fenced, in three lines.
fn summary(surface: &Surface) -> Vec<String> {
    let shown = |keep: &dyn Fn(Role) -> bool, write: bool| {
        let paths = surface.rules().iter().filter(|rule| match rule.effect {
            Effect::Write(role) => write && keep(role),
            Effect::Read(role) => !write && keep(role),
            _ => false,
        });
        let mut paths: Vec<String> = paths.map(|rule| rule.pattern.to_string()).collect();
        paths.sort();
        paths.dedup();
        paths
    };
    let named =
        |role: Role| !matches!(role, Role::System | Role::Private | Role::Tooling | Role::Cache | Role::Scratch);
    let writes = shown(&named, true);
    let mut reads = shown(&named, false);
    reads.retain(|path| !writes.contains(path));
    let mut hosts: Vec<String> = surface.reach().hosts.iter().map(|entry| entry.value.to_string()).collect();
    hosts.sort();
    let list = |items: Vec<String>| match items.len() {
        0 => "none".to_owned(),
        1..=4 => items.join(", "),
        more => format!("{} and {} more", items[..3].join(", "), more - 3),
    };
    let mut lines = vec![
        format!("ringfence: writes {}", list(writes)),
        format!(
            "ringfence: reads {}the system; packs: {}",
            if reads.is_empty() { String::new() } else { list(reads) + " and " },
            list(surface.packs().iter().map(|p| (*p).to_owned()).collect())
        ),
        format!("ringfence: reaches {}", list(hosts)),
    ];
    if matches!(surface.governance(), Governance::SelfGoverning(_)) {
        lines.push("ringfence: SELF-GOVERNING: no OS layer is applied to this session".to_owned());
    }
    lines
}
