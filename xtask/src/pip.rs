//! Programs of Python's that the tests use, as one table, and how they are installed: by pip, beside what is built, once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::say;
use crate::steps::{Failure, Outcome, must_succeed};

/// A package by its name in the registry. The version is fixed: each release thinks of something more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tool {
    package: &'static str,
    version: &'static str,
    program: &'static str,
    why: &'static str,
}

/// Each in a directory of its own, so that none changes what another needs.
const TOOLS: &[Tool] = &[
    Tool {
        package: "kubernetes-validate",
        version: "1.37.0",
        program: "kubernetes-validate",
        why: "what is rendered for Kubernetes is read with its schemas",
    },
    Tool {
        package: "schemathesis",
        version: "4.32.5",
        program: "st",
        why: "the API is tried against its own description",
    },
];

/// Installs what is missing. Without a way to the registry the tests with them are not run, which is said; CI must run them.
pub(crate) fn install_missing(root: &Path) -> Result<Outcome, Failure> {
    let mut absent = Vec::new();
    for tool in TOOLS {
        let place = place(root, tool);
        if runs(&place, tool) {
            continue;
        }
        say::progress(format!("missing: {} ({})", tool.package, tool.why));
        if let Err(failure) = install(&place, tool) {
            if std::env::var_os("CI").is_some_and(|value| value == "true") {
                return Err(failure);
            }
            say::progress(failure.to_string());
            absent.push(tool.package);
        }
    }
    Ok(if absent.is_empty() {
        Outcome::Passed
    } else {
        Outcome::NotRun(format!("{} (pip cannot install it)", absent.join(", ")))
    })
}

fn install(place: &Path, tool: &Tool) -> Result<(), Failure> {
    must_succeed(Command::new("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(place))?;
    must_succeed(&mut pip(place, tool))?;
    match runs(place, tool) {
        true => Ok(()),
        false => Err(Failure::Found(format!("{} {} does not start", tool.package, tool.version))),
    }
}

/// Where its test looks for it: beside what is built, so that it goes when the build goes.
fn place(root: &Path, tool: &Tool) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    root.join(target).join(tool.package)
}

fn pip(place: &Path, tool: &Tool) -> Command {
    let mut command = Command::new(place.join("bin/pip"));
    let wanted = format!("{}=={}", tool.package, tool.version);
    command.args(["install", "--quiet", "--disable-pip-version-check", &wanted]);
    command.stdin(Stdio::null());
    command
}

fn runs(place: &Path, tool: &Tool) -> bool {
    let mut command = Command::new(place.join("bin").join(tool.program));
    command.arg("--version").stdin(Stdio::null());
    let version = tool.version.as_bytes();
    let says = |bytes: Vec<u8>| bytes.windows(version.len()).any(|part| part == version);
    command.output().is_ok_and(|output| says(output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(TOOLS.is_sorted_by_key(|tool| tool.package));
    }
}
