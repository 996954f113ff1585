//! Waits for a call whose streams are pipes: feeds it, keeps the end of what it prints, and ends it when its time is up or its
//! session is over.
//!
//! However much is printed, no more is held than was asked for. What a call had started ends with it, so what is left in the
//! pipes when it has ended is all that there will be.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ringfence_fs::{Executed, Outcome, Tail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use crate::alive::Found;
use crate::call::{Call, Laid};
use crate::launch::{Ended, StartError};

/// How often a session is asked whether it still runs. It is a system call, and costs less than a thread that waits for it.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What a call is given, and how much of it is kept.
#[derive(Debug)]
pub struct Terms<'a> {
    /// What it can read.
    pub input: &'a [u8],
    /// How many bytes of each stream are kept: the last ones.
    pub keep: usize,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// The session that it ends with, if that is another process's.
    pub session: Option<&'a Found>,
}

/// What came of a call.
#[derive(Debug)]
pub struct Came {
    /// How it ended and what it printed.
    pub executed: Executed,
    /// What else is known of its end.
    pub ended: Ended,
}

/// Makes a call, and waits for its end.
///
/// # Errors
/// When it was not started, or waiting failed.
pub fn capture(laid: Laid, terms: &Terms<'_>) -> Result<Came, StartError> {
    let failed = |what: &'static str| move |source: io::Error| StartError::Prepare { what, source };
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed("pipe2")(errno.into()));
    let ((input, feed), (out, output), (err, errors)) = (pipe()?, pipe()?, pipe()?);
    let call = laid.start([input, output, errors])?;
    let mut streams = Streams::new(feed, out, err, terms).map_err(failed("fcntl(F_SETFL, O_NONBLOCK)"))?;
    let cause = streams.until_the_end(&call, terms).map_err(failed("poll"))?;
    let mut ended = call.wait()?;
    streams.drain();
    (ended.out_of_time, ended.session_over) = (cause == Cause::Time, cause == Cause::Session);
    let outcome = match (cause, ended.signal) {
        (Cause::Time, _) => Outcome::TimedOut,
        (Cause::Itself | Cause::Session, Some(signal)) => Outcome::Signaled(i32::from(signal)),
        (Cause::Itself, None) => Outcome::Exited(i32::from(ended.code)),
        (Cause::Session, None) => Outcome::Signaled(Signal::KILL.as_raw()),
    };
    let (stdout, stderr) = (streams.output.tail.into(), streams.errors.tail.into());
    Ok(Came { executed: Executed { outcome, stdout, stderr, left_running: false, survivors: Vec::new() }, ended })
}

/// Who ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Itself,
    Time,
    Session,
}

/// Our ends of the three pipes.
struct Streams<'a> {
    feed: Option<File>,
    ahead: &'a [u8],
    output: Stream,
    errors: Stream,
}

struct Stream {
    pipe: Option<File>,
    tail: Tail,
}

impl<'a> Streams<'a> {
    fn new(feed: OwnedFd, output: OwnedFd, errors: OwnedFd, terms: &Terms<'a>) -> io::Result<Self> {
        for fd in [&feed, &output, &errors] {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        let stream = |fd: OwnedFd| Stream { pipe: Some(File::from(fd)), tail: Tail::new(terms.keep) };
        let feed = (!terms.input.is_empty()).then(|| File::from(feed));
        Ok(Self { feed, ahead: terms.input, output: stream(output), errors: stream(errors) })
    }

    fn until_the_end(&mut self, call: &Call, terms: &Terms<'_>) -> io::Result<Cause> {
        let deadline = terms.timeout.and_then(|limit| Instant::now().checked_add(limit));
        let mut cause = Cause::Itself;
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if cause == Cause::Itself && left == Some(Duration::ZERO) {
                cause = Cause::Time;
                call.running().lifeline().cut();
            }
            if cause == Cause::Itself && terms.session.is_some_and(|session| !session.is_alive()) {
                cause = Cause::Session;
                call.running().lifeline().cut();
            }
            let look = terms.session.map(|_| LOOK_AGAIN);
            let most = if cause == Cause::Itself { [left, look].into_iter().flatten().min() } else { None };
            if self.turn(call, most)? == Turn::Ended {
                return Ok(cause);
            }
        }
    }

    fn turn(&mut self, call: &Call, most: Option<Duration>) -> io::Result<Turn> {
        let most = most.map(|most| Timespec::try_from(most.min(Duration::from_secs(3600))).unwrap_or_default());
        let done = call.running().pidfd();
        let mut fds = vec![PollFd::from_borrowed_fd(done, PollFlags::IN)];
        let pipes =
            [(&self.feed, PollFlags::OUT), (&self.output.pipe, PollFlags::IN), (&self.errors.pipe, PollFlags::IN)];
        fds.extend(pipes.into_iter().filter_map(|(pipe, flags)| Some(PollFd::new(pipe.as_ref()?, flags))));
        match poll(&mut fds, most.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Turn::GoOn),
            Err(errno) => return Err(errno.into()),
        }
        let is_done = !fds[0].revents().is_empty();
        drop(fds);
        self.feed();
        self.output.read();
        self.errors.read();
        Ok(if is_done { Turn::Ended } else { Turn::GoOn })
    }

    /// Writes what fits. One that reads no more is no failure.
    fn feed(&mut self) {
        let Some(feed) = &mut self.feed else { return };
        match feed.write(self.ahead) {
            Ok(written) => self.ahead = &self.ahead[written..],
            Err(cause) if matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return,
            Err(_) => self.ahead = &[],
        }
        if self.ahead.is_empty() {
            self.feed = None;
        }
    }

    /// What is still in the pipes.
    fn drain(&mut self) {
        self.output.drain();
        self.errors.drain();
    }
}

/// Whether there is more to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    GoOn,
    Ended,
}

/// More than a pipe usually holds.
const ONCE: usize = 64 << 10;

impl Stream {
    /// Reads once; whether there was something.
    fn read(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut bytes = [0; ONCE];
        match pipe.read(&mut bytes) {
            Ok(0) => self.pipe = None,
            Ok(got) => {
                self.tail.push(&bytes[..got]);
                return true;
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => return true,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.pipe = None,
        }
        false
    }

    fn drain(&mut self) {
        while self.read() {}
    }
}
