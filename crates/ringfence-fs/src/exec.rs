//! A command to run, and what came of it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much of each stream is kept where the caller names no other figure.
pub const USUAL_KEEP: usize = 1 << 20;

/// A command to run.
///
/// It starts in the working directory of its [`Environment`](crate::Environment), with an environment of exactly the variables
/// that are named here, and with nothing to read. A time limit has to be named, since there is none that would suit everybody.
///
/// ```
/// use std::time::Duration;
/// use ringfence_fs::Exec;
///
/// let exec = Exec::new("cargo", Duration::from_secs(120))
///     .args(["test", "--workspace"])
///     .env("PATH", "/usr/local/bin:/usr/bin:/bin")
///     .keep(64 << 10);
/// assert_eq!(exec.timeout(), Duration::from_secs(120));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
    stdin: Vec<u8>,
    timeout: Duration,
    keep: usize,
}

impl Exec {
    /// A program, searched for in the `PATH` that it is given, and how long it may take.
    pub fn new(program: impl Into<OsString>, timeout: Duration) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            stdin: Vec::new(),
            timeout,
            keep: USUAL_KEEP,
        }
    }

    /// A line for the shell, as agents write them: `sh -c LINE`.
    pub fn shell(line: impl Into<OsString>, timeout: Duration) -> Self {
        Self::new("/bin/sh", timeout).arg("-c").arg(line)
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// A variable of its environment, which is otherwise empty. A later value takes the place of an earlier one.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let name = name.into();
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value.into()));
        self
    }

    /// A directory to start in, below the working directory of the environment.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// What it can read. A command that does not read it all is no failure.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// How many bytes of each stream are kept: the last ones. The usual is a mebibyte.
    #[must_use]
    pub fn keep(mut self, bytes: usize) -> Self {
        self.keep = bytes;
        self
    }

    /// What is run.
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// What follows the program's name.
    pub fn arguments(&self) -> &[OsString] {
        &self.args
    }

    /// The whole environment.
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.env
    }

    /// Where it starts, if not in the working directory.
    pub fn directory(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// What it can read.
    pub fn input(&self) -> &[u8] {
        &self.stdin
    }

    /// How long it may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How many bytes of each stream are kept.
    pub fn kept(&self) -> usize {
        self.keep
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// By itself, with this code. A code other than zero is a result, and no error.
    Exited(i32),
    /// By a signal that did not come from here.
    Signaled(i32),
    /// The time was up, and it was ended with what it had started.
    TimedOut,
}

impl Outcome {
    /// Did it end by itself, with code 0?
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }
}

/// One stream of a command: its last bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The end of what was printed.
    pub tail: Vec<u8>,
    /// How many bytes came before it and were dropped.
    pub dropped: u64,
}

impl Captured {
    /// Was anything dropped?
    pub fn is_truncated(&self) -> bool {
        self.dropped > 0
    }

    /// How much was printed.
    pub fn total(&self) -> u64 {
        self.dropped.saturating_add(self.tail.len() as u64)
    }
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// How it ended.
    pub outcome: Outcome,
    /// What it printed.
    pub stdout: Captured,
    /// What it said beside that.
    pub stderr: Captured,
    /// The command ended, and something that it had started still held its streams. What that prints later is not here.
    pub left_running: bool,
    /// The time was up, and something that the command had started could not be ended. This is never so in a fence.
    pub survivors: Vec<i32>,
}
