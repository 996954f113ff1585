//! Runs a command as `ringfence run` does, without the fence: only the terminal, the signals and the exit status.
//!
//! `pty_run CMD ARG...`, for the tests of the terminal and for trying it by hand.

use std::env;
use std::io::{self, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};

use ringfence_session::terminal::{Clock, LastResort, Recipient, Signals, Terminal, spawn_on, wait_with_signals};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::from(125),
    }
}

fn run() -> io::Result<u8> {
    let mut words = env::args_os().skip(1);
    let mut command = Command::new(words.next().ok_or(io::ErrorKind::InvalidInput)?);
    command.args(words);

    let terminal = Terminal::open(stdin().as_fd(), stdout().as_fd(), stderr().as_fd())?;
    let signals = Signals::block()?;
    let mut child = spawn_on(terminal.as_ref(), &signals, command)?;
    let leader = Pid::from_child(&child);
    let done = pidfd_open(leader, PidfdFlags::empty())?;
    let mut clock = Clock::new(None, None, LastResort::Kill);
    match terminal {
        Some(terminal) => terminal.into_relay(&signals).run(done.as_fd(), Recipient::Group(leader), &mut clock)?,
        None => wait_with_signals(&signals, done.as_fd(), Recipient::Group(leader), &mut clock)?,
    }

    let status = child.wait()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(125);
    Ok(u8::try_from(code).unwrap_or(125))
}
