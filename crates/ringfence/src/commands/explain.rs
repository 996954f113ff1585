//! `ringfence explain`: one question, the answer, the rule, where it was written, and what can be done.

mod answers;
mod command;

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use ringfence_surface::{AbsPath, Access, Outcome, Shown, Surface};

use crate::cli::{ExplainArgs, Question};
use crate::error::Failure;
use crate::load::Loader;
use crate::out;
use crate::tell::{self, Detail};
use crate::wire::verdict::WireAnswer;

pub(crate) use answers::{Answer, Asked, asks_first};

pub(crate) fn run(args: &ExplainArgs, managed: &Path) -> Result<ExitCode, Failure> {
    if let Some(line) = &args.question.command {
        let held = match &args.session {
            Some(session) => Some(super::sessions::mode_of(session)?),
            None => None,
        };
        return command::explain(line.as_bytes(), held, args.json);
    }
    let loader = Loader::new(managed)?;
    let (surface, cwd) = match &args.session {
        Some(session) => (super::sessions::surface_of(session)?, loader.facts().cwd.clone()),
        None => {
            let here = loader.resolve(&args.policy)?;
            tell::resolved(&here.resolved, Detail::Short);
            (here.resolved.surface, here.facts.cwd)
        }
    };
    // The command line makes sure that there is one question.
    let Some(answer) = answer(&surface, &cwd, &args.question)? else { return Ok(ExitCode::from(2)) };
    if args.json {
        out::print_json(&WireAnswer::new(&answer))?
    } else {
        out::print(&in_words(&answer))?
    }
    Ok(match answer.outcome {
        Outcome::Allow => ExitCode::SUCCESS,
        Outcome::Deny => ExitCode::from(1),
    })
}

fn answer(surface: &Surface, cwd: &AbsPath, question: &Question) -> Result<Option<Answer>, Failure> {
    let Question { read, write, host, socket, variable, command: _ } = question;
    Ok(Some(if let Some(path) = read {
        answers::about_path(surface, cwd, path, Access::Read)?
    } else if let Some(path) = write {
        answers::about_path(surface, cwd, path, Access::Write)?
    } else if let Some(host) = host {
        answers::about_host(surface, host)?
    } else if let Some(path) = socket {
        answers::about_socket(surface, cwd, path)?
    } else if let Some(name) = variable {
        answers::about_variable(surface, name)?
    } else {
        return Ok(None);
    }))
}

/// The word for a verdict.
pub(crate) fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Allow => "allowed",
        Outcome::Deny => "denied",
    }
}

/// Who holds such an answer in `ringfence run`, and how far.
pub(crate) fn layers(asked: Asked) -> &'static str {
    match asked {
        Asked::Read => "mounts, for what exists when the session starts",
        Asked::Write => "mounts and Landlock for what exists, and in the native fence the broker for every name",
        Asked::Reach => "network namespace: only the relay leads out, by name",
        Asked::Connect => "mounts: a socket that is named is relayed, no other is there",
        Asked::Pass => "environment",
    }
}

fn in_words(answer: &Answer) -> String {
    let mut lines = vec![
        format!("{}: {} {}", outcome_word(answer.outcome), answer.asked.word(), Shown(&answer.target)),
        format!("  rule:   {}", answer.rule),
    ];
    lines.extend(answer.source.as_ref().map(|source| format!("  from:   {source}")));
    lines.extend(answer.asks.as_ref().map(|source| format!("  asks:   {}", asks_first(source))));
    lines.extend(answer.remedy.as_ref().map(|remedy| format!("  remedy: {remedy}")));
    lines.push(format!("  layers: {}", layers(answer.asked)));
    lines.join("\n") + "\n"
}
