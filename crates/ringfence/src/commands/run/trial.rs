//! One run of `ringfence learn`: a session of its own in a process of its own, with a policy that is tried.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence_session::launch::Ended;
use ringfence_session::learned::Learned;
use ringfence_surface::AbsPath;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::{Ladder, with_agent};
use crate::cli::{Backend, RunArgs, TrialArgs};
use crate::error::{Failure, LearnFailure};

/// What is tried.
pub(super) struct Trial {
    /// The policy file, and what it is to say.
    pub(super) at: AbsPath,
    pub(super) text: String,
    /// Where what was learned goes.
    into: PathBuf,
}

/// What came of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The command's own code.
    pub(crate) code: u8,
    /// Whether it was ended before it was done.
    pub(crate) is_cut: bool,
    pub(crate) learned: Learned,
}

impl Trial {
    pub(super) fn write(&self, ended: &Ended, learned: Option<Learned>) -> Result<u8, Failure> {
        let learned = learned.unwrap_or_else(Learned::nothing);
        let outcome = Outcome { code: ended.code, is_cut: ended.out_of_time || ended.stopped, learned };
        let text = serde_json::to_vec(&outcome).map_err(|source| Failure::Json { source })?;
        std::fs::write(&self.into, &text).map_err(|source| Failure::Write { path: self.into.clone(), source })?;
        Ok(ended.code)
    }
}

/// Runs the command once.
pub(crate) fn trial(args: &TrialArgs, managed: &Path) -> Result<ExitCode, Failure> {
    // A command that is learned from has more than its policy gives, so it does not outlive whoever learns.
    let ends = set_parent_process_death_signal(Some(Signal::KILL));
    ends.map_err(|errno| Failure::Output { source: errno.into() })?;
    if getppid().map(Pid::as_raw_pid) != Some(args.parent) {
        return Err(Failure::Learn { source: LearnFailure::NotRun });
    }
    let unread = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Failure::Read { path, source }
    };
    let text = std::fs::read_to_string(&args.text).map_err(unread(&args.text))?;
    let at = AbsPath::lexical(args.at.as_os_str().as_bytes());
    let at = at.map_err(|why| Failure::BadPath { reason: why.to_string() })?;
    // Only there is somebody who sees what is looked for.
    let run = RunArgs { policy: args.policy.clone(), backend: Some(Backend::Native), ..RunArgs::plain(&args.command) };
    let run = &with_agent(&run);
    let trial = Some(Trial { at, text, into: args.into.clone() });
    let ladder = Ladder { args: run, managed, account: None, calls: None, variables: Vec::new(), root: None, trial };
    ladder.climb().map(ExitCode::from)
}
