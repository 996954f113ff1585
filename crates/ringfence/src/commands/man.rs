//! `ringfence man`: the manual page, made from the command line's own description.

use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::{Cli, ManArgs};
use crate::error::Failure;
use crate::out;

pub(crate) fn run(args: &ManArgs) -> Result<ExitCode, Failure> {
    // There are no pages about the command `help`, so none is named.
    let mut command =
        Cli::command().disable_help_subcommand(true).mut_subcommands(|inner| inner.disable_help_subcommand(true));
    command.build();
    let version = command.render_version();
    let page = args
        .command
        .iter()
        .try_fold(&command, |outer, name| outer.find_subcommand(name).ok_or_else(|| unknown(name, outer)))?;
    let mut text = Vec::new();
    clap_mangen::Man::new(page.clone())
        .source(version.trim_end())
        .render(&mut text)
        .map_err(|source| Failure::Output { source })?;
    out::print(&String::from_utf8(text).unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}

fn unknown(name: &str, command: &clap::Command) -> Failure {
    let shown = command.get_subcommands().filter(|known| !known.is_hide_set());
    Failure::NoCommand { name: name.to_owned(), known: shown.map(|known| known.get_name().to_owned()).collect() }
}
