//! `ringfence violations`: what was denied, in one session or in all.

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;

use ringfence_session::audit::{Audit, Event, Query};
use ringfence_session::desk::{Answer, Connection, Verb};
use ringfence_session::store::{self, Found};
use ringfence_session::violations::{Counted, Violation};
use ringfence_surface::{AbsPath, Shown};
use serde::Serialize;

use super::words::moment;
use super::{any, states};
use crate::cli::ViolationsArgs;
use crate::error::Failure;
use crate::host::os_path;
use crate::out::{print, safe_json, say};

/// One of them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Denied {
    pub(crate) session: String,
    at_ms: u64,
    #[serde(flatten)]
    counted: Counted,
}

pub(crate) fn violations(args: &ViolationsArgs) -> Result<ExitCode, Failure> {
    let Some(session) = &args.session else {
        let mut count = 0;
        for state in states()? {
            count += list(&state, None, args)?;
        }
        tell_if_none(count, args);
        return Ok(ExitCode::SUCCESS);
    };
    let (state, found) = any(session)?;
    let (id, live) = match found {
        Found::Live(live) => (live.id.clone(), Some(live)),
        Found::Past(past) => (past.about.id, None),
    };
    // Asked for first: what happens between the two is told twice rather than not at all.
    let unheard = |source| Failure::Control { id: id.clone(), source };
    let mut connection = None;
    if let Some(live) = live.filter(|_| args.follow) {
        let mut open = Connection::open(&live.dir).map_err(unheard)?;
        open.ask(Verb::Subscribe {}).map_err(unheard)?;
        connection = Some(open);
    }
    let count = list(&state, Some(&id), args)?;
    let Some(mut connection) = connection else {
        tell_if_none(count, args);
        return Ok(ExitCode::SUCCESS);
    };
    connection.wait_for_ever().map_err(unheard)?;
    while let Ok(Some(answer)) = connection.hear() {
        if let Answer::Event { happened } = answer
            && let Some(row) = row(*happened)
        {
            tell(&row, Life::Runs, args)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn tell_if_none(count: usize, args: &ViolationsArgs) {
    if count == 0 && !args.json {
        say("ringfence: nothing was denied");
    }
}

/// How many there were.
fn list(state: &AbsPath, session: Option<&str>, args: &ViolationsArgs) -> Result<usize, Failure> {
    let read = |source| Failure::Read { path: os_path(state).into(), source };
    let live: HashSet<String> = store::sessions(state).map_err(read)?.into_iter().map(|live| live.id).collect();
    let life = |row: &Denied| if live.contains(&row.session) { Life::Runs } else { Life::Ended };
    let rows = denied(state, session, None)?;
    rows.iter().try_for_each(|row| tell(row, life(row), args))?;
    Ok(rows.len())
}

/// What the audit has: each kind once in a session, as it was last told.
pub(crate) fn denied(state: &AbsPath, session: Option<&str>, since_ms: Option<u64>) -> Result<Vec<Denied>, Failure> {
    let query = Query { session: session.map(str::to_owned), since_ms, ..Query::all() };
    let read = |source| Failure::Read { path: os_path(state).into(), source };
    let (stored, _) = Audit::of(state).query(&query).map_err(read)?;
    let mut rows: Vec<Denied> = Vec::new();
    let mut known = HashMap::new();
    for new in stored.into_iter().filter_map(|stored| row(stored.event)) {
        let Violation { tried, why, rule, .. } = &new.counted.violation;
        let kind = (new.session.clone(), tried.clone(), why.clone(), rule.clone());
        match known.get(&kind).filter(|_| !new.counted.violation.is_rest) {
            // What a hook said is written down each time; the others say how often it was.
            Some(at) => {
                let row: &mut Denied = &mut rows[*at];
                row.counted.times = new.counted.times.max(row.counted.times + u64::from(new.counted.times == 1));
            }
            None => {
                known.insert(kind, rows.len());
                rows.push(new);
            }
        }
    }
    Ok(rows)
}

fn row(event: Event) -> Option<Denied> {
    let (session, at_ms) = (event.session.unwrap_or_default(), event.at_ms);
    Violation::of_event(event.what).map(|counted| Denied { session, at_ms, counted })
}

/// Does a session go on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Runs,
    Ended,
}

fn tell(row: &Denied, life: Life, args: &ViolationsArgs) -> Result<(), Failure> {
    if args.json {
        let text = serde_json::to_string(row).map_err(|source| Failure::Json { source })?;
        return print(&(safe_json(&text) + "\n"));
    }
    let Denied { session, at_ms, counted } = row;
    let layer = counted.violation.layer.word();
    let line = match life {
        Life::Runs => counted.violation.line(counted.times),
        Life::Ended => counted.violation.line_afterwards(counted.times),
    };
    print(&format!("{} {} {layer} {line}\n", moment(*at_ms), Shown(session.as_bytes())))
}
