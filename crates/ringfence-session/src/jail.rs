//! A command whose writes end at named directories, by Landlock alone: no namespace, no view, no supervisor.
//!
//! `-- ANCHOR GLOB... -- CMD ARGS...`: everything can be read and executed as before; below the anchor, the directory that
//! stands before a glob's first wildcard can be written. The restriction stays through exec and binds every descendant.
//!
//! Landlock knows directories, not globs. So `src/*.rs` opens all of `src`, and a glob without a wildcard opens what it names
//! if that is a directory, and otherwise the directory it is in. Exact globs are for the layers that see names.
//!
//! What is not there is not made: a prefix that does not exist is refused, since a jail that makes directories has written
//! before anybody was restricted, and opening the directory above instead would open more than was asked. Symbolic links
//! below the anchor are refused too: whoever can place one would choose what is opened.
//!
//! Outside Landlock's sight, and so possible in the jail: changing mode, owner, times and attributes of the user's files,
//! writing to descriptors that are open already, connecting to sockets.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_surface::{GlobListError, Literal, RelativeGlob, Shown, WritableGlobs};
use ringfence_sys::landlock::{AccessFs, AccessNet, RestrictFlags, Ruleset, Scope};
use ringfence_sys::process;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::place;
pub use crate::sufficient::LandlockUnavailable;
use crate::sufficient::SufficientLandlock;

/// The subcommand that [`wrap`] starts this program with.
pub const SUBCOMMAND: &str = "jail-exec";

/// Devices that can be written without reaching anything, beside the terminals that the command has already.
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];

/// The Landlock of this kernel: everything that a jail needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Abi(u32);

impl Abi {
    /// The number that the kernel reports.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Can commands be jailed here? Asking changes nothing.
///
/// # Errors
/// When this kernel cannot hold what a jail promises. There is no lesser jail.
pub fn probe() -> Result<Abi, LandlockUnavailable> {
    SufficientLandlock::find().map(|landlock| Abi(landlock.abi()))
}

/// Why a command did not become jailed. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// The arguments do not have the form.
    #[error("jail-exec takes `-- ANCHOR GLOB... -- CMD ARGS...`: {missing}")]
    Usage {
        /// What is missing.
        missing: &'static str,
    },
    /// There is no glob, or one that cannot be used.
    #[error(transparent)]
    Globs(#[from] GlobListError),
    /// The anchor cannot be opened.
    #[error("open({}, O_PATH|O_DIRECTORY)", Shown(anchor.as_os_str().as_bytes()))]
    Anchor {
        /// As given.
        anchor: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory before a glob's first wildcard cannot be opened below the anchor.
    #[error(
        "openat2(ANCHOR, {}, O_PATH|O_DIRECTORY, RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS)",
        Shown(prefix.as_os_str().as_bytes())
    )]
    Prefix {
        /// The directory, below the anchor.
        prefix: PathBuf,
        /// Why: ENOENT if it does not exist (make it first), ELOOP or EXDEV if a symbolic link leads elsewhere.
        source: io::Error,
    },
    /// This kernel cannot hold the jail.
    #[error("cannot restrict the command")]
    Unavailable(#[from] LandlockUnavailable),
    /// A step of the restriction failed.
    #[error("cannot restrict the command: {call}")]
    Restrict {
        /// The call.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The command cannot be executed. The restriction holds already.
    #[error("execvp({})", Shown(program.as_bytes()))]
    Exec {
        /// The command.
        program: OsString,
        /// Why.
        source: io::Error,
    },
}

impl JailError {
    /// 2: the arguments cannot be used; 3: the restriction failed; 4: the command cannot be executed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } | Self::Globs(_) | Self::Anchor { .. } | Self::Prefix { .. } => 2,
            Self::Unavailable(_) | Self::Restrict { .. } => 3,
            Self::Exec { .. } => 4,
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Prefix { source, .. } if source.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {
                Some("make the directory first: a jail makes none")
            }
            Self::Prefix { .. } => Some("name the real directory: links below the anchor are not followed"),
            Self::Globs(GlobListError::Escape { .. }) => Some("write it relative to the anchor, without `..`"),
            Self::Unavailable(_) => Some("Linux 6.2 or later with Landlock switched on is needed (lsm=... at boot)"),
            _ => None,
        }
    }
}

/// Becomes the command, jailed. The arguments are what follows the subcommand: `-- ANCHOR GLOB... -- CMD ARGS...`. The
/// environment, the working directory and open descriptors are the command's.
///
/// Returns only if that failed. After a failed exec the calling thread is restricted.
pub fn run_jail_exec(arguments: &[OsString]) -> JailError {
    match prepare(arguments) {
        Ok((jail, program, rest)) => match jail.restrict() {
            Ok(()) => {
                // Of what `adopt_own_signals` set, the command inherits nothing.
                process::reset_signals();
                JailError::Exec { program: program.clone(), source: Command::new(program).args(rest).exec() }
            }
            Err(failed) => failed,
        },
        Err(failed) => failed,
    }
}

fn prepare(arguments: &[OsString]) -> Result<(Jail, &OsString, &[OsString]), JailError> {
    let usage = |missing| JailError::Usage { missing };
    let is_separator = |argument: &OsString| argument == "--";
    let [first, rest @ ..] = arguments else { return Err(usage("there is nothing")) };
    if !is_separator(first) {
        return Err(usage("the first `--`"));
    }
    let end = rest.iter().position(is_separator).ok_or_else(|| usage("the second `--`"))?;
    let (jail, command) = (&rest[..end], &rest[end + 1..]);
    let [anchor, globs @ ..] = jail else { return Err(usage("the anchor")) };
    let [program, rest @ ..] = command else { return Err(usage("the command")) };
    Ok((Jail::new(Path::new(anchor), globs)?, program, rest))
}

/// The directories that will be writable, held open: what is put in their place later does not count.
#[derive(Debug)]
pub struct Jail {
    writable: Vec<OwnedFd>,
}

impl Jail {
    /// Checks the globs and opens their directories. Nothing is restricted and nothing is made.
    ///
    /// # Errors
    /// When there is no glob, one is not usable, or its directory does not exist below the anchor.
    pub fn new(anchor: &Path, globs: &[impl AsRef<OsStr>]) -> Result<Self, JailError> {
        let globs = WritableGlobs::new(globs.iter().map(|glob| glob.as_ref().as_bytes()))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(anchor, flags, Mode::empty())
            .map_err(|errno| JailError::Anchor { anchor: anchor.to_owned(), source: errno.into() })?;
        let mut writable = Vec::new();
        for prefix in globs.iter().map(RelativeGlob::literal) {
            let opened = open_directory(&root, prefix);
            let prefix = PathBuf::from(OsStr::from_bytes(&prefix.path));
            writable.push(opened.map_err(|errno| JailError::Prefix { prefix, source: errno.into() })?);
        }
        Ok(Self { writable })
    }

    /// Restricts the calling thread and everything it starts, for good.
    ///
    /// # Errors
    /// When the kernel cannot hold it; then nothing is restricted.
    pub fn restrict(&self) -> Result<(), JailError> {
        let handled = SufficientLandlock::find()?.file_rights();
        let step = |call: &'static str| move |source: io::Error| JailError::Restrict { call, source };
        let ruleset =
            Ruleset::create(handled, AccessNet::NONE, Scope::NONE).map_err(step("landlock_create_ruleset()"))?;
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let root = root.map_err(io::Error::from).map_err(step("open(/, O_PATH)"))?;
        let add = |fd: BorrowedFd<'_>, access| ruleset.add_path(fd, access).map_err(step("landlock_add_rule()"));
        add(root.as_fd(), AccessFs::READ)?;
        for directory in &self.writable {
            add(directory.as_fd(), handled)?;
        }
        for device in DEVICES {
            // A device that does not exist needs no rule.
            if let Ok(fd) = rustix::fs::open(*device, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            {
                add(fd.as_fd(), AccessFs::DEVICE)?;
            }
        }
        // The terminal is open already; programs open it once more by its name, or by /dev/stderr.
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        for stream in [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()] {
            if rustix::termios::isatty(stream) {
                add(stream, AccessFs::DEVICE)?;
            }
        }
        rustix::thread::set_no_new_privs(true).map_err(io::Error::from).map_err(step("prctl(PR_SET_NO_NEW_PRIVS)"))?;
        ruleset.restrict_self(RestrictFlags::NONE).map_err(step("landlock_restrict_self()"))
    }
}

/// Below the anchor and through no link. A literal glob that names no directory stands for the one it is in.
fn open_directory(anchor: &OwnedFd, prefix: &Literal) -> Result<OwnedFd, Errno> {
    let opened = open_beneath(anchor, &prefix.path);
    match opened {
        Err(Errno::NOTDIR | Errno::NOENT) if prefix.is_whole => {
            let end = prefix.path.iter().rposition(|byte| *byte == b'/');
            let parent = end.map_or(b".".as_slice(), |end| &prefix.path[..end]);
            open_beneath(anchor, parent)
        }
        other => other,
    }
}

fn open_beneath(anchor: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    place::open_beneath(anchor, &path, OFlags::PATH | OFlags::DIRECTORY)
}

/// The command, by way of this program's [`SUBCOMMAND`]: this program, started once more, restricts itself and becomes the
/// command. Arguments, working directory and environment are kept, also variables that were removed or all cleared.
///
/// Whatever else a [`Command`] can hold cannot be read from it: streams, user, process group, `arg0` and hooks must be set on
/// the command that is returned. The program must answer the subcommand with [`run_jail_exec`].
///
/// # Errors
/// When the anchor is relative and the current directory cannot be told.
pub fn wrap(command: Command, anchor: &Path, globs: &[impl AsRef<OsStr>]) -> io::Result<Command> {
    wrap_with(Path::new("/proc/self/exe"), command, anchor, globs)
}

/// As [`wrap`], by way of another program that answers the subcommand.
///
/// # Errors
/// When the anchor is relative and the current directory cannot be told.
pub fn wrap_with(
    jailer: &Path,
    mut command: Command,
    anchor: &Path,
    globs: &[impl AsRef<OsStr>],
) -> io::Result<Command> {
    let mut jailed = Command::new(jailer);
    // The command may start in another directory, from which a relative anchor would be another.
    jailed.args([SUBCOMMAND, "--"]).arg(std::path::absolute(anchor)?).args(globs);
    jailed.arg("--").arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        jailed.current_dir(directory);
    }
    // There is no way to ask whether everything was cleared. But a variable that is removed from a cleared environment is
    // forgotten, and one that is removed from an inherited one is noted.
    const PROBE: &str = "RINGFENCE_NO_SUCH_VARIABLE";
    command.env_remove(PROBE);
    if !command.get_envs().any(|(name, _)| name == PROBE) {
        jailed.env_clear();
    }
    for (name, value) in command.get_envs().filter(|(name, _)| *name != PROBE) {
        match value {
            Some(value) => jailed.env(name, value),
            None => jailed.env_remove(name),
        };
    }
    Ok(jailed)
}
