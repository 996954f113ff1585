//! What a session gives to the agent: a directory that can be read inside at its own path, and never written.
//!
//! It holds the session's [record](crate::record), ringfence itself under a path that the agent cannot change, and whatever
//! settings a client is started with. Where ringfence can be read inside and not written, that path is a link to it. Where it
//! cannot, it is mounted there: that costs one mount.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::Duration;

use ringfence_plan::{LandlockRule, MountOp, Rights, Rung};
use ringfence_surface::policy::Mode;
use ringfence_surface::{AbsPath, Access, Surface, Way};
use serde::{Deserialize, Serialize};

use crate::text::Bytes;
use crate::walk::os_path;

/// The session's record.
pub const RECORD: &str = "record";

/// What was given to the session while it runs, beside its record.
pub const GRANTS: &str = "grants";

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

/// For how long the hook may wait for the user's answer, in milliseconds, where the user is asked.
pub const ASK: &str = "ask";

/// Where the hook says what it refused.
pub const VERDICTS: &str = "verdicts";

/// Where it waits for the user's answer.
pub const ASKS: &str = "asks";

/// What every session is given.
pub(crate) const FILES: [&str; 4] = [RECORD, PROGRAM, VERDICTS, ASKS];

/// Something that was given to a session since it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// A place to read.
    Read(Bytes),
    /// A place to read and write.
    Write(Bytes),
    /// A host, or a port of the host's own.
    Reach(String),
}

/// What was given to a session since it began, the oldest first.
///
/// # Errors
/// When the list is there and cannot be read.
pub fn grants(given: &AbsPath) -> io::Result<Vec<Kept>> {
    let path = given.join(GRANTS);
    for _ in 0..MOST_TRIES {
        let text = match fs::read(os_path(&path)) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text?,
        };
        let (check, list) = text.split_at(text.len().min(CHECK));
        if check == self::check(list.trim_ascii_end()) {
            return Ok(serde_json::from_slice(list)?);
        }
        // It is being written.
        std::thread::yield_now();
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// The places among it.
#[must_use]
pub fn places(kept: &[Kept]) -> Vec<AbsPath> {
    let place = |kept: &Kept| match kept {
        Kept::Read(path) | Kept::Write(path) => path.path(),
        Kept::Reach(_) => None,
    };
    kept.iter().filter_map(place).collect()
}

/// A Surface with all of it. What was there already changes nothing, and what is denied was not given.
///
/// # Errors
/// When something of it is no path and no host.
pub(crate) fn with_grants(mut surface: Surface, given: &AbsPath) -> io::Result<Surface> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    for kept in grants(given)? {
        let more = match kept {
            Kept::Read(path) => surface.with_read(&path.path().ok_or_else(wrong)?),
            Kept::Write(path) => surface.with_write(&path.path().ok_or_else(wrong)?),
            Kept::Reach(host) => surface.with_way(&Way::parse(&host).map_err(|_| wrong())?),
        };
        surface = more.unwrap_or(surface);
    }
    Ok(surface)
}

/// Says what is given now. A new file in the place of the old one would be whole or not at all, and take longer than all the rest of
/// a grant: so it is written in its place, in one call, and whoever reads it checks that it is whole.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn keep_grants(session: &AbsPath, kept: &[Kept]) -> io::Result<()> {
    let list = serde_json::to_vec(kept)?;
    let mut text = check(&list).to_vec();
    text.extend(list);
    let path = dir(session).join(GRANTS);
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o644).open(os_path(&path))?;
    // What it said before is covered: blanks at the end mean nothing.
    let before = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    text.resize(text.len().max(before), b' ');
    file.write_all_at(&text, 0)
}

/// How long what stands before the list is.
const CHECK: usize = 17;
/// How often a list is read that is being written.
const MOST_TRIES: u32 = 1_000;

/// Tells a list that is whole from one that is being written: some digits of its hash, and a blank.
fn check(list: &[u8]) -> [u8; CHECK] {
    use sha2::Digest as _;
    let mut check = [b' '; CHECK];
    let digits = crate::text::hex(&sha2::Sha256::digest(list)[..CHECK / 2]);
    check[..CHECK - 1].copy_from_slice(digits.as_bytes());
    check
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

/// Is the user asked about commands that are held back?
#[must_use]
pub fn is_asked(given: &AbsPath) -> bool {
    os_path(&given.join(ASK)).exists()
}

/// Says that the user is asked, and for how long somebody may wait.
///
/// # Errors
/// When it cannot be written.
pub fn keep_ask(session: &AbsPath, wait: Duration) -> io::Result<()> {
    fs::write(os_path(&dir(session).join(ASK)), wait.as_millis().to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// K13: whoever reads what is given while it changes finds one list or another, never a part of one.
    #[test]
    fn k13_what_is_given_is_read_whole() {
        let place = tempfile::tempdir().unwrap();
        let session = AbsPath::lexical(place.path().as_os_str().as_bytes()).unwrap();
        fs::create_dir(os_path(&dir(&session))).unwrap();
        assert_eq!(grants(&dir(&session)).unwrap(), Vec::new());
        let list = |count: usize| -> Vec<Kept> {
            (0..count).map(|number| Kept::Reach(format!("host-{number}-{count}.example.com"))).collect()
        };
        keep_grants(&session, &list(3)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..400).for_each(|round| keep_grants(&session, &list(round % 300)).unwrap()));
            for _ in 0..400 {
                let found = grants(&dir(&session)).unwrap();
                assert_eq!(found, list(found.len()));
            }
        });
        keep_grants(&session, &[]).unwrap();
        assert_eq!(grants(&dir(&session)).unwrap(), Vec::new());
        // What somebody else put there is none.
        fs::write(os_path(&dir(&session).join(GRANTS)), "[]").unwrap();
        assert!(grants(&dir(&session)).is_err());
    }
}
