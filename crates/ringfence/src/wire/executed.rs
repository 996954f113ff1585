//! How a call ended, as JSON.

use ringfence_fs::{Captured, Outcome};
use ringfence_session::capture::Came;
use serde::Serialize;

use super::{Bytes, SCHEMA};
use crate::error::Failure;

/// A call that was made.
#[derive(Debug, Serialize)]
pub(crate) struct WireExecuted {
    schema: u32,
    /// `exited`, `signaled`, `timed-out` or `session-over`.
    outcome: &'static str,
    /// The command's own code, if it ended by itself.
    code: Option<i32>,
    /// The signal that ended it, if one did.
    signal: Option<i32>,
    stdout: WireCaptured,
    stderr: WireCaptured,
    /// What was stopped on the way out.
    stopped: Vec<WireStopped>,
    /// What does not hold of what was asked.
    not_held: Vec<String>,
}

#[derive(Debug, Serialize)]
struct WireCaptured {
    /// The end of what was printed.
    tail: Bytes,
    truncated: bool,
    dropped: u64,
}

#[derive(Debug, Serialize)]
struct WireStopped {
    what: String,
    why: String,
    times: u64,
}

impl WireExecuted {
    pub(crate) fn new(came: &Came, not_held: Vec<String>) -> Self {
        let (outcome, code, signal) = match came.executed.outcome {
            _ if came.ended.session_over => ("session-over", None, None),
            Outcome::Exited(code) => ("exited", Some(code), None),
            Outcome::Signaled(signal) => ("signaled", None, Some(signal)),
            Outcome::TimedOut => ("timed-out", None, None),
        };
        let stopped = came.ended.refusals.0.iter().map(|(refusal, times)| WireStopped {
            what: refusal.attempt.to_string(),
            why: refusal.why.to_string(),
            times: *times,
        });
        let (stdout, stderr) = (WireCaptured::new(&came.executed.stdout), WireCaptured::new(&came.executed.stderr));
        Self { schema: SCHEMA, outcome, code, signal, stdout, stderr, stopped: stopped.collect(), not_held }
    }
}

impl WireCaptured {
    fn new(captured: &Captured) -> Self {
        Self { tail: Bytes::new(&captured.tail), truncated: captured.is_truncated(), dropped: captured.dropped }
    }
}

/// A call that was not made.
#[derive(Debug, Serialize)]
pub(crate) struct WireRefused {
    schema: u32,
    /// `refused`.
    outcome: &'static str,
    error: String,
    /// What the call would have gained, if it was refused for that.
    gained: Option<String>,
    hint: Option<String>,
}

impl WireRefused {
    pub(crate) fn new(failure: &Failure) -> Self {
        let gained = if let Failure::Widens { source } = failure { Some(source.what.clone()) } else { None };
        Self { schema: SCHEMA, outcome: "refused", error: failure.whole(), gained, hint: failure.hint() }
    }
}
