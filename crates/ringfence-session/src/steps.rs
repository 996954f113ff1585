//! What a new process does before it is a program, by number: it cannot speak, so it names the step that failed.

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::view::{Failed, View};

/// Numbered from the end, so that they never meet those of the view.
pub(crate) const MAPS: u32 = u32::MAX - 100;
pub(crate) const LOOPBACK: u32 = u32::MAX - 101;
pub(crate) const IDENTITY: u32 = u32::MAX - 102;
pub(crate) const FORK: u32 = u32::MAX - 103;
pub(crate) const SEAT: u32 = u32::MAX - 104;
pub(crate) const DESCRIPTORS: u32 = u32::MAX - 105;
pub(crate) const CAPABILITIES: u32 = u32::MAX - 106;
pub(crate) const WORKDIR: u32 = u32::MAX - 107;
pub(crate) const LANDLOCK: u32 = u32::MAX - 108;
pub(crate) const SECCOMP: u32 = u32::MAX - 109;
pub(crate) const EXEC: u32 = u32::MAX - 110;
pub(crate) const STANDARD: u32 = u32::MAX - 111;
pub(crate) const LIMITS: u32 = u32::MAX - 112;
pub(crate) const BWRAP: u32 = u32::MAX - 113;
pub(crate) const INSIDE: u32 = u32::MAX - 114;
/// No failure: bubblewrap made the view, and what runs in it is ours.
pub(crate) const ARRIVED: u32 = u32::MAX - 115;

pub(crate) const WAYS: u32 = u32::MAX - 116;

pub(crate) const TERMINAL: u32 = u32::MAX - 117;

pub(crate) const CHECK: u32 = u32::MAX - 118;
pub(crate) const CHROOT: u32 = u32::MAX - 119;
pub(crate) const SIGNALS: u32 = u32::MAX - 120;
pub(crate) const LOW_PORTS: u32 = u32::MAX - 121;
pub(crate) const GATEWAY_LINK: u32 = u32::MAX - 122;

/// `ip_unprivileged_port_start` of this network namespace. Read-only in most containers.
pub(crate) const LOW_PORTS_FILE: &CStr = c"/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// A step in words.
pub(crate) fn words(step: u32, view: Option<&View>) -> String {
    match step {
        MAPS => "writing uid_map and gid_map".into(),
        LOOPBACK => "ioctl(SIOCSIFFLAGS, lo)".into(),
        IDENTITY => "setresuid".into(),
        FORK => "clone3 of the payload".into(),
        SEAT => "taking the terminal".into(),
        TERMINAL => "making a terminal in /dev/pts".into(),
        DESCRIPTORS => "close_range(3, CLOSE_RANGE_CLOEXEC), then reading /proc/self/fd".into(),
        CAPABILITIES => "giving up capabilities".into(),
        WORKDIR => "chdir to the working directory".into(),
        LANDLOCK => "landlock_restrict_self".into(),
        STANDARD => "putting the standard streams in place".into(),
        SECCOMP => "seccomp(SECCOMP_SET_MODE_FILTER)".into(),
        LIMITS => "setrlimit(RLIMIT_NPROC) in a user namespace".into(),
        WAYS => "making the sockets of the way out".into(),
        LOW_PORTS => "write(/proc/sys/net/ipv4/ip_unprivileged_port_start)".into(),
        GATEWAY_LINK => "making a network namespace and a veth pair that leads there (rtnetlink)".into(),
        CHROOT => "chroot to the root directory".into(),
        SIGNALS => "signalfd".into(),
        CHECK => "looking at what the engine made".into(),
        BWRAP => "starting bubblewrap".into(),
        INSIDE => "reading what to do inside".into(),
        number => view.map_or_else(|| "?".into(), |view| view.words(number)),
    }
}

/// A step and why it failed.
pub(crate) fn failed(step: u32, error: &io::Error) -> Failed {
    Failed { step, errno: Errno::from_io_error(error).unwrap_or(Errno::IO) }
}

/// Tells the supervisor which step failed. Allocates nothing.
pub(crate) fn report(errors: &OwnedFd, failed: Failed) -> u8 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&failed.step.to_le_bytes());
    bytes[4..].copy_from_slice(&failed.errno.raw_os_error().to_le_bytes());
    let _ = rustix::io::write(errors, &bytes);
    125
}

/// Waits until there is a report or there will be none: every writer has closed its end, or the process below which the writers are
/// has ended, as its pidfd tells. A process that outlives it and still holds the pipe cannot make the caller wait for ever.
pub(crate) fn wait_for_report(errors: &OwnedFd, writer: BorrowedFd<'_>) -> io::Result<Option<(u32, io::Error)>> {
    let is_ready = |fd: PollFd<'_>, timeout: Option<&Timespec>| {
        let mut fds = [PollFd::new(errors, PollFlags::IN), fd];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, timeout))?;
        Ok::<_, Errno>(!fds[0].revents().is_empty())
    };
    let has_report = is_ready(PollFd::from_borrowed_fd(writer, PollFlags::IN), None)?
        // It may have written, and ended, after the kernel looked at the pipe.
        || is_ready(PollFd::new(errors, PollFlags::IN), Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    if has_report { next_report(errors) } else { Ok(None) }
}

/// Reads one report; `None` when there will be no more.
pub(crate) fn next_report(errors: &OwnedFd) -> io::Result<Option<(u32, io::Error)>> {
    let mut report = [0_u8; 8];
    let mut got = 0;
    while got < report.len() {
        match rustix::io::read(errors, &mut report[got..]) {
            Ok(0) => return Ok(None),
            Ok(n) => got += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let [a, b, c, d, e, f, g, h] = report;
    let errno = io::Error::from_raw_os_error(i32::from_le_bytes([e, f, g, h]));
    Ok(Some((u32::from_le_bytes([a, b, c, d]), errno)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use ringfence_sys::process::{Child, Namespaces, clone_into};

    use super::*;

    fn ending_child(main: impl FnOnce() -> u8) -> Child {
        clone_into(Namespaces::NONE, None, main).unwrap()
    }

    /// [G4] A process that outlives the first one, as one of bubblewrap's did, and that never writes or ends.
    #[test]
    fn a_pipe_that_stays_open_ends_with_the_child() {
        let (read, write) = crate::launch::pipe().unwrap();
        let child = ending_child(|| 0);
        assert!(wait_for_report(&read, child.pidfd.as_fd()).unwrap().is_none());
        drop(write);
        child.end();
    }

    #[test]
    fn a_report_is_read_although_the_child_has_ended() {
        let (read, write) = crate::launch::pipe().unwrap();
        let child = ending_child(|| report(&write, Failed { step: FORK, errno: Errno::NOMEM }));
        let mut ended = [PollFd::new(&child.pidfd, PollFlags::IN)];
        rustix::event::poll(&mut ended, None).unwrap();
        let (step, cause) = wait_for_report(&read, child.pidfd.as_fd()).unwrap().unwrap();
        assert_eq!((step, cause.raw_os_error()), (FORK, Some(Errno::NOMEM.raw_os_error())));
        assert!(wait_for_report(&read, child.pidfd.as_fd()).unwrap().is_none());
        child.end();
    }
}
