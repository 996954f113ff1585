//! One file for each command: it reads its arguments, asks the libraries, prints.

mod check;
mod completions;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(any(test, not(target_os = "linux")))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod exec;
pub(crate) mod explain;
pub(crate) mod hook;
mod init;
mod jail_exec;
#[cfg(target_os = "linux")]
mod learn;
mod man;
pub(crate) mod map;
mod plan;
#[cfg(target_os = "linux")]
mod receipt;
mod render;
#[cfg(target_os = "linux")]
mod review;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod run;
mod schema;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod sessions;
#[cfg(target_os = "linux")]
pub(crate) mod shell;
#[cfg(target_os = "linux")]
mod statusline;
mod trust;
#[cfg(target_os = "linux")]
mod verify;
pub(crate) mod version;

use std::path::Path;
use std::process::ExitCode;

use ringfence_surface::policy::PolicyFile;

use crate::cli::{Cli, Command};
use crate::error::Failure;
#[cfg(not(target_os = "linux"))]
use elsewhere::{doctor, exec, learn, review, root, run, serve, sessions, shell, statusline, verify};

/// Does what was asked. `managed` is where the administrator's file is.
pub(crate) fn dispatch(cli: Cli, managed: &Path) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Run(args) => run::run(&args, managed),
        Command::Exec(args) => exec::run(&args),
        Command::Explain(args) => explain::run(&args, managed),
        Command::Plan(args) => plan::run(&args, managed),
        Command::Render(args) => render::run(&args, managed),
        Command::Statusline(args) => statusline::run(&args),
        Command::Check(args) => check::run(&args, managed),
        Command::Init(args) => init::run(&args),
        Command::Trust(args) => trust::run(&args, managed),
        Command::Doctor(args) => doctor::run(&args),
        Command::Verify(args) => verify::run(&args, managed),
        Command::Learn(args) => learn::run(&args, managed),
        Command::Trial(args) => run::trial(&args, managed),
        Command::TryStart(args) => run::try_start(&args),
        Command::Ps(args) => sessions::ps(&args),
        Command::Show(args) => sessions::show(&args),
        Command::Logs(args) => sessions::logs(&args),
        Command::Stop(args) => sessions::stop(&args),
        Command::Pause(args) => sessions::pause(&args),
        Command::Resume(args) => sessions::resume(&args),
        Command::Violations(args) => sessions::violations(&args),
        Command::Approve(args) => sessions::approve(&args, managed),
        Command::Deny(args) => sessions::deny(&args),
        Command::Diff(args) => review::diff(&args),
        Command::Apply(args) => review::apply(&args),
        Command::Discard(args) => review::discard(&args),
        Command::Gc(args) => sessions::gc(&args),
        Command::Grant(args) => sessions::grant(&args, managed),
        Command::Revoke(args) => sessions::revoke(&args, managed),
        Command::Mode(args) => sessions::mode(&args),
        Command::Audit(args) => sessions::audit(&args, managed),
        Command::Root(args) => root::run(&args),
        Command::Serve(args) => serve::run(&args, managed),
        Command::Schema => {
            crate::out::print_json(&schema::schema_json(&PolicyFile::schema()))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::ShellInstall(args) => shell::install(&args),
        Command::ShellUninstall(args) => shell::uninstall(&args),
        // `main` has answered it; this is for whoever asks in another way.
        Command::Hook(_) => Ok(hook::run(&std::env::args_os().collect::<Vec<_>>())),
        Command::JailExec(_) => Ok(jail_exec::run()),
        Command::Called(args) => exec::called(&args),
        Command::Inside(args) => Ok(ExitCode::from(inside(&args.descriptors))),
        Command::TryDeeds => Ok(ExitCode::from(try_deeds())),
        Command::Arrive(args) => Ok(ExitCode::from(arrive(args.socket))),
    }
}

/// Returns only if the command did not start.
#[cfg(target_os = "linux")]
fn inside(descriptors: &[std::ffi::OsString]) -> u8 {
    ringfence_session::inside::run(descriptors)
}

/// Returns when everything in the container has ended.
#[cfg(target_os = "linux")]
fn arrive(socket: std::ffi::OsString) -> u8 {
    ringfence_session::container::run(&[socket])
}

#[cfg(not(target_os = "linux"))]
fn arrive(_: std::ffi::OsString) -> u8 {
    crate::error::REFUSED
}

#[cfg(not(target_os = "linux"))]
fn inside(_: &[std::ffi::OsString]) -> u8 {
    crate::error::REFUSED
}

#[cfg(target_os = "linux")]
fn try_deeds() -> u8 {
    ringfence_session::verify::run()
}

#[cfg(not(target_os = "linux"))]
fn try_deeds() -> u8 {
    crate::error::REFUSED
}
