//! What was denied in a session that has ended: a few lines for the user, and the whole of it in a file that was asked for.

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_session::git_gains::Gain;
use ringfence_session::launch::Ended;
use ringfence_session::text::now_ms;
use ringfence_session::violations::{Counted, Summary, closing_line};
use rustix::fs::{Mode, OFlags};
use serde::Serialize;

use crate::error::Failure;
use crate::out::safe_json;
use crate::wire::SCHEMA;
use crate::write;

/// More lines than this are not printed.
const FEW: usize = 10;

/// Where a report goes. The directory is opened before the command starts: it may be one that the command can change, and what
/// the command puts in its place later is not written to.
pub(super) struct Place {
    dir: OwnedFd,
    name: OsString,
    path: PathBuf,
}

#[derive(Debug, Serialize)]
struct Report<'r> {
    schema: u32,
    session: &'r str,
    started_ms: u64,
    ended_ms: u64,
    code: u8,
    /// How often something was denied.
    denied: u64,
    violations: &'r [Counted],
    /// How often something was denied that is not among them.
    more: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<&'r str>,
}

impl Place {
    /// Looks for it, and writes nothing yet.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let unwritable = |source| Failure::Write { path: path.into(), source };
        let name = path.file_name().ok_or_else(|| unwritable(std::io::ErrorKind::IsADirectory.into()))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir, flags, Mode::empty()).map_err(|errno| unwritable(errno.into()))?;
        if rustix::fs::accessat(&dir, c".", rustix::fs::Access::WRITE_OK, rustix::fs::AtFlags::EACCESS).is_err() {
            return Err(unwritable(std::io::ErrorKind::PermissionDenied.into()));
        }
        Ok(Self { dir, name: name.to_owned(), path: path.into() })
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self, session: &str, began: u64, ended: &Ended, denied: &Summary) -> Result<(), Failure> {
        let report = Report {
            schema: SCHEMA,
            session,
            started_ms: began,
            ended_ms: now_ms(),
            code: ended.code,
            denied: denied.denied,
            violations: &denied.kinds,
            more: denied.more,
            ended_by: denied.ended_by.as_deref(),
        };
        let text = serde_json::to_string_pretty(&report).map_err(|source| Failure::Json { source })?;
        let place = Path::new("/proc/self/fd").join(self.dir.as_raw_fd().to_string()).join(&self.name);
        let unwritten = |source| Failure::Write { path: self.path.clone(), source };
        write::replace(&place, (safe_json(&text) + "\n").as_bytes()).map_err(unwritten)
    }
}

/// What repositories gained that the user's git would act on.
pub(super) fn gains(gained: &[Gain]) -> Vec<String> {
    let line = |gain: &Gain| closing_line(format!("ringfence: git: {gain}"), "ringfence audit");
    let mut lines: Vec<String> = gained.iter().take(FEW).map(line).collect();
    if gained.len() > FEW {
        lines.push(format!("ringfence: git: and {} more kinds of changes", gained.len() - FEW));
    }
    lines
}

/// What was denied, with what allows it. What stood on the terminal when it happened is not told again.
pub(super) fn lines(denied: &Summary, session: &str) -> Vec<String> {
    let line = |one: &Counted| {
        let whole = one.violation.line_afterwards(one.times);
        format!("ringfence: stopped: {}", one.violation.short_line(whole, one.times, session))
    };
    let untold = denied.kinds.iter().zip(&denied.shown).filter(|(_, is_shown)| !**is_shown).map(|(one, _)| one);
    let mut lines: Vec<String> = untold.clone().take(FEW).map(line).collect();
    let others = untold.skip(FEW).map(|one| one.times).sum::<u64>() + denied.more;
    if others > 0 {
        lines.push(format!("ringfence: stopped: {others} more; `ringfence violations {session}` lists them"));
    }
    lines
}
