//! `ringfence man`: the manual page, made from the command line's own description.

use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::{Cli, ManArgs};
use crate::error::Failure;
use crate::out;

pub(crate) fn run(args: &ManArgs) -> Result<ExitCode, Failure> {
    let mut command = Cli::command();
    command.build();
    let page = match &args.command {
        None => Some(command),
        Some(name) => command.find_subcommand(name).cloned(),
    };
    let Some(page) = page else {
        out::say(&format!("error: there is no command `{}`", args.command.as_deref().unwrap_or_default()));
        return Ok(ExitCode::from(2));
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).map_err(|source| Failure::Output { source })?;
    out::print(&String::from_utf8(text).unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}
