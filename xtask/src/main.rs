//! The project's own chores, run as `cargo xtask COMMAND`.
//!
//! One file per command. Nothing here is part of the product, and no crate of the product depends on it.

#![forbid(unsafe_code)]

mod bench;
mod clients;
mod dist;
mod packages;
mod say;
mod steps;
mod test;
mod tidy;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test             install what is missing, then check format, lints, rules, tests, docs and dependencies
  tidy             check the rules of this repository
  bench [--quick]  measure `decide` and the fence, and fail when a figure is over its bar
  dist             build the program as one file that needs no library of the host";

/// The exit code for a command line that we do not understand.
const EXIT_USAGE: u8 = 2;

/// A command line, understood.
#[derive(Debug, PartialEq, Eq)]
enum Chore<'w> {
    Test,
    Tidy,
    Bench(bench::Effort),
    Dist,
    /// The part of a benchmark that an ordinary user runs.
    BenchFence(&'w str, bench::Effort),
    /// A helper of a benchmark, also inside the fence.
    BenchTimes(&'w str, &'w str),
    /// Another.
    BenchCalls(&'w str),
    /// And another.
    BenchNet(&'w str),
    Help,
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or("")).collect();
    match understand(&words) {
        Some(Chore::Test) => test::run(&workspace_root()),
        Some(Chore::Tidy) => tidy::run(&workspace_root()),
        Some(Chore::Bench(effort)) => bench::run(&workspace_root(), effort),
        Some(Chore::Dist) => dist::run(&workspace_root()),
        Some(Chore::BenchFence(dir, effort)) => bench::fence(dir.as_ref(), effort),
        Some(Chore::BenchTimes(runs, line)) => bench::helped(bench::work::helper(runs, line)),
        Some(Chore::BenchCalls(file)) => bench::helped(bench::calls::helper(file)),
        Some(Chore::BenchNet(port)) => bench::helped(bench::net::helper(port)),
        Some(Chore::Help) => {
            say::result(USAGE);
            ExitCode::SUCCESS
        }
        None => {
            say::progress(USAGE);
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// What the words ask for; nothing when they are not exactly one of the known command lines.
fn understand<'w>(words: &[&'w str]) -> Option<Chore<'w>> {
    match words {
        ["test"] => Some(Chore::Test),
        ["tidy"] => Some(Chore::Tidy),
        ["bench"] => Some(Chore::Bench(bench::Effort::Full)),
        ["bench", "--quick"] => Some(Chore::Bench(bench::Effort::Quick)),
        ["dist"] => Some(Chore::Dist),
        ["bench-fence", dir] => Some(Chore::BenchFence(dir, bench::Effort::Full)),
        ["bench-fence", dir, "--quick"] => Some(Chore::BenchFence(dir, bench::Effort::Quick)),
        ["bench-times", runs, line] => Some(Chore::BenchTimes(runs, line)),
        ["bench-calls", file] => Some(Chore::BenchCalls(file)),
        ["bench-net", port] => Some(Chore::BenchNet(port)),
        ["help" | "--help" | "-h"] => Some(Chore::Help),
        _ => None,
    }
}

/// The directory of the root manifest: the parent of this crate's own.
fn workspace_root() -> PathBuf {
    // Cargo sets the variable at run time too; it is right even when the checkout was moved after the build.
    let own =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map_or_else(|| own.clone(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_command_lines_are_understood() {
        assert_eq!(understand(&["test"]), Some(Chore::Test));
        assert_eq!(understand(&["bench", "--quick"]), Some(Chore::Bench(bench::Effort::Quick)));
        for unknown in [&[][..], &["tests"], &["tidy", "--fix"], &["bench", "--fast"], &["test", "test"], &[""]] {
            assert_eq!(understand(unknown), None, "{unknown:?}");
        }
    }
}
