//! The sessions' own directories: made at the start, gone at the end, collected when a supervisor was killed.
//!
//! Of what ended a line is kept: see [`past`]. Whether a session lives is told by its lock alone, which the kernel lets go of
//! however the supervisor ends.

mod about;
mod held;
mod list;

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_surface::AbsPath;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::audit::{Audit, Event, Patience, What};
use crate::given;
use crate::remove::{remove_tree, remove_until};
use crate::review;
use crate::text::now_ms;
use crate::walk::os_path;
use crate::worktree;

pub(crate) use held::Held;

pub use about::{About, Grants, Past, SCHEMA, past};
pub use list::{FindError, Found, Live, find, find_any, sessions};

/// A session's own directory. It goes away with the value.
#[derive(Debug)]
pub struct Session {
    /// Where the state of all sessions is.
    state: AbsPath,
    dir: AbsPath,
    name: String,
    /// Held as long as the session lives; the kernel lets go of it however the supervisor ends.
    lock: OwnedFd,
    /// Whether its end could not be written down.
    is_unended: AtomicBool,
}

/// Where the directories of sessions are, and those of single calls.
const SESSIONS: &str = "sessions";
const CALLS: &str = "calls";

/// What a session's directory holds from the start.
const INNER: [&str; 3] = ["given", "home", "tmp"];

impl Session {
    /// Makes one below ringfence's state directory.
    ///
    /// # Errors
    /// When there is no place for state, or it cannot be written.
    pub fn create(state: &AbsPath) -> io::Result<Self> {
        Self::create_in(state, SESSIONS)
    }

    /// Makes one for a single call. It is as a session's, and is not listed among them.
    ///
    /// # Errors
    /// As [`Session::create`].
    pub fn create_call(state: &AbsPath) -> io::Result<Self> {
        Self::create_in(state, CALLS)
    }

    fn create_in(state: &AbsPath, place: &str) -> io::Result<Self> {
        let sessions = state.join(place);
        // Those who work for root go through it to what is theirs.
        let mode = if rustix::process::geteuid().is_root() { Mode::from_raw_mode(0o711) } else { Mode::RWXU };
        held::no_foreign_links(state)?;
        // State may be kept on another disk, by a link. What is mounted is named without any.
        let sessions = Held::open(&sessions, Some(mode))?.real()?;
        let state = sessions.parent().unwrap_or_else(AbsPath::root);
        collect(&state, &sessions, COLLECTING);
        if place == SESSIONS {
            collect(&state, &state.join(CALLS), COLLECTING);
        }
        for _ in 0..100 {
            let name = new_name()?;
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
                Ok(lock) => return Ok(Self { state, dir, name, lock, is_unended: AtomicBool::new(false) }),
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

    /// The lock once more: it is held until every copy is gone.
    pub(crate) fn hold_lock(&self) -> io::Result<OwnedFd> {
        self.lock.try_clone()
    }

    /// Its end could not be written down: its record stays, and `gc` writes that it ended without a report.
    pub fn leave_unended(&self) {
        self.is_unended.store(true, Ordering::Relaxed);
    }

    /// Where the state of all sessions is, without links.
    pub fn state(&self) -> &AbsPath {
        &self.state
    }
}

/// Names are typed by people: eight letters and digits, none of which looks like another.
fn new_name() -> io::Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(random.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_unended.load(Ordering::Relaxed) {
            return;
        }
        if review::set_aside(&self.state, &self.dir).is_err() {
            // What waits for a review stays here; the next who collects tries again.
            return about::remove(&self.dir);
        }
        about::remove(&self.dir);
        // Most leave nothing behind; then no directory needs to be listed.
        let is_empty = |dir: &AbsPath| rustix::fs::rmdir(dir.as_bytes()).is_ok();
        let given = given::FILES.into_iter().chain([given::GRANTS]).map(|name| given::dir(&self.dir).join(name));
        // Settings of git are all that many a home is given.
        for path in given.chain([self.dir.join("home/.gitconfig")]) {
            let _ = rustix::fs::unlink(path.as_bytes());
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

/// The same of what is collected: a directory of ours that cannot be entered is no session.
fn lock_or_enter(dir: &AbsPath) -> io::Result<Option<OwnedFd>> {
    match lock(dir, OFlags::empty()) {
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let place = rustix::fs::open(dir.as_bytes(), flags, Mode::empty())?;
            // By the descriptor: a link that takes its place meanwhile leads nowhere.
            let itself = format!("/proc/self/fd/{}", place.as_raw_fd());
            rustix::fs::chmodat(rustix::fs::CWD, itself, Mode::RWXU, rustix::fs::AtFlags::empty())?;
            lock(dir, OFlags::empty())
        }
        other => other,
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

/// What was collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// The sessions whose supervisor was killed, by name.
    pub killed: Vec<String>,
    /// What could not be removed, or not in the time there was.
    pub left: Vec<AbsPath>,
}

/// Removes what killed supervisors left. No live session is touched, and several may do it at once.
pub fn gc(state: &AbsPath) -> Collected {
    let most = Duration::from_secs(60);
    let (calls, mut collected) =
        (collect(state, &state.join(CALLS), most), collect(state, &state.join(SESSIONS), most));
    // A call that was killed is told of by whoever made it.
    collected.left.extend(calls.left);
    collected
}

/// Removes what sessions left whose supervisor was killed. Not for long: somebody may wait to start.
fn collect(state: &AbsPath, sessions: &AbsPath, time: Duration) -> Collected {
    let until = Some(Instant::now() + time);
    let mut collected = Collected { killed: Vec::new(), left: Vec::new() };
    let Ok(held) = Held::open(sessions, None) else { return collected };
    if held::no_foreign_links(state).is_err() {
        return Collected { left: vec![sessions.clone()], ..collected };
    }
    let at = held.at();
    for entry in fs::read_dir(os_path(&at)).into_iter().flatten().flatten() {
        let (dir, named) = (at.child(entry.file_name().as_bytes()), sessions.child(entry.file_name().as_bytes()));
        if let Ok(Some(lock)) = lock_or_enter(&dir) {
            // What is said in one that somebody else has made is not acted on with root's rights.
            if !is_own(&lock) {
                continue;
            }
            if let Some(id) = note_killed(state, &dir) {
                collected.killed.push(id);
            }
            worktree::set_aside(state, &dir);
            if review::set_aside(state, &dir).is_err() {
                collected.left.push(named);
                continue;
            }
            if remove_until(os_path(&dir), until).is_err() && os_path(&dir).exists() {
                collected.left.push(named);
            }
        }
    }
    collected
}

/// Is it of whoever collects? Of root's own that is asked; others can remove only theirs.
fn is_own(held: &OwnedFd) -> bool {
    !rustix::process::geteuid().is_root() || rustix::fs::fstat(held).is_ok_and(|status| status.st_uid == 0)
}

/// A session that told nothing of its end is noted before its directory goes, once.
fn note_killed(state: &AbsPath, dir: &AbsPath) -> Option<String> {
    let about = About::read(dir).ok()?;
    let id = about.id.clone();
    let past = Past { about, ended_ms: now_ms(), code: None, stopped: 0 };
    // Where nothing can be written nothing can be kept, and the rest must go all the same.
    let _ = past.keep(state);
    let _ = Audit::of(state).append(&[Event::now(&id, What::Killed)], Patience::Start);
    about::remove(dir);
    Some(id)
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
    fn h4_a_directory_that_nobody_may_enter_is_collected() {
        let (_place, state) = state();
        let _alive = Session::create(&state).unwrap();
        let closed = state.join("sessions/closed");
        fs::create_dir_all(os_path(&closed.join("home/x"))).unwrap();
        rustix::fs::chmod(closed.join("home").as_bytes(), Mode::empty()).unwrap();
        rustix::fs::chmod(closed.as_bytes(), Mode::empty()).unwrap();
        assert_eq!(gc(&state).left, Vec::new());
        assert_eq!(sessions(&state), 1);
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

    fn about(session: &Session, started_ms: u64) -> About {
        About {
            schema: SCHEMA,
            id: session.name().to_owned(),
            pid: 1,
            started_ms,
            project: crate::text::Bytes::new(b"/p"),
            workdir: crate::text::Bytes::new(b"/p"),
            command: About::shorten(&[b"true".to_vec()]),
            rung: "native".to_owned(),
            user: None,
            agent: None,
            shortfalls: Vec::new(),
            grants: Grants::Reads,
            watches: Vec::new(),
        }
    }

    #[test]
    fn a10_live_sessions_are_listed_and_found_by_the_beginning_of_their_name() {
        let (_place, state) = state();
        assert!(super::sessions(&state).unwrap().is_empty());
        let (one, two) = (Session::create(&state).unwrap(), Session::create(&state).unwrap());
        about(&one, 2).write(one.dir(), None).unwrap();
        about(&two, 1).write(two.dir(), None).unwrap();
        let listed: Vec<String> = super::sessions(&state).unwrap().into_iter().map(|live| live.id).collect();
        assert_eq!(listed, [two.name(), one.name()]);
        let found = find(&state, one.name()).unwrap();
        assert_eq!((found.about.unwrap(), found.dir), (about(&one, 2), one.dir().clone()));
        let other = one.name().chars().zip(two.name().chars()).take_while(|(a, b)| a == b).count();
        assert_eq!(find(&state, &one.name()[..=other]).unwrap().id, one.name());
        assert!(matches!(find(&state, ""), Err(FindError::NotFound { .. })));
        assert!(matches!(find(&state, "none"), Err(FindError::NotFound { .. })));
        let name = two.name().to_owned();
        Past { about: about(&two, 1), ended_ms: 3, code: Some(0), stopped: 0 }.keep(&state).unwrap();
        drop(two);
        assert!(matches!(find(&state, &name), Err(FindError::Ended { .. })));
        assert!(matches!(find_any(&state, &name), Ok(Found::Past(past)) if past.code == Some(0)));
    }

    /// What a killed supervisor left is told apart from what ended, and told once.
    #[test]
    fn m6_a_killed_session_is_noted_when_it_is_collected() {
        let (_place, state) = state();
        let session = Session::create(&state).unwrap();
        about(&session, 1).write(session.dir(), None).unwrap();
        let copy = state.join("sessions/killed");
        fs::create_dir_all(os_path(&copy.join("home/x"))).unwrap();
        About { id: "killed".into(), ..about(&session, 1) }.write(&copy, None).unwrap();
        let collected = gc(&state);
        assert_eq!((collected.killed, collected.left), (vec!["killed".to_owned()], vec![]));
        assert_eq!(gc(&state).killed, Vec::<String>::new());
        assert!(os_path(&session.dir().join("session.json")).exists());
        let (past, unread) = past(&state).unwrap();
        assert_eq!((past.len(), past[0].about.id.as_str(), past[0].code, unread), (1, "killed", None, 0));
    }

    #[test]
    fn what_another_version_wrote_is_not_guessed_at() {
        let (_place, state) = state();
        let session = Session::create(&state).unwrap();
        fs::write(os_path(&session.dir().join("session.json")), "{\"schema\": 99, \"id\": 7}").unwrap();
        let listed = super::sessions(&state).unwrap();
        assert!(listed[0].about.as_ref().unwrap_err().to_string().contains("schema 99"));
    }

    /// Thousands of ended sessions are listed fast, the newest first; what is torn or too old is no obstacle.
    #[test]
    fn a10_many_ended_sessions_are_listed_at_once() {
        let (_place, state) = state();
        let session = Session::create(&state).unwrap();
        for number in 0..5_000 {
            let about = About { id: format!("s{number}"), ..about(&session, number) };
            Past { about, ended_ms: number, code: Some(0), stopped: 0 }.keep(&state).unwrap();
        }
        let mut file = fs::OpenOptions::new().append(true).open(os_path(&state.join("ended.jsonl"))).unwrap();
        io::Write::write_all(&mut file, b"{\"schema\":1,\"id\":\"to").unwrap();
        Past { about: about(&session, 9_999), ended_ms: 9_999, code: Some(1), stopped: 0 }.keep(&state).unwrap();
        let before = Instant::now();
        let (all, unread) = past(&state).unwrap();
        let took = before.elapsed();
        assert_eq!((all.len(), unread, all[0].ended_ms, all[1].about.id.as_str()), (5_001, 1, 9_999, "s4999"));
        // Milliseconds; minutes if each were compared with each. The machine may be busy.
        assert!(took < Duration::from_secs(30), "{took:?}");
    }

    #[test]
    fn what_is_kept_of_the_past_is_bounded() {
        let (_place, state) = state();
        let session = Session::create(&state).unwrap();
        let long = vec![vec![b'x'; 100_000]];
        for number in 0..2_000 {
            let about = About { id: format!("s{number}"), command: About::shorten(&long), ..about(&session, number) };
            Past { about, ended_ms: number, code: Some(0), stopped: 0 }.keep(&state).unwrap();
        }
        assert!(fs::metadata(os_path(&state.join("ended.jsonl"))).unwrap().len() < 5 << 20);
        let (all, unread) = past(&state).unwrap();
        assert!(all.len() > 300 && all[0].about.id == "s1999" && unread == 0, "{} {unread}", all.len());
    }
}
