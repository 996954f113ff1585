//! Names that lead past a guard: links, where whoever mounts follows them, and second names of files inside a guarded directory.

use std::fs;

use ringfence_plan::{Claim, Findings, Found, LayerName, Shortfall};
use ringfence_surface::{AbsPath, Access, Cursor, Effect, Standing, Surface, follow};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use crate::hard_links::LinkedFiles;
use crate::look::Live;
use crate::visible::{Ground, Visible};
use crate::walk::{Guard, os_path};

/// How many names inside guarded directories are looked at.
const MOST_NAMES: usize = 10_000;

/// What was found without links, and what is not held for that. Bubblewrap follows a link to where it leads and mounts there, so
/// the link itself would stay as it is.
pub(crate) fn without_links(surface: &Surface, findings: &Findings) -> (Findings, Vec<Shortfall>) {
    let is_link = |path: &AbsPath| fs::symlink_metadata(os_path(path)).is_ok_and(|found| found.is_symlink());
    let (links, denied): (Vec<_>, Vec<_>) = findings.denied.iter().cloned().partition(|(path, _)| is_link(path));
    let (more, protected): (Vec<_>, Vec<_>) = findings.protected.iter().cloned().partition(is_link);
    let links = links.into_iter().map(|(path, _)| path).chain(more);
    let mut short: Vec<Shortfall> = links.filter_map(|path| not_held(surface, &path)).collect();
    short.dedup();
    (Findings { denied, protected }, short)
}

fn not_held(surface: &Surface, path: &AbsPath) -> Option<Shortfall> {
    let claim = match surface.cursor(&path.parent()?).standing(path.file_name()?) {
        Standing::Open => return None,
        Standing::Protected(rule) => Claim::Protected { pattern: rule.pattern.to_string() },
        Standing::Denied(rule) => Claim::Denied { pattern: rule.pattern.to_string() },
    };
    let reason = format!("{path} is a link, and whoever mounts for us guards only where it leads");
    Some(Shortfall { claim, layer: LayerName::Mounts, reason })
}

/// What is not held since a link was there before anybody could refuse it: rules guard its name, or begin with it, and what it leads
/// to is under those of its own path. Nothing where these guard it too, or where it is not shown.
pub(crate) fn leads_past(
    surface: &Surface,
    visible: &Visible<'_>,
    cursor: &Cursor<'_>,
    dir: &AbsPath,
    name: &[u8],
) -> Option<Shortfall> {
    let (rule, is_whole) = match cursor.standing(name) {
        Standing::Denied(rule) | Standing::Protected(rule) => (rule, true),
        Standing::Open => (cursor.begins(name)?, false),
    };
    let target = follow(dir, name, &mut Live::new()).ok()?.path;
    let (access, list) = match rule.effect {
        Effect::Protect => (Access::Write, "protect"),
        _ => (Access::Read, "deny"),
    };
    let Some(Ground::Host { is_writable }) = visible.ground(&target) else { return None };
    let is_alike = || !is_whole && cursor.enter(name).adds_nothing_to(&surface.cursor(&target));
    if (access == Access::Write && !is_writable) || !surface.decide(&target, access).is_allowed() || is_alike() {
        return None;
    }
    let rule = &rule.pattern;
    let reason = format!("it is a link to {target}, and `{rule}` does not hold there; name that in `{list}` too");
    Some(Shortfall { claim: Claim::OneName { path: dir.child(name).to_string() }, layer: LayerName::Mounts, reason })
}

/// Notes the files in guarded directories that have several names. A directory with too many names is noted
/// itself.
pub(crate) fn second_names(findings: &Findings, linked: &mut LinkedFiles) {
    let denied = findings.denied.iter().filter(|(_, kind)| *kind == Found::Directory).map(|(path, _)| path);
    // What is inside is another /proc, and no file there has a second name.
    let proc = AbsPath::root().join("proc");
    let denied = denied.map(|path| (path, Guard::Deny));
    let guarded = denied.chain(findings.protected.iter().map(|path| (path, Guard::Protect)));
    let guarded = guarded.filter(|(path, _)| !path.is_within(&proc));
    let mut ahead: Vec<(AbsPath, Guard)> = guarded.map(|(path, guard)| (path.clone(), guard)).collect();
    let mut looked_at = 0;
    while let Some((dir, guard)) = ahead.pop() {
        let hold = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(open) = rustix::fs::open(os_path(&dir), hold, Mode::empty()) else { continue };
        for entry in Dir::read_from(&open).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            looked_at += 1;
            if looked_at > MOST_NAMES {
                linked.note_unsearched(dir);
                return;
            }
            let Ok(status) = rustix::fs::statat(&open, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let path = dir.child(name.to_bytes());
            match FileType::from_raw_mode(status.st_mode) {
                FileType::Directory => ahead.push((path, guard)),
                _ => linked.note(&path, &status, guard),
            }
        }
    }
}
