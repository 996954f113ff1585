//! `cargo xtask agree`: more policies by chance than a build has time for, in every layer, each compared with `decide`.
//!
//! What comes out otherwise than it must is made small and saved beside the cases that are tried in every build.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::dist::target_directory;
use crate::say;
use crate::steps::{Failure, cargo, must_succeed};

/// How many deeds for each policy.
const DEEDS: &str = "250";

/// Tries so many policies, from a seed on; without one from a seed of this moment, which is said.
pub(crate) fn run(root: &Path, policies: u32, seed: Option<u64>) -> ExitCode {
    // Seeds stay far below where they would overflow.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let seed = seed.unwrap_or(now);
    say::progress(format!("xtask agree: {policies} policies from seed {seed}"));
    match attempt(root, policies, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::progress(format!("xtask agree: FAILED: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn attempt(root: &Path, policies: u32, seed: u64) -> Result<(), Failure> {
    must_succeed(&mut cargo(root, &["build", "--example", "agree", "-p", "ringfence-session"]))?;
    let place = std::env::temp_dir().join(format!("ringfence-agree-{}", std::process::id()));
    let failed = |cause| Failure::Start { command: format!("mkdir {}", place.display()), cause };
    std::fs::create_dir(&place).map_err(failed)?;
    let mut command = Command::new(target_directory(root).join("debug/examples/agree"));
    command.arg("run").arg(&place).arg(root.join("crates/ringfence-session/tests/agree/cases"));
    command.args([&seed.to_string(), &policies.to_string(), DEEDS, "native", "bwrap", "landlock", "hook"]);
    let ended = must_succeed(&mut command);
    // What is left there is of no use to anybody.
    let _ = std::fs::remove_dir_all(&place);
    ended.map(|_| ())
}
