//! What a session gives to the agent: a directory that can be read inside at its own path, and never written.
//!
//! It holds the session's [record](crate::record), ringfence itself under a path that the agent cannot change, and whatever
//! settings a client is started with. Where ringfence can be read inside and not written, that path is a link to it. Where it
//! cannot, it is mounted there: that costs one mount.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;

use ringfence_plan::{LandlockRule, MountOp, Rights, Rung};
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Access, Surface};

use crate::text::Bytes;
use crate::walk::os_path;

/// The session's record.
pub const RECORD: &str = "record";

/// What was given to the session while it runs, beside its record.
pub const GRANTS: &str = "grants";

/// What takes its place in one step.
pub(crate) const NEW_GRANTS: &str = "grants.new";

/// How much tool calls are held back, where it was changed since.
pub const MODE: &str = "mode";

/// What takes its place in one step.
const NEW_MODE: &str = "mode.new";

/// ringfence itself.
pub const PROGRAM: &str = "ringfence";

/// How many claims fall short, where a client may show it.
pub const SHORTFALLS: &str = "shortfalls";

/// How often something was denied, where a client may show it.
pub const DENIED: &str = "denied";

/// What takes its place in one step.
const NEW_DENIED: &str = "denied.new";

/// Where the hook says what it refused.
pub const VERDICTS: &str = "verdicts";

/// What every session is given.
pub(crate) const FILES: [&str; 3] = [RECORD, PROGRAM, VERDICTS];

/// The places that were given to a session since it began, the oldest first.
///
/// # Errors
/// When the list is there and cannot be read.
pub fn grants(given: &AbsPath) -> io::Result<Vec<AbsPath>> {
    let text = match fs::read(os_path(&given.join(GRANTS))) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let paths: Vec<Bytes> = serde_json::from_slice(&text)?;
    paths.iter().map(|path| path.path().ok_or_else(|| io::ErrorKind::InvalidData.into())).collect()
}

/// Says what is given now, whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn keep_grants(session: &AbsPath, paths: &[Bytes]) -> io::Result<()> {
    keep(session, [NEW_GRANTS, GRANTS], &serde_json::to_vec(paths)?)
}

/// How much tool calls are held back, where that was changed since the session began.
///
/// # Errors
/// When it was, and what it is cannot be read.
pub fn mode(given: &AbsPath) -> io::Result<Option<Mode>> {
    match fs::read(os_path(&given.join(MODE))) {
        Ok(word) => mode_of(&word).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into()),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// The mode of this name.
pub(crate) fn mode_of(word: &[u8]) -> Option<Mode> {
    match word {
        b"accept-edits" => Some(Mode::AcceptEdits),
        b"auto" => Some(Mode::Auto),
        _ => None,
    }
}

/// Says what the mode is now.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn keep_mode(session: &AbsPath, word: &str) -> io::Result<()> {
    keep(session, [NEW_MODE, MODE], word.as_bytes())
}

/// Says how often something was denied so far.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn keep_denied(session: &AbsPath, count: u64) -> io::Result<()> {
    keep(session, [NEW_DENIED, DENIED], count.to_string().as_bytes())
}

fn keep(session: &AbsPath, names: [&str; 2], content: &[u8]) -> io::Result<()> {
    let [new, place] = names.map(|name| dir(session).join(name));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(os_path(&new))?;
    io::Write::write_all(&mut file, content)?;
    fs::rename(os_path(&new), os_path(&place))
}

/// What is given, in a session's directory.
pub fn dir(session: &AbsPath) -> AbsPath {
    session.join("given")
}

/// How ringfence can be started inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Not at all.
    Not,
    /// By a link.
    Linked,
    /// It is mounted.
    Mounted(MountOp),
    /// By a link, and Landlock must let it be read.
    Admitted(LandlockRule),
}

/// Puts ringfence itself among what is given.
///
/// # Errors
/// When its own path cannot be found, or the place cannot be made.
pub(crate) fn program(surface: &Surface, rung: Rung, session: &AbsPath) -> io::Result<Reached> {
    let path = dir(session).join(PROGRAM);
    let source = fs::read_link("/proc/self/exe").map_err(|cause| match cause.kind() {
        kind @ io::ErrorKind::NotFound => io::Error::new(kind, "/proc is not there"),
        _ => cause,
    })?;
    let source = AbsPath::lexical(source.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let may = |access| surface.decide(&source, access).is_allowed();
    let is_safe = may(Access::Read) && !may(Access::Write);
    if is_safe || !rung.has_view() {
        rustix::fs::symlink(source.as_bytes(), path.as_bytes())?;
        let rule = LandlockRule { path: source, rights: Rights::Read };
        return Ok(if rung.has_view() { Reached::Linked } else { Reached::Admitted(rule) });
    }
    // Something to mount over.
    fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(os_path(&path))?;
    Ok(Reached::Mounted(MountOp::Program { path, source }))
}
