//! `cargo xtask faults`: every system call of a start fails once, and processes of sessions are killed, as often as is asked for.
//!
//! A sample of both is among the tests of a build.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::say;
use crate::steps::{cargo, must_succeed};

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Faults {
    /// Every call that can fail, with every error.
    Calls,
    /// So many kills.
    Kills(u32),
}

pub(crate) fn run(root: &Path, faults: Faults, seed: Option<u64>) -> ExitCode {
    let test = match faults {
        Faults::Calls => "a_failing_call_refuses_the_start_or_the_session_holds",
        Faults::Kills(_) => "a_killed_process_leaves_nothing_and_no_half_file",
    };
    let mut command = cargo(root, &["test", "-p", "ringfence", "--test", "faults", "--", "--exact", "--nocapture"]);
    match faults {
        Faults::Calls => command.arg(format!("calls::{test}")).env("RINGFENCE_FAULTS_ALL", "1"),
        Faults::Kills(kills) => command.arg(format!("kills::{test}")).env("RINGFENCE_KILLS", kills.to_string()),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    command.env("RINGFENCE_FAULTS_SEED", seed.unwrap_or(now).to_string());
    match must_succeed(&mut command) {
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            say::progress(format!("xtask faults: FAILED: {failure}"));
            ExitCode::FAILURE
        }
    }
}
