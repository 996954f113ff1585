//! Changes that wait for a review: what a session wrote is in layers, and lands only when somebody says so.
//!
//! While the session runs its layers are in its own directory; afterwards they are set aside, and stay until every change is
//! applied or discarded. What is a change is found out anew each time, by comparing a layer with the host as it is now. So an apply
//! that was cut short is finished by the next: what has landed already is no change any more.
//!
//! What the host looked like when the session began is kept beside each layer. Where it looks different now somebody else has
//! changed it meanwhile, and nothing is put over that unless it is asked for.

mod apply;
mod base;
mod changes;
mod files;
mod git;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;

use ringfence_surface::{AbsPath, Surface};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::given;
use crate::layer::{COPY, LAYERS, UPPER};
use crate::record::{Record, RecordError};
use crate::remove::remove_tree;
use crate::store::{self, Held, Session};
use crate::temporary;
use crate::text::{Bytes, human};
use crate::walk::os_path;

pub use apply::{Force, Report};
pub use changes::{Change, Changes, Contents, FileSize, Node, What};

/// A review with this before its name is about to be removed.
const REMOVED: &str = ".removed-";
/// Where the layers of ended sessions are, below the state of all of them.
const REVIEWS: &str = "reviews";
/// Beside each layer: what it is over, and what that looked like.
const ABOUT: &str = "about";
const BASE: &str = "base";
/// The session's Surface, and what was applied or discarded already.
const RECORD: &str = "record";
const DONE: &str = "done";
/// The version of what is written here.
const SCHEMA: u32 = 1;

/// Why there is nothing to look at, to apply or to discard.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Nothing waits at all.
    #[error("no session has changes to review")]
    Nothing,
    /// Not in this one.
    #[error("no session whose name begins with `{prefix}` has changes to review")]
    NotFound {
        /// As asked.
        prefix: String,
    },
    /// It is not clear which is meant.
    #[error("several sessions have changes to review: {}", ids.join(", "))]
    Several {
        /// Their names.
        ids: Vec<String>,
    },
    /// It goes on to write.
    #[error("session {id} still runs")]
    Runs {
        /// Its name.
        id: String,
    },
    /// Somebody else is at it.
    #[error("the changes of session {id} are being applied or discarded by another")]
    Busy {
        /// Its name.
        id: String,
    },
    /// What the session might write is not known.
    #[error("cannot tell what the session may touch")]
    Record(#[from] RecordError),
    /// Something of the layers cannot be read or written.
    #[error("cannot use {path}")]
    Layer {
        /// What.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// Nothing was applied.
    #[error("{path} has {} free, and the changes need {}", human(*free), human(*needed))]
    NoRoom {
        /// Where.
        path: AbsPath,
        /// How many bytes the changes take on the disk, besides what they replace.
        needed: u64,
        /// How many bytes are free.
        free: u64,
    },
}

/// What one layer is over.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    schema: u32,
    over: Bytes,
    /// Who works in it, where what is theirs belongs on the host to the owner of the place.
    mapped: Option<(u32, u32)>,
}

/// One layer.
#[derive(Debug)]
struct Layer {
    dir: AbsPath,
    over: AbsPath,
    mapped: Option<(u32, u32)>,
}

impl Layer {
    fn upper(&self) -> AbsPath {
        self.dir.join(UPPER)
    }
}

/// The changes of one session.
#[derive(Debug)]
pub struct Review {
    id: String,
    dir: AbsPath,
    layers: Vec<Layer>,
    surface: Surface,
    /// Paths of which nothing is to be shown any more.
    done: HashSet<Vec<u8>>,
    is_live: bool,
}

/// Where a session's changes are.
#[derive(Debug, Clone)]
struct Place {
    id: String,
    /// The layers.
    dir: AbsPath,
    record: AbsPath,
    is_live: bool,
}

/// Notes what a layer is over, and what that looks like now.
pub(crate) fn remember(dir: &AbsPath, over: &AbsPath, mapped: Option<(u32, u32)>) -> io::Result<()> {
    base::write(&dir.join(BASE), over)?;
    let about = About { schema: SCHEMA, over: Bytes::new(over.as_bytes()), mapped };
    fs::write(os_path(&dir.join(ABOUT)), serde_json::to_vec(&about)?)
}

/// Do the changes of a session that runs wait for a review?
pub(crate) fn is_on(session: &AbsPath) -> bool {
    os_path(&session.join(LAYERS).join("0").join(ABOUT)).exists()
}

/// Sets the layers of a session that has ended aside, if anything was written to them. Nothing runs in them any more.
pub(crate) fn set_aside(state: &AbsPath, session: &AbsPath) -> io::Result<Option<AbsPath>> {
    let layers = session.join(LAYERS);
    if !is_on(session) || !load(&layers)?.iter().any(is_written) {
        return Ok(None);
    }
    let record = layers.join(RECORD);
    match fs::rename(os_path(&given::dir(session).join(given::RECORD)), os_path(&record)) {
        // Whoever was killed here before has done it; or nothing was started.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && !os_path(&record).exists() => return Ok(None),
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
        _ => {}
    }
    let reviews = Held::open(&state.join(REVIEWS), Some(Mode::RWXU))?;
    let name = session.file_name().unwrap_or(b"unknown");
    fs::rename(os_path(&layers), os_path(&reviews.at().child(name)))?;
    Ok(Some(reviews.real()?.child(name)))
}

/// The names of ended sessions that have changes to review.
pub fn waiting(state: &AbsPath) -> Vec<String> {
    let entries = fs::read_dir(os_path(&state.join(REVIEWS))).into_iter().flatten().flatten();
    let mut ids: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    ids.retain(|id| !id.starts_with(REMOVED));
    ids.sort();
    ids
}

impl Review {
    /// The changes of a session that has just ended, if there are any. What was written and is no change goes.
    ///
    /// # Errors
    /// [`ReviewError`]; what was written stays where it is then.
    pub fn keep(session: &Session) -> Result<Option<(Self, Changes)>, ReviewError> {
        let failed = |source| ReviewError::Layer { path: session.dir().join(LAYERS), source };
        let Some(dir) = set_aside(session.state(), session.dir()).map_err(failed)? else { return Ok(None) };
        let place = Place { id: session.name().to_owned(), record: dir.join(RECORD), dir, is_live: false };
        let review = Self::open(place)?;
        let changes = review.changes();
        if changes.is_nothing() {
            review.remove()?;
            return Ok(None);
        }
        Ok(Some((review, changes)))
    }

    /// The session that is meant: by the beginning of its name, or the only one there is; where several are, the only one whose
    /// project is around `here`.
    ///
    /// # Errors
    /// [`ReviewError`].
    pub fn find(states: &[AbsPath], prefix: Option<&str>, here: Option<&AbsPath>) -> Result<Self, ReviewError> {
        let mut places = Vec::new();
        for state in states {
            let ended = waiting(state).into_iter().map(|id| {
                let dir = state.join(REVIEWS).join(&id);
                Place { id, record: dir.join(RECORD), dir, is_live: false }
            });
            places.extend(ended);
            let live = store::sessions(state).unwrap_or_default().into_iter().filter(|live| is_on(&live.dir));
            places.extend(live.map(|live| {
                let record = given::dir(&live.dir).join(given::RECORD);
                Place { id: live.id, dir: live.dir.join(LAYERS), record, is_live: true }
            }));
        }
        let is_meant = |place: &Place| prefix.is_none_or(|prefix| !prefix.is_empty() && place.id.starts_with(prefix));
        places.retain(is_meant);
        if let (None, Some(here), true) = (prefix, here, places.len() > 1) {
            places.retain(|place| load(&place.dir).is_ok_and(|all| all.iter().any(|one| here.is_within(&one.over))));
        }
        if let Some(exact) = places.iter().position(|place| Some(place.id.as_str()) == prefix) {
            return Self::open(places.swap_remove(exact));
        }
        match (places.len(), places.pop(), prefix) {
            (1, Some(place), _) => Self::open(place),
            (_, Some(last), _) => {
                let ids = places.into_iter().chain([last]).map(|place| place.id).collect();
                Err(ReviewError::Several { ids })
            }
            (_, None, Some(prefix)) => Err(ReviewError::NotFound { prefix: prefix.to_owned() }),
            (_, None, None) => Err(ReviewError::Nothing),
        }
    }

    fn open(place: Place) -> Result<Self, ReviewError> {
        let Place { id, dir, record, is_live } = place;
        let failed = |source| ReviewError::Layer { path: dir.clone(), source };
        let layers = load(&dir).map_err(failed)?;
        let Record { surface, .. } = Record::read(&record)?;
        let done = match fs::read(os_path(&dir.join(DONE))) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(failed)?,
        };
        // What is cut at its end was not written whole, and is found out again.
        let whole = done.iter().rposition(|byte| *byte == 0).map_or(0, |end| end + 1);
        let done = done[..whole].split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect();
        Ok(Self { id, dir, layers, surface, done, is_live })
    }

    /// The directory in which the state of all sessions is.
    fn state(&self) -> AbsPath {
        self.dir.parent().and_then(|reviews| reviews.parent()).unwrap_or_else(AbsPath::root)
    }

    /// What the session is called.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Does it go on to write?
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// The session's project.
    pub fn project(&self) -> &AbsPath {
        self.surface.root()
    }

    /// Drops changes: all of them, or those at these paths and below. How many, and whether any are left.
    ///
    /// # Errors
    /// [`ReviewError`]; what was dropped then is not known, and can be dropped again.
    pub fn discard(mut self, paths: &[AbsPath]) -> Result<(usize, usize), ReviewError> {
        let _held = self.hold()?;
        temporary::sweep(&self.state());
        remove_rest(&self.state());
        let changes = self.changes().changes;
        if paths.is_empty() {
            self.remove()?;
            return Ok((changes.len(), 0));
        }
        let (chosen, rest): (Vec<Change>, Vec<Change>) =
            changes.into_iter().partition(|change| paths.iter().any(|path| change.path.is_within(path)));
        self.note_done(chosen.iter().map(|change| &change.path))?;
        if rest.is_empty() {
            self.remove()?;
        }
        Ok((chosen.len(), rest.len()))
    }

    /// Nobody else changes it meanwhile.
    fn hold(&self) -> Result<OwnedFd, ReviewError> {
        if self.is_live {
            return Err(ReviewError::Runs { id: self.id.clone() });
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::open(self.dir.as_bytes(), flags, Mode::empty())
            .and_then(|dir| rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).map(|()| dir));
        held.map_err(|errno| match errno {
            Errno::WOULDBLOCK => ReviewError::Busy { id: self.id.clone() },
            errno => ReviewError::Layer { path: self.dir.clone(), source: errno.into() },
        })
    }

    fn note_done<'p>(&mut self, paths: impl Iterator<Item = &'p AbsPath>) -> Result<(), ReviewError> {
        let mut text = Vec::new();
        for path in paths {
            text.extend_from_slice(path.as_bytes());
            text.push(0);
            self.done.insert(path.as_bytes().to_vec());
        }
        let at = self.dir.join(DONE);
        let failed = |source| ReviewError::Layer { path: at.clone(), source };
        let mut options = fs::OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(os_path(&at));
        file.and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_data())).map_err(failed)
    }

    /// Removes it. It is renamed first: a process that is killed meanwhile leaves no half of a review behind.
    fn remove(&self) -> Result<(), ReviewError> {
        let failed = |source| ReviewError::Layer { path: self.dir.clone(), source };
        let gone = self.dir.parent().unwrap_or_else(AbsPath::root).child(format!("{REMOVED}{}", self.id).as_bytes());
        fs::rename(os_path(&self.dir), os_path(&gone)).map_err(failed)?;
        remove_tree(os_path(&gone)).map_err(failed)
    }
}

/// Removes the rest of reviews that were applied or discarded by a process that was killed meanwhile.
pub fn remove_rest(state: &AbsPath) {
    let reviews = state.join(REVIEWS);
    for entry in fs::read_dir(os_path(&reviews)).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().starts_with(REMOVED.as_bytes()) {
            // Another process may be about to do the same. What stays is tried again the next time.
            let _ = remove_tree(os_path(&reviews.child(entry.file_name().as_bytes())));
        }
    }
}

/// The layers in a directory.
fn load(dir: &AbsPath) -> io::Result<Vec<Layer>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(os_path(dir))? {
        let name = entry?.file_name();
        if let Some(number) = std::str::from_utf8(name.as_bytes()).ok().and_then(|name| name.parse::<usize>().ok()) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    let mut layers = Vec::new();
    for number in numbers {
        let dir = dir.join(&number.to_string());
        let about: About = serde_json::from_slice(&fs::read(os_path(&dir.join(ABOUT)))?)?;
        let over = about.over.path().filter(|_| about.schema == SCHEMA);
        let over = over.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "written by another version"))?;
        layers.push(Layer { dir, over, mapped: about.mapped });
    }
    Ok(layers)
}

/// Was anything written to a layer?
fn is_written(layer: &Layer) -> bool {
    match fs::read_dir(os_path(&layer.upper())) {
        Ok(mut entries) => entries.next().is_some(),
        // A copy of a file. Whether it is another by now is found out when it is looked at.
        Err(_) => os_path(&layer.dir.join(COPY)).exists(),
    }
}
