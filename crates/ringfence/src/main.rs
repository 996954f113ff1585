//! The command line.

#![forbid(unsafe_code)]

mod cli;
#[cfg(test)]
mod cli_reference;
mod commands;
mod diff;
mod error;
mod git;
mod git_settings;
mod host;
mod load;
mod out;
mod remembered;
mod tell;
mod trust;
mod wire;
mod write;
#[cfg(target_os = "linux")]
mod yaml;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::Failure;

/// A start takes some hundred kilobytes of stack.
const SMALLEST_STACK: u64 = 1 << 20;

/// The administrator's file. Nothing in the environment or on the command line can name another.
const MANAGED: &str = "/etc/ringfence/managed.toml";

fn main() -> ExitCode {
    // Before anything waits for a child or for a signal: both are inherited across `execve`.
    #[cfg(target_os = "linux")]
    ringfence_session::adopt_own_signals();
    let words: Vec<OsString> = std::env::args_os().collect();
    #[cfg(target_os = "linux")]
    if words.get(1).is_some_and(|name| name == "run" || name == "hook") {
        // Somebody waits for each of these.
        ringfence_session::keep_heap();
    }
    if is_hook(&words) {
        return commands::hook::run(&words);
    }
    if let Err(failure) = has_stack() {
        return failure.report();
    }
    let done = match words.as_slice() {
        [] | [_] => commands::map::run(),
        words if commands::version::is_asked(words) => commands::version::run(),
        _ => commands::dispatch(parse(words), Path::new(MANAGED)),
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// An overflow of the stack is an abort that says nothing of the limit.
fn has_stack() -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    // Where a filter hides it, it is assumed to suffice.
    let limit = ringfence_session::getrlimit(rustix::process::Resource::Stack).ok().and_then(|limit| limit.current);
    #[cfg(not(target_os = "linux"))]
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    match limit {
        Some(has) if has < SMALLEST_STACK => Err(Failure::SmallStack { has, needs: SMALLEST_STACK }),
        _ => Ok(()),
    }
}

/// A client waits for each of its calls, and reads meaning into every code: the hook answers by itself. People who ask for help
/// get it.
fn is_hook(words: &[OsString]) -> bool {
    let asks = |word: &OsString| word == "--help" || word == "-h";
    words.get(1).is_some_and(|name| name == "hook") && !words.iter().any(asks)
}

/// Only `run` and its arguments.
#[derive(Debug, clap::Parser)]
struct Run {
    #[command(flatten)]
    args: cli::RunArgs,
}

/// Reads the command line. `run` starts other programs, so it is read by itself: to describe every other command first would
/// take longer, and without options there is nothing to read. What cannot be read that way is read, and answered, with all of
/// them in sight.
fn parse(words: Vec<OsString>) -> cli::Cli {
    let run = |args| cli::Cli { command: cli::Command::Run(args) };
    match words.as_slice() {
        [_, name, end, command @ ..] if name == "run" && end == "--" => run(cli::RunArgs::plain(command)),
        [_, name, ..] if name == "run" => match Run::try_parse_from(&words[1..]) {
            Ok(Run { args }) => run(args),
            Err(_) => parse_all(words),
        },
        _ => parse_all(words),
    }
}

fn parse_all(words: Vec<OsString>) -> cli::Cli {
    let name = words.get(1).cloned().unwrap_or_default();
    cli::Cli::try_parse_from(words).unwrap_or_else(|error| with_tip(error, &name).exit())
}

/// What whoever forgot an option or the `--` most likely meant.
fn with_tip(mut error: clap::Error, name: &OsStr) -> clap::Error {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return error;
    };
    let tip = match name.to_str() {
        _ if word.starts_with('-') => return error,
        Some(name @ ("run" | "learn")) => format!("the command comes behind `--`: `ringfence {name} -- {word}`"),
        Some("exec") => format!("the command comes behind `--`: `ringfence exec --within SESSION -- {word}`"),
        Some("explain") => format!("say what is asked: `ringfence explain --read {word}`, or `--write {word}`"),
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However it is read, it says the same.
    #[test]
    fn run_is_read_as_every_other_command_is() {
        for line in [
            "run -- true",
            "run --",
            "run",
            "run -- a --receipt -- b",
            "run --receipt -- a",
            "run --ref x --ref y --env A --policy p --persona q --task t --agent claude -- a -b",
            "run --agent gemini --mode auto",
            "run --backend bwrap --user 1:2 --allow-shortfall tree -- a",
        ] {
            let words: Vec<OsString> =
                std::iter::once("ringfence").chain(line.split(' ')).map(OsString::from).collect();
            let whole = cli::Cli::parse_from(&words);
            assert_eq!(format!("{:?}", parse(words)), format!("{whole:?}"), "{line}");
        }
    }
}
