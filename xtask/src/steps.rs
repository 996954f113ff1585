//! Steps of a chore: a heading, a time, and a stop at the first failure.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::say;

/// How a step ended, when it did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The step did its work.
    Passed,
    /// The step, or a part of it, was not run; the text says what and why.
    NotRun(String),
}

/// Why a step failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The program could not be started.
    Start { command: String, cause: io::Error },
    /// The program ran and was not content.
    Status { command: String, status: ExitStatus },
    /// Something that we checked ourselves does not hold.
    Found(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { command, cause } => write!(f, "cannot start `{command}`: {cause}"),
            Self::Status { command, status } => write!(f, "`{command}` ended with {status}"),
            Self::Found(what) => f.write_str(what),
        }
    }
}

impl Failure {
    /// The exit code of the program that failed; 1 when there is none, and never 0.
    fn exit_code(&self) -> u8 {
        let code = match self {
            Self::Status { status, .. } => status.code().and_then(|code| u8::try_from(code).ok()),
            Self::Start { .. } | Self::Found(_) => None,
        };
        code.filter(|code| *code != 0).unwrap_or(1)
    }
}

/// A named piece of work.
pub(crate) struct Step<'a> {
    /// What the heading and the summary call it.
    pub(crate) name: &'static str,
    /// The work.
    pub(crate) work: Box<dyn Fn() -> Result<Outcome, Failure> + 'a>,
}

/// Runs the steps in order, stops at the first that fails, and ends with one line that sums up.
pub(crate) fn run_all(chore: &str, steps: &[Step<'_>]) -> ExitCode {
    let start = Instant::now();
    let mut not_run = Vec::new();
    for step in steps {
        say::progress(format!("\n== {}", step.name));
        let step_start = Instant::now();
        match (step.work)() {
            Ok(Outcome::Passed) => {
                say::progress(format!("== {} passed in {}", step.name, seconds(step_start.elapsed())))
            }
            Ok(Outcome::NotRun(why)) => {
                say::progress(format!("== {}: not run: {why}", step.name));
                not_run.push(why);
            }
            Err(failure) => {
                say::progress(format!("== {} FAILED in {}: {failure}", step.name, seconds(step_start.elapsed())));
                say::progress(format!("\n{chore}: FAILED at {} after {}", step.name, seconds(start.elapsed())));
                return ExitCode::from(failure.exit_code());
            }
        }
    }
    let skipped = if not_run.is_empty() { String::new() } else { format!("; not run: {}", not_run.join(", ")) };
    say::progress(format!("\n{chore}: passed in {}{skipped}", seconds(start.elapsed())));
    ExitCode::SUCCESS
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The cargo that runs us.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root);
    if std::env::var_os("CI").is_some_and(|value| value == "true") {
        // A machine that builds once gains nothing from incremental files, which are large and slow to write.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs a command with our own streams and waits for it.
pub(crate) fn must_succeed(command: &mut Command) -> Result<Outcome, Failure> {
    let shown = shown(command);
    say::progress(format!("$ {shown}"));
    match command.status() {
        Ok(status) if status.success() => Ok(Outcome::Passed),
        Ok(status) => Err(Failure::Status { command: shown, status }),
        Err(cause) => Err(Failure::Start { command: shown, cause }),
    }
}

/// Whether a cargo subcommand such as `nextest` is installed.
pub(crate) fn has_subcommand(root: &Path, name: &str) -> bool {
    let mut command = cargo(root, &[name, "--version"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The command as a user would type it: the program by its name only, since its directory says nothing.
fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.display().to_string()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_first_failure_stops_the_chore() {
        let later = Cell::new(false);
        let steps = [
            Step { name: "one", work: Box::new(|| Ok(Outcome::NotRun("no tool".to_owned()))) },
            Step { name: "two", work: Box::new(|| Err(Failure::Found("broken".to_owned()))) },
            Step {
                name: "three",
                work: Box::new(|| {
                    later.set(true);
                    Ok(Outcome::Passed)
                }),
            },
        ];
        assert_eq!(run_all("chore", &steps), ExitCode::from(1));
        assert!(!later.get(), "a step after the failure ran");
        assert_eq!(run_all("chore", &steps[..1]), ExitCode::SUCCESS);
    }

    #[test]
    fn a_failing_program_gives_its_own_exit_code() {
        // Cargo answers 101 to a subcommand that does not exist; any code but 0 is right, and 1 would hide it.
        let failure = must_succeed(&mut cargo(Path::new("."), &["no-such-subcommand"]))
            .expect_err("cargo knows no such subcommand");
        assert_eq!(failure.exit_code(), 101);
        assert!(failure.to_string().starts_with("`cargo no-such-subcommand` ended with "), "{failure}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let failure =
            must_succeed(&mut Command::new("ringfence-no-such-program")).expect_err("there is no such program");
        assert_eq!(failure.exit_code(), 1);
        assert!(failure.to_string().contains("cannot start `ringfence-no-such-program`"), "{failure}");
    }
}
