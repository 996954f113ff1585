//! `ringfence jail-exec`: restricts itself and becomes a command. Programs start it, people seldom do.

use std::process::ExitCode;

use crate::out::say;

/// Returns only if the command did not start.
///
/// The arguments are taken as they were passed: the parser would swallow the first `--`, which belongs to the form.
#[cfg(target_os = "linux")]
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().skip(2).collect();
    let failed = ringfence_session::jail::run_jail_exec(&arguments);
    say(&format!("error: {failed}"));
    let mut cause = std::error::Error::source(&failed);
    while let Some(error) = cause {
        say(&format!("caused by: {error}"));
        cause = error.source();
    }
    if let Some(hint) = failed.hint() {
        say(&format!("\nhint: {hint}"));
    }
    ExitCode::from(failed.exit_code())
}

/// No other system has Landlock, and a command that is not restricted is not started.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run() -> ExitCode {
    const NOT_RESTRICTED: u8 = 3;
    say("error: cannot restrict the command: this system has no Landlock");
    ExitCode::from(NOT_RESTRICTED)
}
