//! `ringfence approve` and `ringfence deny`: what waits for an answer, and the answers.

use std::path::Path;
use std::process::ExitCode;

use ringfence_session::approvals::{Approved, Question, Scope, Subject};
use ringfence_session::desk::{Answer, Verb};
use ringfence_session::store::{self, Live};
use ringfence_session::text::now_ms;
use serde::Serialize;

use super::grant::{Want, What, give};
use super::{ask, live, states};
use crate::cli::{ApproveArgs, DenyArgs, Lasting};
use crate::error::Failure;
use crate::host::os_path;
use crate::out::{print, print_json, say};
use crate::wire::SCHEMA;

/// What waits in one session.
#[derive(Debug, Serialize)]
struct Waiting {
    id: String,
    asks: bool,
    waiting: Vec<Question>,
    approved: Vec<Approved>,
}

#[derive(Debug, Serialize)]
struct Listed {
    schema: u32,
    sessions: Vec<Waiting>,
}

pub(crate) fn approve(args: &ApproveArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let (session, Some(number)) = which(&args.which)? else {
        return list(args.which.first().map(String::as_str), args.json);
    };
    let live = session.map_or_else(|| the_one_with(number), |name| Ok(live(name)?.1))?;
    let scope = scope(&args.lasting);
    give_host(&live, number, scope, managed)?;
    ask(&live, Verb::Approve { id: number, scope })?;
    if args.json {
        let answer = serde_json::json!({ "schema": SCHEMA, "id": live.id, "question": number, "scope": scope });
        print_json(&answer)?;
    } else {
        say(&format!("ringfence: session {} may, {} (question {number})", live.id, scope.words()));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn deny(args: &DenyArgs) -> Result<ExitCode, Failure> {
    let (session, Some(number)) = which(&args.which)? else { return Err(no_number()) };
    let live = session.map_or_else(|| the_one_with(number), |name| Ok(live(name)?.1))?;
    ask(&live, Verb::Deny { id: number })?;
    if args.json {
        print_json(&serde_json::json!({ "schema": SCHEMA, "id": live.id, "question": number, "denied": true }))?;
    } else {
        say(&format!("ringfence: session {} may not (question {number})", live.id));
    }
    Ok(ExitCode::SUCCESS)
}

/// A host is given as `ringfence grant --host` gives it, for as long as was said; then what waits for it goes on. Once is a minute:
/// a program looks a name up before it uses it.
fn give_host(live: &Live, number: u64, scope: Scope, managed: &Path) -> Result<(), Failure> {
    let waiting = waiting(live)?.waiting;
    let Some(Subject::Host { host }) = waiting.into_iter().find(|one| one.id == number).map(|one| one.subject) else {
        return Ok(());
    };
    let for_ms = match scope {
        Scope::Once {} | Scope::Command {} => Some(60_000),
        Scope::Session {} => None,
        Scope::For { ms } => Some(ms),
    };
    give(live, &Want { what: What::Host(&host), for_ms }, managed).map(drop)
}

fn scope(lasting: &Lasting) -> Scope {
    match *lasting {
        Lasting { for_ms: Some(ms), .. } => Scope::For { ms },
        Lasting { session: true, .. } => Scope::Session {},
        Lasting { command: true, .. } => Scope::Command {},
        Lasting { .. } => Scope::Once {},
    }
}

/// A session and the number of a question. Names of sessions have eight letters and digits; a shorter number is a question's.
fn which(words: &[String]) -> Result<(Option<&str>, Option<u64>), Failure> {
    let number = |word: &String| word.parse::<u64>().ok();
    match words {
        [] => Ok((None, None)),
        [one] if one.len() < 8 && number(one).is_some() => Ok((None, number(one))),
        [one] => Ok((Some(one), None)),
        [session, question, ..] => Ok((Some(session), Some(number(question).ok_or_else(no_number)?))),
    }
}

fn no_number() -> Failure {
    let hint = "`ringfence approve` lists what waits, with the number of each".to_owned();
    Failure::Refused { why: "the number of a question is needed".to_owned(), hint: Some(hint) }
}

/// Every session that runs and answers, with what waits in it.
fn all() -> Result<Vec<(Live, Waiting)>, Failure> {
    let mut found = Vec::new();
    for state in states()? {
        let read = |source| Failure::Read { path: os_path(&state).into(), source };
        // One that ends meanwhile has nothing to wait for.
        found.extend(store::sessions(&state).map_err(read)?.into_iter().filter_map(|live| {
            let waiting = waiting(&live).ok()?;
            Some((live, waiting))
        }));
    }
    Ok(found)
}

fn waiting(live: &Live) -> Result<Waiting, Failure> {
    match ask(live, Verb::Approvals {})? {
        Answer::Approvals { asks, waiting, approved } => Ok(Waiting { id: live.id.clone(), asks, waiting, approved }),
        _ => Err(Failure::Refused { why: "the session does not know of approvals".to_owned(), hint: None }),
    }
}

/// The session that has the question of this number, if there is one.
fn the_one_with(number: u64) -> Result<Live, Failure> {
    let has_it = |(_, found): &(Live, Waiting)| {
        found.waiting.iter().any(|question| question.id == number)
            || found.approved.iter().any(|approved| approved.id == number)
    };
    let mut having: Vec<(Live, Waiting)> = all()?.into_iter().filter(has_it).collect();
    let refused = |why: String, hint: &str| Err(Failure::Refused { why, hint: Some(hint.to_owned()) });
    match (having.pop(), having.is_empty()) {
        (Some((live, _)), true) => Ok(live),
        (Some(_), false) => refused(format!("more than one session has a question {number}"), "name the session too"),
        (None, _) => refused(format!("no session has a question {number}"), "`ringfence approve` lists what waits"),
    }
}

fn list(session: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
    let sessions = match session {
        Some(name) => vec![waiting(&live(name)?.1)?],
        None => all()?.into_iter().map(|(_, waiting)| waiting).collect(),
    };
    if json {
        print_json(&Listed { schema: SCHEMA, sessions })?;
        return Ok(ExitCode::SUCCESS);
    }
    if session.is_none() {
        nothing(&sessions).iter().for_each(|line| say(line));
    }
    for Waiting { id, asks, waiting, approved } in &sessions {
        for question in waiting {
            let left = question.until_ms.saturating_sub(now_ms()) / 1_000;
            print(&format!("{id} {} waits {left}s: {}\n", question.id, question.line()))?;
        }
        for approved in approved {
            print(&format!(
                "{id} {} approved {}: {}\n",
                approved.id,
                approved.scope.words(),
                approved.subject.words()
            ))?;
        }
        if session.is_some() && !asks {
            say(&format!("ringfence: session {id} asks nobody: it was started without `--ask`"));
        } else if session.is_some() && waiting.is_empty() {
            say(&format!("ringfence: nothing waits for an answer in session {id}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is said where nothing waits: an empty answer could also mean that something is wrong.
fn nothing(sessions: &[Waiting]) -> Option<&'static str> {
    if sessions.iter().any(|one| !one.waiting.is_empty()) {
        None
    } else if sessions.is_empty() {
        Some("ringfence: nothing waits for an answer: no session runs")
    } else if sessions.iter().any(|one| one.asks) {
        Some("ringfence: nothing waits for an answer")
    } else {
        Some("ringfence: nothing waits for an answer: no session was started with `--ask`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_answer_is_said() {
        let waiting = |asks| Waiting { id: "x".to_owned(), asks, waiting: Vec::new(), approved: Vec::new() };
        assert!(nothing(&[]).is_some_and(|line| line.ends_with("no session runs")));
        assert!(nothing(&[waiting(false)]).is_some_and(|line| line.ends_with("`--ask`")));
        assert!(nothing(&[waiting(false), waiting(true)]).is_some_and(|line| line.ends_with("an answer")));
    }

    #[test]
    fn k12_sessions_and_numbers() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (text, expected) in [
            ("", Some((None, None))),
            ("12", Some((None, Some(12)))),
            ("abcd", Some((Some("abcd"), None))),
            ("22345678", Some((Some("22345678"), None))),
            ("abcd 3", Some((Some("abcd"), Some(3)))),
            ("2 3", Some((Some("2"), Some(3)))),
            ("abcd x", None),
        ] {
            let words = words(text);
            let found = which(&words).ok();
            assert_eq!(found, expected, "{text}");
        }
    }
}
