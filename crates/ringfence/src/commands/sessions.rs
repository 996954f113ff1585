//! The commands about sessions: which there are, what happened in them, their end.

mod approve;
mod audit;
mod grant;
mod list;
mod violations;
mod words;

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ringfence_session::container::sweep;
use ringfence_session::desk::{Answer, Connection, Verb};
use ringfence_session::review::{self, Review};
use ringfence_session::store::{self, FindError, Found, Live};
use ringfence_session::temporary;
use ringfence_session::text::Bytes;
use ringfence_session::worktree::{self, Finished};
use ringfence_surface::AbsPath;

use crate::cli::{GcArgs, ModeArg, ModeArgs, OneArgs};
use crate::error::Failure;
use crate::host::{os_path, own_state};
use crate::out::{print, print_json, say};
use crate::wire::SCHEMA;

pub(crate) use approve::{approve, deny};
pub(crate) use audit::{audit, logs};
pub(crate) use grant::{Want, What, give, grant, mode_of, revoke, surface_of};
pub(crate) use list::{Row, ps, row, rows, show};
pub(crate) use violations::{Denied, denied, violations};

/// Where sessions keep their state: the user's own place, and for root the one that others can go through.
pub(super) fn states() -> Result<Vec<AbsPath>, Failure> {
    // A session can be listed and ended from a directory that has been removed, as its work tree may have been.
    let mut states = vec![own_state().ok_or(Failure::NoHome)?];
    let ours = AbsPath::root().join("var/lib/ringfence");
    if rustix::process::geteuid().is_root() && !states.contains(&ours) && os_path(&ours).is_dir() {
        states.push(ours);
    }
    Ok(states)
}

/// The live session that is meant, and where its state is.
pub(super) fn live(prefix: &str) -> Result<(AbsPath, Live), Failure> {
    first(prefix, |state| store::find(state, prefix))
}

/// The session that is meant, alive or not.
pub(super) fn any(prefix: &str) -> Result<(AbsPath, Found), Failure> {
    first(prefix, |state| store::find_any(state, prefix))
}

fn first<T>(prefix: &str, find: impl Fn(&AbsPath) -> Result<T, FindError>) -> Result<(AbsPath, T), Failure> {
    let mut worst = FindError::NotFound { prefix: prefix.to_owned() };
    for state in states()? {
        match find(&state) {
            Ok(found) => return Ok((state, found)),
            Err(FindError::NotFound { .. }) => {}
            Err(other) => worst = other,
        }
    }
    Err(Failure::Find { source: worst })
}

/// Asks a session's supervisor.
pub(super) fn ask(live: &Live, verb: Verb) -> Result<Answer, Failure> {
    let unheard = |source: io::Error| {
        let id = live.id.clone();
        // As it ends it hangs up, and its socket goes.
        let is_gone = matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionReset);
        if is_gone { Failure::Find { source: FindError::Ended { id } } } else { Failure::Control { id, source } }
    };
    match Connection::open(&live.dir).and_then(|mut connection| connection.ask(verb)).map_err(unheard)? {
        Answer::Refused { why, hint } => Err(Failure::Refused { why, hint }),
        answer => Ok(answer),
    }
}

/// Another mode for a session's tool calls.
pub(crate) fn mode(args: &ModeArgs) -> Result<ExitCode, Failure> {
    let (_, live) = live(&args.session)?;
    let word = match args.mode {
        ModeArg::AcceptEdits => "accept-edits",
        ModeArg::Auto => "auto",
    };
    ask(&live, Verb::Mode { mode: word.to_owned() })?;
    if args.json {
        print_json(&serde_json::json!({ "schema": SCHEMA, "id": live.id, "mode": word }))?;
    } else {
        say(&format!("ringfence: session {} is in mode {word} from its next tool call on", live.id));
    }
    Ok(ExitCode::SUCCESS)
}

/// How long `stop` waits for the end. The supervisor asks, ends and kills within six seconds, and then removes the session's files.
const STOPPING: Duration = Duration::from_secs(30);

/// Ends a session: the command is asked to, after two seconds told, and after two more killed by the kernel. Says whether it ended.
pub(crate) fn stop(args: &OneArgs) -> Result<ExitCode, Failure> {
    let (_, live) = live(&args.session)?;
    ask(&live, Verb::Stop {})?;
    let until = Instant::now() + STOPPING;
    while live.is_running() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let has_ended = !live.is_running();
    if args.json {
        print_json(&serde_json::json!({ "schema": SCHEMA, "id": live.id, "asked": true, "ended": has_ended }))?;
    } else if has_ended {
        say(&format!("ringfence: session {} has ended", live.id));
    } else {
        let supervisor = live.about.as_ref().map(|about| format!(": `kill -KILL {}` ends its supervisor", about.pid));
        let (id, time, hint) = (&live.id, STOPPING.as_secs(), supervisor.unwrap_or_default());
        say(&format!("ringfence: session {id} was asked to end {time} s ago and still runs{hint}"));
    }
    Ok(ExitCode::from(u8::from(!has_ended)))
}

/// Stops everything in a session.
pub(crate) fn pause(args: &OneArgs) -> Result<ExitCode, Failure> {
    hold(args, Verb::Pause {}, "is paused; `ringfence resume` lets it go on")
}

/// Lets it go on.
pub(crate) fn resume(args: &OneArgs) -> Result<ExitCode, Failure> {
    hold(args, Verb::Resume {}, "goes on")
}

fn hold(args: &OneArgs, verb: Verb, said: &str) -> Result<ExitCode, Failure> {
    let is_paused = verb == Verb::Pause {};
    let (_, live) = live(&args.session)?;
    ask(&live, verb)?;
    if args.json {
        print_json(&serde_json::json!({ "schema": SCHEMA, "id": live.id, "paused": is_paused }))?;
    } else {
        say(&format!("ringfence: session {} {said}", live.id));
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes what killed sessions left.
pub(crate) fn gc(args: &GcArgs) -> Result<ExitCode, Failure> {
    let (mut killed, mut left, mut containers, mut worktrees) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut roots, mut reviews, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for state in states()? {
        let collected = store::gc(&state);
        names.extend(temporary::sweep(&state));
        review::remove_rest(&state);
        let swept = sweep(&state, |id| store::find(&state, id).is_ok());
        containers.extend(swept.removed);
        left.extend(swept.silent.iter().map(|engine| format!("containers of {engine}, which does not answer")));
        killed.extend(collected.killed);
        left.extend(collected.left.iter().map(ToString::to_string));
        for id in review::waiting(&state).into_iter().filter(|_| args.all) {
            match Review::find(std::slice::from_ref(&state), Some(&id), None).and_then(|review| review.discard(&[])) {
                Ok(_) => reviews.push(id),
                Err(cause) => left.push(format!("the changes of session {id}: {cause}")),
            }
        }
        worktrees.extend(worktree::collect(&state, std::time::Duration::from_secs(60)));
    }
    // Sessions first: what theirs is in a root goes when they are gone.
    if let Ok(found) = super::root::here().map(|roots| roots.gc()) {
        roots.extend(found.removed);
        left.extend(found.left.iter().map(ToString::to_string));
    }
    if args.json {
        let trees: Vec<serde_json::Value> = worktrees
            .iter()
            .map(|left| {
                let kept = match &left.finished {
                    Finished::Removed => None,
                    Finished::Kept { why } => Some(why),
                };
                let tree = Bytes::new(left.tree.as_bytes());
                serde_json::json!({ "session": left.session, "worktree": tree, "branch": left.branch, "kept": kept })
            })
            .collect();
        print_json(&serde_json::json!({
            "schema": SCHEMA, "collected": killed, "containers": containers, "roots": roots, "reviews": reviews, "left": left, "worktrees": trees,
            "temporary": names.iter().map(|path| Bytes::new(path.as_bytes())).collect::<Vec<_>>(),
        }))?;
    } else {
        let lines = killed.iter().map(|id| format!("collected {id}\n"));
        let lines = lines.chain(names.iter().map(|path| format!("removed {path}, which a killed command left\n")));
        let lines = lines.chain(containers.iter().map(|id| format!("removed the container of {id}\n")));
        let lines = lines.chain(roots.iter().map(|name| format!("collected root {name}\n")));
        let lines = lines.chain(reviews.iter().map(|id| format!("discarded the changes of {id}\n")));
        let lines = lines.chain(left.iter().map(|path| format!("left {path}\n")));
        print(&lines.chain(worktrees.iter().map(|left| super::run::worktree::words(left) + "\n")).collect::<String>())?;
    }
    Ok(ExitCode::from(u8::from(!left.is_empty())))
}
