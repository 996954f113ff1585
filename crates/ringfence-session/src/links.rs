//! Names that lead past a guard: links, where whoever mounts follows them, and second names of files inside a guarded directory.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use ringfence_plan::{Claim, Findings, Found, LayerName, Shortfall};
use ringfence_surface::{AbsPath, Standing, Surface};

use crate::walk::os_path;

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

/// Files in guarded directories that have another name somewhere, by which they are not guarded. A directory with more names than
/// anybody waits for is named itself.
pub(crate) fn second_names(findings: &Findings) -> Vec<AbsPath> {
    let denied = findings.denied.iter().filter(|(_, kind)| *kind == Found::Directory).map(|(path, _)| path);
    // What is inside is another /proc, and no file there has a second name.
    let proc = AbsPath::root().join("proc");
    let guarded = denied.chain(&findings.protected).filter(|path| !path.is_within(&proc));
    let mut ahead: Vec<AbsPath> = guarded.cloned().collect();
    let (mut found, mut looked_at) = (Vec::new(), 0);
    while let Some(dir) = ahead.pop() {
        let is_directory = fs::symlink_metadata(os_path(&dir)).is_ok_and(|status| status.is_dir());
        if !is_directory {
            continue;
        }
        for entry in fs::read_dir(os_path(&dir)).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > MOST_NAMES {
                found.push(dir);
                return found;
            }
            let Ok(status) = entry.metadata() else { continue };
            let path = dir.child(entry.file_name().as_bytes());
            match status.is_dir() {
                true => ahead.push(path),
                false if status.is_file() && status.nlink() > 1 => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}
