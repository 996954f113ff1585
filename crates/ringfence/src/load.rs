//! Finds and reads the policy files that hold here, and puts them in their order.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_surface::policy::{EnvName, Extension, Format, MAX_POLICY_BYTES, PolicyFile, Task};
use ringfence_surface::text::{Diagnostic, PolicyText};
use ringfence_surface::{
    AbsPath, HostFacts, Inputs, Layer, Level, Look, Omission, PathFact, Request, Resolved, TaskChoice, Trust, Via,
    follow, resolve,
};

use crate::cli::PolicyArgs;
use crate::error::Failure;
use crate::host::{Recorder, os_path, read_bounded};
use crate::out::say;
use crate::trust::{self, ContentHash, Known};

/// The administrator's file.
const MANAGED: &str = "/etc/ringfence/managed.toml";
/// The project's file.
pub(crate) const PROJECT_FILE: &[u8] = b"ringfence.toml";
/// How deep files may extend each other.
const MAX_DEPTH: usize = 16;

/// A policy resolved on this host.
pub(crate) struct Here {
    pub(crate) inputs: Inputs,
    pub(crate) facts: HostFacts,
    pub(crate) resolved: Resolved,
}

/// Loads every file that holds here and resolves them.
pub(crate) fn here(args: &PolicyArgs) -> Result<Here, Failure> {
    let facts = crate::host::facts()?;
    let mut recorder = Recorder::new();
    let layers = layers(args.policy.as_deref(), &facts, &mut recorder)?;
    let request = request(args, &facts, &mut recorder)?;
    let inputs = Inputs { layers, request };
    let resolved = resolve(&inputs, &facts, &mut recorder).map_err(|said| Failure::Policy { said })?;
    Ok(Here { inputs, facts: recorder.into_facts(facts), resolved })
}

/// The files that hold here, in the order of their rights.
pub(crate) fn layers(explicit: Option<&Path>, facts: &HostFacts, look: &mut Recorder) -> Result<Vec<Layer>, Failure> {
    let mut layers = Vec::new();
    let managed = AbsPath::lexical(MANAGED.as_bytes()).map_err(|source| Failure::Path { source })?;
    layers.extend(optional(&managed, Level::Managed, facts, look)?);
    if let Some(own) = facts.own_directories() {
        layers.extend(optional(&own.config.child(b"config.toml"), Level::User, facts, look)?);
    }
    match explicit {
        Some(path) => {
            let path = absolute(path, facts, look)?;
            layers.extend(with_bases(&path, Level::Explicit, facts, look)?);
        }
        None => {
            if let Some(path) = find_project_file(&facts.cwd, look) {
                layers.extend(project(&path, facts, look)?.0);
            }
        }
    }
    Ok(layers)
}

fn optional(path: &AbsPath, level: Level, facts: &HostFacts, look: &mut Recorder) -> Result<Vec<Layer>, Failure> {
    // A file that is there but cannot be read is an error: a ceiling that is silently skipped is none.
    match std::fs::symlink_metadata(os_path(path)) {
        Err(cause) if matches!(cause.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        _ => with_bases(path, level, facts, look),
    }
}

/// The project's file with what it extends, and whether it is trusted.
pub(crate) fn project(
    path: &AbsPath,
    facts: &HostFacts,
    look: &mut Recorder,
) -> Result<(Vec<Layer>, Known, ContentHash), Failure> {
    let mut layers = with_bases(path, Level::Project(Trust::Untrusted), facts, look)?;
    let hash = ContentHash::of(layers.iter().map(|layer| (&layer.path, layer.text.text.as_str())));
    let main = layers.last().map_or_else(|| path.clone(), |layer| layer.path.clone());
    let known = trust::known(facts, &main, &hash);
    for layer in &mut layers {
        layer.level = Level::Project(known.trust());
    }
    Ok((layers, known, hash))
}

/// The nearest `ringfence.toml`, from the current directory up.
pub(crate) fn find_project_file(cwd: &AbsPath, look: &mut Recorder) -> Option<AbsPath> {
    cwd.ancestors().map(|dir| dir.child(PROJECT_FILE)).find(|path| look.path(path) != PathFact::Missing)
}

/// A path from the command line, links followed.
pub(crate) fn absolute(path: &Path, facts: &HostFacts, look: &mut Recorder) -> Result<AbsPath, Failure> {
    let followed = follow(&facts.cwd, path.as_os_str().as_bytes(), look);
    followed.map(|found| found.path).map_err(|why| Failure::BadPath { reason: why.to_string() })
}

/// A file preceded by everything it extends.
fn with_bases(path: &AbsPath, level: Level, facts: &HostFacts, look: &mut Recorder) -> Result<Vec<Layer>, Failure> {
    let mut layers = Vec::new();
    load(path, level, Via::Itself, facts, look, &mut Vec::new(), &mut layers)?;
    Ok(layers)
}

fn load(
    path: &AbsPath,
    level: Level,
    via: Via,
    facts: &HostFacts,
    look: &mut Recorder,
    chain: &mut Vec<AbsPath>,
    layers: &mut Vec<Layer>,
) -> Result<(), Failure> {
    let path = absolute(os_path(path), facts, look)?;
    let text = read_text(&path)?;
    let file = PolicyFile::parse(&text).map_err(|said| Failure::Policy { said })?;
    let dir = path.parent().unwrap_or_else(AbsPath::root);
    chain.push(path.clone());
    for extension in file.extends.iter().flatten() {
        let Extension::File(rule) = &extension.value else { continue };
        let refuse =
            |message: String| Failure::Policy { said: vec![Diagnostic::error(extension.place.clone(), message)] };
        let raw = rule.raw_path(&dir, facts).map_err(|why| refuse(format!("cannot be extended: {why}")))?;
        let base = follow(&dir, &raw, look).map_err(|why| refuse(format!("cannot be extended: {why}")))?.path;
        if chain.contains(&base) {
            let names: Vec<String> = chain.iter().map(ToString::to_string).collect();
            return Err(refuse(format!("files extend each other in a circle: {} → {base}", names.join(" → "))));
        }
        if chain.len() >= MAX_DEPTH {
            return Err(refuse(format!("files extend each other more than {MAX_DEPTH} deep")));
        }
        if layers.iter().any(|layer| layer.path == base) {
            continue;
        }
        if !os_path(&base).is_file() {
            return Err(refuse(format!("{base} is not a file")));
        }
        load(&base, level, Via::Extends, facts, look, chain, layers)?;
    }
    chain.pop();
    layers.push(Layer { level, via, file, text, path });
    Ok(())
}

/// Reads a policy's text.
pub(crate) fn read_text(path: &AbsPath) -> Result<Arc<PolicyText>, Failure> {
    let file = os_path(path);
    let bytes = read_bounded(file, MAX_POLICY_BYTES as u64)
        .map_err(|source| Failure::Read { path: PathBuf::from(file), source })?;
    PolicyText::new(path.as_bytes(), bytes).map_err(|said| Failure::Policy { said: vec![said] })
}

fn request(args: &PolicyArgs, facts: &HostFacts, look: &mut Recorder) -> Result<Request, Failure> {
    let env =
        args.env.iter().map(|name| EnvName::new(name).ok_or_else(|| Failure::VariableName { name: name.clone() }));
    let task = match &args.task {
        None => None,
        Some(task) => Some(task_choice(task, facts, look)?),
    };
    Ok(Request {
        persona: args.persona.clone(),
        task,
        agent: args.agent.clone(),
        references: args.references.iter().map(|path| path.as_bytes().to_vec()).collect(),
        env: env.collect::<Result<_, _>>()?,
    })
}

/// A task is a name; with a slash or an ending it is a file.
fn task_choice(task: &std::ffi::OsStr, facts: &HostFacts, look: &mut Recorder) -> Result<TaskChoice, Failure> {
    let bytes = task.as_bytes();
    let is_json = bytes.ends_with(b".json");
    if !is_json && !bytes.ends_with(b".toml") && !bytes.contains(&b'/') {
        return Ok(TaskChoice::Named(ringfence_surface::Shown(bytes).to_string()));
    }
    let path = absolute(Path::new(task), facts, look)?;
    let text = read_text(&path)?;
    // A work item is what it looks like, whatever the file is called: an orchestrator may use a pipe's name.
    let format = if is_json || text.text.trim_start().starts_with('{') { Format::Json } else { Format::Toml };
    let task = Task::parse(&text, format).map_err(|said| Failure::Policy { said })?;
    Ok(TaskChoice::File { task, dir: path.parent().unwrap_or_else(AbsPath::root) })
}

/// Tells the user what was left out and what looks wrong.
pub(crate) fn tell(here: &Here) {
    for diagnostic in &here.resolved.diagnostics {
        say(&format!("{diagnostic}\n"));
    }
    let mut untrusted = false;
    for Omission { entry, source, why } in here.resolved.omissions.iter().filter(|o| o.source.is_written()) {
        untrusted |= *why == ringfence_surface::Dropped::Untrusted;
        say(&format!("warning: {entry} ({source}) takes no part: {why}"));
    }
    if untrusted {
        say("hint: read the project's file, then run `ringfence trust`");
    }
}
