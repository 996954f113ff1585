//! Commands within the session that others ask its supervisor for: each in a fence of its own that is tighter.
//!
//! The supervisor makes the streams and a channel, starts a process of its own program that lays out the fence and starts the
//! command (see [`crate::called`]), and hands the other ends to whoever asked. It waits for nothing and reads nothing of it: what
//! came of the call is said over the channel, and whoever lets go of the channel ends the call.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::clients::{CALLS, Clients, Door};
use super::wire::CallOrder;
use crate::ways;

/// At once. Those who ask from inside have less.
const MOST: usize = 32;
const MOST_INSIDE: usize = 8;
/// A longer order is nothing of ours, and this much fits into a new channel.
const MOST_ORDER: usize = 64 << 10;

/// What the process of a call understands: that the session is paused, and that it goes on.
pub(crate) const PAUSE: Signal = Signal::USR1;
pub(crate) const RESUME: Signal = Signal::USR2;

/// What is run: a name of the command line that nobody types.
pub(crate) const COMMAND: &str = "called";

/// The calls that are under way.
#[derive(Debug)]
pub(super) struct Calls {
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    pid: Pid,
    /// Readable when it has ended.
    pidfd: OwnedFd,
    door: Door,
}

impl Calls {
    pub(super) const fn none() -> Self {
        Self { running: Vec::new() }
    }

    /// Starts one. What comes back is for whoever asked: where to write its input, where to read its output and its errors, and
    /// the channel.
    pub(super) fn begin(
        &mut self,
        clients: &Clients,
        session: &str,
        order: &CallOrder,
        door: Door,
    ) -> Result<[OwnedFd; 4], String> {
        let inside = self.running.iter().filter(|call| call.door == Door::Inside).count();
        if self.running.len() >= MOST || door == Door::Inside && inside >= MOST_INSIDE {
            return Err("too many calls are under way".to_owned());
        }
        let mut line = serde_json::to_vec(order).map_err(|cause| cause.to_string())?;
        line.push(b'\n');
        if line.len() > MOST_ORDER {
            return Err("the order is too long".to_owned());
        }
        let failed = |cause: io::Error| format!("the call cannot be started: {cause}");
        let (running, ends) = start(session, &line, door).map_err(failed)?;
        // One that cannot be watched is looked at when something else happens.
        let _ = clients.watch(running.pidfd.as_fd(), CALLS);
        self.running.push(running);
        Ok(ends)
    }

    /// Stops them with the session, or lets them go on.
    pub(super) fn tell(&self, word: Signal) {
        for call in &self.running {
            // One that has ended needs no telling.
            let _ = rustix::process::pidfd_send_signal(&call.pidfd, word);
        }
    }

    /// Takes note of those that have ended.
    pub(super) fn collect(&mut self, clients: &Clients) {
        self.running.retain(|call| {
            let is_there = matches!(
                rustix::process::waitpid(Some(call.pid), WaitOptions::NOHANG),
                Ok(None) | Err(rustix::io::Errno::INTR)
            );
            if !is_there {
                clients.forget(call.pidfd.as_fd());
            }
            is_there
        });
    }
}

fn start(session: &str, order: &[u8], door: Door) -> io::Result<(Running, [OwnedFd; 4])> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((input, feed), (out, output), (err, errors)) = (pipe()?, pipe()?, pipe()?);
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let (channel, theirs) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(COMMAND).args((door == Door::Inside).then_some("--inside")).arg(session);
    // No signal of the terminal is for it.
    command.process_group(0).stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
    // A new channel has room for it; where it has not, nobody waits.
    rustix::io::ioctl_fionbio(&channel, true)?;
    ways::send(&channel, order, &[input.as_fd(), output.as_fd(), errors.as_fd()])?;
    rustix::io::ioctl_fionbio(&channel, false)?;
    let child = ringfence_sys::process::with_callers_umask(&mut command).spawn()?;
    let pid = Pid::from_child(&child);
    // It is not waited for yet, so this number is no other's.
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    Ok((Running { pid, pidfd, door }, [feed, out, err, channel]))
}
