//! `ringfence diff`, `apply` and `discard`: what a session under review changed, and what becomes of it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use ringfence_session::review::{Change, Changes, Contents, Force, Node, Review, What};
use ringfence_session::text::{Bytes, human};
use ringfence_surface::{AbsPath, Shown};
use serde::Serialize;

use super::sessions::states;
use crate::cli::{ApplyArgs, DiffArgs, DiscardArgs};
use crate::diff::unified;
use crate::error::{Failure, ReviewFailure};
use crate::out::{print, print_json, say};
use crate::wire::SCHEMA;

/// A larger file is named only.
const MOST_SHOWN: u64 = 1 << 20;
/// The size of a file is printed from here on.
const LARGE: u64 = 1 << 20;
/// More names than this are counted only.
const MOST_NAMED: usize = 20;

/// One change in JSON.
#[derive(Debug, Serialize)]
struct Row {
    path: Bytes,
    change: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modes: Option<[String; 2]>,
    /// Whether the host changed it since the session began.
    conflict: bool,
    /// The length of the new file, and what it takes on the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated: Option<u64>,
    /// Which rule does not let it be applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl Row {
    fn of(change: &Change) -> Self {
        Self {
            path: Bytes::new(change.path.as_bytes()),
            change: change.what.word(),
            kind: change.node.word(),
            was: change.was.map(Node::word),
            modes: change.modes.map(|(old, new)| [format!("{old:03o}"), format!("{new:03o}")]),
            conflict: change.is_conflict,
            bytes: change.size().map(|size| size.length),
            allocated: change.size().map(|size| size.allocated),
            refused: change.refused.clone(),
        }
    }
}

pub(crate) fn diff(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let review = find(args.session.as_deref())?;
    let paths = absolute(&args.paths)?;
    let mut changes = review.changes();
    let is_chosen = |path: &AbsPath| paths.is_empty() || paths.iter().any(|chosen| path.is_within(chosen));
    changes.changes.retain(|change| is_chosen(&change.path));
    changes.skipped.retain(|(path, _)| is_chosen(path));
    if args.json {
        let (added, changed, deleted) = changes.counts();
        let rows: Vec<Row> = changes.changes.iter().map(Row::of).collect();
        print_json(&serde_json::json!({
            "schema": SCHEMA, "session": review.id(), "running": review.is_live(),
            "project": Bytes::new(review.project().as_bytes()),
            "added": added, "changed": changed, "deleted": deleted, "changes": rows, "skipped": named(&changes.skipped),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for change in &changes.changes {
        if args.stat {
            print(&line(change))?;
        } else {
            print(&difference(&review, change))?;
        }
    }
    for (path, why) in &changes.skipped {
        say(&format!("ringfence: cannot be applied: {path}: {}", Shown(why.as_bytes())));
    }
    let sizes = changes.changes.iter().filter_map(Change::size);
    let total = sizes.fold(0_u64, |total, size| total.saturating_add(size.allocated));
    let total = if total >= LARGE { format!(", {} on the disk", human(total)) } else { String::new() };
    say(&format!("ringfence: session {}: {}{total}", review.id(), counted(&changes)));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn apply(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let review = find(args.session.as_deref())?;
    let (id, paths) = (review.id().to_owned(), absolute(&args.paths)?);
    let force = if args.force { Force::Yes } else { Force::No };
    let report = review.apply(&paths, force).map_err(failed)?;
    let is_whole = report.conflicts.is_empty()
        && report.refused.is_empty()
        && report.failed.is_empty()
        && report.skipped.is_empty();
    if args.json {
        let failed: Vec<(AbsPath, String)> =
            report.failed.iter().map(|(path, cause)| (path.clone(), cause.to_string())).collect();
        let conflicts: Vec<Bytes> = report.conflicts.iter().map(|path| Bytes::new(path.as_bytes())).collect();
        print_json(&serde_json::json!({
            "schema": SCHEMA, "session": id, "applied": report.applied.iter().map(Row::of).collect::<Vec<_>>(),
            "conflicts": conflicts, "refused": named(&report.refused), "failed": named(&failed),
            "skipped": named(&report.skipped), "left": report.left,
            "gained": report.gained.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::from(u8::from(!is_whole)));
    }
    few(&report.conflicts, |path| {
        format!("ringfence: left alone, changed on the host since the session began: {path}")
    });
    few(&report.refused, |(path, rule)| format!("ringfence: never applied: {path}: {}", Shown(rule.as_bytes())));
    few(&report.failed, |(path, cause)| format!("ringfence: not applied: {path}: {cause}"));
    few(&report.skipped, |(path, why)| format!("ringfence: cannot be applied: {path}: {}", Shown(why.as_bytes())));
    few(&report.gained, |gain| format!("ringfence: git: {gain}"));
    let applied = Changes { changes: report.applied, skipped: Vec::new() };
    say(&format!("ringfence: applied: {}", counted(&applied)));
    if !report.conflicts.is_empty() {
        say(&format!(
            "ringfence: `ringfence apply --force {id} PATH` writes over it, `ringfence discard {id} PATH` keeps the host's"
        ));
    } else if report.left > 0 {
        say(&format!("ringfence: {} changes still wait: `ringfence diff {id}`", report.left));
    }
    Ok(ExitCode::from(u8::from(!is_whole)))
}

pub(crate) fn discard(args: &DiscardArgs) -> Result<ExitCode, Failure> {
    let review = find(args.session.as_deref())?;
    let (id, paths) = (review.id().to_owned(), absolute(&args.paths)?);
    let (dropped, left) = review.discard(&paths).map_err(failed)?;
    if args.json {
        print_json(&serde_json::json!({ "schema": SCHEMA, "session": id, "discarded": dropped, "left": left }))?;
    } else {
        let changes = if dropped == 1 { "change" } else { "changes" };
        say(&format!("ringfence: session {id}: {dropped} {changes} discarded, {left} left"));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is said when a session under review has ended.
pub(super) fn ended(review: &Review, changes: &Changes) -> String {
    let id = review.id();
    format!(
        "ringfence: {} wait for a review: `ringfence diff {id}`, `ringfence apply {id}`, `ringfence discard {id}`",
        counted(changes)
    )
}

fn find(session: Option<&str>) -> Result<Review, Failure> {
    let here = std::env::current_dir().ok().and_then(|dir| AbsPath::lexical(dir.as_os_str().as_bytes()).ok());
    Review::find(&states()?, session, here.as_ref()).map_err(failed)
}

fn failed(source: ringfence_session::review::ReviewError) -> Failure {
    Failure::Review { source: ReviewFailure::Itself(source) }
}

/// Paths as typed, seen from here. No link in them is followed: what changes is named as the session named it.
fn absolute(paths: &[OsString]) -> Result<Vec<AbsPath>, Failure> {
    let one = |path: &OsString| {
        let whole = std::path::absolute(path).map_err(|source| Failure::Read { path: path.into(), source })?;
        AbsPath::lexical(whole.as_os_str().as_bytes()).map_err(|source| Failure::Path { source })
    };
    paths.iter().map(one).collect()
}

fn named(all: &[(AbsPath, String)]) -> Vec<serde_json::Value> {
    let one = |(path, why): &(AbsPath, String)| serde_json::json!({ "path": Bytes::new(path.as_bytes()), "why": why });
    all.iter().map(one).collect()
}

fn few<T>(all: &[T], words: impl Fn(&T) -> String) {
    all.iter().take(MOST_NAMED).for_each(|one| say(&words(one)));
    if all.len() > MOST_NAMED {
        say(&format!("ringfence: and {} more", all.len() - MOST_NAMED));
    }
}

fn counted(changes: &Changes) -> String {
    let (added, changed, deleted) = changes.counts();
    format!("{added} added, {changed} changed, {deleted} deleted")
}

/// A change in one line.
fn line(change: &Change) -> String {
    let mut text = format!("{:<8} {}", change.what.word(), change.path);
    if change.node == Node::Directory {
        text.push('/');
    }
    text += &notes(change);
    text + "\n"
}

fn notes(change: &Change) -> String {
    let mut text = String::new();
    if let Some(was) = change.was {
        text += &format!(" ({} in the place of a {})", change.node.word(), was.word());
    } else if change.node == Node::Link {
        text += " (a link)";
    }
    match change.size() {
        // A file with holes.
        Some(size) if size.length >= LARGE && size.allocated < size.length / 2 => {
            text += &format!(" ({}, {} on the disk)", human(size.length), human(size.allocated));
        }
        Some(size) if size.length >= LARGE => text += &format!(" ({})", human(size.length)),
        _ => {}
    }
    if let Some((old, new)) = change.modes {
        text += &format!(" (mode {old:03o} to {new:03o})");
    }
    if change.is_conflict {
        text += " (changed on the host since the session began)";
    }
    if let Some(rule) = &change.refused {
        text += &format!(" (never applied: {})", Shown(rule.as_bytes()));
    }
    text
}

/// A change as a unified diff, below a line that says what it is.
fn difference(review: &Review, change: &Change) -> String {
    let heading = line(change);
    if change.node == Node::Directory || change.node == Node::Other {
        return heading;
    }
    let name = change.path.to_string();
    match review.contents(change, MOST_SHOWN) {
        Ok(Contents { old: Some(old), new: Some(new) }) if old == new => heading,
        Ok(Contents { old: Some(old), new: Some(new) }) => {
            let is_text = |bytes: &[u8]| !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok();
            if !is_text(&old) || !is_text(&new) {
                return heading.trim_end().to_owned() + " (binary)\n";
            }
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_default();
            let (old, new) = (text(old), text(new));
            let old = (change.what != What::Added).then_some(old);
            let new = (change.what != What::Deleted).then_some(new);
            heading + &unified(old.as_deref(), new.as_deref(), &name)
        }
        Ok(_) => heading.trim_end().to_owned() + " (too large to be shown)\n",
        Err(cause) => heading.trim_end().to_owned() + &format!(" (cannot be shown: {cause})\n"),
    }
}
