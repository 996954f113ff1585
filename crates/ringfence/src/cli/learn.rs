//! `learn` as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::PolicyArgs;

/// Find out what a command needs, and propose it as a change of the policy
///
/// The command runs inside the fence, and what it writes to the project goes into a layer that vanishes. What it looks for and does
/// not find becomes lines for the policy, each with who asked for it and how risky it is; it is run again with them until nothing
/// is missing. Secrets and ways out of the fence are never proposed, and never shown while it is learned. Lines of low risk are
/// tried without a question.
///
/// The change is printed as a unified diff. What the command prints goes to standard error.
#[derive(Debug, Args)]
pub(crate) struct LearnArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Propose instead to take back what the last sessions made no use of
    #[arg(long, conflicts_with = "command")]
    pub(crate) shrink: bool,
    /// With `--shrink`: look at so many sessions
    #[arg(long, value_name = "N", default_value_t = 20, requires = "shrink")]
    pub(crate) sessions: usize,
    /// Run the command so often at most
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Change the policy file, after a question
    #[arg(long)]
    pub(crate) write: bool,
    /// Answer every question with yes: lines of any risk are tried, and `--write` writes
    #[arg(long)]
    pub(crate) yes: bool,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "shrink", value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// One run, with a policy that is tried.
#[derive(Debug, Args)]
pub(crate) struct TrialArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// The file with the text that is tried
    #[arg(long, value_name = "FILE")]
    pub(crate) text: PathBuf,
    /// The policy file that is to say so
    #[arg(long, value_name = "FILE")]
    pub(crate) at: PathBuf,
    /// Where what was learned goes
    #[arg(long, value_name = "FILE")]
    pub(crate) into: PathBuf,
    /// The process that learns
    #[arg(long, value_name = "PID")]
    pub(crate) parent: i32,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
