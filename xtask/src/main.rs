//! The project's own chores, run as `cargo xtask COMMAND`.
//!
//! One file per command. Nothing here is part of the product, and no crate of the product depends on it.

#![forbid(unsafe_code)]

mod agree;
mod bench;
mod clients;
mod dist;
mod engines;
mod faults;
mod kernels;
mod oracle;
mod packages;
mod picture;
mod pip;
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
  bench [--quick] [--only PART]
                   measure `decide`, the library's files and the fence, and fail when a figure is over its
                   bar; the parts are decide, files, start, net, many, work, hook, calls,
                   within, grants, broker, verify, streams, git
  agree [PAIRS [SEED]]   (also: fuzz)
                   try policies, trees and deeds by chance in every layer, and compare with `decide`, until
                   so many pairs of a policy and a deed (100000) were judged in each
  oracle [SEQUENCES [SEED]]
                   let an agent do random things to git in a session, run the user's git outside, and fail if
                   a program, an address or a file of the agent's choice was touched; so many times (200)
  oracle plants [TEXT]
                   the same with each kind of plant whose name has TEXT in it, by itself
  faults [SEED]    fail every system call of a start once, with each plausible error
  faults --kill N [SEED]
                   kill processes of sessions at N random moments
  picture          take the picture of a terminal in README.md anew
  package          make a package of what the tests have built, install, use and remove it
  kernels [KERNEL] boot kernels of Debian's, 5.10, 6.1 and 6.12, and compare `doctor`, the backend, the receipt and
                   what attacks achieve, on ext4, ext4 that folds case and FAT, as root and as a user (minutes)
  dist [--check] [--target TRIPLE] [--profile NAME]
                   build the program as one file that needs no library of the host, and every package of it;
                   --check installs each in a clean root, uses it and removes it (root, debootstrap, podman)";

/// The exit code for a command line that we do not understand.
const EXIT_USAGE: u8 = 2;

/// A command line, understood.
#[derive(Debug, PartialEq, Eq)]
enum Chore<'w> {
    Test,
    Tidy,
    Bench(bench::Effort, bench::Parts),
    Agree(u32, Option<u64>),
    Oracle(u32, Option<u64>),
    /// Those with this text in their names.
    OraclePlants(&'w str),
    Dist(dist::Options),
    /// All of them, or one.
    Kernels(Option<&'w str>),
    Faults(faults::Faults, Option<u64>),
    Package,
    Picture,
    /// The part of a benchmark that an ordinary user runs.
    BenchFence(&'w str, bench::Effort, bench::Parts),
    /// A helper of a benchmark, also inside the fence.
    BenchTimes(&'w str, &'w str, &'w str),
    /// Another.
    BenchCalls(&'w str),
    /// Another, for calls that change files.
    BenchWrites(&'w str),
    /// And another.
    BenchNet(&'w str, Option<&'w str>),
    Help,
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or("")).collect();
    match understand(&words) {
        Some(Chore::Test) => test::run(&workspace_root()),
        Some(Chore::Tidy) => tidy::run(&workspace_root()),
        Some(Chore::Bench(effort, parts)) => bench::run(&workspace_root(), effort, parts),
        Some(Chore::Agree(pairs, seed)) => agree::run(&workspace_root(), pairs, seed),
        Some(Chore::Oracle(sequences, seed)) => oracle::run(&workspace_root(), sequences, seed),
        Some(Chore::OraclePlants(named)) => oracle::plants(&workspace_root(), named),
        Some(Chore::Dist(options)) => dist::run(&workspace_root(), &options),
        Some(Chore::Kernels(only)) => kernels::run(&workspace_root(), only),
        Some(Chore::Faults(faults, seed)) => faults::run(&workspace_root(), faults, seed),
        Some(Chore::Package) => test::package(&workspace_root()),
        Some(Chore::Picture) => picture::run(&workspace_root()),
        Some(Chore::BenchFence(dir, effort, parts)) => bench::fence(dir.as_ref(), effort, parts),
        Some(Chore::BenchTimes(runs, before, line)) => bench::helped(bench::work::helper(runs, before, line)),
        Some(Chore::BenchCalls(file)) => bench::helped(bench::calls::helper(file)),
        Some(Chore::BenchWrites(dir)) => bench::helped(bench::broker::helper(dir)),
        Some(Chore::BenchNet(server, proxy)) => bench::helped(bench::net::helper(server, proxy)),
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
        ["bench", options @ ..] => measured(options).map(|(effort, parts)| Chore::Bench(effort, parts)),
        ["agree" | "fuzz"] => Some(Chore::Agree(100_000, None)),
        ["agree" | "fuzz", pairs] => Some(Chore::Agree(pairs.parse().ok()?, None)),
        ["agree" | "fuzz", pairs, seed] => Some(Chore::Agree(pairs.parse().ok()?, Some(seed.parse().ok()?))),
        ["oracle"] => Some(Chore::Oracle(200, None)),
        ["oracle", "plants"] => Some(Chore::OraclePlants("")),
        ["oracle", "plants", named] => Some(Chore::OraclePlants(named)),
        ["oracle", sequences] => Some(Chore::Oracle(sequences.parse().ok()?, None)),
        ["oracle", sequences, seed] => Some(Chore::Oracle(sequences.parse().ok()?, Some(seed.parse().ok()?))),
        ["dist", options @ ..] => dist::Options::read(options).map(Chore::Dist),
        ["kernels"] => Some(Chore::Kernels(None)),
        ["kernels", only] => Some(Chore::Kernels(Some(only))),
        ["faults"] => Some(Chore::Faults(faults::Faults::Calls, None)),
        ["faults", "--kill", kills] => Some(Chore::Faults(faults::Faults::Kills(kills.parse().ok()?), None)),
        ["faults", "--kill", kills, seed] => {
            Some(Chore::Faults(faults::Faults::Kills(kills.parse().ok()?), Some(seed.parse().ok()?)))
        }
        ["faults", seed] => Some(Chore::Faults(faults::Faults::Calls, Some(seed.parse().ok()?))),
        ["package"] => Some(Chore::Package),
        ["picture"] => Some(Chore::Picture),
        ["bench-fence", dir, options @ ..] => {
            measured(options).map(|(effort, parts)| Chore::BenchFence(dir, effort, parts))
        }
        ["bench-times", runs, before, line] => Some(Chore::BenchTimes(runs, before, line)),
        ["bench-calls", file] => Some(Chore::BenchCalls(file)),
        ["bench-writes", dir] => Some(Chore::BenchWrites(dir)),
        ["bench-net", server] => Some(Chore::BenchNet(server, None)),
        ["bench-net", server, proxy] => Some(Chore::BenchNet(server, Some(proxy))),
        ["help" | "--help" | "-h"] => Some(Chore::Help),
        _ => None,
    }
}

/// How long to measure, and what.
fn measured(options: &[&str]) -> Option<(bench::Effort, bench::Parts)> {
    let (effort, rest) = match options {
        ["--quick", rest @ ..] => (bench::Effort::Quick, rest),
        rest => (bench::Effort::Full, rest),
    };
    match rest {
        [] => Some((effort, bench::Parts::All)),
        ["--only", name] => Some((effort, bench::Parts::One(bench::Part::named(name)?))),
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
        let all = bench::Parts::All;
        assert_eq!(understand(&["bench", "--quick"]), Some(Chore::Bench(bench::Effort::Quick, all)));
        let net = bench::Parts::One(bench::Part::Net);
        assert_eq!(understand(&["bench", "--only", "net"]), Some(Chore::Bench(bench::Effort::Full, net)));
        for unknown in [
            &["bench", "--only"][..],
            &["bench", "--only", "all"],
            &[],
            &["tests"],
            &["tidy", "--fix"],
            &["bench", "--fast"],
            &["test", "test"],
            &[""],
        ] {
            assert_eq!(understand(unknown), None, "{unknown:?}");
        }
    }
}
