//! `cargo xtask oracle`: more random sequences of git and file operations in a session than a build has time for, or each plant by itself.
//!
//! Afterwards the user's own git runs outside, and nothing of the agent's may run, be contacted or be written. What fails is made smaller
//! and printed with its seed.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::say;
use crate::steps::{cargo, must_succeed};

/// Tries so many sequences, from a seed on; without one from a seed of this moment, which is printed.
pub(crate) fn run(root: &Path, sequences: u32, seed: Option<u64>) -> ExitCode {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let seed = seed.unwrap_or(now);
    say::progress(format!("xtask oracle: {sequences} sequences from seed {seed}"));
    test(root, &[("RINGFENCE_ORACLE_PLANTS", ""), ("RINGFENCE_ORACLE", &format!("{sequences},{seed}"))])
}

/// Tries each plant that has a text in its name, by itself.
pub(crate) fn plants(root: &Path, named: &str) -> ExitCode {
    test(root, &[("RINGFENCE_ORACLE_PLANTS", named)])
}

fn test(root: &Path, variables: &[(&str, &str)]) -> ExitCode {
    let name = "nothing_of_the_agents_runs_outside_after_many_random_sequences";
    let mut command = cargo(root, &["test", "-p", "ringfence", "--test", "oracle", name, "--", "--nocapture"]);
    match must_succeed(command.envs(variables.iter().copied())) {
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            say::progress(format!("xtask oracle: FAILED: {failure}"));
            ExitCode::FAILURE
        }
    }
}
