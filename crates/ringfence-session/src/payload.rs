//! The last steps of a new process before it is the payload's program. They are the same however the view was made.

use std::convert::Infallible;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ringfence_plan::SyscallRule;
use ringfence_sys::process::{self, Program};
use ringfence_sys::{bpf, pty, seccomp};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit};

use crate::steps::{
    CAPABILITIES, CHROOT, DESCRIPTORS, EXEC, IDENTITY, LANDLOCK, LIMITS, SEAT, SECCOMP, WORKDIR, failed,
};
use crate::view::Failed;
use crate::wall::Wall;
use crate::ways;

/// A terminal, which descriptors it replaces, and as what one sits there.
pub(crate) type SeatAt<'fd> = Option<(BorrowedFd<'fd>, pty::Seats, Place)>;

/// As what somebody sits at a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Leads a session of its own. Keys that stop a job do not stop it, since nobody could continue it.
    Leader,
    /// Works in the session that the first process leads, who sees when it stops.
    Job,
}

/// Everything that is left to do, laid out.
pub(crate) struct Payload {
    pub(crate) workdir: CString,
    pub(crate) program: Program,
    pub(crate) landlock: Option<Wall>,
    pub(crate) seccomp: bpf::Program,
    /// What the filter refuses besides.
    pub(crate) refused: &'static [SyscallRule],
    pub(crate) pids: Option<Pids>,
    /// Who the program runs as, where whoever made the view left that to us.
    pub(crate) becomes: Option<(u32, u32)>,
    /// What becomes `/`, where that is no view of mounts.
    pub(crate) root: Option<CString>,
}

/// A limit on processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pids {
    /// Together with the processes of ours that count.
    pub(crate) most: u64,
    /// The kernel counts a user's processes within a user namespace: one is made where none is there yet.
    pub(crate) needs_namespace: Option<(u32, u32)>,
}

impl Payload {
    /// Becomes the program. Returns only on failure. Allocates nothing.
    pub(crate) fn become_program(
        &self,
        seat: SeatAt<'_>,
        proc: Option<BorrowedFd<'_>>,
        handover: Option<&OwnedFd>,
    ) -> Failed {
        match self.all_steps(seat, proc, handover) {
            Err(failed) => failed,
            Ok(never) => match never {},
        }
    }

    fn all_steps(
        &self,
        seat: SeatAt<'_>,
        proc: Option<BorrowedFd<'_>>,
        handover: Option<&OwnedFd>,
    ) -> Result<Infallible, Failed> {
        take_seat(seat)?;
        self.once_seated(proc, handover)
    }

    /// What follows once the terminal is ours. `proc` is a `/proc` that can be written, where the one in the view cannot;
    /// `handover` takes the listener, where somebody listens.
    pub(crate) fn once_seated(
        &self,
        proc: Option<BorrowedFd<'_>>,
        handover: Option<&OwnedFd>,
    ) -> Result<Infallible, Failed> {
        process::close_on_exec_from(3).map_err(|e| failed(DESCRIPTORS, &e))?;
        if let Some(root) = &self.root {
            self.enter_root(root)?;
        } else if let Some((uid, gid)) = self.becomes {
            process::drop_bounding_set().map_err(|e| failed(CAPABILITIES, &e))?;
            process::become_user(uid, gid).map_err(|e| failed(IDENTITY, &e))?;
            process::drop_capabilities().map_err(|e| failed(CAPABILITIES, &e))?;
        }
        rustix::process::chdir(self.workdir.as_c_str()).map_err(|errno| Failed { step: WORKDIR, errno })?;
        process::reset_signals();
        process::restore_callers_umask();
        if let Some(pids) = self.pids {
            if pids.needs_namespace.is_some() {
                // Its files in `/proc` are to be written. Otherwise this memory may be that of the first process, which nobody
                // looks into; that of the program is another.
                let whole = rustix::process::DumpableBehavior::Dumpable;
                rustix::process::set_dumpable_behavior(whole).map_err(|errno| Failed { step: CAPABILITIES, errno })?;
            }
            limit(pids, proc).map_err(|e| failed(LIMITS, &e))?;
        }
        rustix::thread::set_no_new_privs(true).map_err(|errno| Failed { step: CAPABILITIES, errno })?;
        if let Some(wall) = &self.landlock {
            wall.enter().map_err(|e| failed(LANDLOCK, &e))?;
        }
        match handover {
            None => seccomp::install(&self.seccomp, seccomp::Flags::NONE),
            Some(handover) => seccomp::install_with_listener(&self.seccomp, seccomp::Flags::WAIT_KILLABLE_RECV)
                .and_then(|listener| ways::send(handover, &[1], &[listener.as_fd()])),
        }
        .map_err(|e| failed(SECCOMP, &e))?;
        Err(failed(EXEC, &self.program.exec()))
    }
}

impl Payload {
    /// Makes a directory `/` and gives up every right. Of what is open, only the three standard descriptors come along to the
    /// program; they are no directories, and where we stand is inside: so nothing leads out. Allocates nothing.
    fn enter_root(&self, root: &CString) -> Result<(), Failed> {
        rustix::process::chroot(root.as_c_str()).map_err(|errno| Failed { step: CHROOT, errno })?;
        rustix::process::chdir(c"/").map_err(|errno| Failed { step: CHROOT, errno })?;
        match process::drop_bounding_set() {
            Ok(()) => {}
            // That takes another right, which whoever can only change their root does not have. Without new privileges nothing
            // in that set can be had again.
            Err(cause) if cause.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) => {}
            Err(cause) => return Err(failed(CAPABILITIES, &cause)),
        }
        if let Some((uid, gid)) = self.becomes {
            process::become_user(uid, gid).map_err(|e| failed(IDENTITY, &e))?;
        }
        process::drop_capabilities().map_err(|e| failed(CAPABILITIES, &e))
    }
}

/// Sits down at the terminal if there is one, and leads a session of its own if not. Allocates nothing.
pub(crate) fn take_seat(seat: SeatAt<'_>) -> Result<(), Failed> {
    let seated = match seat {
        Some((slave, seats, Place::Leader)) => pty::become_session_leader_on(slave, seats).map_err(io::Error::from),
        Some((slave, seats, Place::Job)) => pty::become_job_on(slave, seats),
        None => pty::become_session_leader().map_err(io::Error::from),
    };
    seated.map_err(|error| failed(SEAT, &error))
}

/// Allocates nothing.
fn limit(pids: Pids, proc: Option<BorrowedFd<'_>>) -> io::Result<()> {
    if let Some((uid, gid)) = pids.needs_namespace {
        process::unshare_user()?;
        match proc {
            Some(proc) => map_in(proc, uid, gid)?,
            None => map_oneself(uid, gid)?,
        }
    }
    let most = Some(pids.most);
    rustix::process::setrlimit(Resource::Nproc, Rlimit { current: most, maximum: most })?;
    if pids.needs_namespace.is_some() {
        process::drop_bounding_set()?;
        process::drop_capabilities()?;
    }
    Ok(())
}

/// The caller's own identity, unchanged: git keeps user numbers in its index and would read every file again for another.
pub(crate) fn map_oneself(uid: u32, gid: u32) -> io::Result<()> {
    map_in(open_proc()?.as_fd(), uid, gid)
}

/// The `/proc` that is mounted here. Allocates nothing.
pub(crate) fn open_proc() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(c"/proc", flags, Mode::empty())?)
}

fn map_in(proc: BorrowedFd<'_>, uid: u32, gid: u32) -> io::Result<()> {
    let mut line = [0; 32];
    process::write_file_at(proc, c"self/setgroups", b"deny")?;
    process::write_file_at(proc, c"self/uid_map", identity_line(uid, &mut line))?;
    process::write_file_at(proc, c"self/gid_map", identity_line(gid, &mut line))
}

/// `N N 1`, without allocating.
fn identity_line(id: u32, line: &mut [u8; 32]) -> &[u8] {
    use std::io::Write as _;
    let mut rest = line.as_mut_slice();
    let _ = writeln!(rest, "{id} {id} 1");
    let left = rest.len();
    &line[..32 - left]
}
