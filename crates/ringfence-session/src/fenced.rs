//! An environment for an orchestrator's tools in which every command has a fence of its own.
//!
//! Files are reached by the orchestrator itself, beneath the session's working directory and without following a link, and only
//! if the call's policy allows it; commands run in the native fence under that policy.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ringfence_fs::{Environment, Exec, ExecError, Executed, FileError, Operation, Root, RootError, Writable};
use ringfence_plan::Shortfall;
use ringfence_surface::{AbsPath, Access, SubPolicy, Surface};

use crate::alive::{Found, NotWithin};
use crate::beside::{Beside, Within as Among};
use crate::call::{CallError, Within};
use crate::capture::{Terms, capture};
use crate::launch::StartError;
use crate::look::{Live, facts_here};
use crate::repository::{is_part, is_planted};
use crate::start::Occasion;
use crate::temporary::Journal;
use crate::walk::os_path;

/// Why there is no such environment.
#[derive(Debug, thiserror::Error)]
pub enum FencedError {
    /// There is no such session.
    #[error(transparent)]
    Within(#[from] NotWithin),
    /// Its policy asks for more than the session has.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The working directory cannot be held.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The host cannot be described.
    #[error("cannot describe this host")]
    Facts {
        /// Why.
        source: io::Error,
    },
}

/// Files beneath a session's working directory, and commands in fences that are tighter than the session's.
#[derive(Debug)]
pub struct FencedEnvironment {
    within: Within,
    policy: SubPolicy,
    /// Made tighter, as far as that does not depend on a call.
    surface: Surface,
    root: Root,
    session: Option<Found>,
    /// Its place among those who work at the same time, once something is changed.
    beside: OnceLock<Beside>,
    planting: Mutex<()>,
}

impl FencedEnvironment {
    /// In a session that `ringfence run` has started and that still runs, by its name. `policy` says what its tools get, of what
    /// the session has: [`SubPolicy::for_tools`] is the usual.
    ///
    /// # Errors
    /// [`FencedError`].
    pub fn in_session(name: &str, policy: impl FnOnce(&Surface) -> SubPolicy) -> Result<Self, FencedError> {
        let facts = |source| FencedError::Facts { source };
        let here = std::env::current_dir().and_then(|here| facts_here(&here)).map_err(facts)?;
        let (within, found) = Within::session(name, here)?;
        let policy = policy(&within.surface);
        Ok(Self { session: Some(found), ..Self::new(within, policy)? })
    }

    /// In whatever calls are made within. The caller keeps the session.
    ///
    /// # Errors
    /// [`FencedError`].
    pub fn new(within: Within, policy: SubPolicy) -> Result<Self, FencedError> {
        let surface = within.surface.tighten(&policy).map_err(CallError::from)?;
        // Which of its names may be changed is the surface's to say.
        let root = Root::open(os_path(surface.workdir()), Writable::everything())?;
        let root = root.recording_names(Arc::new(Journal::new(&within.state)));
        Ok(Self { within, policy, surface, root, session: None, beside: OnceLock::new(), planting: Mutex::new(()) })
    }

    /// What its tools may touch.
    pub fn surface(&self) -> &Surface {
        &self.surface
    }

    /// What of its commands does not hold, beyond what the session has said of itself. A program with several threads has no broker for
    /// them: what they make under protected names that do not exist yet is not held then.
    ///
    /// # Errors
    /// [`CallError`]: then no command can be run either.
    pub fn not_held(&self) -> Result<Vec<Shortfall>, CallError> {
        let command = [OsString::from("true")];
        let laid = self.within.lay_out(&self.policy, &command, Occasion::EmbeddedCall, &mut Live::new())?;
        Ok(laid.short)
    }

    /// Until it is let go of, no session and no call of this user moves a directory: what is changed is where it was decided.
    fn among(&self, path: &Path) -> Result<Among<'_>, FileError> {
        let failed = |source| FileError::Io { call: "open", path: path.to_owned(), source };
        let beside = match self.beside.get() {
            Some(beside) => beside,
            None => {
                let joined = Beside::join(&self.within.state).map_err(failed)?;
                self.beside.get_or_init(|| joined)
            }
        };
        beside.within(|| true).map_err(|errno| failed(errno.into()))
    }

    /// The path below the root, if the policy allows this. It comes before anything is touched.
    fn allowed<'p>(&self, path: &'p Path, operation: Operation) -> Result<&'p Path, FileError> {
        let below = self.root.below(path);
        let access = if operation == Operation::Read { Access::Read } else { Access::Write };
        let refused = || FileError::PathNotAllowed { path: path.to_owned(), operation };
        if below.is_absolute() {
            return Err(refused());
        }
        let place = self.place(below).ok_or_else(refused)?;
        if self.surface.decide(&place, access).is_allowed() { Ok(below) } else { Err(refused()) }
    }

    /// Where a path below the root really is: nothing on the way is a link, or it is not opened. What leads up and out is left to
    /// the kernel to refuse.
    fn place(&self, below: &Path) -> Option<AbsPath> {
        let workdir = self.surface.workdir().as_bytes();
        AbsPath::lexical(&[workdir, b"/", below.as_os_str().as_bytes()].concat()).ok()
    }

    /// Would a new file make a directory on the way a repository whose settings nobody guards?
    fn would_plant(&self, below: &Path) -> bool {
        let Some(place) = self.place(below) else { return true };
        let is_there = |path: &AbsPath| std::fs::symlink_metadata(os_path(path)).is_ok();
        let plants = |path: &AbsPath| {
            let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return false };
            is_part(name)
                && !is_there(path)
                && is_planted(&self.surface, &dir, |other| other == name || is_there(&dir.child(other)))
        };
        place.ancestors().take_while(|path| path != self.surface.workdir()).any(|path| plants(&path))
    }

    fn run(&self, exec: &Exec) -> Result<Executed, ExecError> {
        let program = || exec.program().to_owned();
        let mut policy = self.policy.clone();
        if let Some(dir) = exec.directory() {
            policy.workdir = self.place(self.root.below(dir));
        }
        // Whoever gives less time than the session has is asked for no more.
        let most = self.surface.caps().wall.as_ref().map_or(Duration::MAX, |cap| cap.value);
        let command: Vec<OsString> = [exec.program().to_owned()].into_iter().chain(exec.arguments().to_vec()).collect();
        let words = (command.as_slice(), exec.environment());
        let laid = self.within.lay_out_with(&policy, words, Occasion::EmbeddedCall, &mut Live::new());
        let laid = laid.map_err(|source| ExecError::Fence { program: program(), source: Box::new(source) })?;
        let terms = Terms {
            input: exec.input(),
            keep: exec.kept(),
            timeout: Some(exec.timeout().min(most)),
            session: self.session.as_ref(),
        };
        match capture(laid, &terms) {
            Ok(came) => Ok(came.executed),
            Err(StartError::NotFound { .. }) => {
                Err(ExecError::Start { program: program(), source: io::ErrorKind::NotFound.into() })
            }
            Err(StartError::NotExecutable { source, .. }) => Err(ExecError::Start { program: program(), source }),
            Err(source) => Err(ExecError::Fence { program: program(), source: Box::new(source) }),
        }
    }
}

impl Environment for FencedEnvironment {
    fn working_dir(&self) -> &Path {
        self.root.path()
    }

    fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
        self.root.read(self.allowed(path, Operation::Read)?, most)
    }

    fn write(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        let below = self.allowed(path, Operation::Write)?;
        // Of two that make part of a repository at once each would miss the other.
        let _planting = below.iter().any(|name| is_part(name.as_bytes())).then(|| self.planting.lock());
        let _among = self.among(path)?;
        if self.would_plant(below) {
            return Err(FileError::PathNotAllowed { path: path.to_owned(), operation: Operation::Write });
        }
        self.root.write(below, content)
    }

    fn remove(&self, path: &Path) -> Result<(), FileError> {
        let below = self.allowed(path, Operation::Remove)?;
        let _among = self.among(path)?;
        self.root.remove(below)
    }

    fn glob(&self, pattern: &Path, most: usize) -> Result<ringfence_fs::Found, FileError> {
        let mut found = self.root.glob(self.root.below(pattern), most)?;
        found.entries.retain(|entry| self.allowed(&PathBuf::from(&entry.path), Operation::Read).is_ok());
        Ok(found)
    }

    fn exec(&self, exec: &Exec) -> Result<Executed, ExecError> {
        self.run(exec)
    }
}
