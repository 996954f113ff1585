//! What the model is told: what it may read, write and reach, and what to do when something is denied.

use std::fmt::Write as _;

use ringfence_surface::policy::{Mode, View};
use ringfence_surface::{Effect, Governance, Role, Rule, Sense, Surface};

/// More than this of one kind helps nobody.
const MOST: usize = 24;

/// The Surface in plain words, for a model. Short, since it is read with every request.
pub fn preamble(surface: &Surface, mode: Mode) -> String {
    let mut text = String::new();
    match surface.governance() {
        Governance::Fenced => text.push_str(
            "You work inside ringfence, a fence around this session that the kernel holds. What it denies fails every \
             time, by every program.\n\n",
        ),
        Governance::SelfGoverning(_) => text.push_str(
            "You work in a session of ringfence that governs its own project. The rules below are checked before each \
             tool; keep to them in commands too.\n\n",
        ),
    }
    let mut line = |words: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "- {words}");
    };
    line(format!("Project: {}. Working directory: {}.", surface.root(), surface.workdir()));
    let writes = places(surface, |effect| matches!(effect, Effect::Write(role) if is_named(role)));
    line(format!("You may write: {}. `/tmp` and `$HOME` are this session's own and go away with it.", few(&writes)));
    let mut reads = places(surface, |effect| matches!(effect, Effect::Read(role) if is_named(role)));
    reads.retain(|path| !writes.contains(path));
    reads.push("the system's programs and libraries".to_owned());
    match surface.view() {
        View::Surface => line(format!("You may also read: {}. Nothing else exists here.", few(&reads))),
        View::Host => line("You may also read: everything on this machine that holds no secret.".to_owned()),
    }
    let denied = written(surface, Effect::Deny);
    if !denied.is_empty() {
        line(format!("You may neither read nor write: {}.", few(&denied)));
    }
    let protected = written(surface, Effect::Protect);
    let also = if protected.is_empty() { String::new() } else { few(&protected) + ", and " };
    line(format!(
        "You may not write, whether it exists or not: {also}what runs later by itself (git hooks and config, CI, editor \
         and agent settings, shell start-up files, package managers' settings)."
    ));
    line(reach(surface));
    line(match mode {
        Mode::AcceptEdits => "Mode accept-edits: reads, edits and commands that only read run at once. A command that \
                              changes something may be refused until the user allows it."
            .to_owned(),
        Mode::Auto => "Mode auto: every tool and command runs; the fence is the limit.".to_owned(),
    });
    text.push_str(
        "\nWhen something is denied, do not look for a way around it: there is none. Go on without it, or tell the user what you need and why. The user can allow a path (`--ref PATH`, or `read` and `write` under \
         `[files]` in ringfence.toml) or a host (`allow` under `[network]`); you cannot.\n",
    );
    text
}

fn reach(surface: &Surface) -> String {
    let reach = surface.reach();
    let mut hosts: Vec<String> = reach.hosts.iter().map(|entry| entry.value.to_string()).collect();
    hosts.sort();
    let ports: Vec<String> = reach.host_ports.iter().map(|entry| entry.value.to_string()).collect();
    let mut words = match hosts.is_empty() {
        true => "You may reach no host.".to_owned(),
        false => format!("You may reach these hosts and no others: {}.", few(&hosts)),
    };
    if !ports.is_empty() {
        let _ = write!(words, " On localhost, the user's own ports {}.", few(&ports));
    }
    words
}

/// Is this a place that somebody would name?
fn is_named(role: Role) -> bool {
    !matches!(role, Role::System | Role::Private | Role::Tooling | Role::Cache | Role::Scratch)
}

fn places(surface: &Surface, wanted: impl Fn(Effect) -> bool) -> Vec<String> {
    patterns(surface.rules().iter().filter(|rule| wanted(rule.effect)))
}

fn written(surface: &Surface, effect: Effect) -> Vec<String> {
    patterns(surface.rules().iter().filter(|rule| rule.effect == effect && rule.source.is_written()))
}

fn patterns<'r>(rules: impl Iterator<Item = &'r Rule>) -> Vec<String> {
    let shown = |rule: &Rule| match rule.sense {
        Sense::Rule => rule.pattern.to_string(),
        Sense::Exception => format!("(but not {})", rule.pattern),
    };
    let mut found: Vec<String> = rules.map(shown).collect();
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|text| seen.insert(text.clone()));
    found
}

fn few(items: &[String]) -> String {
    match items.len() {
        0 => "nothing".to_owned(),
        count if count <= MOST => items.join(", "),
        count => format!("{} and {} more", items[..MOST].join(", "), count - MOST),
    }
}
