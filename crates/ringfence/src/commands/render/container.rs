//! `ringfence render docker` and `podman`: what the engine would be told, without a session.

use std::process::ExitCode;

use ringfence_plan::{Engine, Rung, compile};
use ringfence_session::container::{Described, EngineHere, InContainer, NoEngine, Rendered, render, usual, written};
use ringfence_surface::AbsPath;

use super::{dropped_line, say_once, skipped_line};
use crate::cli::RenderArgs;
use crate::error::{Failure, RenderFailure};
use crate::host::{Recorder, mounts};
use crate::load::Here;
use crate::out::{print, print_json, say};
use crate::wire::SCHEMA;

pub(super) fn run(args: &RenderArgs, mut here: Here, engine: Engine, session: &AbsPath) -> Result<ExitCode, Failure> {
    let found = match EngineHere::find(engine) {
        Ok(found) => found,
        Err(NoEngine::Remote { engine, at }) => {
            return Err(Failure::Engine { source: NoEngine::Remote { engine, at } });
        }
        Err(cause) => {
            say(&format!("ringfence: {cause}"));
            say("ringfence: this is for an engine with root's rights");
            EngineHere {
                program: engine.word().to_owned(),
                version: String::new(),
                facts: usual(engine),
                variables: Vec::new(),
            }
        }
    };
    here.facts.mounts = mounts();
    let rung = if engine == Engine::Docker { Rung::Docker } else { Rung::Podman };
    let surface = &here.resolved.surface;
    let plan = compile(surface, &here.facts, rung);
    let choice = here.resolved.agent.as_ref();
    let command: Vec<Vec<u8>> =
        choice.map(|choice| choice.command.iter().map(|word| word.clone().into_bytes()).collect()).unwrap_or_default();
    let container = InContainer { here: &found, choice: choice.map(|choice| &choice.container), program: None };
    let described = Described {
        container,
        surface: (!args.no_surface).then_some((surface, plan.mounts.as_slice())),
        facts: &here.facts,
        session,
        command: &command,
    };
    let rendered =
        render(&described, &mut Recorder::new(Vec::new())).map_err(|source| Failure::Container { source })?;
    let Rendered { words, dropped, hidden, shortfalls } = rendered;
    let lines: Vec<String> = words.into_iter().map(|word| String::from_utf8(word).unwrap_or_default()).collect();
    let dropped: Vec<String> = dropped.iter().map(dropped_line).collect();
    let skipped: Vec<String> = written(&plan.skipped)
        .filter(|_| !args.no_surface)
        .map(skipped_line)
        .chain(hidden.iter().map(|hidden| format!("{}: {}", hidden.path, hidden.why.words())))
        .collect();
    if args.json {
        let not_held: Vec<serde_json::Value> = shortfalls
            .iter()
            .map(|short| serde_json::json!({ "claim": short.claim.to_string(), "reason": short.reason }))
            .collect();
        let arguments = serde_json::json!({
            "schema": SCHEMA, "engine": engine.word(), "arguments": lines, "dropped": dropped, "skipped": skipped,
            "not_held": not_held,
        });
        print_json(&arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    let short = shortfalls.iter().map(|short| (short.claim.to_string(), short.reason.as_str()));
    say_once("not held", short.collect());
    dropped.iter().for_each(|line| say(&format!("ringfence: dropped: {line}")));
    skipped.iter().for_each(|line| say(&format!("ringfence: skipped: {line}")));
    if let Some(word) = lines.iter().find(|word| word.contains('\n')) {
        return Err(Failure::Render { source: RenderFailure::TwoLines { word: word.clone() } });
    }
    print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}
