//! The sessions of a state directory: which live, and which one is meant.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use ringfence_surface::AbsPath;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::about::{About, Past, past};
use crate::desk::PAUSED;
use crate::walk::os_path;

/// A session that lives.
#[derive(Debug)]
pub struct Live {
    /// What it is called.
    pub id: String,
    /// Its own directory.
    pub dir: AbsPath,
    /// What is known of it, unless another version wrote it.
    pub about: io::Result<About>,
}

impl Live {
    /// Has it not ended yet? Its lock is held by its supervisor and by its first process.
    #[must_use]
    pub fn is_running(&self) -> bool {
        is_live(&self.dir)
    }

    /// Why it is paused, if it is.
    #[must_use]
    pub fn paused(&self) -> Option<String> {
        fs::read_to_string(os_path(&self.dir.join(PAUSED))).ok()
    }
}

/// Why no session was found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// There is none.
    #[error("there is no session whose name begins with `{prefix}`")]
    NotFound {
        /// As asked.
        prefix: String,
    },
    /// It was there, and has ended.
    #[error("session {id} has ended")]
    Ended {
        /// Its whole name.
        id: String,
    },
    /// There are several.
    #[error("several sessions begin with `{prefix}`: {}", ids.join(", "))]
    Ambiguous {
        /// As asked.
        prefix: String,
        /// Their names.
        ids: Vec<String>,
    },
    /// They could not be listed.
    #[error("cannot list the sessions in {dir}")]
    List {
        /// Where.
        dir: AbsPath,
        /// Why.
        source: io::Error,
    },
}

/// A session, alive or not.
#[derive(Debug)]
pub enum Found {
    /// It lives.
    Live(Box<Live>),
    /// It has ended.
    Past(Box<Past>),
}

/// The sessions that live, the oldest first. There is a moment at the start in which nothing is known of one, and it is not
/// among them.
///
/// # Errors
/// When the directory is there and cannot be listed.
pub fn sessions(state: &AbsPath) -> io::Result<Vec<Live>> {
    let dir = state.join("sessions");
    let entries = match fs::read_dir(os_path(&dir)) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut live = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let dir = dir.child(name.as_bytes());
        let Some(id) = name.to_str() else { continue };
        if is_live(&dir) {
            live.push(Live { id: id.to_owned(), about: About::read(&dir), dir });
        }
    }
    live.sort_by_key(|one| (one.about.as_ref().map_or(u64::MAX, |about| about.started_ms), one.id.clone()));
    Ok(live)
}

/// Does somebody hold the session's lock? It is asked for in a way that keeps nobody from taking it.
pub(crate) fn is_live(dir: &AbsPath) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let held = |path: &AbsPath, flags| {
        let file = rustix::fs::open(path.as_bytes(), flags, Mode::empty())?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)
    };
    match held(dir, flags | OFlags::DIRECTORY) {
        Err(Errno::WOULDBLOCK) => true,
        // Over NFS the lock is a file: see `lock`.
        Ok(()) | Err(Errno::BADF) => held(&dir.join("lock"), flags) == Err(Errno::WOULDBLOCK),
        Err(_) => false,
    }
}

/// The one live session whose name is this, or begins with it.
///
/// # Errors
/// [`FindError`].
pub fn find(state: &AbsPath, prefix: &str) -> Result<Live, FindError> {
    let list = |source| FindError::List { dir: state.clone(), source };
    match one_of(sessions(state).map_err(list)?, prefix, |live| &live.id)? {
        Some(live) => Ok(live),
        None => match one_of(past(state).map_err(list)?.0, prefix, |past| &past.about.id)? {
            Some(past) => Err(FindError::Ended { id: past.about.id }),
            None => Err(FindError::NotFound { prefix: prefix.to_owned() }),
        },
    }
}

/// The one session whose name is this or begins with it, alive or not. One that lives comes first.
///
/// # Errors
/// [`FindError`].
pub fn find_any(state: &AbsPath, prefix: &str) -> Result<Found, FindError> {
    let list = |source| FindError::List { dir: state.clone(), source };
    if let Some(live) = one_of(sessions(state).map_err(list)?, prefix, |live| &live.id)? {
        return Ok(Found::Live(Box::new(live)));
    }
    let found = one_of(past(state).map_err(list)?.0, prefix, |past| &past.about.id)?;
    found.map(|past| Found::Past(Box::new(past))).ok_or(FindError::NotFound { prefix: prefix.to_owned() })
}

fn one_of<T>(all: Vec<T>, prefix: &str, id: impl Fn(&T) -> &str) -> Result<Option<T>, FindError> {
    let mut matching: Vec<T> =
        all.into_iter().filter(|one| !prefix.is_empty() && id(one).starts_with(prefix)).collect();
    if let Some(exact) = matching.iter().position(|one| id(one) == prefix) {
        return Ok(Some(matching.swap_remove(exact)));
    }
    if matching.len() > 1 {
        let ids = matching.iter().map(|one| id(one).to_owned()).collect();
        return Err(FindError::Ambiguous { prefix: prefix.to_owned(), ids });
    }
    Ok(matching.pop())
}
