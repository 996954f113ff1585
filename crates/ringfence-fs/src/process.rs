//! Runs a command that nothing confines, and takes what it prints.
//!
//! One thread watches everything: both streams, what is to be read, the end of the command and the clock.

mod tree;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::error::ExecError;
use crate::exec::{Exec, Executed, Outcome};
use crate::tail::Tail;

/// The variable by which what has left its parents is found again.
pub(crate) const MARKER: &str = "RINGFENCE_CALL";

/// How long streams are read that something else still holds after the command has ended.
const LINGER: Duration = Duration::from_millis(100);

/// How long something is waited for that was ended by force.
const DYING: Duration = Duration::from_secs(5);

/// Starts a command that is set up but for its streams, and waits for it.
pub(crate) fn run(mut command: Command, exec: &Exec) -> Result<Executed, ExecError> {
    let start = |source| ExecError::Start { program: exec.program().to_owned(), source };
    let marker = marker().map_err(start)?;
    command.env(MARKER, &marker).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if exec.input().is_empty() { Stdio::null() } else { Stdio::piped() });
    let deadline = Instant::now().checked_add(exec.timeout());
    let mut child = command.spawn().map_err(start)?;
    let mut watch = match Watch::new(&mut child, exec, deadline) {
        Ok(watch) => watch,
        Err(cause) => return Err(lost(child, &marker, exec, cause)),
    };
    match watch.until_over() {
        Ok(is_over) => finish(child, watch, is_over, &marker, exec),
        Err(cause) => Err(lost(child, &marker, exec, cause)),
    }
}

/// A call, and what it said.
type Failed = (&'static str, io::Error);

fn failed(call: &'static str) -> impl Fn(Errno) -> Failed {
    move |errno| (call, errno.into())
}

fn marker() -> io::Result<String> {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_ne_bytes(random)))
}

/// Nothing that was started is left behind by a failure of ours.
fn lost(mut child: Child, marker: &str, exec: &Exec, (call, source): Failed) -> ExecError {
    tree::end(child.id(), marker);
    let _ = child.wait();
    ExecError::Lost { program: exec.program().to_owned(), call, source }
}

fn finish(
    mut child: Child,
    mut watch: Watch<'_>,
    is_over: IsOver,
    marker: &str,
    exec: &Exec,
) -> Result<Executed, ExecError> {
    let lost = |call, source| ExecError::Lost { program: exec.program().to_owned(), call, source };
    let (outcome, survivors) = match is_over {
        IsOver::Command => (outcome(child.wait().map_err(|source| lost("waitpid", source))?), Vec::new()),
        IsOver::Time => {
            let mut survivors = tree::end(child.id(), marker);
            if watch.dies_within(DYING) {
                // What it had printed by then is still in the pipes.
                watch.drain().map_err(|(call, source)| lost(call, source))?;
                child.wait().map_err(|source| lost("waitpid", source))?;
            } else if !survivors.contains(&child.id().cast_signed()) {
                survivors.push(child.id().cast_signed());
            }
            (Outcome::TimedOut, survivors)
        }
    };
    let left_running = outcome != Outcome::TimedOut && watch.is_held();
    let [stdout, stderr] = watch.streams.map(|stream| stream.tail.into());
    Ok(Executed { outcome, stdout, stderr, left_running, survivors })
}

fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, signal) => Outcome::Signaled(signal.unwrap_or(0)),
    }
}

/// What came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IsOver {
    Command,
    Time,
}

/// What is watched.
struct Watch<'e> {
    process: OwnedFd,
    streams: [Stream; 2],
    input: Option<(File, &'e [u8])>,
    deadline: Option<Instant>,
    /// When the command ended.
    ended: Option<Instant>,
    buffer: Vec<u8>,
}

/// One stream: closed when nobody holds its other end.
struct Stream {
    file: Option<File>,
    tail: Tail,
}

impl<'e> Watch<'e> {
    fn new(child: &mut Child, exec: &'e Exec, deadline: Option<Instant>) -> Result<Self, Failed> {
        let pid = Pid::from_child(child);
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(failed("pidfd_open"))?;
        let (out, err) = (child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from));
        let stream = |fd: Option<OwnedFd>| -> Result<Stream, Failed> {
            let file = fd.map(without_waiting).transpose()?;
            Ok(Stream { file, tail: Tail::new(exec.kept()) })
        };
        let input = child.stdin.take().map(OwnedFd::from).map(without_waiting).transpose()?;
        let input = input.map(|file| (file, exec.input()));
        let streams = [stream(out)?, stream(err)?];
        Ok(Self { process, streams, input, deadline, ended: None, buffer: vec![0; 1 << 16] })
    }

    /// Until the command has ended and its streams are closed, or nothing has come for a while, or the time is up.
    fn until_over(&mut self) -> Result<IsOver, Failed> {
        loop {
            let until = match self.ended {
                Some(_) if !self.is_held() => return Ok(IsOver::Command),
                Some(ended) => Some(ended + LINGER),
                None => self.deadline,
            };
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return Ok(if self.ended.is_some() { IsOver::Command } else { IsOver::Time });
            }
            self.wait(until.map(|until| until - now))?;
        }
    }

    /// Does anybody still hold a stream?
    fn is_held(&self) -> bool {
        self.streams.iter().any(|stream| stream.file.is_some())
    }

    fn wait(&mut self, most: Option<Duration>) -> Result<(), Failed> {
        let [out, err] = &self.streams;
        // What is closed is not watched; its place stays, so that the answers have their order.
        let watched = [
            self.ended.is_none().then(|| PollFd::new(&self.process, PollFlags::IN)),
            out.file.as_ref().map(|file| PollFd::new(file, PollFlags::IN)),
            err.file.as_ref().map(|file| PollFd::new(file, PollFlags::IN)),
            self.input.as_ref().map(|(file, _)| PollFd::new(file, PollFlags::OUT)),
        ];
        let mut polled: Vec<PollFd<'_>> = watched.iter().flatten().cloned().collect();
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        match rustix::event::poll(&mut polled, most.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(("poll", errno.into())),
        }
        let mut answers = polled.iter().map(PollFd::revents);
        let [ended, out, err, input] =
            watched.map(|place| place.is_some() && answers.next().is_some_and(|flags| !flags.is_empty()));
        for (stream, is_ready) in self.streams.iter_mut().zip([out, err]) {
            if is_ready {
                stream.read(&mut self.buffer)?;
            }
        }
        if input {
            self.feed();
        }
        if ended {
            self.ended = Some(Instant::now());
            self.input = None;
            self.drain()?;
        }
        Ok(())
    }

    /// Takes what is in the pipes already.
    fn drain(&mut self) -> Result<(), Failed> {
        // Something that prints without end must not hold us: what the command itself printed is in the pipe by now, and a
        // pipe holds at most this much.
        const MOST: usize = 16;
        for stream in &mut self.streams {
            for _ in 0..MOST {
                if !stream.read(&mut self.buffer)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Writes as much as the pipe takes. A command that closes it has read enough.
    fn feed(&mut self) {
        let Some((file, rest)) = &mut self.input else { return };
        match file.write(rest) {
            Ok(written) => *rest = &rest[written..],
            Err(cause) if is_later(&cause) => return,
            Err(_) => *rest = &[],
        }
        if rest.is_empty() {
            self.input = None;
        }
    }

    fn dies_within(&self, most: Duration) -> bool {
        let most = Timespec::try_from(most).ok();
        let mut polled = [PollFd::new(&self.process, PollFlags::IN)];
        loop {
            match rustix::event::poll(&mut polled, most.as_ref()) {
                Err(Errno::INTR) => {}
                other => return other.is_ok_and(|ready| ready > 0),
            }
        }
    }
}

impl Stream {
    /// Reads once. Is there perhaps more?
    fn read(&mut self, buffer: &mut [u8]) -> Result<bool, Failed> {
        let Some(file) = &mut self.file else { return Ok(false) };
        match file.read(buffer) {
            Ok(0) => {
                self.file = None;
                Ok(false)
            }
            Ok(got) => {
                self.tail.push(&buffer[..got]);
                Ok(true)
            }
            Err(cause) if is_later(&cause) => Ok(false),
            Err(cause) => Err(("read", cause)),
        }
    }
}

fn is_later(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Our end of a pipe. The other end waits as ever: it is another open file.
fn without_waiting(fd: OwnedFd) -> Result<File, Failed> {
    rustix::io::ioctl_fionbio(&fd, true).map_err(failed("ioctl(FIONBIO)"))?;
    Ok(File::from(fd))
}
