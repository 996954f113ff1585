//! `ringfence run`: resolves the policy, says what is fenced and what is not held, and runs the command inside.

use std::path::Path;
use std::process::ExitCode;

use ringfence_plan::compile;
use ringfence_session::start::{Commits, Session, prepare};
use ringfence_surface::policy::Tier;
use ringfence_surface::{Effect, Governance, Role, Rule, Surface};

use crate::cli::RunArgs;
use crate::error::Failure;
use crate::host::{Recorder, os_path};
use crate::load::Loader;
use crate::out::say;
use crate::tell::{self, Detail};

pub(crate) fn run(args: &RunArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let loader = Loader::new(managed)?;
    let state = loader.facts().own_directories().state.ok_or(Failure::NoHome)?;
    let session = Session::create(&state).map_err(|source| Failure::Write { path: os_path(&state).into(), source })?;
    let here = loader.in_session(session.dir()).resolve(&args.policy)?;
    tell::resolved(&here.resolved, Detail::Short);
    for line in summary(&here.resolved.surface) {
        say(&line);
    }
    let surface = &here.resolved.surface;
    if matches!(surface.governance(), Governance::SelfGoverning(_)) {
        // Without an OS layer there is no fence, and nothing else of such a session is built yet.
        return Err(Failure::NoBackend);
    }
    let plan = compile(surface, &here.facts);
    let ready = prepare(surface, &here.facts, &plan, &session, &args.command, &mut Recorder::new());
    let ready = ready.map_err(|source| Failure::Prepare { source })?;
    let short = ready.shortfalls.iter().map(|short| format!("{}: {}", short.claim, short.reason));
    if surface.tier() == Tier::Production && !ready.shortfalls.is_empty() {
        return Err(Failure::Shortfalls { short: short.collect() });
    }
    for line in short {
        say(&format!("ringfence: not held: {line}"));
    }
    if let Some(cause) = &ready.unwritable {
        say(&format!("ringfence: the project belongs to root and cannot be written inside: {cause}"));
    }
    if ready.commits == Commits::Unsigned {
        say("ringfence: commits made inside are not signed: there is no key inside");
    }
    match &ready.copied {
        Ok(0) => {}
        Ok(count) => say(&format!("ringfence: packages copied from your own caches: {count}")),
        Err(cause) => say(&format!("ringfence: packages could not be copied from your own caches: {cause}")),
    }
    if !surface.reach().hosts.is_empty() {
        say("ringfence: the network is closed: hosts cannot be reached yet, also those that are allowed");
    }
    let code = ready.prepared.run().map_err(|source| Failure::Start { source })?;
    Ok(ExitCode::from(code))
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
