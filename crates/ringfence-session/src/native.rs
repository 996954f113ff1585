//! The native backend: namespaces, mounts, Landlock and seccomp, with nothing between decision and kernel.
//!
//! Everything is decided and laid out before the fork. The new process is the first of its own process namespace: it makes
//! the view, gives up its rights, starts the payload and waits for it. When it ends, the kernel ends everything in there; it
//! ends with the supervisor.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use ringfence_plan::{Fence, Files, Ground, LandlockPlan, Rights, Scope as PlanScope};
use ringfence_surface::Surface;
use ringfence_sys::landlock::{AccessFs, AccessNet, RestrictFlags, Ruleset, Scope};
use ringfence_sys::process::{Child, Namespaces, Program};
use ringfence_sys::{ns, process, pty, seccomp};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::standard::Standard;
use crate::terminal::{self, Recipient, Signals, Wanted, wait_with_signals};
use crate::view::{Failed, View};

/// Who runs the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The caller, in a user namespace of its own.
    Caller {
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// Another, since the caller is root and no payload is.
    Other {
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
    },
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Namespaces are not to be had.
    #[error("clone3(CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWNET|..)")]
    Clone {
        /// Why.
        source: io::Error,
    },
    /// A step of the new process failed.
    #[error("{step}")]
    Step {
        /// Which.
        step: String,
        /// Why.
        source: io::Error,
    },
    /// A file system that every session has of its own cannot be had.
    #[error("{step}")]
    FileSystem {
        /// Which kind.
        kind: &'static str,
        /// The whole call.
        step: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody moves things about in what is being fenced.
    #[error("{step}: something else was put there while the session started")]
    Replaced {
        /// Where.
        step: String,
    },
    /// The program is not there.
    #[error("{program}: not found inside the fence")]
    NotFound {
        /// As asked.
        program: String,
    },
    /// The program cannot be executed.
    #[error("{program} cannot be executed")]
    NotExecutable {
        /// As asked.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Something before the fork failed.
    #[error("{what}")]
    Prepare {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// Everything the new process needs, laid out.
pub struct Prepared {
    pub(crate) view: View,
    pub(crate) identity: Identity,
    pub(crate) workdir: CString,
    pub(crate) program: Program,
    pub(crate) program_name: String,
    pub(crate) stdio: Vec<Standard>,
    pub(crate) landlock: Option<Wall>,
    pub(crate) seccomp: ringfence_sys::bpf::Program,
}

/// Landlock's rules with their paths as the kernel takes them.
pub(crate) struct Wall {
    handled: AccessFs,
    rules: Vec<(CString, AccessFs)>,
    scopes: Scope,
}

impl Wall {
    /// From the plan; `None` where the kernel has no Landlock.
    pub(crate) fn new(plan: &LandlockPlan) -> Option<Self> {
        let supported = ringfence_sys::landlock::supported().ok()?;
        let rights = |rights: Rights| match rights {
            Rights::Read => AccessFs::READ,
            Rights::Device => AccessFs::DEVICE,
            Rights::All => supported.fs,
        };
        let rule =
            |rule: &ringfence_plan::LandlockRule| Some((CString::new(rule.path.as_bytes()).ok()?, rights(rule.rights)));
        let scope = |scope: &PlanScope| match scope {
            PlanScope::Signal => Scope::SIGNAL,
            PlanScope::AbstractUnixSocket => Scope::ABSTRACT_UNIX_SOCKET,
        };
        let scopes = plan.scopes.iter().map(scope).fold(Scope::NONE, Scope::union).intersection(supported.scoped);
        let handled = if plan.files == Files::Restricted { supported.fs } else { AccessFs::NONE };
        Some(Self { rules: plan.rules.iter().filter_map(rule).collect(), handled, scopes })
    }

    /// Runs in the payload. Allocates nothing.
    fn build(&self) -> io::Result<()> {
        let ruleset = Ruleset::create(self.handled, AccessNet::NONE, self.scopes)?;
        for (path, access) in &self.rules {
            match rustix::fs::open(path.as_c_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
                Ok(fd) => ruleset.add_path(fd.as_fd(), *access)?,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        ruleset.restrict_self(RestrictFlags::NONE)
    }
}

/// The filter of the native backend.
pub(crate) fn filter() -> Result<ringfence_sys::bpf::Program, io::Error> {
    let filter = seccomp::compile(&ringfence_plan::syscalls(Fence::Namespaces)).map_err(io::Error::other)?;
    Ok(filter.program)
}

/// The domain of the native backend.
pub(crate) fn wall(surface: &Surface) -> Option<Wall> {
    Wall::new(&ringfence_plan::landlock(surface, Ground::View))
}

/// Steps after the view, numbered from the end so that they never meet those of the view.
const MAPS: u32 = u32::MAX - 100;
const LOOPBACK: u32 = u32::MAX - 101;
const IDENTITY: u32 = u32::MAX - 102;
const FORK: u32 = u32::MAX - 103;
const SEAT: u32 = u32::MAX - 104;
const DESCRIPTORS: u32 = u32::MAX - 105;
const CAPABILITIES: u32 = u32::MAX - 106;
const WORKDIR: u32 = u32::MAX - 107;
const LANDLOCK: u32 = u32::MAX - 108;
const SECCOMP: u32 = u32::MAX - 109;
const EXEC: u32 = u32::MAX - 110;
const STANDARD: u32 = u32::MAX - 111;
const TERMINAL: u32 = u32::MAX - 112;

fn words(step: u32, view: &View) -> String {
    match step {
        MAPS => "writing uid_map and gid_map".into(),
        LOOPBACK => "ioctl(SIOCSIFFLAGS, lo)".into(),
        IDENTITY => "setresuid".into(),
        FORK => "clone3 of the payload".into(),
        SEAT => "taking the terminal".into(),
        TERMINAL => "making a terminal in /dev/pts".into(),
        DESCRIPTORS => "close_range(3, CLOSE_RANGE_CLOEXEC)".into(),
        CAPABILITIES => "giving up capabilities".into(),
        WORKDIR => "chdir to the working directory".into(),
        LANDLOCK => "landlock_restrict_self".into(),
        STANDARD => "opening a standard descriptor again inside the fence (it is protected or denied there)".into(),
        SECCOMP => "seccomp(SECCOMP_SET_MODE_FILTER)".into(),
        number => view.words(number),
    }
}

/// The new process's ends of what it shares with the supervisor.
struct Ends {
    /// Says which step failed; closed by success.
    errors: OwnedFd,
    /// Ends when the supervisor does.
    alive: OwnedFd,
}

/// How it ended: the payload's own code, or 128 and its signal.
pub type ExitCode = u8;

impl Prepared {
    /// Starts the payload and waits for its end.
    ///
    /// # Errors
    /// [`StartError`] when nothing was started, or when waiting failed.
    pub fn run(&self) -> Result<ExitCode, StartError> {
        let prepare = |what: &'static str| move |source: io::Error| StartError::Prepare { what, source };
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let wanted = Wanted::find(stdin.as_fd(), stdout.as_fd(), stderr.as_fd()).map_err(prepare("tcgetattr"))?;
        // The PTY is made inside, where it has a name.
        let sockets = wanted.as_ref().map(|_| terminal::Ends::new()).transpose().map_err(prepare("socketpair"))?;
        let (outside, inside) = sockets.map(|ends| (ends.outside, ends.inside)).unzip();
        let signals = Signals::block().map_err(prepare("signalfd"))?;
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| prepare("pipe2")(e.into()));
        let ((errors_read, errors), (alive, alive_write)) = (pipe()?, pipe()?);
        let namespaces = match self.identity {
            Identity::Caller { .. } => Namespaces::FENCE.with_user(),
            Identity::Other { .. } => Namespaces::FENCE,
        };
        let ends = Ends { errors, alive };
        let (seat, watch) = (inside.zip(wanted.as_ref().map(Wanted::seats)), alive_write.as_raw_fd());
        let child = process::clone_process(namespaces, || self.first(ends, seat, watch))
            .map_err(|source| StartError::Clone { source })?;
        let terminal = match wanted.zip(outside) {
            Some((wanted, outside)) => match terminal::ask_for_master(&outside).map_err(prepare("recvmsg"))? {
                Some(master) => {
                    let terminal = wanted.on(master).map_err(prepare("setting up the terminal"))?;
                    rustix::io::write(&outside, b"g").map_err(|e| prepare("write")(e.into()))?;
                    Some(terminal)
                }
                None => None,
            },
            None => None,
        };
        self.started(&errors_read)?;
        let to = Recipient::Process(child.pidfd.as_fd());
        match terminal {
            Some(terminal) => terminal.into_relay(&signals).run(child.pidfd.as_fd(), to),
            None => wait_with_signals(&signals, child.pidfd.as_fd(), to),
        }
        .map_err(prepare("waiting"))?;
        drop(alive_write);
        reap(&child)
    }

    /// Reads the report of the new process: silence is success.
    fn started(&self, errors: &OwnedFd) -> Result<(), StartError> {
        let mut report = [0_u8; 8];
        let mut got = 0;
        while got < report.len() {
            match rustix::io::read(errors, &mut report[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(StartError::Prepare { what: "reading the report", source: errno.into() }),
            }
        }
        if got < report.len() {
            return Ok(());
        }
        let [a, b, c, d, e, f, g, h] = report;
        let (step, source) =
            (u32::from_le_bytes([a, b, c, d]), io::Error::from_raw_os_error(i32::from_le_bytes([e, f, g, h])));
        let program = self.program_name.clone();
        Err(match (step, source.kind()) {
            (EXEC, io::ErrorKind::NotFound) => StartError::NotFound { program },
            (EXEC, _) => StartError::NotExecutable { program, source },
            (step, _) if self.view.is_replaced(step, &source) => StartError::Replaced { step: words(step, &self.view) },
            (step, _) => match self.view.file_system(step) {
                Some(kind) => StartError::FileSystem { kind, step: words(step, &self.view), source },
                None => StartError::Step { step: words(step, &self.view), source },
            },
        })
    }

    /// The first process of the new namespaces. Allocates nothing.
    fn first(&self, ends: Ends, seat: Option<(OwnedFd, pty::Seats)>, watch: i32) -> u8 {
        let Ends { errors, alive } = ends;
        if let Err(failed) = self.enter(&alive, watch) {
            return report(&errors, failed);
        }
        let seat = match seat.map(|(inside, seats)| Ok((terminal::make_inside(inside)?, seats))).transpose() {
            Ok(seat) => seat,
            Err(errno) => return report(&errors, Failed { step: TERMINAL, errno }),
        };
        let seat = seat.as_ref().map(|(slave, seats)| (slave.as_fd(), *seats));
        let Ok(signals) = pty::signalfd(&FORWARDED) else { return 125 };
        if pty::block(&FORWARDED).is_err() {
            return 125;
        }
        let payload = match process::fork_in_copy(|| report(&errors, self.payload(seat))) {
            Ok(pid) => pid,
            Err(error) => return report(&errors, failed(FORK, &error)),
        };
        // Now only the payload holds it, until it becomes its program.
        drop(errors);
        wait_for(payload, &signals)
    }

    /// Makes the view and gives up the rights over it.
    fn enter(&self, alive: &OwnedFd, watch: i32) -> Result<(), Failed> {
        process::die_with_parent().map_err(|e| failed(IDENTITY, &e))?;
        close(watch);
        // The parent may have died before it was asked for; then nobody holds the other end any more.
        let mut fds = [PollFd::new(alive, PollFlags::IN)];
        if rustix::event::poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
        {
            return Err(Failed { step: IDENTITY, errno: Errno::PIPE });
        }
        if let Identity::Caller { uid, gid } = self.identity {
            maps(uid, gid).map_err(|e| failed(MAPS, &e))?;
        }
        ns::loopback_up().map_err(|e| failed(LOOPBACK, &e))?;
        self.view.enter()?;
        process::drop_bounding_set().map_err(|e| failed(CAPABILITIES, &e))?;
        if let Identity::Other { uid, gid } = self.identity {
            process::become_user(uid, gid).map_err(|e| failed(IDENTITY, &e))?;
            // Changing who we are undid it.
            process::die_with_parent().map_err(|e| failed(IDENTITY, &e))?;
        }
        let quiet = rustix::process::DumpableBehavior::NotDumpable;
        rustix::process::set_dumpable_behavior(quiet).map_err(|errno| Failed { step: IDENTITY, errno })?;
        rustix::thread::set_no_new_privs(true).map_err(|errno| Failed { step: CAPABILITIES, errno })?;
        process::drop_capabilities().map_err(|e| failed(CAPABILITIES, &e))
    }

    /// Becomes the program. Returns only on failure. Allocates nothing.
    fn payload(&self, seat: Option<(std::os::fd::BorrowedFd<'_>, pty::Seats)>) -> Failed {
        match self.become_program(seat) {
            Err(failed) => failed,
            Ok(never) => match never {},
        }
    }

    fn become_program(
        &self,
        seat: Option<(std::os::fd::BorrowedFd<'_>, pty::Seats)>,
    ) -> Result<std::convert::Infallible, Failed> {
        let seated = match seat {
            Some((slave, seats)) => pty::become_session_leader_on(slave, seats),
            None => pty::become_session_leader(),
        };
        seated.map_err(|errno| Failed { step: SEAT, errno })?;
        process::close_on_exec_from(3).map_err(|e| failed(DESCRIPTORS, &e))?;
        rustix::process::chdir(self.workdir.as_c_str()).map_err(|errno| Failed { step: WORKDIR, errno })?;
        for standard in &self.stdio {
            standard.reopen().map_err(|errno| Failed { step: STANDARD, errno })?;
        }
        let whole = rustix::process::DumpableBehavior::Dumpable;
        rustix::process::set_dumpable_behavior(whole).map_err(|errno| Failed { step: CAPABILITIES, errno })?;
        process::reset_signals();
        if let Some(wall) = &self.landlock {
            wall.build().map_err(|e| failed(LANDLOCK, &e))?;
        }
        seccomp::install(&self.seccomp, seccomp::Flags::NONE).map_err(|e| failed(SECCOMP, &e))?;
        Err(failed(EXEC, &self.program.exec()))
    }
}

const FORWARDED: [Signal; 5] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::CHILD];

/// Waits for the payload, collects what others leave behind, and passes signals on. Allocates nothing.
fn wait_for(payload: Pid, signals: &OwnedFd) -> u8 {
    loop {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == payload => {
                    let code = status.exit_status().or_else(|| status.terminating_signal().map(|s| 128 + s));
                    return code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(_) => break,
            }
        }
        let mut fds = [PollFd::new(signals, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, None);
        while let Ok(Some(signal)) = pty::next_signal(signals.as_fd()) {
            if signal != Signal::CHILD {
                // The payload leads a group of its own; what has ended needs no signal.
                let _ = rustix::process::kill_process_group(payload, signal);
                // One that is stopped would not hear of it.
                let _ = rustix::process::kill_process_group(payload, Signal::CONT);
            }
        }
    }
}

fn failed(step: u32, error: &io::Error) -> Failed {
    Failed { step, errno: Errno::from_io_error(error).unwrap_or(Errno::IO) }
}

/// Tells the supervisor which step failed.
fn report(errors: &OwnedFd, failed: Failed) -> u8 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&failed.step.to_le_bytes());
    bytes[4..].copy_from_slice(&failed.errno.raw_os_error().to_le_bytes());
    let _ = rustix::io::write(errors, &bytes);
    125
}

/// The caller's own identity, unchanged: git keeps user numbers in its index and would read every file again for another.
fn maps(uid: u32, gid: u32) -> io::Result<()> {
    let mut line = [0; 32];
    process::write_file(c"/proc/self/setgroups", b"deny")?;
    process::write_file(c"/proc/self/uid_map", identity_line(uid, &mut line))?;
    process::write_file(c"/proc/self/gid_map", identity_line(gid, &mut line))
}

/// `N N 1`, without allocating.
fn identity_line(id: u32, line: &mut [u8; 32]) -> &[u8] {
    use std::io::Write as _;
    let mut rest = line.as_mut_slice();
    let _ = writeln!(rest, "{id} {id} 1");
    let left = rest.len();
    &line[..32 - left]
}

fn close(fd: i32) {
    process::close(fd);
}

/// The end of the first process.
fn reap(child: &Child) -> Result<ExitCode, StartError> {
    loop {
        match rustix::process::waitpid(Some(child.pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let code = status.exit_status().or_else(|| status.terminating_signal().map(|s| 128 + s));
                return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(StartError::Prepare { what: "waitpid", source: errno.into() }),
        }
    }
}
