//! Packs that are new in a project, and what is remembered of a session that starts.

use std::io::IsTerminal as _;

use ringfence_surface::curated::packs::pack;
use ringfence_surface::{AbsPath, Effect, Role, Surface};

use crate::error::Failure;
use crate::host::os_path;
use crate::load::{Here, NewPack};
use crate::out::{ask, say};
use crate::remembered::Remembered;

/// How the user is asked; without a terminal there is no question.
pub(super) fn asker() -> Option<fn(&[NewPack]) -> bool> {
    let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    can_ask.then_some(agrees as fn(&[NewPack]) -> bool)
}

fn agrees(new: &[NewPack]) -> bool {
    for NewPack { name, marker } in new {
        let groups = pack(name).map_or(String::new(), |pack| pack.groups.join(", "));
        let reaches = if groups.is_empty() { String::new() } else { format!(" and reaches: {groups}") };
        say(&format!("ringfence: {marker} is new here since a session ran. It asks for the pack {name}{reaches}"));
    }
    ask("ringfence: let it take part, now and later?")
}

/// Remembers which packs took part and what the session can write.
pub(super) fn remember(here: &Here, once: &[String]) -> Result<(), Failure> {
    let state = here.facts.own_directories().state.ok_or(Failure::NoHome)?;
    let surface = &here.resolved.surface;
    let root = match &here.inputs.request.worktree {
        Some(worktree) => worktree.origin(surface.root()),
        None => surface.root().clone(),
    };
    let remembered = Remembered::in_state(&state);
    let agreed = surface.packs().iter().copied().filter(|name| !once.iter().any(|other| other == name));
    let kept = remembered.agree(&root, agreed).and_then(|()| remembered.note_written(written(surface)));
    kept.map_err(|source| Failure::Write { path: os_path(&state).into(), source })
}

/// Where of the host a session can make something.
fn written(surface: &Surface) -> impl Iterator<Item = &AbsPath> {
    let is_of_host =
        |effect| matches!(effect, Effect::Write(role) if !matches!(role, Role::Cache | Role::Scratch | Role::Private));
    surface.allowed_writes().filter(move |rule| is_of_host(rule.effect)).filter_map(|rule| rule.pattern.base())
}
