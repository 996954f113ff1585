//! `cargo xtask test`: all set-up, then every check. CI runs the same command.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::clients;
use crate::dist;
use crate::engines::{self, Engines};
use crate::packages;
use crate::pip;
use crate::say;
use crate::steps::{Failure, Outcome, Step, cargo, has_subcommand, must_succeed, run_all};
use crate::tidy;

/// Runs everything, cheapest first, so that a small mistake is told early.
pub(crate) fn run(root: &Path) -> ExitCode {
    let steps = [
        Step { name: "system packages", work: Box::new(packages::install_missing) },
        Step { name: "format", work: Box::new(|| must_succeed(&mut cargo(root, &["fmt", "--all", "--check"]))) },
        Step { name: "tidy", work: Box::new(|| tidy_step(root)) },
        Step { name: "clippy", work: Box::new(|| clippy(root)) },
        Step { name: "fuzz targets", work: Box::new(|| fuzz_targets(root)) },
        Step { name: "other systems", work: Box::new(|| other_systems(root)) },
        Step { name: "clients", work: Box::new(|| clients::install_missing(root)) },
        Step { name: "programs of Python's", work: Box::new(|| pip::install_missing(root)) },
        Step { name: "tests", work: Box::new(|| tests(root)) },
        Step {
            name: "doc tests",
            work: Box::new(|| must_succeed(&mut cargo(root, &["test", "--workspace", "--doc"]))),
        },
        Step { name: "package", work: Box::new(|| dist::try_it(root)) },
        Step { name: "dependencies", work: Box::new(|| dependencies(root)) },
    ];
    run_all("xtask test", &steps)
}

/// Only the step with the package.
pub(crate) fn package(root: &Path) -> ExitCode {
    run_all("xtask package", &[Step { name: "package", work: Box::new(|| dist::try_it(root)) }])
}

fn tidy_step(root: &Path) -> Result<Outcome, Failure> {
    match tidy::check(root) {
        Ok(()) => Ok(Outcome::Passed),
        Err(complaints) => Err(Failure::Found(complaints)),
    }
}

fn clippy(root: &Path) -> Result<Outcome, Failure> {
    must_succeed(&mut cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// The fuzz targets are no members of the workspace, so nothing else notices when they stop compiling. Their bodies are run by
/// the tests; here the targets are type-checked without libFuzzer, which would need a C++ compiler.
fn fuzz_targets(root: &Path) -> Result<Outcome, Failure> {
    let arguments = ["check", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--bins", "--no-default-features"];
    // What the workspace has built already is not built again.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    must_succeed(cargo(root, &arguments).env("CARGO_TARGET_DIR", target))
}

/// Systems that the tests do not run on, and what is built for them. Elsewhere than on Linux nothing is started, and what is left
/// must still compile.
const OTHER_SYSTEMS: &[(&str, &[&str])] = &[
    ("aarch64-unknown-linux-gnu", &["--workspace"]),
    (
        "x86_64-apple-darwin",
        &[
            "--package",
            "ringfence",
            "--package",
            "ringfence-fs",
            "--package",
            "ringfence-session",
            "--package",
            "ringfence-sys",
        ],
    ),
];

/// Type-checks for other systems, as far as their standard libraries are installed (`rustup target add`). What only Linux uses is a
/// warning there, so warnings fail.
fn other_systems(root: &Path) -> Result<Outcome, Failure> {
    let mut absent = Vec::new();
    for (target, packages) in OTHER_SYSTEMS {
        if !has_target(target) {
            say::progress(format!("missing: the standard library for {target}"));
            // Where there is no rustup, or nothing to fetch it from, the compiler is looked at once more and that is said.
            let _ = Command::new("rustup").args(["target", "add", target]).status();
        }
        if has_target(target) {
            must_succeed(cargo(root, &["clippy", "--target", target]).args(*packages).args(["--", "-D", "warnings"]))?;
        } else {
            absent.push(*target);
        }
    }
    Ok(if absent.is_empty() {
        Outcome::Passed
    } else {
        Outcome::NotRun(format!("other systems (no standard library for {})", absent.join(", ")))
    })
}

/// Whether the compiler has a standard library for a target: the directory of its libraries is there.
pub(crate) fn has_target(target: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "target-libdir", "--target", target]).output();
    let is_there = |output: std::process::Output| {
        output.status.success() && Path::new(OsStr::from_bytes(output.stdout.trim_ascii())).is_dir()
    };
    output.is_ok_and(is_there)
}

/// Names the file in which tests say what they do not try on this machine.
const SKIPS: &str = "RINGFENCE_TEST_SKIPS";

/// nextest gives each test its own process and shows a slow one; without it cargo's own runner does the same work.
fn tests(root: &Path) -> Result<Outcome, Failure> {
    let arguments: &[&str] = if has_subcommand(root, "nextest") {
        &["nextest", "run", "--workspace", "--no-fail-fast"]
    } else {
        &["test", "--workspace", "--lib", "--bins", "--tests"]
    };
    let engines = Engines::start(root)?;
    let mut command = cargo(root, arguments);
    if let Ok(engines) = &engines {
        command.env(engines::VARIABLE, engines.dir());
    }
    let failed = |cause| Failure::Found(format!("the list of skipped tests: {cause}"));
    let skips = tempfile::NamedTempFile::new().map_err(failed)?;
    must_succeed(command.env(SKIPS, skips.path()))?;
    let skipped = std::fs::read_to_string(skips.path()).map_err(failed)?;
    let skipped = kinds(&skipped);
    for (what, times) in &skipped {
        say::progress(format!("skipped {times} times: {what}"));
    }
    let skipped = (!skipped.is_empty()).then(|| format!("tests of {} kinds (listed above)", skipped.len()));
    let not_run: Vec<String> = engines.err().into_iter().chain(skipped).collect();
    Ok(if not_run.is_empty() { Outcome::Passed } else { Outcome::NotRun(not_run.join(", ")) })
}

/// What was skipped, and how often.
fn kinds(lines: &str) -> BTreeMap<&str, usize> {
    let mut kinds = BTreeMap::new();
    lines.lines().for_each(|what| *kinds.entry(what).or_default() += 1);
    kinds
}

fn dependencies(root: &Path) -> Result<Outcome, Failure> {
    if !has_subcommand(root, "deny") {
        return Ok(Outcome::NotRun("cargo-deny is not installed".to_owned()));
    }
    must_succeed(&mut cargo(root, &["deny", "check", "bans", "licenses", "sources"]))?;
    // The list of known advisories comes from the network. Fetching is a step of its own, so that being offline is told apart
    // from an advisory that concerns us.
    if let Err(failure) = must_succeed(&mut cargo(root, &["deny", "fetch", "db"])) {
        say::progress(failure.to_string());
        return Ok(Outcome::NotRun("advisories (their list cannot be fetched)".to_owned()));
    }
    must_succeed(&mut cargo(root, &["deny", "--offline", "check", "advisories"]))
}
