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

use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

/// The administrator's file. Nothing in the environment or on the command line can name another.
const MANAGED: &str = "/etc/ringfence/managed.toml";

fn main() -> ExitCode {
    match commands::dispatch(cli::Cli::parse(), Path::new(MANAGED)) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
