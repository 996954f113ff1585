//! Single features of the kernel, each tried.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_plan::features::Finding;
use ringfence_plan::{Errno as PlanErrno, SyscallAction, SyscallRule};
use ringfence_surface::{AbsPath, Shown};
use ringfence_sys::landlock::{self, AccessFs, AccessNet, RestrictFlags, Ruleset, Scope, Supported};
use ringfence_sys::process::{self, Namespaces};
use ringfence_sys::{bpf, ns, seccomp};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, open, openat2};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::PidfdFlags;
use rustix::pty::OpenptFlags;

use super::attempt::{Stop, attempt, errno};
use super::program;
use crate::idmap;
use crate::sufficient::SufficientLandlock;
use crate::ways;

/// What the kernel said to an attempt that did not come to its end.
fn said((_, stop): (u8, Stop)) -> Errno {
    match stop {
        Stop::Errno(errno) => errno,
        // Neither says anything about the kernel: see `is_no_answer`.
        Stop::Threads => Errno::AGAIN,
        Stop::Killed => Errno::INTR,
        Stop::TimedOut => Errno::TIMEDOUT,
    }
}

/// Was there no answer: none in time, or nothing could be asked?
pub(crate) fn is_no_answer(errno: Errno) -> bool {
    matches!(errno, Errno::TIMEDOUT | Errno::AGAIN)
}

/// The gateway through which a session reaches its hosts, made as a session makes it, in namespaces of its own.
///
/// # Errors
/// What the kernel says: `EOPNOTSUPP` without veth devices, `EROFS` where `/proc/sys` is read-only.
pub fn gateway() -> Result<(), Errno> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let namespaces = if uid == 0 { Namespaces::FENCE } else { Namespaces::FENCE.with_user() };
    attempt(namespaces, |_| {
        if uid != 0 {
            crate::payload::map_oneself(uid, gid).map_err(|e| errno(&e))?;
        }
        ns::loopback_up().map_err(|e| errno(&e))?;
        ways::try_gateway().map_err(|failed| failed.errno)
    })
    .map_err(said)
}

/// The Landlock of this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landlock {
    /// Its number, and of the bits of that number those that it really takes.
    pub supported: Supported,
    /// Which of its known mistakes are repaired, a bit for each; nothing on kernels that do not tell.
    pub errata: Option<u32>,
}

impl Landlock {
    /// Does `run` build domains with it? See [`SufficientLandlock`].
    pub fn is_sufficient(&self) -> bool {
        SufficientLandlock::new(self.supported).is_ok()
    }
}

/// What Landlock does here: each right is tried, and a process is restricted to see that it is.
///
/// # Errors
/// `ENOSYS` without Landlock, `EOPNOTSUPP` if it is switched off at boot, others where something around this process refuses.
pub fn landlock() -> Result<Landlock, Errno> {
    let supported = landlock::supported().map_err(|e| errno(&e))?;
    attempt(Namespaces::NONE, |_| {
        rustix::thread::set_no_new_privs(true)?;
        let ruleset = Ruleset::create(AccessFs::READ_DIR, AccessNet::NONE, Scope::NONE).map_err(|e| errno(&e))?;
        ruleset.restrict_self(RestrictFlags::NONE).map_err(|e| errno(&e))?;
        match open(c"/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::ACCESS) => Ok(()),
            // It was restricted and is not.
            _ => Err(Errno::NOTSUP),
        }
    })
    .map_err(said)?;
    Ok(Landlock { supported, errata: landlock::errata().ok() })
}

/// Filters on system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seccomp {
    /// A filter can be installed, and refuses.
    pub filter: Result<(), Errno>,
    /// A supervisor can be asked; `EBUSY` where one outside is already.
    pub listener: Result<(), Errno>,
}

/// Whether filters can be installed here, each kind in a process of its own.
pub fn seccomp() -> Seccomp {
    // chroot has an errno of its own for everybody, root or not: this one is the filter's.
    let action = SyscallAction::Errno(PlanErrno::EAFNOSUPPORT);
    let rule = SyscallRule { name: "chroot", when: &[], action, reason: "to see that it is refused" };
    let Ok(compiled) = seccomp::compile(&[rule]) else {
        return Seccomp { filter: Err(Errno::NOSYS), listener: Err(Errno::NOSYS) };
    };
    let program = &compiled.program;
    let listen = |program: &bpf::Program| {
        let flags = seccomp::Flags::WAIT_KILLABLE_RECV;
        seccomp::install_with_listener(program, flags).map(drop).map_err(|e| errno(&e))
    };
    let filter = attempt(Namespaces::NONE, |_| {
        rustix::thread::set_no_new_privs(true)?;
        seccomp::install(program, seccomp::Flags::NONE).map_err(|e| errno(&e))?;
        match rustix::process::chroot(c"/") {
            Err(Errno::AFNOSUPPORT) => Ok(()),
            _ => Err(Errno::NOTSUP),
        }
    });
    let listener = attempt(Namespaces::NONE, |_| {
        rustix::thread::set_no_new_privs(true)?;
        listen(program)
    });
    Seccomp { filter: filter.map_err(said), listener: listener.map_err(said) }
}

/// A review keeps changes in a layer of their own: can such a layer be mounted without being root?
///
/// # Errors
/// What the kernel says.
pub fn overlay() -> Result<(), Errno> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let namespaces = if uid == 0 { Namespaces::FENCE } else { Namespaces::FENCE.with_user() };
    attempt(namespaces, |_| {
        if uid != 0 {
            crate::payload::map_oneself(uid, gid).map_err(|e| errno(&e))?;
        }
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        mount(c"tmpfs", c"/tmp", c"tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=0755")?;
        rustix::process::chdir(c"/tmp")?;
        for dir in [c"lower", c"upper", c"work", c"merged"] {
            mkdirat(CWD, dir, Mode::from_raw_mode(0o755))?;
        }
        let layers = c"lowerdir=lower,upperdir=upper,workdir=work,userxattr";
        mount(c"overlay", c"merged", c"overlay", MountFlags::NOSUID | MountFlags::NODEV, layers)?;
        mkdirat(CWD, c"merged/new", Mode::from_raw_mode(0o755))
    })
    .map_err(said)
}

/// Root's own project is worked on by somebody else: can it be shown as theirs? Only root can ask.
///
/// # Errors
/// What the kernel says; `EINVAL` where the project's file system cannot.
pub fn idmap(project: &AbsPath) -> Result<(), Errno> {
    const SOMEBODY: (u32, u32) = (65_534, 65_534);
    idmap::mapping(project, (0, 0), SOMEBODY).map(drop).map_err(|e| errno(&e))
}

/// A path that cannot leave its anchor.
///
/// # Errors
/// `ENOSYS` before Linux 5.6.
pub fn openat2_beneath() -> Result<(), Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(c"/", flags, Mode::empty())?;
    openat2(&root, c".", flags, Mode::empty(), resolve)?;
    match openat2(&root, c"..", flags, Mode::empty(), resolve) {
        Err(Errno::XDEV) => Ok(()),
        // It led out.
        _ => Err(Errno::NOTSUP),
    }
}

/// A handle on a process that no other can take over.
///
/// # Errors
/// `ENOSYS` before Linux 5.3.
pub fn pidfd() -> Result<(), Errno> {
    rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).map(drop)
}

/// Descriptors can be kept from a program all at once.
///
/// # Errors
/// `ENOSYS` or `EINVAL` before Linux 5.11.
pub fn close_range() -> Result<(), Errno> {
    process::has_close_range().map_err(|e| errno(&e))
}

/// A terminal for the session.
///
/// # Errors
/// `ENOENT` where devpts is not mounted, `ENOSPC` where all are in use.
pub fn pty() -> Result<(), Errno> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    rustix::pty::ptsname(master.as_fd(), Vec::new()).map(drop)
}

/// A container engine that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub path: PathBuf,
    /// Its version, where it can be used.
    pub version: Finding,
}

/// The container engines of this system.
pub fn engines() -> Vec<Engine> {
    let found = |name: &'static str, ask: fn(&Path) -> Finding| {
        let path = program::system_program(name)?;
        let version = ask(&path);
        Some(Engine { name, path, version })
    };
    [found("docker", docker), found("podman", podman)].into_iter().flatten().collect()
}

/// Docker's program is of no use without its service, so that is asked for its version, as the caller reaches it.
fn docker(path: &Path) -> Finding {
    let passed = ["HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"];
    let words = ["version", "--format", "{{.Server.Version}}"].map(OsStr::new);
    answered("docker", path, program::run_with(path, &words, PATIENCE, &passed))
}

/// Podman has no service. To ask it more than its version would make its store, and leave a process of its behind.
fn podman(path: &Path) -> Finding {
    // Without a home it does not even say that.
    answered("podman", path, program::run_with(path, &[OsStr::new("--version")], PATIENCE, &["HOME"]))
}

fn answered(name: &str, path: &Path, ran: io::Result<program::Ran>) -> Finding {
    let ran = match ran {
        Ok(ran) => ran,
        Err(cause) if cause.kind() == io::ErrorKind::TimedOut => {
            return Finding::unknown(format!("{name} did not answer within {} s", PATIENCE.as_secs()));
        }
        Err(cause) => return Finding::missing(format!("{name}: {cause}")),
    };
    match version_in(&ran.said).filter(|_| ran.status.success()) {
        Some(version) => Finding::present(format!("{version} at {}", Shown(path.as_os_str().as_encoded_bytes()))),
        None => {
            let last = ran.said.trim_ascii().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            Finding::missing(format!("{name} does not answer: {}", Shown(last)))
        }
    }
}

/// The first word that begins with a digit: `podman version 5.4.0`.
fn version_in(said: &[u8]) -> Option<String> {
    let words = said.split(|byte| byte.is_ascii_whitespace() || *byte == b',');
    words.into_iter().find(|word| word.first().is_some_and(u8::is_ascii_digit)).map(|word| Shown(word).to_string())
}

/// How long an engine is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version_in(b"Docker version 28.2.2, build e6534b4\n").as_deref(), Some("28.2.2"));
        assert_eq!(version_in(b"podman version 5.4.0\n").as_deref(), Some("5.4.0"));
        assert_eq!(version_in(b"nothing"), None);
    }

    /// What needs no process of its own can be asked anywhere; the machines that run the tests have it.
    #[test]
    fn simple_features() {
        assert_eq!((openat2_beneath(), pidfd(), close_range(), pty()), (Ok(()), Ok(()), Ok(()), Ok(())));
    }
}
