//! The sessions, as the API shows and changes them. What the command line would refuse is refused here for the same reason.

use std::path::Path;

use ringfence_plan::claims;
use ringfence_session::approvals::Scope;
use ringfence_session::audit::{Audit, Query, Stored, What};
use ringfence_session::desk::{Answer as Said, Given, Gives, Verb};
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
use crate::commands::sessions::{self, Denied, Row, Want, What as Gift};
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
    /// What was denied, each kind once.
    violations: Vec<Denied>,
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
    let mut violations = sessions::denied(&state, Some(id), since)?;
    violations.retain(|one| one.session == id);
    let violations = violations.split_off(violations.len().saturating_sub(MOST_VIOLATIONS));
    let whole = Whole {
        schema: SCHEMA,
        row,
        mode: record.as_ref().and_then(|record| record.agent.as_ref().map(|_| mode_word(record.mode))),
        surface: record.as_ref().map(|record| WireSurface::new(&record.surface)),
        claims: record.iter().flat_map(|record| claims(&record.surface)).map(|claim| claim.to_string()).collect(),
        receipt: receipt(&state, id, &events),
        violations,
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

/// What is to be given: a place or a host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewGrant {
    /// A place to read.
    #[serde(default)]
    read: Option<Bytes>,
    /// A place to read and write.
    #[serde(default)]
    write: Option<Bytes>,
    /// A host to reach.
    #[serde(default)]
    host: Option<String>,
    /// For how long.
    #[serde(default)]
    for_ms: Option<u64>,
}

pub(super) fn grant(id: &str, asked: NewGrant, managed: &Path) -> Result<Answer, Answer> {
    let wrong = |why: &str| Answer::problem(400, why, None);
    if asked.for_ms == Some(0) {
        return Err(wrong("`for_ms` is no time"));
    }
    let path;
    let absolute = |place: &Bytes| {
        let path = place.bytes().filter(|path| path.starts_with(b"/") && !path.contains(&0));
        path.ok_or_else(|| wrong("not an absolute path"))
    };
    let (what, word) = match (&asked.read, &asked.write, &asked.host) {
        (Some(place), None, None) => {
            path = absolute(place)?;
            (Gift::Place(&path, Gives::Read), "read")
        }
        (None, Some(place), None) => {
            path = absolute(place)?;
            (Gift::Place(&path, Gives::Write), "write")
        }
        (None, None, Some(host)) => (Gift::Host(host), "host"),
        _ => return Err(wrong("one of `read`, `write` and `host` is given")),
    };
    let live = live(id)?;
    let granted = sessions::give(&live, &Want { what, for_ms: asked.for_ms }, managed)?;
    let n = given_to(&live)?.iter().find(|given| given.path == granted.what).map(|given| given.n);
    let answer = json!({
        "schema": SCHEMA, "id": id, "n": n, word: granted.what, "denied_in_it": granted.masked,
        "hidden": granted.hidden,
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
    let verb = match given.access.as_str() {
        "reach" => Verb::RevokeHost { host: given.path.shown() },
        _ => Verb::Revoke { path: given.path.clone() },
    };
    sessions::ask(&live, verb)?;
    Ok(Answer::json(200, &json!({ "schema": SCHEMA, "id": id, "n": given.n, "revoked": given.path })))
}

/// Asks the supervisor for something that it only has to be told.
pub(super) fn tell(id: &str, verb: Verb) -> Result<Answer, Answer> {
    let is_paused = match verb {
        Verb::Pause {} => Some(true),
        Verb::Resume {} => Some(false),
        _ => None,
    };
    sessions::ask(&live(id)?, verb)?;
    Ok(match is_paused {
        Some(paused) => Answer::json(200, &json!({ "schema": SCHEMA, "id": id, "paused": paused })),
        None => Answer::json(202, &json!({ "schema": SCHEMA, "id": id, "asked": true })),
    })
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

/// What waits for an answer, and what was said yes to.
pub(super) fn approvals(id: &str) -> Result<Answer, Answer> {
    match sessions::ask(&live(id)?, Verb::Approvals {})? {
        Said::Approvals { asks, waiting, approved } => {
            let answer = json!({ "schema": SCHEMA, "id": id, "asks": asks, "waiting": waiting, "approved": approved });
            Ok(Answer::json(200, &answer))
        }
        _ => Err(Answer::problem(503, "the supervisor answers something else", None)),
    }
}

/// An answer to a question of the session.
#[derive(Debug, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum NewAnswer {
    /// A yes.
    Approve {
        /// To which question.
        question: u64,
        /// For how long; without it, once.
        #[serde(default = "once")]
        scope: Scope,
    },
    /// A no, or the end of a yes.
    Deny {
        /// To which question.
        question: u64,
    },
}

fn once() -> Scope {
    Scope::Once {}
}

pub(super) fn answer(id: &str, said: NewAnswer) -> Result<Answer, Answer> {
    let (question, approved, verb) = match said {
        NewAnswer::Approve { question, scope: Scope::For { ms: 0 } } => {
            let why = format!("`ms` is no time, and question {question} waits");
            return Err(Answer::problem(400, &why, None));
        }
        NewAnswer::Approve { question, scope } => (question, true, Verb::Approve { id: question, scope }),
        NewAnswer::Deny { question } => (question, false, Verb::Deny { id: question }),
    };
    sessions::ask(&live(id)?, verb)?;
    let answer = json!({ "schema": SCHEMA, "id": id, "question": question, "approved": approved });
    Ok(Answer::json(200, &answer))
}
