//! `ringfence completions`: for the user's shell.

use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::{Cli, CompletionsArgs};
use crate::error::Failure;
use crate::out;

pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ringfence", &mut script);
    // The generator writes text.
    out::print(&String::from_utf8(script).unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}
