//! `ringfence learn --shrink`: grants that the last sessions made no use of.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use ringfence_session::audit::{Audit, Query, What};
use ringfence_session::store;
use ringfence_surface::Shown;
use ringfence_surface::learn::{self, Addition, Kept, Risk, Session, Unused};
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use serde::Serialize;

use super::Policy;
use crate::cli::LearnArgs;
use crate::diff;
use crate::error::{Failure, LearnFailure};
use crate::host::os_path;
use crate::out::{print, print_json, say};
use crate::wire::{Bytes, SCHEMA};

#[derive(Debug, Serialize)]
struct Wire {
    schema: u32,
    policy: Bytes,
    /// How many sessions were looked at.
    sessions: usize,
    /// How many recorded nothing.
    unrecorded: usize,
    unused: Vec<WireGrant>,
    kept: Vec<WireGrant>,
    diff: String,
}

#[derive(Debug, Serialize)]
struct WireGrant {
    key: String,
    value: String,
    why: String,
    /// Sessions that made use of it; none where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instead: Option<String>,
}

pub(super) fn run(args: &LearnArgs, policy: &Policy, managed: &Path) -> Result<ExitCode, Failure> {
    let failed = |source| Failure::Learn { source };
    let text = policy.text.as_deref().ok_or_else(|| failed(LearnFailure::NoFile))?;
    let surface = policy.saying(text, &args.policy, managed)?;
    // Places in the text are compared, so both must be read from the same one.
    let parsed = PolicyText::new(policy.path.as_bytes(), text.as_bytes().to_vec())
        .map_err(|said| Failure::Policy { said: vec![said] })?;
    let file = PolicyFile::parse(&parsed).map_err(|said| Failure::Policy { said })?;
    let (sessions, unrecorded) = sessions(args, policy, surface.root())?;
    let (unused, kept) = learn::unused(&file, &surface, &sessions);
    let mut after = text.to_owned();
    // From the end to the beginning: what stands before keeps its place.
    let mut by_place: Vec<&Unused> = unused.iter().collect();
    by_place.sort_by_key(|unused| std::cmp::Reverse(unused.grant.span.start));
    let edit = |source| failed(LearnFailure::Edit { path: policy.path.clone(), source });
    for unused in &by_place {
        after = learn::remove(&after, &unused.grant).map_err(edit)?;
    }
    let moved: Vec<Addition> = unused.iter().filter_map(moved).collect();
    after = learn::add(Some(&after), &moved, surface.packs()).map_err(edit)?;
    if let Some(what) = learn::gained(&surface, &policy.saying(&after, &args.policy, managed)?) {
        return Err(failed(LearnFailure::Widens { path: policy.path.clone(), what }));
    }
    let name = policy.path.to_string();
    let diff = if after == text { String::new() } else { diff::unified(Some(text), Some(&after), &name) };
    if args.json {
        print_json(&Wire {
            schema: SCHEMA,
            policy: Bytes::new(policy.path.as_bytes()),
            sessions: sessions.len(),
            unrecorded,
            unused: unused.iter().map(of_unused).collect(),
            kept: kept.iter().map(of_kept).collect(),
            diff,
        })?;
    } else {
        tell(&unused, &kept, sessions.len(), unrecorded);
        print(&diff)?;
    }
    if args.write && !unused.is_empty() {
        policy.write(&after, args, managed)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn moved(unused: &Unused) -> Option<Addition> {
    Some(Addition {
        key: unused.instead?,
        value: unused.grant.value.clone(),
        reason: unused.why.clone(),
        risk: Risk::Low,
        because: "it could be read before; whether it was is not recorded",
        covers: Vec::new(),
    })
}

/// What the last sessions of this project recorded, since the policy was last changed; and how many recorded nothing.
fn sessions(
    args: &LearnArgs,
    policy: &Policy,
    project: &ringfence_surface::AbsPath,
) -> Result<(Vec<Session>, usize), Failure> {
    let state = policy.facts.own_directories().state.ok_or(Failure::NoHome)?;
    let unread = |source| Failure::Read { path: os_path(&state).into(), source };
    let changed = std::fs::metadata(os_path(&policy.path)).map_err(unread)?;
    let changed_ms = u64::try_from(changed.mtime() * 1000 + changed.mtime_nsec() / 1_000_000).unwrap_or_default();
    let (past, _) = store::past(&state).map_err(unread)?;
    let (events, _) = Audit::of(&state).query(&Query::all()).map_err(unread)?;
    let mut used: HashMap<String, Session> = HashMap::new();
    for stored in events {
        if let (Some(id), What::Used { reached, written, is_cut }) = (stored.event.session, stored.event.what) {
            used.insert(id, Session { reached, is_cut, written });
        }
    }
    let of_project = past
        .into_iter()
        .filter(|past| past.about.project.path().as_ref() == Some(project) && past.about.started_ms >= changed_ms);
    let (mut sessions, mut unrecorded) = (Vec::new(), 0);
    for past in of_project {
        if sessions.len() == args.sessions {
            break;
        }
        match used.remove(&past.about.id) {
            Some(session) => sessions.push(session),
            None => unrecorded += 1,
        }
    }
    Ok((sessions, unrecorded))
}

fn tell(unused: &[Unused], kept: &[Kept], sessions: usize, unrecorded: usize) {
    let shown = |value: &str| Shown(value.as_bytes()).to_string();
    if sessions == 0 {
        say("ringfence: no session of this project is recorded since its policy was changed, so nothing can be said");
    } else {
        let sessions = if sessions == 1 { "1 session".to_owned() } else { format!("{sessions} sessions") };
        say(&format!("ringfence: looked at {sessions} of this project since its policy was changed"));
    }
    if unrecorded > 0 {
        say(&format!("ringfence: {unrecorded} more recorded nothing: killed, run by `learn`, or of an older version"));
    }
    for one in unused {
        let instead = one.instead.map(|key| format!("; moved to {key}")).unwrap_or_default();
        say(&format!("ringfence: unused: {} \"{}\": {}{instead}", one.grant.key, shown(&one.grant.value), one.why));
    }
    for one in kept {
        let word = if one.used.is_some() { "used" } else { "unknown" };
        say(&format!("ringfence: {word}: {} \"{}\": {}", one.grant.key, shown(&one.grant.value), one.why));
    }
}

fn of_unused(unused: &Unused) -> WireGrant {
    WireGrant {
        key: unused.grant.key.to_string(),
        value: unused.grant.value.clone(),
        why: unused.why.clone(),
        used: Some(0),
        instead: unused.instead.map(|key| key.to_string()),
    }
}

fn of_kept(kept: &Kept) -> WireGrant {
    let (key, value) = (kept.grant.key.to_string(), kept.grant.value.clone());
    WireGrant { key, value, why: kept.why.clone(), used: kept.used, instead: None }
}
