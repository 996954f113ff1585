//! The command line.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod error;
mod host;
mod load;
mod out;
mod trust;
mod wire;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match commands::dispatch(cli::Cli::parse()) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
