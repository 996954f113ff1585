//! The command line.

#![forbid(unsafe_code)]

mod cli;
#[cfg(test)]
mod cli_reference;
mod commands;
mod diff;
mod error;
mod git;
mod host;
mod load;
mod out;
mod tell;
mod trust;
mod wire;
mod write;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

/// The administrator's file. Nothing in the environment or on the command line can name another.
const MANAGED: &str = "/etc/ringfence/managed.toml";

fn main() -> ExitCode {
    match commands::dispatch(parse(), Path::new(MANAGED)) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// Only `run` and its arguments.
#[derive(Debug, clap::Parser)]
struct Run {
    #[command(flatten)]
    args: cli::RunArgs,
}

/// Reads the command line. `run` starts other programs, so it is read by itself: to describe every other command first would
/// take longer. What cannot be read that way is read, and answered, with all of them in sight.
fn parse() -> cli::Cli {
    let words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "run")
        && let Ok(run) = Run::try_parse_from(&words[1..])
    {
        return cli::Cli { command: cli::Command::Run(run.args) };
    }
    cli::Cli::parse_from(words)
}
