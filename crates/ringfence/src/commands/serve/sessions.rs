//! The sessions, as the API shows and changes them. What the command line would refuse is refused here for the same reason.

use std::path::Path;

use ringfence_plan::claims;
use ringfence_session::audit::{Audit, Query, Stored, What};
use ringfence_session::desk::{Answer as Said, Given, Verb};
use ringfence_session::given;
use ringfence_session::record::Record;
use ringfence_session::store::{FindError, Found, Live};
use ringfence_session::text::Bytes;
use ringfence_surface::AbsPath;
use ringfence_surface::policy::Mode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::Answer;
use super::request::Request;
use crate::commands::sessions::{self, Row, Want};
use crate::error::Failure;
use crate::host::os_path;
use crate::wire::SCHEMA;
use crate::wire::plan::WireSurface;

/// More of what was stopped is not shown at once; the newest are.
const MOST_VIOLATIONS: usize = 1_000;

pub(super) fn list(request: &Request) -> Result<Answer, Answer> {
    let all = match request.parameters(&["all"])?.first() {
        None | Some((_, "false")) => false,
        Some((_, "true")) => true,
        Some(_) => return Err(Answer::problem(400, "`all` is `true` or `false`", None)),
    };
    let rows = sessions::rows(all)?;
    Ok(Answer::json(200, &json!({ "schema": SCHEMA, "sessions": rows })))
}

/// The session of this whole name, alive or not, and where its state is.
pub(super) fn any(id: &str) -> Result<(AbsPath, Found), Answer> {
    let none = || Failure::Find { source: FindError::NotFound { prefix: id.to_owned() } };
    match sessions::any(id) {
        Ok((state, found)) if name_of(&found) == id => Ok((state, found)),
        // Here a name is whole: what begins like another's is nobody's.
        Ok(_) | Err(Failure::Find { source: FindError::Ambiguous { .. } }) => Err(none().into()),
        Err(failure) => Err(failure.into()),
    }
}

fn name_of(found: &Found) -> &str {
    match found {
        Found::Live(live) => &live.id,
        Found::Past(past) => &past.about.id,
    }
}

fn live(id: &str) -> Result<Live, Answer> {
    match any(id)?.1 {
        Found::Live(live) => Ok(*live),
        Found::Past(_) => Err(Failure::Find { source: FindError::Ended { id: id.to_owned() } }.into()),
    }
}

/// All that is known of one session.
#[derive(Debug, Serialize)]
struct Whole {
    schema: u32,
    #[serde(flatten)]
    row: Row,
    /// How much tool calls are held back.
    mode: Option<&'static str>,
    /// What it may touch, with what was given to it. Of one that has ended it is not kept.
    surface: Option<WireSurface>,
    /// What it claims.
    claims: Vec<String>,
    /// What holds and what does not, as far as it was written down: all of it where `--receipt` asked for that.
    receipt: Value,
    violations: Vec<Stored>,
}

pub(super) fn one(id: &str) -> Result<Answer, Answer> {
    let (state, found) = any(id)?;
    let record = match &found {
        Found::Live(live) => Record::read(&given::dir(&live.dir).join(given::RECORD)).ok(),
        Found::Past(_) => None,
    };
    let row = sessions::row(found);
    let since = row.session.as_ref().map(|about| about.started_ms);
    let query = Query { session: Some(id.to_owned()), path: None, since_ms: since };
    let read = |source| Failure::Read { path: os_path(&state.join("audit")).into(), source };
    let (mut events, _) = Audit::of(&state).query(&query).map_err(read)?;
    events.retain(|stored| stored.event.session.as_deref() == Some(id));
    let whole = Whole {
        schema: SCHEMA,
        row,
        mode: record.as_ref().and_then(|record| record.agent.as_ref().map(|_| mode_word(record.mode))),
        surface: record.as_ref().map(|record| WireSurface::new(&record.surface)),
        claims: record.iter().flat_map(|record| claims(&record.surface)).map(|claim| claim.to_string()).collect(),
        receipt: receipt(&state, id, &events),
        violations: violations(events),
    };
    Ok(Answer::json(200, &whole))
}

fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::AcceptEdits => "accept-edits",
        Mode::Auto => "auto",
    }
}

/// The whole receipt, where it was asked for at the start; otherwise what the audit has of it.
fn receipt(state: &AbsPath, id: &str, events: &[Stored]) -> Value {
    let kept = std::fs::read(os_path(&state.join("receipts").join(&format!("{id}.json"))));
    if let Some(kept) = kept.ok().and_then(|text| serde_json::from_slice(&text).ok()) {
        return kept;
    }
    let said = events.iter().rev().find_map(|stored| match &stored.event.what {
        What::Receipt { shortfalls, withheld, .. } => Some(json!({ "shortfalls": shortfalls, "withheld": withheld })),
        _ => None,
    });
    said.unwrap_or(Value::Null)
}

/// What was stopped, refused or not given.
fn violations(mut events: Vec<Stored>) -> Vec<Stored> {
    events.retain(|stored| is_violation(&stored.event.what));
    events.split_off(events.len().saturating_sub(MOST_VIOLATIONS))
}

fn is_violation(what: &What) -> bool {
    matches!(what, What::Violation { .. } | What::Verdict { allowed: false, .. } | What::GrantRefused { .. })
}

fn given_to(live: &Live) -> Result<Vec<Given>, Answer> {
    match sessions::ask(live, Verb::Status {})? {
        Said::Status { grants, .. } => Ok(grants),
        _ => Err(Answer::problem(503, "the supervisor answers something else", None)),
    }
}

pub(super) fn grants(id: &str) -> Result<Answer, Answer> {
    let grants = given_to(&live(id)?)?;
    Ok(Answer::json(200, &json!({ "schema": SCHEMA, "id": id, "grants": grants })))
}

/// What is to be given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewGrant {
    /// A place to read.
    read: Bytes,
    /// For how long.
    #[serde(default)]
    for_ms: Option<u64>,
}

pub(super) fn grant(id: &str, asked: NewGrant, managed: &Path) -> Result<Answer, Answer> {
    let wrong = |why: &str| Answer::problem(400, why, None);
    let path = asked.read.bytes().filter(|path| path.starts_with(b"/") && !path.contains(&0));
    let path = path.ok_or_else(|| wrong("`read` is not an absolute path"))?;
    if asked.for_ms == Some(0) {
        return Err(wrong("`for_ms` is no time"));
    }
    let live = live(id)?;
    let want = Want { read: &path, for_ms: asked.for_ms };
    let granted = sessions::give(&live, &want, managed)?;
    let n =
        given_to(&live)?.iter().find(|given| given.path.path().as_ref() == Some(&granted.path)).map(|given| given.n);
    let read = Bytes::new(granted.path.as_bytes());
    let answer = json!({
        "schema": SCHEMA, "id": id, "n": n, "read": read, "denied_in_it": granted.masked, "hidden": granted.hidden,
    });
    Ok(Answer::json(201, &answer))
}

pub(super) fn revoke(id: &str, n: &str) -> Result<Answer, Answer> {
    let live = live(id)?;
    let number: Option<u64> = n.parse().ok();
    let given = given_to(&live)?.into_iter().find(|given| Some(given.n) == number);
    let Some(given) = given else {
        return Err(Answer::problem(404, "the session has no grant of this number", None));
    };
    sessions::ask(&live, Verb::Revoke { path: given.path.clone() })?;
    Ok(Answer::json(200, &json!({ "schema": SCHEMA, "id": id, "n": given.n, "revoked": given.path })))
}

pub(super) fn stop(id: &str) -> Result<Answer, Answer> {
    sessions::ask(&live(id)?, Verb::Stop {})?;
    Ok(Answer::json(202, &json!({ "schema": SCHEMA, "id": id, "asked": true })))
}

/// Another mode.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewMode {
    mode: NamedMode,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NamedMode {
    AcceptEdits,
    Auto,
}

pub(super) fn mode(id: &str, asked: NewMode) -> Result<Answer, Answer> {
    let mode = match asked.mode {
        NamedMode::AcceptEdits => mode_word(Mode::AcceptEdits),
        NamedMode::Auto => mode_word(Mode::Auto),
    };
    sessions::ask(&live(id)?, Verb::Mode { mode: mode.to_owned() })?;
    Ok(Answer::json(200, &json!({ "schema": SCHEMA, "id": id, "mode": mode })))
}
