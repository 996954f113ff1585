//! Sessions as another process finds them: by name, if they are the caller's own and still run.
//!
//! A session runs as long as its lock is held. Nothing is asked of process numbers, which may be another's by now, or those of
//! another namespace.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_surface::AbsPath;
use rustix::fs::{Access, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::desk::PAUSED;
use crate::record::RecordError;
use crate::store::{self, FindError};
use crate::terminal::Lifeline;

/// Why there is no such session to work within.
#[derive(Debug, thiserror::Error)]
pub enum NotWithin {
    /// None of that name runs.
    #[error(transparent)]
    Find(#[from] FindError),
    /// What it may touch cannot be read back.
    #[error("cannot tell what the session may touch")]
    Record(#[from] RecordError),
    /// It ended while it was looked at.
    #[error("session {name} has ended")]
    Over {
        /// Its whole name.
        name: String,
    },
    /// Everything in it stands still.
    #[error("session {name} is paused; `ringfence resume {name}` lets it go on")]
    Paused {
        /// Its whole name.
        name: String,
    },
    /// What it writes waits for a review, and what a call writes would land at once.
    #[error("what session {name} writes waits for a review; what a call from outside writes would not")]
    Review {
        /// Its whole name.
        name: String,
    },
    /// Its directory is not one that a session of the caller's makes.
    #[error("{dir} belongs to user {owner} with mode {mode:03o}, so it is no session of yours")]
    Foreign {
        /// Which.
        dir: AbsPath,
        /// Whose it is.
        owner: u32,
        /// Who may write it.
        mode: u32,
    },
    /// It cannot be looked at.
    #[error("cannot look at {dir}")]
    Look {
        /// Which.
        dir: AbsPath,
        /// Why.
        source: io::Error,
    },
}

/// A session that runs.
#[derive(Debug)]
pub struct Found {
    dir: AbsPath,
    name: String,
    lock: OwnedFd,
}

impl Found {
    /// Its own directory.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// Its whole name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        is_held(&self.lock).unwrap_or(false)
    }

    /// For whoever must end when it does.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn watched(&self) -> io::Result<Watched> {
        Ok(Watched { lock: self.lock.try_clone()? })
    }
}

/// Finds a session by its name, or by how its name begins if no other begins like that, below one of these state directories.
///
/// # Errors
/// [`NotWithin`].
pub fn within(states: &[AbsPath], name: &str) -> Result<Found, NotWithin> {
    let mut missed = None;
    for state in states {
        match store::find(state, name) {
            Ok(live) => return open(live.dir, live.id),
            // That it has ended says more than that it is nowhere else either.
            Err(cause @ FindError::NotFound { .. }) => missed = missed.or(Some(cause)),
            Err(cause) => return Err(cause.into()),
        }
    }
    Err(missed.unwrap_or_else(|| FindError::NotFound { prefix: name.to_owned() }).into())
}

fn open(dir: AbsPath, name: String) -> Result<Found, NotWithin> {
    let look = |errno: Errno| NotWithin::Look { dir: dir.clone(), source: errno.into() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = match rustix::fs::open(dir.as_bytes(), flags, Mode::empty()) {
        // It was the last moment of it.
        Err(Errno::NOENT) => return Err(NotWithin::Over { name }),
        other => other.map_err(look)?,
    };
    let status = rustix::fs::fstat(&lock).map_err(look)?;
    let (owner, mode) = (status.st_uid, status.st_mode & 0o777);
    if owner != rustix::process::geteuid().as_raw() || mode & 0o022 != 0 {
        return Err(NotWithin::Foreign { dir, owner, mode });
    }
    if rustix::fs::accessat(&lock, PAUSED, Access::EXISTS, AtFlags::empty()).is_ok() {
        return Err(NotWithin::Paused { name });
    }
    if is_held(&lock).map_err(look)? {
        return Ok(Found { dir, name, lock });
    }
    // Over NFS it is a file that is locked.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(&lock, c"lock", flags, Mode::empty()) {
        Ok(file) if is_held(&file).map_err(look)? => Ok(Found { dir, name, lock: file }),
        _ => Err(NotWithin::Over { name }),
    }
}

/// Does somebody hold this lock? Whoever makes a session meanwhile tries again.
fn is_held(lock: &OwnedFd) -> rustix::io::Result<bool> {
    match rustix::fs::flock(lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => rustix::fs::flock(lock, FlockOperation::Unlock).map(|()| false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// A session whose end is waited for.
#[derive(Debug)]
pub struct Watched {
    lock: OwnedFd,
}

/// A session whose end cuts a lifeline.
#[derive(Debug)]
pub(crate) struct Watch {
    is_over: Arc<AtomicBool>,
}

impl Watched {
    /// Begins to wait, in a thread of its own: it sleeps in the kernel until the lock is free. Should there be no thread left
    /// the lifeline is cut at once, since nobody would notice the session's end.
    pub(crate) fn watch(self, lifeline: Lifeline) -> Watch {
        let is_over = Arc::new(AtomicBool::new(false));
        let (tell, cut) = (Arc::clone(&is_over), lifeline.clone());
        let wait = move || {
            while matches!(rustix::fs::flock(&self.lock, FlockOperation::LockShared), Err(Errno::INTR)) {}
            tell.store(true, Ordering::SeqCst);
            lifeline.cut();
        };
        if std::thread::Builder::new().name("session".to_owned()).stack_size(64 << 10).spawn(wait).is_err() {
            cut.cut();
        }
        Watch { is_over }
    }
}

impl Watch {
    /// Has it ended?
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::store::Session;
    use crate::walk::os_path;

    fn state() -> (tempfile::TempDir, AbsPath) {
        let place = tempfile::tempdir().unwrap();
        let state = AbsPath::lexical(place.path().as_os_str().as_bytes()).unwrap().join("state/ringfence");
        (place, state)
    }

    fn find(state: &AbsPath, name: &str) -> Result<Found, NotWithin> {
        within(&[state.join("nowhere"), state.clone()], name)
    }

    /// K10: a session is found by its name or the beginning of it, and only while it runs.
    #[test]
    fn k10_a_session_is_found_while_it_runs() {
        let (_place, state) = state();
        assert!(find(&state, "abc").unwrap_err().to_string().contains("no session"));
        let session = Session::create(&state).unwrap();
        let name = session.name().to_owned();
        let found = find(&state, &name).unwrap();
        assert_eq!((found.dir(), found.name()), (session.dir(), name.as_str()));
        assert_eq!(find(&state, &name[..4]).unwrap().name(), name);
        assert!(found.is_alive());
        drop(session);
        assert!(!found.is_alive());
        assert!(find(&state, &name).is_err());
    }

    /// K10: what a killed supervisor left is no session, and neither is a single call.
    #[test]
    fn k10_a_dead_session_is_none() {
        let (_place, state) = state();
        fs::create_dir_all(os_path(&state.join("sessions/abcdefgh/given"))).unwrap();
        assert!(find(&state, "abcdefgh").is_err());
        let call = Session::create_call(&state).unwrap();
        assert!(find(&state, call.name()).is_err());
    }

    /// K10: a name is never a path.
    #[test]
    fn k10_names_that_are_paths() {
        let (_place, state) = state();
        let session = Session::create(&state).unwrap();
        let (sideways, down) = (format!("../sessions/{}", session.name()), format!("{}/home", session.name()));
        for name in ["", ".", "..", "../sessions", "/", "a\0b", "*", "?", &sideways, &down] {
            assert!(find(&state, name).is_err(), "{name:?}");
        }
    }

    /// K10: neither a link nor a directory that others can write is a session.
    #[test]
    fn k10_directories_that_others_made() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let (_place, state) = state();
        let session = Session::create(&state).unwrap();
        symlink(os_path(session.dir()), os_path(&state.join("sessions/link"))).unwrap();
        assert!(find(&state, "link").is_err());
        fs::set_permissions(os_path(session.dir()), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(find(&state, session.name()), Err(NotWithin::Foreign { .. })));
    }

    /// K10: the end of a session cuts what hangs on it.
    #[test]
    fn k10_the_end_of_a_session_is_noticed() {
        let (_place, state) = state();
        let session = Session::create(&state).unwrap();
        let watched = find(&state, session.name()).unwrap().watched().unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        let watch = watched.watch(Lifeline::new(write));
        assert!(!watch.is_over());
        drop(session);
        // Blocks until the other end is closed.
        assert_eq!(rustix::io::read(&read, &mut [0; 1]).unwrap(), 0);
        assert!(watch.is_over());
    }
}
