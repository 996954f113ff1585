//! `ringfence audit`, `ringfence audit verify` and `ringfence logs`.

use std::path::Path;
use std::process::ExitCode;

use ringfence_session::audit::{Audit, Event, Known, Query};
use ringfence_session::desk::{Answer, Connection, Verb};
use ringfence_session::store::Found;
use ringfence_surface::AbsPath;
use serde::Serialize;

use super::{any, states, words};
use crate::cli::{AuditArgs, AuditCommand, LogsArgs};
use crate::error::Failure;
use crate::host::os_path;
use crate::load::Loader;
use crate::out::{print, print_json, say};
use crate::wire::SCHEMA;

pub(crate) fn audit(args: &AuditArgs, managed: &Path) -> Result<ExitCode, Failure> {
    if let Some(AuditCommand::Verify { known, json }) = &args.verify {
        return verify(known.as_deref(), *json);
    }
    let path = match &args.path {
        Some(path) => Some(Loader::new(managed)?.absolute(Path::new(path))?),
        None => None,
    };
    let query = Query { session: args.session.clone(), path, since_ms: args.since };
    let mut lines = 0;
    for state in states()? {
        lines += print_all(&state, &query, args.json)?;
    }
    if lines == 0 && !args.json {
        say("ringfence: the audit has nothing of that");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what was asked for, and says how many lines that were.
fn print_all(state: &AbsPath, query: &Query, json: bool) -> Result<usize, Failure> {
    let read = |source| Failure::Read { path: os_path(&state.join("audit")).into(), source };
    let (found, unread) = Audit::of(state).query(query).map_err(read)?;
    for stored in &found {
        if json { print_line(stored)? } else { print(&(words::event(&stored.event) + "\n"))? }
    }
    if unread > 0 {
        say(&format!("ringfence: {unread} lines could not be read; `ringfence audit verify` says more"));
    }
    Ok(found.len())
}

/// One object to a line, as in the audit itself.
fn print_line(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|source| Failure::Json { source })?;
    print(&(crate::out::safe_json(&text) + "\n"))
}

#[derive(Debug, Serialize)]
struct Verified {
    schema: u32,
    audits: Vec<One>,
}

#[derive(Debug, Serialize)]
struct One {
    place: String,
    whole: bool,
    lines: u64,
    removed: u64,
    last: String,
    problems: Vec<String>,
    remarks: Vec<String>,
}

fn verify(known: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
    let known = known.map(parse_known).transpose()?;
    let mut audits = Vec::new();
    for (number, state) in states()?.iter().enumerate() {
        let place = state.join("audit");
        let read = |source| Failure::Read { path: os_path(&place).into(), source };
        // A line is known of the user's own audit.
        let known = known.as_ref().filter(|_| number == 0);
        let report = Audit::of(state).verify(known).map_err(read)?;
        audits.push(One {
            place: place.to_string(),
            whole: report.problems.is_empty(),
            lines: report.lines,
            removed: report.removed,
            last: format!("{}:{}", report.n, report.hash),
            problems: report.problems,
            remarks: report.remarks,
        });
    }
    let is_whole = audits.iter().all(|one| one.whole);
    if json {
        print_json(&Verified { schema: SCHEMA, audits })?;
    } else {
        for one in &audits {
            let judged = if one.whole { "whole" } else { "NOT WHOLE" };
            let removed = match one.removed {
                0 => String::new(),
                more => format!(" but for {more} that were removed for room"),
            };
            print(&format!("{}: {judged}{removed}, {} lines, the last is {}\n", one.place, one.lines, one.last))?;
            print(&one.problems.iter().map(|problem| format!("  wrong: {problem}\n")).collect::<String>())?;
            print(&one.remarks.iter().map(|remark| format!("  note: {remark}\n")).collect::<String>())?;
        }
    }
    Ok(ExitCode::from(u8::from(!is_whole)))
}

fn parse_known(text: &str) -> Result<Known, Failure> {
    let parsed = text.split_once(':').and_then(|(n, hash)| {
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(Known { n: n.parse().ok()?, hash: hash.to_ascii_lowercase() }).filter(|_| is_hash)
    });
    parsed.ok_or_else(|| Failure::KnownLine { text: text.to_owned() })
}

/// Everything that happened in one session.
pub(crate) fn logs(args: &LogsArgs) -> Result<ExitCode, Failure> {
    let (state, found) = any(&args.session)?;
    let (id, live) = match found {
        Found::Live(live) => (live.id.clone(), Some(live)),
        Found::Past(past) => (past.about.id, None),
    };
    // Asked for first: what happens between the two is told twice rather than not at all.
    let unheard = |source| Failure::Control { id: id.clone(), source };
    let connection = match live.filter(|_| args.follow) {
        Some(live) => {
            let mut connection = Connection::open(&live.dir).map_err(unheard)?;
            connection.ask(Verb::Subscribe {}).map_err(unheard)?;
            Some(connection)
        }
        None => None,
    };
    let query = Query { session: Some(id.clone()), path: None, since_ms: None };
    print_all(&state, &query, args.json)?;
    let Some(mut connection) = connection else { return Ok(ExitCode::SUCCESS) };
    connection.wait_for_ever().map_err(unheard)?;
    while let Ok(Some(answer)) = connection.hear() {
        if let Answer::Event { happened } = answer {
            tell(&happened, args.json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(event: &Event, json: bool) -> Result<(), Failure> {
    if json { print_line(event) } else { print(&(words::event(event) + "\n")) }
}
