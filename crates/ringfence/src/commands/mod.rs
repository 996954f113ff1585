//! One file for each command: it reads its arguments, asks the libraries, prints.

mod check;
mod completions;
mod explain;
mod init;
mod man;
mod plan;
mod run;
mod schema;
mod trust;

use std::process::ExitCode;

use ringfence_surface::policy::PolicyFile;

use crate::cli::{Cli, Command};
use crate::error::Failure;

/// Does what was asked.
pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Trust(args) => trust::run(&args),
        Command::Schema => {
            crate::out::print_json(&schema::schema_json(&PolicyFile::schema()))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
