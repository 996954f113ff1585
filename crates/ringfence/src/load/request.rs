//! What the command line asks for, beside the policy files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ringfence_surface::policy::{EnvName, Format, PolicyFile, Task};
use ringfence_surface::{Inputs, Request, Shown, TaskChoice};

use super::{Loader, bases};
use crate::cli::PolicyArgs;
use crate::error::Failure;

/// The agents that need no description in a file.
const KNOWN_AGENTS: &[&str] = &["claude", "codex", "gemini"];

pub(super) fn request(loader: &mut Loader<'_>, args: &PolicyArgs) -> Result<Request, Failure> {
    let variable = |name: &String| EnvName::new(name).ok_or_else(|| Failure::VariableName { name: name.clone() });
    Ok(Request {
        persona: args.persona.clone(),
        task: args.task.as_deref().map(|task| choice(loader, task)).transpose()?,
        agent: args.agent.clone(),
        references: args.references.iter().map(|path| path.as_bytes().to_vec()).collect(),
        writes: args.writes.iter().map(|path| path.as_bytes().to_vec()).collect(),
        env: args.env.iter().map(variable).collect::<Result<_, _>>()?,
        worktree: None,
    })
}

/// A task is a name; with a slash or an ending it is a file on this machine.
fn choice(loader: &mut Loader<'_>, task: &OsStr) -> Result<TaskChoice, Failure> {
    let bytes = task.as_bytes();
    let is_json = bytes.ends_with(b".json");
    if !is_json && !bytes.ends_with(b".toml") && !bytes.contains(&b'/') {
        return Ok(TaskChoice::Named(Shown(bytes).to_string()));
    }
    let path = loader.absolute(Path::new(task))?;
    let text = bases::read_text(&path)?;
    // A work item is what it looks like, whatever an orchestrator calls the file.
    let format = if is_json || text.text.trim_start().starts_with('{') { Format::Json } else { Format::Toml };
    let task = Task::parse(&text, format).map_err(|said| Failure::Policy { said })?;
    Ok(TaskChoice::File { task, path })
}

/// Does the command line name a persona, a task or an agent that no file describes?
pub(super) fn names_unknown(inputs: &Inputs) -> bool {
    let described = |has: &dyn Fn(&PolicyFile) -> bool| inputs.layers.iter().any(|layer| has(&layer.file));
    let Request { persona, task, agent, .. } = &inputs.request;
    let persona = persona
        .as_ref()
        .is_some_and(|name| !described(&|file| file.persona.as_ref().is_some_and(|known| known.contains_key(name))));
    let task = matches!(task, Some(TaskChoice::Named(name))
        if !described(&|file| file.task.as_ref().is_some_and(|known| known.contains_key(name))));
    let agent = agent.as_ref().is_some_and(|name| {
        !KNOWN_AGENTS.contains(&name.as_str())
            && !described(&|file| file.agent.as_ref().is_some_and(|known| known.contains_key(name)))
    });
    persona || task || agent
}
