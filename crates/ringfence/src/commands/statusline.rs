//! `ringfence statusline`: the session that this runs in, in one line. Clients run it again and again, so it never fails.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence_plan::Rung;
use ringfence_session::given;
use ringfence_session::record::Record;
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Governance, Shown};
use serde::Serialize;

use crate::cli::StatuslineArgs;
use crate::error::Failure;
use crate::out;
use crate::wire::{Bytes, SCHEMA};

#[derive(Debug, Serialize)]
struct Status {
    schema: u32,
    session: Option<String>,
    project: Option<Bytes>,
    agent: Option<String>,
    mode: Option<&'static str>,
    backend: Option<&'static str>,
    hosts: Option<usize>,
    shortfalls: Option<usize>,
    denied: Option<u64>,
}

pub(crate) fn run(args: &StatuslineArgs) -> Result<ExitCode, Failure> {
    let found = places().into_iter().find_map(|dir| status(&dir));
    let status = found.unwrap_or(Status {
        schema: SCHEMA,
        session: None,
        project: None,
        agent: None,
        mode: None,
        backend: None,
        hosts: None,
        shortfalls: None,
        denied: None,
    });
    if args.json {
        out::print_json(&status)?;
    } else {
        out::print(&(line(&status) + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where a session gives what is its own: beside the program, by the name that it was started with, or beside the home.
fn places() -> Vec<PathBuf> {
    let own = std::env::args_os().next().map(PathBuf::from).filter(|path| path.is_absolute());
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let beside = |path: &Path, name: &str| path.parent().map(|dir| dir.join(name));
    let own = own.as_deref().and_then(|path| beside(path, ""));
    own.into_iter().chain(home.as_deref().and_then(|home| beside(home, "given"))).collect()
}

fn status(dir: &Path) -> Option<Status> {
    let path = AbsPath::lexical(dir.join(given::RECORD).as_os_str().as_bytes()).ok()?;
    let record = Record::read(&path).ok()?;
    let shortfalls = std::fs::read_to_string(dir.join(given::SHORTFALLS)).ok().and_then(|text| text.parse().ok());
    let denied = std::fs::read_to_string(dir.join(given::DENIED)).ok().and_then(|text| text.parse().ok());
    let is_fenced = *record.surface.governance() == Governance::Fenced;
    Some(Status {
        schema: SCHEMA,
        session: Some(record.session),
        project: Some(Bytes::new(record.surface.root().as_bytes())),
        agent: record.agent,
        mode: Some(match record.mode {
            Mode::AcceptEdits => "accept-edits",
            Mode::Auto => "auto",
        }),
        backend: Some(if is_fenced { Rung::word(record.rung) } else { "none" }),
        hosts: Some(record.surface.reach().hosts.len()),
        shortfalls,
        denied,
    })
}

fn line(status: &Status) -> String {
    let Some(project) = &status.project else { return "ringfence: no session here".to_owned() };
    let name = match project {
        Bytes::Text(text) => text.rsplit('/').next().unwrap_or(text),
        Bytes::Hex { hex } => hex,
    };
    let mut parts = vec![format!("ringfence {}", Shown(name.as_bytes()))];
    parts.extend(status.mode.map(str::to_owned));
    parts.push(match status.backend {
        Some("none") | None => "NOT FENCED".to_owned(),
        Some(backend) => backend.to_owned(),
    });
    parts.push(match status.hosts {
        Some(0) | None => "no network".to_owned(),
        Some(1) => "1 host".to_owned(),
        Some(count) => format!("{count} hosts"),
    });
    parts.extend(status.shortfalls.filter(|count| *count > 0).map(|count| format!("{count} not held")));
    parts.extend(status.denied.filter(|count| *count > 0).map(|count| format!("{count} denied")));
    parts.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let mut status = Status {
            schema: SCHEMA,
            session: Some("1".into()),
            project: Some(Bytes::Text("/home/u/p\u{1b}".into())),
            agent: Some("claude".into()),
            mode: Some("auto"),
            backend: Some("native"),
            hosts: Some(3),
            shortfalls: Some(4),
            denied: Some(7),
        };
        assert_eq!(line(&status), "ringfence p\\u{1b} | auto | native | 3 hosts | 4 not held | 7 denied");
        (status.backend, status.hosts, status.shortfalls) = (Some("none"), Some(0), Some(0));
        status.denied = Some(0);
        assert_eq!(line(&status), "ringfence p\\u{1b} | auto | NOT FENCED | no network");
        status.project = None;
        assert_eq!(line(&status), "ringfence: no session here");
    }
}
