//! Terminals, and the signals that belong to them: the child's side of a PTY, and the calls that rustix 1.1 does not have.
//!
//! Nothing here decides who gets a terminal; that is `ringfence_session::terminal`. The functions for the time between fork
//! and exec say so: they make system calls only, take no lock and allocate nothing.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, ioctl_tiocsctty, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::process::{close_on_exec_from, default_signal, restore_callers_umask};

/// What one of the three standard descriptors of a child becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// The slave of the PTY.
    Terminal,
    /// What it was: a file, a pipe, `/dev/null`.
    Kept,
}

/// What the three standard descriptors of a child become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seats {
    /// Descriptor 0.
    pub stdin: Seat,
    /// Descriptor 1.
    pub stdout: Seat,
    /// Descriptor 2.
    pub stderr: Seat,
}

/// A packet of `TIOCPKT` begins with this byte when bytes follow.
pub const TIOCPKT_DATA: u8 = 0;

/// A packet of `TIOCPKT` begins with a byte that has this bit when the modes of the slave changed (only under `EXTPROC`).
pub const TIOCPKT_IOCTL: u8 = 64;

/// Child, between fork and exec: a session of its own, with `slave` as its terminal and as the descriptors of `seats`.
///
/// After this `/dev/tty` is the slave, and no terminal of the caller's session can be reached by name. Allocates nothing.
///
/// `slave` must be above 2 and close-on-exec: a `dup2` onto itself would leave a descriptor that `exec` closes.
///
/// # Errors
///
/// `EPERM` from `setsid` when the caller leads a process group already, or from `TIOCSCTTY` when `slave` is the terminal of
/// another session; `EBADF` when `slave` is one of the three standard descriptors.
pub fn become_session_leader_on(slave: BorrowedFd<'_>, seats: Seats) -> rustix::io::Result<()> {
    if slave.as_raw_fd() <= libc::STDERR_FILENO {
        return Err(Errno::BADF);
    }
    setsid()?;
    ioctl_tiocsctty(slave)?;
    sit(slave, seats)
}

/// The leader of a session that has no terminal makes this one its own. Allocates nothing.
///
/// # Errors
///
/// `EPERM` when `slave` is the terminal of another session, or the caller leads none.
pub fn lead_on(slave: BorrowedFd<'_>) -> rustix::io::Result<()> {
    ioctl_tiocsctty(slave)
}

/// Child of a session's leader, between fork and exec: the job in the foreground of its terminal. The leader sees when it stops,
/// and the keys that stop it do: the kernel lets nobody be stopped whom no parent in the same session could continue. Allocates
/// nothing.
///
/// # Errors
///
/// `EBADF` when `slave` is one of the three standard descriptors, and what the kernel says.
pub fn become_job_on(slave: BorrowedFd<'_>, seats: Seats) -> io::Result<()> {
    if slave.as_raw_fd() <= libc::STDERR_FILENO {
        return Err(Errno::BADF.into());
    }
    rustix::process::setpgid(None, None)?;
    // A group of its own is in the background, and is stopped for this unless it does not hear of it.
    let mask = block(&[Signal::TTOU])?;
    rustix::termios::tcsetpgrp(slave, rustix::process::getpid())?;
    mask.restore()?;
    Ok(sit(slave, seats)?)
}

fn sit(slave: BorrowedFd<'_>, seats: Seats) -> rustix::io::Result<()> {
    if seats.stdin == Seat::Terminal {
        dup2_stdin(slave)?;
    }
    if seats.stdout == Seat::Terminal {
        dup2_stdout(slave)?;
    }
    if seats.stderr == Seat::Terminal {
        dup2_stderr(slave)?;
    }
    Ok(())
}

/// Child, between fork and exec: a session of its own, without a terminal.
///
/// For a payload whose standard descriptors are all files or pipes. Without this it would stay in the session of the user's
/// shell, and `/dev/tty` would be the user's terminal. Allocates nothing.
///
/// # Errors
///
/// `EPERM` when the caller leads a process group already.
pub fn become_session_leader() -> rustix::io::Result<()> {
    setsid().map(drop)
}

/// Lets the process that `command` will start call [`become_session_leader_on`] before it becomes the program.
///
/// It keeps no descriptor but the three, and has `mask` as its blocked signals: [`Command`] passes the caller's on.
pub fn seat_on(command: &mut Command, slave: OwnedFd, seats: Seats, mask: SignalMask) {
    let enter = move || {
        become_session_leader_on(slave.as_fd(), seats)?;
        close_on_exec_from(3)?;
        default_signal(Signal::XFSZ);
        restore_callers_umask();
        mask.restore()
    };
    // SAFETY: the closure runs in a forked child, where only async-signal-safe calls are sound. All it does is system calls,
    // through functions that say that they allocate nothing; their errors are numbers.
    unsafe { command.pre_exec(enter) };
}

/// Lets the process that `command` will start call [`become_session_leader`] before it becomes the program.
///
/// Descriptors and signals are as with [`seat_on`].
pub fn seat_apart(command: &mut Command, mask: SignalMask) {
    let enter = move || {
        become_session_leader()?;
        close_on_exec_from(3)?;
        default_signal(Signal::XFSZ);
        restore_callers_umask();
        mask.restore()
    };
    // SAFETY: the closure runs in the child before exec and only makes system calls: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(enter) };
}

/// `ioctl(master, TIOCPKT, 1)`: each read of the master begins with a byte that says what follows.
///
/// # Errors
///
/// `ENOTTY` when `master` is not the master of a PTY.
pub fn tiocpkt(master: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: TIOCPKT reads one int from the address, and `on` is one that lives until the call returns.
    let result = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCPKT, &raw const on) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `ioctl(master, TIOCSIG, signal)`: sends the signal to the foreground process group of the slave.
///
/// The kernel finds the group, so it does not matter which pid namespace it is in, and no pid can be mistaken for another.
///
/// # Errors
///
/// `EINVAL` for a signal other than `SIGINT`, `SIGQUIT` and `SIGTSTP`; `ENOTTY` when `master` is not the master of a PTY.
pub fn tiocsig(master: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
    // SAFETY: TIOCSIG takes its argument by value; no memory of ours is read or written.
    let result = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSIG, signal.as_raw()) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The signals that a thread has blocked.
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// Makes this the mask of the calling thread. Allocates nothing, so a child may call it between fork and exec.
    ///
    /// # Errors
    ///
    /// None is known: `EINVAL` and `EFAULT` are about arguments that are fixed here.
    pub fn restore(&self) -> io::Result<()> {
        // SAFETY: the set is one that the kernel filled in `pthread_sigmask`, and a null pointer asks for no old mask.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    }
}

/// Blocks `signals` in the calling thread, and returns the mask that it had.
///
/// # Errors
///
/// `EINVAL` for a number that is not a signal.
pub fn block(signals: &[Signal]) -> io::Result<SignalMask> {
    pthread_sigmask(libc::SIG_BLOCK, signals)
}

/// Lets `signals` act in the calling thread, and returns the mask that it had. Those that wait act before this returns.
///
/// # Errors
///
/// `EINVAL` for a number that is not a signal.
pub fn unblock(signals: &[Signal]) -> io::Result<SignalMask> {
    pthread_sigmask(libc::SIG_UNBLOCK, signals)
}

/// `signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK)`: a descriptor that becomes readable when one of `signals` waits.
///
/// The signals must be blocked (see [`block`]), or they act as ever.
///
/// # Errors
///
/// `EMFILE`, `ENFILE`, `ENOMEM`; `ENODEV` when the kernel cannot make anonymous inodes.
pub fn signalfd(signals: &[Signal]) -> io::Result<OwnedFd> {
    let set = sigset(signals)?;
    // SAFETY: `set` was filled by `sigset`; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes the next signal that waits on a [`signalfd`], or nothing when none waits.
///
/// # Errors
///
/// What `read` says, except that no signal waits; `InvalidData` for a record of the wrong size or an unknown number.
pub fn next_signal(signalfd: BorrowedFd<'_>) -> io::Result<Option<Signal>> {
    // `struct signalfd_siginfo`: 128 bytes by the ABI, of which the first four are the number.
    let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
    let length = match rustix::io::retry_on_intr(|| rustix::io::read(signalfd, &mut record)) {
        Ok(length) => length,
        Err(Errno::AGAIN) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let number = record.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
    match number.and_then(Signal::from_named_raw) {
        Some(signal) if length == record.len() => Ok(Some(signal)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn pthread_sigmask(how: libc::c_int, signals: &[Signal]) -> io::Result<SignalMask> {
    let set = sigset(signals)?;
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` was filled by `sigset`, and `before` has room for one set, which the call writes.
    let error = unsafe { libc::pthread_sigmask(how, &raw const set, before.as_mut_ptr()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: the call returned 0, so it wrote the old mask.
    Ok(SignalMask(unsafe { before.assume_init() }))
}

fn sigset(signals: &[Signal]) -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is to room for one set, which the call writes whole.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: `sigemptyset` cannot fail for a valid pointer, and it wrote the whole set.
    let mut set = unsafe { set.assume_init() };
    for signal in signals {
        // SAFETY: the pointer is to a set that is filled; a number out of range is answered with an error.
        let result = unsafe { libc::sigaddset(&raw mut set, signal.as_raw()) };
        if result == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}
