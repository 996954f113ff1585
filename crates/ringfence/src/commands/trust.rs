//! `ringfence trust`: this project's policy, as it is now, may widen the fence.

use std::path::Path;
use std::process::ExitCode;

use ringfence_surface::{AbsPath, Dropped, Layer, Level, Omission, Shown, Trust};

use crate::cli::{PolicyArgs, TrustArgs};
use crate::diff;
use crate::error::Failure;
use crate::host::os_path;
use crate::load::{Loader, NewPack, Project, new_packs};
use crate::out::say;
use crate::remembered::Remembered;
use crate::trust::{self, Known};

/// More entries than this are counted only.
const MOST_ENTRIES: usize = 200;

/// More personas, work items and agents than this are counted only.
const MOST_FLAGS: usize = 50;

pub(crate) fn run(args: &TrustArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let mut loader = Loader::new(managed)?;
    if args.packs {
        return agree_to_packs(loader);
    }
    let named = match &args.file {
        Some(file) => loader.absolute(file)?,
        None => {
            loader.find_project_file()?.ok_or_else(|| Failure::NoProjectFile { dir: loader.facts().cwd.clone() })?
        }
    };
    if args.revoke {
        let path = loader.absolute(os_path(&named))?;
        let was = trust::forget(loader.facts(), &path)?;
        say(&if was { format!("{path} is trusted no longer") } else { format!("{path} was not trusted") });
        return Ok(ExitCode::SUCCESS);
    }
    let project = loader.project(os_path(&named))?;
    // What a file extends comes before it.
    let path = project.layers.last().map_or(named, |layer| layer.path.clone());
    match project.known {
        Known::AsItIs => {
            say(&format!("{path} is trusted already"));
            return Ok(ExitCode::SUCCESS);
        }
        Known::Never => {}
        Known::Changed => {
            tell_changes(&loader, &path, &project.layers);
            if !args.force {
                return Err(Failure::TrustedBefore { path });
            }
        }
    }
    accept(loader, &path, &project)?;
    Ok(ExitCode::SUCCESS)
}

/// Agrees to what this project chooses packs by now, for every session from now on.
fn agree_to_packs(loader: Loader<'_>) -> Result<ExitCode, Failure> {
    let state = loader.facts().own_directories().state.ok_or(Failure::NoHome)?;
    let here = loader.resolve(&PolicyArgs::only(None))?;
    let (root, new) = (here.resolved.surface.root(), new_packs(&here.resolved.omissions));
    let remembered = Remembered::in_state(&state);
    remembered
        .agree(root, here.resolved.surface.packs().iter().copied().chain(new.iter().map(|pack| pack.name)))
        .map_err(|source| Failure::Write { path: os_path(&state).into(), source })?;
    for NewPack { name, marker } in &new {
        say(&format!("pack {name} takes part in {root} from now on ({marker})"));
    }
    if new.is_empty() {
        say(&format!("no pack is new in {root}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn accept(loader: Loader<'_>, path: &AbsPath, project: &Project) -> Result<(), Failure> {
    let dir = path.parent().unwrap_or_else(AbsPath::root);
    let mut loader = loader.standing_in(dir);
    // What cannot be used is not trusted: nobody has seen what it would do.
    let plain = PolicyArgs::only(None);
    resolve_as(&mut loader, &project.layers, Trust::Trusted, &plain)?;
    let gained = resolve_as(&mut loader, &project.layers, Trust::Untrusted, &plain);
    let waiting = waiting(&mut loader, &project.layers, gained.as_deref().unwrap_or_default());
    trust::store(loader.facts(), &project.layers, &project.hash)?;
    say(&format!("{path} is trusted as it is now"));
    for base in project.layers.iter().rev().skip(1) {
        say(&format!("  with {}, which it extends", base.path));
    }
    match gained {
        Ok(gained) if gained.is_empty() && waiting.is_empty() => {
            say("  it adds nothing: all it does is narrow the fence");
        }
        Ok(gained) => tell_gained(&gained.iter().map(|omission| shown("", omission)).collect::<Vec<_>>()),
        Err(_) => say("  what it adds cannot be listed: without it nothing holds in its directory"),
    }
    tell_gained(&waiting);
    Ok(())
}

/// What takes part only with a flag, which an orchestrator or the next session may give.
fn waiting(loader: &mut Loader<'_>, project: &[Layer], gained: &[Omission]) -> Vec<String> {
    let flags: Vec<(&str, &String)> = project
        .iter()
        .flat_map(|layer| {
            let personas = layer.file.persona.iter().flat_map(|all| all.keys()).map(|name| ("--persona", name));
            let tasks = layer.file.task.iter().flat_map(|all| all.keys()).map(|name| ("--task", name));
            let agents = layer.file.agent.iter().flat_map(|all| all.keys()).map(|name| ("--agent", name));
            personas.chain(tasks).chain(agents)
        })
        .collect();
    let mut lines = Vec::new();
    for (flag, name) in flags.iter().take(MOST_FLAGS) {
        let mut args = PolicyArgs::only(None);
        match *flag {
            "--persona" => args.persona = Some((*name).clone()),
            "--task" => args.task = Some(name.into()),
            _ => args.agent = Some((*name).clone()),
        }
        let with = format!(" with {flag} {}", Shown(name.as_bytes()));
        match resolve_as(loader, project, Trust::Untrusted, &args) {
            Ok(found) => {
                let is_new = |omission: &&Omission| gained.iter().all(|other| shown("", other) != shown("", omission));
                lines.extend(found.iter().filter(is_new).map(|omission| shown(&with, omission)));
            }
            Err(_) => lines.push(format!("takes part now{with}: it cannot be listed, read what the file says")),
        }
    }
    if flags.len() > MOST_FLAGS {
        lines.push(format!("{} more personas, tasks and agents are not listed", flags.len() - MOST_FLAGS));
    }
    lines
}

/// What takes no part for want of trust, when the project's files are trusted or not.
fn resolve_as(
    loader: &mut Loader<'_>,
    project: &[Layer],
    trust: Trust,
    args: &PolicyArgs,
) -> Result<Vec<Omission>, Failure> {
    let mut layers = loader.own()?;
    layers.extend(project.iter().map(|layer| Layer { level: Level::Project(trust), ..layer.clone() }));
    let omissions = loader.resolve_layers(layers, args)?.omissions;
    Ok(omissions.into_iter().filter(|omission| omission.why == Dropped::Untrusted).collect())
}

fn shown(with: &str, Omission { entry, source, .. }: &Omission) -> String {
    format!("takes part now{with}: {} ({source})", Shown(entry.as_bytes()))
}

fn tell_gained(lines: &[String]) {
    for line in lines.iter().take(MOST_ENTRIES) {
        say(&format!("  {line}"));
    }
    if lines.len() > MOST_ENTRIES {
        say(&format!("  and {} more", lines.len() - MOST_ENTRIES));
    }
}

/// Shows what is different from the texts that were trusted.
fn tell_changes(loader: &Loader<'_>, path: &AbsPath, layers: &[Layer]) {
    let Some(before) = trust::trusted_texts(loader.facts(), path) else {
        say("what it said when it was trusted is not known");
        return;
    };
    let was = |path: &AbsPath| before.iter().find(|(known, _)| known == path).map_or("", |(_, text)| text.as_str());
    let gone = before.iter().filter(|(known, _)| layers.iter().all(|layer| layer.path != *known));
    let now = layers.iter().map(|layer| (&layer.path, was(&layer.path), layer.text.text.as_str()));
    let all = now.chain(gone.map(|(path, text)| (path, text.as_str(), "")));
    let lines: Vec<String> = all.flat_map(|(path, before, now)| difference(path, before, now)).collect();
    for line in lines.iter().take(diff::MOST_LINES) {
        say(line);
    }
    if lines.len() > diff::MOST_LINES {
        say("  and more");
    }
}

fn difference(path: &AbsPath, before: &str, now: &str) -> Vec<String> {
    let changes = diff::changes(before, now);
    let heading = (!changes.is_empty()).then(|| format!("changed: {path}"));
    heading.into_iter().chain(changes).collect()
}
