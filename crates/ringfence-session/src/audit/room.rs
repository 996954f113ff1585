//! Makes room where more is kept than the limit allows: lines of the sessions that take the most of it go first.
//!
//! What a session's program caused goes, and what others did to it; never its start, its receipt or its end, and never a line of
//! another session. In the place of each run of lines stands one that has the number and the hash of the last of them, so the
//! chain can be verified across the gap. A line at the end of the chain records what was removed, and has the hash of all the
//! replacements: an attacker who removes lines in the same way is detected.
//!
//! Only parts that were put away are changed, each in one step, and a removal is recorded before it is carried out. A writer that is killed
//! in between has said more than was done; the next one makes the rest of the room.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};

use ringfence_surface::AbsPath;
use rustix::fs::OFlags;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::bound::Origin;
use super::log::{end_of, last_of, lines, note, open, parts};
use super::{Event, Line, Link, What, hash};
use crate::text::hex;
use crate::walk::os_path;

/// About how long a line is that stands in the place of others.
const STAND_IN: u64 = 300;

/// Removes lines until less than the limit is kept. `say` adds an event to the chain.
pub(super) fn make(dir: &AbsPath, most: u64, mut say: impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
    let length = |part: &AbsPath| fs::metadata(os_path(part)).map(|metadata| metadata.len());
    let all = parts(dir)?;
    let mut total = all.iter().map(length).sum::<io::Result<u64>>()?;
    if total <= most {
        return Ok(());
    }
    // So much is removed at once that the next writers need not look again.
    let heaviest = heaviest(&all, total.saturating_sub(most / 4 * 3))?;
    for part in &all {
        thin(part, &heaviest, &mut say)?;
    }
    // Where that is not enough nothing but starts and ends is left.
    total = all.iter().map(length).sum::<io::Result<u64>>()?;
    for old in &all {
        if total <= most {
            break;
        }
        total -= length(old)?;
        let (through, hash) = end_of(&last_of(old)?).unwrap_or_default();
        say(&note(What::Pruned { through, hash }))?;
        fs::remove_file(os_path(old))?;
    }
    Ok(())
}

/// A line that can be removed, as far as that must be known.
struct Removable {
    session: String,
    link: Link,
}

impl Removable {
    fn of(line: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Owner {
            session: String,
        }
        let what: What = serde_json::from_slice(line).ok()?;
        let link = serde_json::from_slice(line).ok()?;
        let Owner { session } = serde_json::from_slice(line).ok()?;
        (what.origin() != Origin::Session).then_some(Self { session, link })
    }
}

/// The sessions that take the most, until removing their lines gives so much room.
fn heaviest(parts: &[AbsPath], wanted: u64) -> io::Result<Vec<String>> {
    // In the order in which each came first: of two that weigh the same the older one goes.
    let mut weights: Vec<(String, u64)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for part in parts {
        let text = fs::read(os_path(part))?;
        let mut last: Option<String> = None;
        for line in lines(&text) {
            let Some(Removable { session, .. }) = Removable::of(line) else {
                last = None;
                continue;
            };
            let number = *known.entry(session.clone()).or_insert_with(|| {
                weights.push((session.clone(), 0));
                weights.len() - 1
            });
            let stand_in = if last.as_ref() == Some(&session) { 0 } else { STAND_IN };
            weights[number].1 += (line.len() as u64).saturating_sub(stand_in);
            last = Some(session);
        }
    }
    weights.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let mut room = 0;
    let is_needed = |(_, weight): &(String, u64)| {
        let is_needed = room < wanted && *weight > 0;
        room += weight;
        is_needed
    };
    Ok(weights.into_iter().take_while(is_needed).map(|(session, _)| session).collect())
}

/// What is removed of one session in one part.
struct Removed {
    lines: u64,
    bytes: u64,
    from: u64,
    through: u64,
    in_their_place: Sha256,
}

/// Removes the lines of these sessions from a part.
fn thin(part: &AbsPath, sessions: &[String], say: &mut impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
    let text = fs::read(os_path(part))?;
    let mut kept = Vec::with_capacity(text.len());
    let mut removed: BTreeMap<String, Removed> = BTreeMap::new();
    let mut run: Option<Run> = None;
    for line in lines(&text) {
        let removable = Removable::of(line).filter(|removable| sessions.contains(&removable.session));
        if let Some(ended) = run.take_if(|run| removable.as_ref().is_none_or(|next| next.session != run.session)) {
            ended.end(&mut kept, &mut removed)?;
        }
        let Some(Removable { session, link }) = removable else {
            kept.extend_from_slice(line);
            kept.push(b'\n');
            continue;
        };
        let run = run.get_or_insert_with(|| Run {
            session,
            first: link.n,
            prev: link.prev,
            last: (0, String::new()),
            lines: 0,
            bytes: 0,
        });
        (run.last, run.lines, run.bytes) = ((link.n, hash(line)), run.lines + 1, run.bytes + line.len() as u64 + 1);
    }
    if let Some(ended) = run {
        ended.end(&mut kept, &mut removed)?;
    }
    if removed.is_empty() {
        return Ok(());
    }
    for (of, removed) in removed {
        let Removed { lines, bytes, from, through, in_their_place } = removed;
        let in_their_place = hex(&in_their_place.finalize());
        say(&note(What::Thinned { of, lines, bytes, from, through, in_their_place }))?;
    }
    replace(part, &kept)
}

/// Lines that follow each other, of one session.
struct Run {
    session: String,
    first: u64,
    prev: String,
    last: (u64, String),
    lines: u64,
    bytes: u64,
}

impl Run {
    /// Puts a line in their place.
    fn end(self, kept: &mut Vec<u8>, removed: &mut BTreeMap<String, Removed>) -> io::Result<()> {
        let Self { session, first, prev, last: (through, hash), lines, bytes } = self;
        let event = Event { session: Some(session.clone()), ..note(What::Gone { through, hash }) };
        let mut line = serde_json::to_vec(&Line { n: first, prev: &prev, event: &event })?;
        line.push(b'\n');
        let all = removed.entry(session).or_insert_with(|| Removed {
            lines: 0,
            bytes: 0,
            from: first,
            through,
            in_their_place: Sha256::new(),
        });
        (all.lines, all.bytes, all.through) = (all.lines + lines, all.bytes + bytes, through);
        all.in_their_place.update(&line);
        kept.extend_from_slice(&line);
        Ok(())
    }
}

/// Puts another text in the place of a part, in one step. It stays as old as it was.
fn replace(part: &AbsPath, text: &[u8]) -> io::Result<()> {
    let modified = fs::metadata(os_path(part))?.modified()?;
    let new = AbsPath::lexical(&[part.as_bytes(), b".new"].concat()).map_err(io::Error::other)?;
    let mut file = open(&new, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
    file.write_all(text)?;
    file.set_modified(modified)?;
    rustix::fs::fdatasync(&file)?;
    fs::rename(os_path(&new), os_path(part))
}
