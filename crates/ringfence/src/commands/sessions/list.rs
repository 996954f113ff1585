//! `ringfence ps` and `ringfence show`.

use std::process::ExitCode;

use ringfence_session::desk::{Answer, Given, Verb};
use ringfence_session::review;
use ringfence_session::store::{self, About, Found, Live, Past};
use ringfence_session::text::now_ms;
use ringfence_surface::Shown;
use serde::Serialize;

use super::words::{age, command, kinds, moment};
use super::{any, ask, states};
use crate::cli::{OneArgs, PsArgs};
use crate::error::Failure;
use crate::host::os_path;
use crate::out::{print, print_json, say};
use crate::wire::SCHEMA;

/// A session in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) id: String,
    state: &'static str,
    /// How its fence is.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<Sandbox>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<About>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    /// Why nothing more is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grants: Option<Vec<Given>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    denied: Option<u64>,
    /// Why it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<String>,
    /// Whether it has ended, and what it changed waits for a review.
    #[serde(skip_serializing_if = "Option::is_none")]
    to_review: Option<bool>,
}

/// How a session's fence is.
#[derive(Debug, Serialize)]
struct Sandbox {
    /// How it was built.
    backend: String,
    /// `whole`, `short` where something that was asked for does not hold, `none` where there is no fence.
    status: &'static str,
    /// What does not hold, in words.
    shortfalls: Vec<String>,
}

impl Sandbox {
    fn of(about: &About) -> Self {
        let status = match about.rung.as_str() {
            "none" => "none",
            _ if about.shortfalls.is_empty() => "whole",
            _ => "short",
        };
        Self { backend: about.rung.clone(), status, shortfalls: about.shortfalls.clone() }
    }
}

#[derive(Debug, Serialize)]
struct Answered {
    schema: u32,
    sessions: Vec<Row>,
}

/// The sessions that run, and if asked for those that have ended.
pub(crate) fn rows(all: bool) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for state in states()? {
        let read = |source| Failure::Read { path: os_path(&state).into(), source };
        rows.extend(store::sessions(&state).map_err(read)?.into_iter().map(running));
        if all {
            let waiting = review::waiting(&state);
            let past = store::past(&state).map_err(read)?.0.into_iter().map(ended);
            rows.extend(past.map(|row| Row { to_review: waiting.contains(&row.id).then_some(true), ..row }));
        }
    }
    Ok(rows)
}

/// One session, and what was given to it, if it runs and its supervisor says so.
pub(crate) fn row(found: Found) -> Row {
    match found {
        Found::Past(past) => ended(*past),
        Found::Live(live) => {
            let now = ask(&live, Verb::Status {}).ok();
            let mut row = running(*live);
            if let Some(Answer::Status { grants, stopped, denied, paused, .. }) = now {
                (row.grants, row.stopped) = (Some(grants), Some(stopped as u64));
                (row.denied, row.paused) = (Some(denied), paused);
            }
            row.state = if row.paused.is_some() { "paused" } else { "running" };
            row
        }
    }
}

pub(crate) fn ps(args: &PsArgs) -> Result<ExitCode, Failure> {
    let rows = rows(args.all)?;
    if args.json {
        print_json(&Answered { schema: SCHEMA, sessions: rows })?;
        return Ok(ExitCode::SUCCESS);
    }
    // Beyond this a long name moves its own line only.
    const WIDEST: usize = 40;
    let widths = rows.iter().filter_map(|row| Some(row.session.as_ref()?.project.shown().chars().count()));
    let width = widths.max().unwrap_or_default().clamp("PROJECT".len(), WIDEST);
    let mut text = String::new();
    match (rows.is_empty(), args.all) {
        (false, _) => text.push_str(&format!("SESSION   STATE     AGE   {:<width$}  COMMAND\n", "PROJECT")),
        (true, true) => say("ringfence: there is no session"),
        (true, false) => say("ringfence: no session runs; `ringfence ps --all` lists those that have ended too"),
    }
    text.extend(rows.iter().map(|row| line(row, width)));
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn show(args: &OneArgs) -> Result<ExitCode, Failure> {
    let (state, found) = any(&args.session)?;
    let mut row = row(found);
    row.to_review = review::waiting(&state).contains(&row.id).then_some(true);
    if args.json {
        print_json(&Answered { schema: SCHEMA, sessions: vec![row] })?;
    } else {
        print(&in_words(&row))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn running(live: Live) -> Row {
    let paused = live.paused();
    let (session, unknown) = match live.about {
        Ok(about) => (Some(about), None),
        Err(cause) => (None, Some(cause.to_string())),
    };
    let sandbox = session.as_ref().map(Sandbox::of);
    Row {
        id: live.id,
        state: if paused.is_some() { "paused" } else { "running" },
        sandbox,
        session,
        ended_ms: None,
        code: None,
        unknown,
        grants: None,
        stopped: None,
        denied: None,
        paused,
        to_review: None,
    }
}

fn ended(past: Past) -> Row {
    Row {
        id: past.about.id.clone(),
        state: if past.code.is_some() { "ended" } else { "killed" },
        sandbox: Some(Sandbox::of(&past.about)),
        session: Some(past.about),
        ended_ms: Some(past.ended_ms),
        code: past.code,
        unknown: None,
        grants: None,
        stopped: Some(past.stopped),
        denied: None,
        paused: None,
        to_review: None,
    }
}

fn line(row: &Row, width: usize) -> String {
    let Some(about) = &row.session else {
        return format!("{:<9} {:<9} {}\n", row.id, row.state, row.unknown.as_deref().unwrap_or_default());
    };
    let state = match row.code {
        Some(code) => format!("exit {code}"),
        None => row.state.to_owned(),
    };
    let age = age(now_ms().saturating_sub(about.started_ms));
    let review = if row.to_review.is_some() { "  (changes to review)" } else { "" };
    let project = about.project.shown();
    format!("{:<9} {state:<9} {age:<5} {project:<width$}  {}{review}\n", row.id, command(&about.command))
}

fn in_words(row: &Row) -> String {
    let mut lines = vec![format!("session   {}", row.id), format!("state     {}", row.state)];
    if let Some(why) = &row.unknown {
        lines.push(format!("unknown   {why}"));
    }
    if let Some(about) = &row.session {
        lines.push(format!("command   {}", command(&about.command)));
        lines.push(format!("project   {}", about.project.shown()));
        lines.push(format!("workdir   {}", about.workdir.shown()));
        lines.push(format!("fence     {}", about.rung));
        lines.push(format!("pid       {}", about.pid));
        lines.push(format!("started   {}", moment(about.started_ms)));
        lines.extend(about.watches.iter().map(|watch| format!("watch     {}", Shown(watch.as_bytes()))));
        lines.extend(about.shortfalls.iter().map(|short| format!("not held  {short}")));
    }
    lines.extend(row.ended_ms.map(|ms| format!("ended     {}", moment(ms))));
    lines.extend(row.code.map(|code| format!("code      {code}")));
    lines.extend(row.stopped.map(|count| match count {
        0 => "stopped   nothing".to_owned(),
        more => format!("stopped   {}; `ringfence violations {}`", kinds(more), row.id),
    }));
    lines.extend(row.to_review.map(|_| format!("changes   wait for a review: `ringfence diff {}`", row.id)));
    lines.extend(row.paused.as_ref().map(|why| format!("paused    {}", Shown(why.as_bytes()))));
    for grant in row.grants.iter().flatten() {
        let until = grant.until_ms.map(|ms| format!(" until {}", moment(ms))).unwrap_or_default();
        lines.push(format!("granted   {} {}{until}", grant.access, grant.path.shown()));
    }
    lines.join("\n") + "\n"
}
