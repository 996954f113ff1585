//! Is a root still what was made?
//!
//! What the kernel says of each file is kept beside the manifest: its number, its size and when it last changed. The time of
//! change cannot be set by anybody, and that of a directory tells whether a name came or went. So a look at each is enough where
//! nothing changed; what did is read and compared with its hash.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use ringfence_surface::AbsPath;

use super::make::{PIPE_MODE, hash};
use super::manifest::{Entry, Kind, Manifest};
use super::within;
use crate::walk::os_path;

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What changed since the last look.
    Changed,
    /// Everything.
    Everything,
}

/// What the kernel said of one entry: number, size, mode, time of the last change.
type Stamp = (u64, u64, u32, i64, i64);

fn stamp(found: &fs::Metadata) -> Stamp {
    (found.ino(), found.size(), found.mode(), found.ctime(), found.ctime_nsec())
}

/// Compares a root with its manifest. Returns what differs, each in a few words.
pub(crate) fn check(manifest: &Manifest, tree: &AbsPath, stamps: &Path, depth: Depth) -> io::Result<Vec<String>> {
    let known: Vec<Stamp> = match depth {
        Depth::Changed => fs::read(stamps).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default(),
        Depth::Everything => Vec::new(),
    };
    let mut now = Vec::with_capacity(manifest.entries.len() + 1);
    let (mut wrong, mut is_new) = (Vec::new(), known.len() != manifest.entries.len() + 1);
    let names = std::cell::OnceCell::new();
    let names = || names.get_or_init(|| Names::of(manifest));
    let top = Entry { path: crate::text::Bytes::new(b"/"), kind: Kind::Directory };
    for (at, entry) in std::iter::once(&top).chain(&manifest.entries).enumerate() {
        let Some(path) = entry.path() else {
            wrong.push("a path that is none".to_owned());
            continue;
        };
        let place = within(tree, &path);
        let Ok(found) = fs::symlink_metadata(os_path(&place)) else {
            wrong.push(format!("{path} is gone"));
            continue;
        };
        now.push(stamp(&found));
        // What a substitute holds does not count, only that it is one.
        if entry.kind != Kind::Substitute && known.get(at) == now.last() {
            continue;
        }
        is_new = true;
        if let Some(why) = differs(entry, &path, &place, &found, names)? {
            wrong.push(format!("{path} {why}"));
        }
    }
    if wrong.is_empty() && is_new {
        // It only saves the next look some time.
        let _ = write(stamps, &now);
    }
    Ok(wrong)
}

fn write(stamps: &Path, now: &[Stamp]) -> io::Result<()> {
    let new = stamps.with_extension(format!("new-{}", std::process::id()));
    fs::write(&new, serde_json::to_vec(now)?)?;
    fs::rename(new, stamps)
}

fn differs<'n>(
    entry: &Entry,
    path: &AbsPath,
    place: &AbsPath,
    found: &fs::Metadata,
    names: impl Fn() -> &'n Names,
) -> io::Result<Option<String>> {
    let kind = found.file_type();
    let is_mode = |mode: u32| found.mode() & 0o7777 == mode;
    Ok(match &entry.kind {
        Kind::Directory if !kind.is_dir() => Some("is no directory"),
        Kind::Directory if !is_mode(0o755) => Some("has another mode"),
        Kind::Directory => return names().strangers(path, place),
        Kind::File { .. } | Kind::Substitute if !kind.is_file() => Some("is no file"),
        Kind::Substitute => (!is_mode(0o666)).then_some("has another mode"),
        Kind::File { executable, size, sha256 } => {
            if !is_mode(if *executable { 0o555 } else { 0o444 }) {
                Some("has another mode")
            } else if found.size() != *size || hash(File::open(os_path(place))?)? != *sha256 {
                Some("has another content")
            } else {
                None
            }
        }
        Kind::Pipe => (!kind.is_fifo() || !is_mode(PIPE_MODE)).then_some("is no pipe of ours"),
        Kind::Link { target } => {
            let says = fs::read_link(os_path(place)).ok();
            let says = says.map(|says| says.as_os_str().as_bytes().to_vec());
            (!kind.is_symlink() || says != target.bytes()).then_some("is another link")
        }
        Kind::Device { major, minor } => {
            let is_it = kind.is_char_device() && found.rdev() == rustix::fs::makedev(*major, *minor) && is_mode(0o666);
            (!is_it).then_some("is another device")
        }
    }
    .map(str::to_owned))
}

/// Every path that a manifest knows.
struct Names(BTreeSet<AbsPath>);

impl Names {
    fn of(manifest: &Manifest) -> Self {
        Self(manifest.entries.iter().filter_map(Entry::path).chain(manifest.places()).collect())
    }

    /// A name in this directory that nobody knows.
    fn strangers(&self, path: &AbsPath, place: &AbsPath) -> io::Result<Option<String>> {
        for entry in fs::read_dir(os_path(place))? {
            let name = entry?.file_name();
            if !self.0.contains(&path.child(name.as_bytes())) {
                let name = ringfence_surface::Shown(name.as_bytes()).to_string();
                return Ok(Some(format!("holds {name}, which is not in the manifest")));
            }
        }
        Ok(None)
    }
}
