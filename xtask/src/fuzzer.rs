//! The program that tries the API against its own description, and how it is installed: by pip, beside what is built, once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::say;
use crate::steps::{Failure, Outcome, must_succeed};

/// The version is fixed: each release thinks of something more.
const PACKAGE: &str = "schemathesis";
const VERSION: &str = "4.32.5";

/// Installs it where it is missing. Without a way to the registry its test is not run, which is said; CI must run it.
pub(crate) fn install_missing(root: &Path) -> Result<Outcome, Failure> {
    let place = place(root);
    if runs(&place) {
        say::progress("nothing is missing");
        return Ok(Outcome::Passed);
    }
    let made = must_succeed(Command::new("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(&place));
    let failure = match made.and_then(|_| must_succeed(&mut pip(&place))) {
        Ok(_) if runs(&place) => return Ok(Outcome::Passed),
        Ok(_) => Failure::Found(format!("{PACKAGE} {VERSION} does not start")),
        Err(failure) => failure,
    };
    if std::env::var_os("CI").is_some_and(|value| value == "true") {
        return Err(failure);
    }
    say::progress(failure.to_string());
    Ok(Outcome::NotRun(format!("{PACKAGE} against the API (pip cannot install it)")))
}

/// Where its test looks for it: beside what is built, so that it goes when the build goes.
fn place(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    root.join(target).join(PACKAGE)
}

fn pip(place: &Path) -> Command {
    let mut command = Command::new(place.join("bin/pip"));
    command.args(["install", "--quiet", "--disable-pip-version-check", &format!("{PACKAGE}=={VERSION}")]);
    command.stdin(Stdio::null());
    command
}

fn runs(place: &Path) -> bool {
    let mut command = Command::new(place.join("bin/st"));
    command.arg("--version").stdin(Stdio::null());
    let says = |bytes: Vec<u8>| bytes.windows(VERSION.len()).any(|part| part == VERSION.as_bytes());
    command.output().is_ok_and(|output| says(output.stdout))
}
