//! From a Surface to a running payload: the session's directory, the walk, the view, the walls.

use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};

use ringfence_plan::{Plan, Shortfall, guarded};
use ringfence_surface::policy::View;
use ringfence_surface::{AbsPath, Effect, HostFacts, Look, Role, Shown, Surface};
use ringfence_sys::process::Program;
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid};

use crate::beneath::Owner;
use crate::environment::{self, Own};
use crate::home::{self, Ground, Signing};
use crate::idmap::mapping;
use crate::native::{self, Identity, Prepared};
use crate::seed::seed;
use crate::shortfalls::{SecondWall, shortfalls};
use crate::standard::standards;
use crate::view;
use crate::walk::{self, WalkError, Walked, os_path};

/// A session's own directory. It goes away with the value.
#[derive(Debug)]
pub struct Session {
    dir: AbsPath,
    name: String,
    /// Held as long as the session lives; the kernel lets go of it however the supervisor ends.
    _lock: OwnedFd,
}

impl Session {
    /// Makes one below ringfence's state directory.
    ///
    /// # Errors
    /// When there is no place for state, or it cannot be written.
    pub fn create(state: &AbsPath) -> io::Result<Self> {
        let sessions = state.join("sessions");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(os_path(&sessions))?;
        collect(&sessions);
        for attempt in 0..100 {
            let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let name = format!("{:x}-{:x}-{attempt}", time.as_micros(), std::process::id());
            let dir = sessions.join(&name);
            match fs::DirBuilder::new().mode(0o700).create(os_path(&dir)) {
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => continue,
                other => other?,
            }
            let lock = lock(&dir, OFlags::CREATE)?.ok_or(io::ErrorKind::WouldBlock)?;
            for inner in ["home", "tmp", "root", "masks"] {
                fs::DirBuilder::new().mode(0o700).create(os_path(&dir.join(inner)))?;
            }
            return Ok(Self { dir, name, _lock: lock });
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Where it is.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What cannot be removed now is collected at a later start.
        let _ = fs::remove_dir_all(os_path(&self.dir));
    }
}

/// Takes a session's lock; `None` where somebody holds it.
fn lock(dir: &AbsPath, create: OFlags) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | create;
    let file = rustix::fs::open(dir.child(b"lock").as_bytes(), flags, Mode::from_raw_mode(0o600))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes what sessions left whose supervisor was killed. A few at a time: nobody waits for it.
fn collect(sessions: &AbsPath) {
    for entry in fs::read_dir(os_path(sessions)).into_iter().flatten().flatten().take(32) {
        let dir = sessions.child(entry.file_name().as_bytes());
        // One that is being made has no lock yet, and is left alone.
        if let Ok(Some(_held)) = lock(&dir, OFlags::empty()) {
            let _ = fs::remove_dir_all(os_path(&dir));
        }
    }
}

/// Why a session did not start.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The walk failed.
    #[error("cannot find what must be guarded")]
    Walk(#[from] WalkError),
    /// A directory of the session could not be made.
    #[error("cannot make {path}")]
    Directory {
        /// Which.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// No command was given.
    #[error("there is no command to run")]
    NoCommand,
    /// The command holds a NUL.
    #[error("the command holds a NUL byte")]
    Nul,
    /// The broad view.
    #[error("view = \"host\" cannot be started yet")]
    HostView,
    /// A standard descriptor that may not come along.
    #[error("a standard descriptor cannot come along")]
    Standard {
        /// Why.
        source: io::Error,
    },
    /// The session's home could not be filled.
    #[error("cannot write settings into the session's home")]
    Home {
        /// Why.
        source: io::Error,
    },
    /// The filter could not be made.
    #[error("cannot make the seccomp filter")]
    Filter {
        /// Why.
        source: io::Error,
    },
}

/// A session that is ready to start, and what it found on the way.
pub struct Ready {
    /// The payload, laid out.
    pub prepared: Prepared,
    /// What was found and guarded.
    pub walked: Walked,
    /// What falls short.
    pub shortfalls: Vec<Shortfall>,
    /// Why root's own project cannot be written inside, if it cannot.
    pub unwritable: Option<io::Error>,
    /// What becomes of signatures.
    pub commits: Commits,
    /// How many packages were copied from the user's own caches, or why they could not be.
    pub copied: io::Result<usize>,
}

/// What becomes of signatures under commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commits {
    /// Nothing is changed.
    AsAsked,
    /// The user's or the repository's settings ask for signatures; commits made inside have none.
    Unsigned,
}

/// Lays everything out. `caller` is the caller's whole environment.
///
/// # Errors
/// [`PrepareError`]; nothing was started.
pub fn prepare(
    surface: &Surface,
    facts: &HostFacts,
    plan: &Plan,
    session: &Session,
    command: &[OsString],
    look: &mut dyn Look,
) -> Result<Ready, PrepareError> {
    let program = command.first().ok_or(PrepareError::NoCommand)?;
    if surface.view() == View::Host {
        return Err(PrepareError::HostView);
    }
    let stdio = standards(surface).map_err(|source| PrepareError::Standard { source })?;
    let identity = identity(surface.root());
    make_directories(surface, session, identity)?;
    let caller = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
    let ground = Ground { surface, facts, caller: &caller, owner: owner(identity) };
    let signing = home::furnish(&ground, session.dir(), look).map_err(|source| PrepareError::Home { source })?;
    let seeded = seed(&ground, look);
    let walked = walk::walk(surface, &plan.mounts)?;
    let idmap = idmap_for(surface.root(), identity);
    let steps =
        view::script(&guarded(&plan.mounts, &walked.findings), session.dir(), look, matches!(idmap, Ok(Some(_))));
    let c_string = |bytes: &[u8]| CString::new(bytes).map_err(|_| PrepareError::Nul);
    let user = if let Identity::Other { uid, .. } = identity { Some(uid) } else { None };
    let own = Own { session: session.dir(), name: &session.name, user, signing };
    let variables = environment::build(&caller, surface, facts, look, &own);
    let candidates = environment::candidates(program.as_bytes(), surface.workdir(), &variables);
    let arguments = command.iter().map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?;
    let prepared = Prepared {
        view: view::View {
            root: c_string(session.dir().join("root").as_bytes())?,
            masks: c_string(session.dir().join("masks").as_bytes())?,
            steps,
            idmap: idmap.as_ref().ok().and_then(|map| map.as_ref()).and_then(|map| map.try_clone().ok()),
        },
        identity,
        workdir: c_string(surface.workdir().as_bytes())?,
        program: Program::new(candidates, arguments, environment::lines(&variables)),
        program_name: Shown(program.as_bytes()).to_string(),
        stdio,
        landlock: native::wall(surface),
        seccomp: native::filter().map_err(|source| PrepareError::Filter { source })?,
    };
    let wall = if prepared.landlock.is_some() { SecondWall::Stands } else { SecondWall::Missing };
    let shortfalls = shortfalls(surface, &walked, wall);
    let unwritable = idmap.err();
    let commits = match signing {
        Signing::Unasked => Commits::AsAsked,
        Signing::AskedByUser => Commits::Unsigned,
        Signing::AskedByRepository if surface.reach().sockets.is_empty() => Commits::Unsigned,
        // Whoever holds the key may be behind one of the sockets.
        Signing::AskedByRepository => Commits::AsAsked,
    };
    Ok(Ready { prepared, walked, shortfalls, unwritable, commits, copied: seeded.map(|seeded| seeded.copied) })
}

/// The caller, or where the caller is root somebody who is not: the user behind `sudo`, or the project's owner.
fn identity(root: &AbsPath) -> Identity {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if uid != 0 {
        return Identity::Caller { uid, gid };
    }
    let number =
        |name: &str| std::env::var_os(name).and_then(|value| value.to_str()?.parse::<u32>().ok()).filter(|id| *id != 0);
    let owner = fs::metadata(os_path(root)).ok().map(|m| (m.uid(), m.gid())).filter(|(uid, _)| *uid != 0);
    let (uid, gid) = match (number("SUDO_UID"), number("SUDO_GID"), owner) {
        (Some(uid), Some(gid), _) => (uid, gid),
        (_, _, Some((uid, gid))) => (uid, gid),
        // A number that belongs to nobody.
        _ => (NOBODY, NOBODY),
    };
    // A project may belong to a user and to root's group; that group reads more than the user does.
    Identity::Other { uid, gid: if gid == 0 { NOBODY } else { gid } }
}

/// Who owns what is made for the payload, where that is not the caller.
fn owner(identity: Identity) -> Owner {
    let Identity::Other { uid, gid } = identity else { return None };
    Some((Uid::from_raw(uid), Gid::from_raw(gid)))
}

/// Who works for root in root's own project.
const NOBODY: u32 = 65_534;

/// Where root's own project is worked on by somebody else, it is shown as theirs.
fn idmap_for(root: &AbsPath, identity: Identity) -> io::Result<Option<OwnedFd>> {
    let Identity::Other { uid, gid } = identity else { return Ok(None) };
    let owner = fs::metadata(os_path(root)).map(|m| (m.uid(), m.gid()))?;
    if owner.0 == uid { Ok(None) } else { mapping(root, owner, (uid, gid)).map(Some) }
}

/// The session's own directories and the caches, owned by whoever will write them.
fn make_directories(surface: &Surface, session: &Session, identity: Identity) -> Result<(), PrepareError> {
    let is_ours = |effect| matches!(effect, Effect::Write(Role::Cache | Role::Scratch));
    let rules = surface.rules().iter().filter(|rule| is_ours(rule.effect));
    let paths = rules.filter_map(|rule| rule.pattern.as_path().cloned()).chain([session.dir().join("tmp")]);
    for path in paths {
        let failed = |source| PrepareError::Directory { path: path.clone(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(os_path(&path)).map_err(failed)?;
        if let Identity::Other { uid, gid } = identity {
            std::os::unix::fs::chown(os_path(&path), Some(uid), Some(gid)).map_err(failed)?;
        }
    }
    Ok(())
}
