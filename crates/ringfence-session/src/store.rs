//! The sessions' own directories: made at the start, gone at the end, collected when a supervisor was killed.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_surface::AbsPath;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::given;
use crate::remove::{remove_tree, remove_until};
use crate::walk::os_path;

/// A session's own directory. It goes away with the value.
#[derive(Debug)]
pub struct Session {
    dir: AbsPath,
    name: String,
    /// Held as long as the session lives; the kernel lets go of it however the supervisor ends.
    _lock: OwnedFd,
}

/// What a session's directory holds from the start.
const INNER: [&str; 3] = ["given", "home", "tmp"];

impl Session {
    /// Makes one below ringfence's state directory.
    ///
    /// # Errors
    /// When there is no place for state, or it cannot be written.
    pub fn create(state: &AbsPath) -> io::Result<Self> {
        let sessions = state.join("sessions");
        // Those who work for root go through it to what is theirs.
        let mode = if rustix::process::geteuid().is_root() { Mode::from_raw_mode(0o711) } else { Mode::RWXU };
        make(os_path(&sessions), mode)?;
        // State may be kept on another disk, by a link. What is mounted is named without any.
        let sessions = fs::canonicalize(os_path(&sessions))?;
        let sessions = AbsPath::lexical(sessions.as_os_str().as_bytes()).map_err(io::Error::other)?;
        collect(&sessions);
        for attempt in 0..100 {
            let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let name = format!("{:x}-{:x}-{attempt}", time.as_micros(), std::process::id());
            let dir = sessions.join(&name);
            match rustix::fs::mkdir(dir.as_bytes(), mode) {
                Err(Errno::EXIST) => continue,
                other => other?,
            }
            let made = lock(&dir, OFlags::CREATE).and_then(|lock| match lock {
                Some(lock) => fill(&dir).map(|()| lock),
                None => Err(io::ErrorKind::NotFound.into()),
            });
            match made {
                Ok(lock) => return Ok(Self { dir, name, _lock: lock }),
                // Somebody who collects was faster than the lock, and it is gone.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => {
                    // It fails where nothing is left to remove.
                    let _ = remove_tree(os_path(&dir));
                    return Err(cause);
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Where it is.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Most leave nothing behind; then no directory needs to be listed.
        let is_empty = |dir: &AbsPath| rustix::fs::rmdir(dir.as_bytes()).is_ok();
        for name in given::FILES {
            let _ = rustix::fs::unlink(given::dir(&self.dir).join(name).as_bytes());
        }
        if !INNER.iter().all(|inner| is_empty(&self.dir.join(inner))) || !is_empty(&self.dir) {
            // What cannot be removed now is collected at a later start.
            let _ = remove_tree(os_path(&self.dir));
        }
    }
}

/// Makes a directory and those above, where they are missing.
fn make(dir: &Path, mode: Mode) -> io::Result<()> {
    match rustix::fs::mkdir(dir, mode) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(_) => fs::DirBuilder::new().recursive(true).mode(mode.as_raw_mode()).create(dir),
    }
}

fn fill(dir: &AbsPath) -> io::Result<()> {
    INNER.iter().try_for_each(|inner| rustix::fs::mkdir(dir.join(inner).as_bytes(), Mode::RWXU))?;
    if rustix::process::geteuid().is_root() {
        // Those who work for root read what is given, and do not own it.
        rustix::fs::chmod(dir.join(INNER[0]).as_bytes(), Mode::from_raw_mode(0o755))?;
    }
    Ok(())
}

/// Takes a session's lock; `None` where somebody holds it. It is the directory itself. Over NFS only what can be written can be
/// locked: there it is a file in it.
fn lock(dir: &AbsPath, create: OFlags) -> io::Result<Option<OwnedFd>> {
    let (careful, only_us) = (OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::RUSR | Mode::WUSR);
    let itself = rustix::fs::open(dir.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY | careful, Mode::empty())?;
    match flock(itself) {
        Err(Errno::BADF) => {
            let file = rustix::fs::open(dir.child(b"lock").as_bytes(), OFlags::RDWR | careful | create, only_us)?;
            Ok(flock(file)?)
        }
        other => Ok(other?),
    }
}

fn flock(file: OwnedFd) -> rustix::io::Result<Option<OwnedFd>> {
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// How long a start waits for what others left.
const COLLECTING: Duration = Duration::from_millis(250);

/// Removes what sessions left whose supervisor was killed. Not for long: somebody waits to start.
fn collect(sessions: &AbsPath) {
    let until = Some(Instant::now() + COLLECTING);
    for entry in fs::read_dir(os_path(sessions)).into_iter().flatten().flatten() {
        let dir = sessions.child(entry.file_name().as_bytes());
        if let Ok(Some(_held)) = lock(&dir, OFlags::empty()) {
            let _ = remove_until(os_path(&dir), until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (tempfile::TempDir, AbsPath) {
        let place = tempfile::tempdir().unwrap();
        let state = AbsPath::lexical(place.path().as_os_str().as_bytes()).unwrap().join("state/ringfence");
        (place, state)
    }

    fn sessions(state: &AbsPath) -> usize {
        fs::read_dir(os_path(&state.join("sessions"))).unwrap().count()
    }

    #[test]
    fn a_session_leaves_nothing_behind() {
        let (_place, state) = state();
        let session = Session::create(&state).unwrap();
        let dir = session.dir().clone();
        assert!(INNER.iter().all(|inner| os_path(&dir.join(inner)).is_dir()));
        drop(session);
        assert_eq!(sessions(&state), 0);

        let session = Session::create(&state).unwrap();
        fs::create_dir_all(os_path(&session.dir().join("home/a/b"))).unwrap();
        fs::write(os_path(&session.dir().join("tmp/x")), "x").unwrap();
        fs::write(os_path(&session.dir().join("note")), "x").unwrap();
        drop(session);
        assert_eq!(sessions(&state), 0);
    }

    #[test]
    fn what_a_killed_supervisor_left_is_collected_and_what_lives_is_not() {
        let (_place, state) = state();
        let alive = Session::create(&state).unwrap();
        fs::create_dir_all(os_path(&state.join("sessions/killed/home/x"))).unwrap();
        let next = Session::create(&state).unwrap();
        assert_eq!(sessions(&state), 2);
        assert!(os_path(&alive.dir().join("home")).is_dir() && os_path(&next.dir().join("home")).is_dir());
    }

    /// Each start looks at the others' directories, also at those that are not locked yet.
    #[test]
    fn many_may_start_at_once() {
        let (_place, state) = state();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let session = Session::create(&state).unwrap();
                        assert!(INNER.iter().all(|inner| os_path(&session.dir().join(inner)).is_dir()));
                    }
                });
            }
        });
        assert_eq!(sessions(&state), 0);
    }
}
